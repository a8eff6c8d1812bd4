/* What kernels/cublas.c uses of cuBLAS, on the host: matrices of columns, as BLAS defines them. Refuses what would not
 * be exact to single precision, or not safe on several streams. */
#include <stddef.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 7, PEDANTIC_MATH = 2 };

typedef struct handle {
    void *workspace;
    size_t workspace_bytes;
    int mode;
} handle;

int cublasCreate_v2(handle **made);
int cublasSetStream_v2(handle *its, void *stream);
int cublasSetWorkspace_v2(handle *its, void *workspace, size_t bytes);
int cublasSetMathMode(handle *its, int mode);
int cublasSgemm_v2(handle *its, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                   const float *a, int a_stride, const float *b, int b_stride, const float *beta, float *c,
                   int c_stride);

size_t cublas_host_workspace(void);

static handle only;

/* Bytes of the last one that was set. */
size_t cublas_host_workspace(void) {
    return only.workspace_bytes;
}

int cublasCreate_v2(handle **made) {
    *made = &only;
    return SUCCESS;
}

int cublasSetStream_v2(handle *its, void *stream) {
    its->workspace = NULL;
    return stream ? SUCCESS : INVALID_VALUE;
}

int cublasSetWorkspace_v2(handle *its, void *workspace, size_t bytes) {
    its->workspace = workspace;
    its->workspace_bytes = bytes;
    return SUCCESS;
}

int cublasSetMathMode(handle *its, int mode) {
    its->mode = mode;
    return SUCCESS;
}

static float element(const float *matrix, int transposed, int stride, int row, int column) {
    return transposed ? matrix[(size_t)row * (size_t)stride + (size_t)column]
                      : matrix[(size_t)column * (size_t)stride + (size_t)row];
}

int cublasSgemm_v2(handle *its, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                   const float *a, int a_stride, const float *b, int b_stride, const float *beta, float *c,
                   int c_stride) {
    if (!its->workspace || its->mode != PEDANTIC_MATH || a_stride < (transpose_a ? k : m) ||
        b_stride < (transpose_b ? n : k) || c_stride < m)
        return INVALID_VALUE;
    for (int column = 0; column < n; column++)
        for (int row = 0; row < m; row++) {
            float *to = &c[(size_t)column * (size_t)c_stride + (size_t)row], sum = 0.0f;
            for (int i = 0; i < k; i++)
                sum += element(a, transpose_a, a_stride, row, i) * element(b, transpose_b, b_stride, i, column);
            *to = *alpha * sum + (*beta != 0.0f ? *beta * *to : 0.0f);
        }
    return SUCCESS;
}

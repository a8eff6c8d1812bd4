/* What kernels/vector/cublas.c uses of cuBLAS, on the host: matrices of columns, as BLAS defines them. Refuses what
 * would not be exact to single precision, or not safe on several streams. */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>

enum { SUCCESS = 0, INVALID_VALUE = 7, PEDANTIC_MATH = 2 };

typedef struct handle {
    void *stream, *workspace;
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
    its->stream = stream;
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

typedef struct product {
    int transpose_a, transpose_b, m, n, k, a_stride, b_stride, c_stride;
    float alpha, beta;
    const float *a, *b;
    float *c;
} product;

static void multiply(const void *arguments) {
    const product *p = arguments;
    for (int column = 0; column < p->n; column++)
        for (int row = 0; row < p->m; row++) {
            float *to = &p->c[(size_t)column * (size_t)p->c_stride + (size_t)row], sum = 0.0f;
            for (int i = 0; i < p->k; i++)
                sum += element(p->a, p->transpose_a, p->a_stride, row, i) *
                       element(p->b, p->transpose_b, p->b_stride, i, column);
            *to = p->alpha * sum + (p->beta != 0.0f ? p->beta * *to : 0.0f);
        }
}

/* Given to the stream, so that it is recorded where a graph is: the program has the runtime (cuda_host.cpp). */
int cublasSgemm_v2(handle *its, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                   const float *a, int a_stride, const float *b, int b_stride, const float *beta, float *c,
                   int c_stride) {
    void (*give)(void *, void (*)(const void *), const void *, size_t);
    *(void **)&give = dlsym(RTLD_DEFAULT, "mr_host_do_c");
    if (!give || !its->workspace || its->mode != PEDANTIC_MATH || a_stride < (transpose_a ? k : m) ||
        b_stride < (transpose_b ? n : k) || c_stride < m)
        return INVALID_VALUE;
    const product work = {transpose_a, transpose_b, m, n, k, a_stride, b_stride, c_stride, *alpha, *beta, a, b, c};
    give(its->stream, multiply, &work, sizeof work);
    return SUCCESS;
}

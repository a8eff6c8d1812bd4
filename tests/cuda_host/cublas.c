/* The part of cuBLAS that kernels/vector/cublas.c uses, on the host, with column-major matrices as in BLAS. Refuses
 * what would not be exact in single precision or not safe on several streams. */
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

/* The last workspace's bytes. */
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

typedef struct product {
    int transpose_a, transpose_b, m, n, k, a_stride, b_stride, c_stride;
    double alpha, beta;
    const void *a, *b;
    void *c;
} product;

static size_t element(int transposed, int stride, int row, int column) {
    return transposed ? (size_t)row * (size_t)stride + (size_t)column : (size_t)column * (size_t)stride + (size_t)row;
}

#define MULTIPLY(name, number)                                                                                         \
    static void name(const void *arguments) {                                                                          \
        const product *p = arguments;                                                                                  \
        const number *a = p->a, *b = p->b, alpha = (number)p->alpha, beta = (number)p->beta;                           \
        for (int column = 0; column < p->n; column++)                                                                  \
            for (int row = 0; row < p->m; row++) {                                                                     \
                number *to = (number *)p->c + (size_t)column * (size_t)p->c_stride + (size_t)row, sum = 0;             \
                for (int i = 0; i < p->k; i++)                                                                         \
                    sum += a[element(p->transpose_a, p->a_stride, row, i)] *                                           \
                           b[element(p->transpose_b, p->b_stride, i, column)];                                         \
                *to = alpha * sum + (p->beta != 0.0 ? beta * *to : 0);                                                 \
            }                                                                                                          \
    }
MULTIPLY(multiply_floats, float)

/* Given to the stream, so that it is recorded where a graph is: the program has the runtime (cuda_host.cpp). */
static int give(handle *its, void (*function)(const void *), const product *p) {
    void (*to_stream)(void *, void (*)(const void *), const void *, size_t);
    *(void **)&to_stream = dlsym(RTLD_DEFAULT, "mr_host_do_c");
    if (!to_stream || !its->workspace || its->mode != PEDANTIC_MATH || p->a_stride < (p->transpose_a ? p->k : p->m) ||
        p->b_stride < (p->transpose_b ? p->n : p->k) || p->c_stride < p->m)
        return INVALID_VALUE;
    to_stream(its->stream, function, p, sizeof *p);
    return SUCCESS;
}

int cublasSgemm_v2(handle *its, int transpose_a, int transpose_b, int m, int n, int k, const float *alpha,
                   const float *a, int a_stride, const float *b, int b_stride, const float *beta, float *c,
                   int c_stride) {
    const product p = {transpose_a, transpose_b, m, n, k, a_stride, b_stride, c_stride, (double)*alpha, (double)*beta,
                       a, b, c};
    return give(its, multiply_floats, &p);
}

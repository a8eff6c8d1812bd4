/* What libavutil's header for CUDA devices needs from the toolkit's <cuda.h>, for test builds without a toolkit. */
#ifndef CUDA_HOST_CUDA_H
#define CUDA_HOST_CUDA_H

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef int CUresult;
enum { CUDA_SUCCESS = 0 };

#endif

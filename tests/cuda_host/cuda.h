/* What libavutil's header of CUDA devices wants of the toolkit's <cuda.h>, for builds of tests without a toolkit. */
#ifndef CUDA_HOST_CUDA_H
#define CUDA_HOST_CUDA_H

typedef struct CUctx_st *CUcontext;
typedef struct CUstream_st *CUstream;
typedef int CUresult;
enum { CUDA_SUCCESS = 0 };

#endif

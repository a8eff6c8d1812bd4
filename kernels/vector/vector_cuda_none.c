/* vector_cuda.cu's functions in a build without CUDA. */
#include "kernels/vector/vector_cuda.h"
#include "kernels/without_cuda.h"

MR_WITHOUT_CUDA(mr_linear_cuda, mr_linear_work)
MR_WITHOUT_CUDA(mr_bias_cuda, mr_linear_work)
MR_WITHOUT_CUDA_EACH(mr_top_k_cuda, mr_top_k_work)
MR_WITHOUT_CUDA_EACH(mr_rectify_cuda, mr_rectify_work)
MR_WITHOUT_CUDA_EACH(mr_nearest_cuda, mr_nearest_work)
MR_WITHOUT_CUDA_EACH(mr_normalize_cuda, mr_normalize_work)
MR_WITHOUT_CUDA_EACH(mr_pool_mean_cuda, mr_pool_work)

#include "kernels/cuda.h"

const mr_cuda_kernels mr_kernels_cuda = {
    .preprocess = mr_preprocess_cuda,
    .linear = mr_linear_cuda,
    .bias = mr_bias_cuda,
    .top_k = mr_top_k_cuda,
    .normalize = mr_normalize_cuda,
    .pool_mean = mr_pool_mean_cuda,
    .histogram_scratch_bytes = mr_histogram_cuda_scratch_bytes,
    .histogram = mr_histogram_cuda,
    .hog = mr_hog_cuda,
    .phash = mr_phash_cuda,
    .sharpness_scratch_bytes = mr_sharpness_cuda_scratch_bytes,
    .sharpness = mr_sharpness_cuda,
    .change = mr_change_cuda,
};

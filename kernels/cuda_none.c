/* Replaces the kernels in CUDA in a build without it. */
#include "kernels/cuda.h"

const mr_cuda_kernels mr_kernels_cuda = {0};

/* Ranges for profilers. There are none for an imitated device, so ranges are only counted. */
#ifndef MILLRACE_TESTS_NVTOOLSEXT_H
#define MILLRACE_TESTS_NVTOOLSEXT_H

#ifdef __cplusplus
extern "C" {
#endif

int nvtxRangePushA(const char *name);
int nvtxRangePop(void);

#ifdef __cplusplus
}
#endif
#endif

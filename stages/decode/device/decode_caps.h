/* Capabilities of a GPU's video decoder, queried from the driver's library before anything is decoded. */
#pragma once

#include "millrace/format_set.h"

/* MR_OK if NVDEC on "cuda:N" supports these packets, or if that cannot be known: codec, layout or size are open, or the
 * driver does not answer. MR_ERROR_UNAVAILABLE names the unsupported property. Each GPU is queried once. Any thread. */
int mr_decode_caps_check(const char *device, const mr_format_set *packets);

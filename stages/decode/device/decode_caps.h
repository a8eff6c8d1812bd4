/* Capabilities of a GPU's video decoder, queried from the driver's library before anything is decoded. */
#ifndef MILLRACE_STAGES_DECODE_DEVICE_DECODE_CAPS_H
#define MILLRACE_STAGES_DECODE_DEVICE_DECODE_CAPS_H

#include "millrace/format_set.h"

/* MR_OK if NVDEC of "cuda:N" supports packets of that set, and if that is not known: codec, layout or size are open, or
 * the driver cannot be queried. MR_ERROR_UNAVAILABLE with the unsupported property. A GPU is queried once. Any thread.
 */
int mr_decode_caps_check(const char *device, const mr_format_set *packets);

#endif

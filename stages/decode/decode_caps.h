/* What the video decoder of a GPU takes, asked of the driver's library before anything is decoded. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_CAPS_H
#define MILLRACE_STAGES_DECODE_DECODE_CAPS_H

#include "millrace/format_set.h"

/* Whether NVDEC of "cuda:N" takes packets of that set; MR_ERROR_UNAVAILABLE with what it does not take. MR_OK too where
 * that is not known: codec, layout or size are open, or the driver cannot be asked. A GPU is asked once. Any thread. */
int mr_decode_caps_check(const char *device, const mr_format_set *packets);

#endif

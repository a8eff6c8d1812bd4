/* JPEG that is decoded at 1/4 or 1/8 of its size (libavcodec's lowres, or decode_jpeg.h, which gives the same), because
 * all stages behind make the pictures smaller still. Half the size is not worth it: libavcodec's inverse transform for
 * it is slower than that of whole pictures.
 *
 * The scale is such that a pixel of the result is still the mean of MR_REDUCED_LEAST or more decoded pixels on each
 * axis. Only what libavcodec is known to reduce is: baseline and progressive JPEG with samples of eight bits, of gray
 * or of three components with the usual subsampling. All else is decoded whole: the kinds that libavcodec refuses,
 * fields, CMYK, and what a header does not tell. Pure functions, but for those that take a stage. */
#ifndef MILLRACE_STAGES_DECODE_DECODE_REDUCED_H
#define MILLRACE_STAGES_DECODE_DECODE_REDUCED_H

#include <stdbool.h>

#include "millrace/stage.h"

enum { MR_REDUCED_LEAST = 2, MR_REDUCED_MOST = 3 };

/* What the header of a JPEG tells. */
typedef struct mr_jpeg_header {
    int32_t width, height;
    int32_t sar_num, sar_den; /* as JFIF has them; 0/0: it does not say */
} mr_jpeg_header;

/* False where it is not a JPEG that can be reduced. */
bool mr_jpeg_look(const uint8_t *data, size_t bytes, mr_jpeg_header *jpeg);

/* What was decided last, since pictures of one size often follow each other. */
typedef struct mr_reduced {
    mr_jpeg_header of;
    int scale;
} mr_reduced;

/* log2 of how many times smaller to decode the picture of a packet: 0, 2 or 3. `decided` is zeroed at first. */
int mr_reduced_scale(mr_reduced *decided, const mr_stage *stage, const mr_frame *packet, int64_t max_pixels);

#endif

/* Decides when to decode JPEG at 1/4 or 1/8 size (libavcodec's lowres, or decode_jpeg.h, which gives the same result).
 * It does so if all following stages make pictures smaller still. Half size does not pay: libavcodec's inverse
 * transform for it is slower than the full one.
 *
 * At the chosen scale, each result pixel must still average at least MR_REDUCED_LEAST decoded pixels per axis. Only
 * kinds that libavcodec can reduce qualify: baseline and progressive, 8-bit samples, gray or three components with
 * common subsampling. Everything else is decoded at full size: kinds that libavcodec refuses, fields, CMYK, and unclear
 * headers. Pure functions, except those that take a stage. */
#pragma once

#include <stdbool.h>

#include "millrace/stage.h"

enum { MR_REDUCED_LEAST = 2, MR_REDUCED_MOST = 3 };

/* What a JPEG header contains. */
typedef struct mr_jpeg_header {
    int32_t width, height;
    int32_t sar_num, sar_den; /* as in JFIF; 0/0: not stated */
} mr_jpeg_header;

/* False where it is not a JPEG that can be reduced. */
bool mr_jpeg_look(const uint8_t *data, size_t bytes, mr_jpeg_header *jpeg);

/* The last decision, since pictures with the same size often follow each other. */
typedef struct mr_reduced {
    mr_jpeg_header of;
    int scale;
} mr_reduced;

/* Returns log2 of the reduction for a packet: 0, 2 or 3. `decided` must be zero at first. */
int mr_reduced_scale(mr_reduced *decided, const mr_stage *stage, const mr_frame *packet, int64_t max_pixels);

/* preprocess: turns a picture into a network's input, in one pass.
 *
 * Picture (any layout in millrace/format.h, 8 to 16 bits) -> region -> resize -> rotation -> letterbox -> RGB or BGR ->
 * normalise -> NCHW or NHWC as u8, f16 or f32. Planes are resized first, row by row, and only the small picture's
 * pixels are converted. So every source row is read from memory once, and nothing as large as the source is written.
 *
 * Geometry. All of it is in the oriented picture, OW x OH pixels: the stored one, mirrored and turned by its format if
 * `rotate` is set (else as stored). One stored pixel is `a` display units wide (sar_num / sar_den if `sar` is set, else
 * 1; the reciprocal of it after a quarter turn) and 1 high. W x H is the destination.
 *   roi          x, y, width, height in oriented pixels; all of the picture if width is 0. Pixels outside do not
 *                affect the result.
 *   stretch      the region is the roi; its shape is not kept.
 *   center-crop  the region is centred in the roi, has the destination's shape, and is crop_fraction times the
 *                largest such:
 *                width = f min(a RW, RH W / H) / a,  height = f min(RH, a RW H / W). Not rounded to whole pixels:
 *                filters reach beyond it as far as the roi goes, as in Pillow's resize(box=...).
 *   letterbox    the region is the roi; it is drawn into a centred rectangle of round(s a RW) x round(s RH) pixels,
 *                s = min(W / (a RW), H / RH), at x = floor((W - width) / 2), y alike; the rest has the colour `pad`.
 *                With `top_left` the rectangle has floor(s a RW) x floor(s RH) pixels and lies at 0, 0. These are the
 *                letterboxes of Ultralytics and of YOLOX.
 * With `sides`, stretch and letterbox have a destination for each picture: as large as fits into W x H. If `shorter` is
 * given, a picture is enlarged only until its shorter side has that length. Both sides are then rounded to a multiple,
 * for letterbox up; they are at least the least ones. So letterbox needs bars only for the rest.
 * A picture that was reduced when it was decoded (mr_format.reduced) counts as the whole one: OW x OH, roi and regions
 * are the whole picture's, and only the positions of samples are divided.
 * Destination pixel i of n then covers region.start + region.length * [i, i + 1] / n. Interpolations:
 * kernels/preprocess/filter.h. Chroma is resized from its own plane, at positions moved by its siting; `nearest` takes
 * the chroma sample that belongs to the luma sample. Unknown siting: left; centre if the range is full (JPEG).
 * Unknown matrix and range: as in mr_format_matrix and mr_format_range.
 *
 * Values. After conversion R, G, B are clamped to 0..255 and not rounded; result = (value - mean) / std. u8 results are
 * that value, clamped to 0..255 and rounded half up. A gray picture gives three equal channels. A gray result is one
 * channel. From a YUV picture it is Y, whose chroma is then not read. From an RGB picture it is 0.299 R + 0.587 G +
 * 0.114 B (the luma in BT.601-7). It takes the padding's luma, and mean and std from the first channel.
 *
 * Accuracy. A resized sample is within 1/32 code of the exact weighted mean, at scales down to 1/64. So u8 results from
 * a single plane are within 1 of any reference that rounds, and differ only if the exact value is next to a half.
 *
 * Threads: a plan must not change; any number of threads can run it at once, each with separate scratch memory. Errors:
 * MR_ERROR_CONFIG (invalid parameters), MR_ERROR_DATA (the parameters cannot be applied to the picture),
 * MR_ERROR_MEMORY. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/preprocess/preprocess_rows.h"
#include "millrace/format.h"
#include "millrace/geometry.h"

typedef enum mr_fit { MR_FIT_STRETCH, MR_FIT_CENTER_CROP, MR_FIT_LETTERBOX } mr_fit;

/* The destination's size follows from the region. A zeroed one is none. */
typedef struct mr_sides {
    bool given;
    int32_t shorter;                     /* 0: none */
    int32_t least_width, least_height, multiple; /* all above 0; width and height are multiples, too */
} mr_sides;

typedef struct mr_preprocess_params {
    int32_t width, height;                /* the destination's, pixels; with `sides` the largest */
    mr_sides sides;
    mr_fit fit;
    double crop_fraction;                 /* center-crop: 0 < f <= 1 */
    bool top_left;                        /* letterbox: bars only at the right and below */
    struct { int32_t x, y, width, height; } roi; /* px in the oriented picture; width 0: all */
    mr_interpolation interpolation;
    bool antialias;                       /* bilinear and bicubic; nearest never does, area always */
    bool rotate, sar;                     /* apply the picture's rotation and flip, its sample aspect ratio */
    bool bgr;                             /* the destination's channel order */
    bool gray;                            /* one channel, luma; bgr is ignored then */
    double pad[3], mean[3], std[3];       /* for R, G, B in any channel order, 0..255; std must not be 0 */
    mr_dtype dtype;                       /* U8, F16, F32 */
    mr_layout layout;                     /* NCHW, NHWC */
} mr_preprocess_params;

/* Largest side for a picture or a destination, and the largest `reduced` for a picture. */
enum { MR_PREPROCESS_MAX_SIDE = 32768, MR_PREPROCESS_MOST_REDUCED = 3 };

/* All values derived from parameters and one source format: positions, filter tables, colour, amounts of memory. */
typedef struct mr_preprocess mr_preprocess;

int mr_preprocess_create(mr_preprocess **plan, const mr_preprocess_params *params, const mr_format *source);
/* NULLs; accepts a half-built plan. */
void mr_preprocess_destroy(mr_preprocess **plan);

/* The ratio of the picture's region to the destination, on the axis with the smaller ratio. For area it is half: pixels
 * with such sharp edges need twice as many samples for the same accuracy. 1 if the plan enlarges, takes single pixels
 * (nearest, or no antialiasing), or cannot be applied. Infinite if only the roi is outside, since no result depends on
 * that picture. */
double mr_preprocess_shrink(const mr_preprocess_params *params, const mr_format *source);

/* The destination's size for a picture. MR_ERROR_DATA: the roi is outside. */
int mr_preprocess_size(const mr_preprocess_params *params, const mr_format *source, int32_t *width, int32_t *height);
/* The destination's format: rank 3, dense; with `sides` the largest. */
mr_format mr_preprocess_output(const mr_preprocess_params *params);
/* Maps destination pixels, bars included, to pixels in the stored picture. `nearest` takes the sample at the upper left
 * edge of the area that a pixel covers; everything else is centred. */
const mr_geometry *mr_preprocess_geometry(const mr_preprocess *plan);

/* A source picture's planes; alignment does not matter. Only row pixels are read, not padding. */
typedef struct mr_picture {
    const uint8_t *data[MR_MAX_PLANES];
    ptrdiff_t stride[MR_MAX_PLANES]; /* bytes; may be negative */
} mr_picture;

/* Bytes that the tables take on each CUDA device that runs it. */
size_t mr_preprocess_table_bytes(const mr_preprocess *plan);
/* Bytes that a picture's samples take which the region needs, each counted once. */
double mr_preprocess_read_bytes(const mr_preprocess *plan);
/* Bytes that one run needs as scratch memory (64-byte aligned). */
size_t mr_preprocess_scratch_bytes(const mr_preprocess *plan);
/* Pure computation on the calling thread. `dst` must be aligned to its dtype and hold mr_tensor_bytes for the
 * output. */
void mr_preprocess_run(const mr_preprocess *plan, const mr_preprocess_rows *rows, const mr_picture *source, void *dst,
                       void *scratch);
/* The same without the letterbox's bars above and below, for a `dst` that still has those of an earlier run. */
void mr_preprocess_run_inside(const mr_preprocess *plan, const mr_preprocess_rows *rows, const mr_picture *source,
                              void *dst, void *scratch);

/* One run. `done`, if not NULL, is called with `context` when the run is over, so that a cache can know idle plans
 * (preprocess_enqueue.h). */
typedef struct mr_preprocess_work {
    const mr_preprocess *plan;
    mr_picture source;
    void *dst;
    uint64_t *bars; /* Optional. Stays with dst, from one work to the next: which plan's bars are there; 0: none. The
                       processors do not write these again. Whoever else writes to dst must set it to 0. Devices
                       do not use it. */
    void (*done)(void *context);
    void *context;
} mr_preprocess_work;
/* Pictures in one launch on a CUDA device. */
enum { MR_PREPROCESS_LAUNCH = 64 };

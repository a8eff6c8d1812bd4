/* Formats of the data on a link: compressed packets, pictures, tensors, or results alone.
 *
 * An mr_format describes one frame. As a planned format (mr_stage) it has the values that all frames share; a field is
 * zero if it differs. format_set.h has sets of formats. Formats are plain values: you can copy them freely, and they
 * own nothing. All functions are pure; any thread may call them. */
#ifndef MILLRACE_FORMAT_H
#define MILLRACE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_payload {
    MR_PAYLOAD_ANY,
    MR_PAYLOAD_PACKET,  /* one compressed packet; the frame's mr_media names the codec */
    MR_PAYLOAD_PICTURE, /* one decoded picture in up to four planes */
    MR_PAYLOAD_TENSOR,  /* one dense array in plane 0, row-major, no gaps */
    MR_PAYLOAD_RESULTS  /* no payload: metadata and results only */
} mr_payload;

/* Pixel layouts. Samples with more than 8 bits are 16-bit little-endian words with the value in the low bits (P010:
 * high bits). An alpha channel is carried along; kernels ignore it. */
typedef enum mr_pixel {
    MR_PIXEL_ANY,
    MR_PIXEL_GRAY8,
    MR_PIXEL_GRAY10,
    MR_PIXEL_GRAY12,
    MR_PIXEL_GRAY16,
    MR_PIXEL_YA8,     /* gray and alpha, interleaved */
    MR_PIXEL_I420,    /* planar Y, U, V; chroma halved both ways */
    MR_PIXEL_I422,    /* chroma halved horizontally */
    MR_PIXEL_I440,    /* chroma halved vertically */
    MR_PIXEL_I444,
    MR_PIXEL_I420_10,
    MR_PIXEL_I422_10,
    MR_PIXEL_I444_10,
    MR_PIXEL_I420_12,
    MR_PIXEL_I422_12,
    MR_PIXEL_I444_12,
    MR_PIXEL_NV12,    /* planar Y, interleaved UV halved both ways */
    MR_PIXEL_P010,    /* as NV12, 10 bits in the high bits of 16 */
    MR_PIXEL_RGB24,
    MR_PIXEL_BGR24,
    MR_PIXEL_RGBA,
    MR_PIXEL_BGRA,
    MR_PIXEL_ARGB,
    MR_PIXEL_ABGR,
    MR_PIXEL_GBR,     /* planar G, B, R */
    MR_PIXEL_GBR_10,
    MR_PIXEL_GBR_12,
    MR_PIXEL_COUNT
} mr_pixel;

typedef enum mr_dtype { MR_DTYPE_ANY, MR_DTYPE_U8, MR_DTYPE_F16, MR_DTYPE_F32, MR_DTYPE_I32, MR_DTYPE_I64 } mr_dtype;

/* The meaning of a tensor's dimensions. FLAT: none. */
typedef enum mr_layout { MR_LAYOUT_ANY, MR_LAYOUT_NCHW, MR_LAYOUT_NHWC, MR_LAYOUT_FLAT } mr_layout;

/* Matrix coefficients of Y'CbCr (ITU-R BT.601-7, BT.709-6, BT.2020-2 non-constant luminance). */
typedef enum mr_matrix { MR_MATRIX_ANY, MR_MATRIX_BT601, MR_MATRIX_BT709, MR_MATRIX_BT2020 } mr_matrix;
/* Limited: luma 16..235 and chroma 16..240 at 8 bits. Full: 0..255. */
typedef enum mr_range { MR_RANGE_ANY, MR_RANGE_LIMITED, MR_RANGE_FULL } mr_range;
/* The position of chroma samples relative to luma samples in subsampled layouts. LEFT: MPEG-2, H.264. CENTER: JPEG,
 * MPEG-1. */
typedef enum mr_siting { MR_SITING_ANY, MR_SITING_LEFT, MR_SITING_CENTER, MR_SITING_TOPLEFT } mr_siting;

enum { MR_MAX_PLANES = 4, MR_MAX_RANK = 6 };

typedef struct mr_format {
    mr_payload payload;

    /* pictures */
    mr_pixel pixel;
    int32_t width, height;     /* pixels, as stored (before rotation) */
    mr_matrix matrix;
    mr_range range;
    mr_siting siting;
    int32_t sar_num, sar_den;  /* sample aspect ratio; 0/0: not known, treat as 1:1 */
    int16_t rotation;          /* degrees clockwise to display the picture: 0, 90, 180, 270 */
    bool flip;                 /* mirrored left to right, before rotation */
    uint8_t reduced;           /* log2 of the scale at which the picture was decoded. Each pixel stands for 2^reduced
                                  x 2^reduced pixels of the source's picture; 0: full size. Only stage types with
                                  `shrinks` get such pictures. */
    int32_t whole_width, whole_height; /* The size of the source's picture; roi and crop use its pixels. 0 unless
                                          `reduced`. width and height are then these divided by 2^reduced, rounded
                                          up. */

    /* Tensors. A dimension of 0 is not fixed. There is no batch dimension: one frame is one item. */
    mr_dtype dtype;
    mr_layout layout;          /* layout of an item: NCHW means C, H, W */
    int32_t rank;              /* number of dimensions; 0 if not fixed */
    int64_t dims[MR_MAX_RANK];
} mr_format;

/* One component (Y, U, V or R, G, B) of a pixel layout. */
typedef struct mr_component {
    uint8_t plane;  /* the plane that holds it */
    uint8_t step;   /* bytes from one sample to the next */
    uint8_t offset; /* bytes before the first sample */
} mr_component;

typedef struct mr_pixel_info {
    const char *name;
    uint8_t planes, components;   /* components: 1 gray, 3 colour (alpha not counted) */
    uint8_t chroma_w, chroma_h;   /* log2 of the horizontal and vertical subsampling in components 1 and 2 */
    uint8_t depth;                /* bits per sample */
    uint8_t shift;                /* bits to shift a sample right (P010: 6) */
    bool rgb;                     /* components are R, G, B in this order */
    mr_component component[3];
} mr_pixel_info;

/* Describes a pixel layout. Never NULL if the value is below MR_PIXEL_COUNT. */
MR_API const mr_pixel_info *mr_pixel_describe(mr_pixel pixel);

/* The matrix and range of a picture; never ANY. If the format leaves them open, they are the usual defaults of players.
 * Matrix: BT.709 from 1280 columns or 720 lines, else BT.601. Range: limited for Y'CbCr, full for gray and RGB. */
MR_API mr_matrix mr_format_matrix(const mr_format *format);
MR_API mr_range mr_format_range(const mr_format *format);

/* True if pictures in both formats are alike: layout, size, colour, aspect ratio, orientation and full size. */
MR_API bool mr_format_same_picture(const mr_format *a, const mr_format *b);

/* Bytes per row and number of rows in one plane of a picture, without padding. */
MR_API size_t mr_plane_row_bytes(mr_pixel pixel, int plane, int32_t width);
MR_API int32_t mr_plane_rows(mr_pixel pixel, int plane, int32_t height);

MR_API size_t mr_dtype_bytes(mr_dtype dtype);
MR_API const char *mr_dtype_name(mr_dtype dtype);
/* IEEE 754 binary16 (MR_DTYPE_F16) to binary32, exactly. */
MR_API float mr_half_to_float(uint16_t half);
MR_API const char *mr_payload_name(mr_payload payload);

/* The number of elements, and of bytes, in a tensor. 0: a dimension is not fixed, or the product overflows. */
MR_API size_t mr_tensor_count(const mr_format *format);
MR_API size_t mr_tensor_bytes(const mr_format *format);

/* Makes a tensor format with `rank` dimensions. */
MR_API mr_format mr_tensor_format(mr_dtype dtype, mr_layout layout, int32_t rank, const int64_t *dims);

/* The engine lays pictures out in one block with rows aligned to this many bytes (mr_lay_out in frame.h). */
enum { MR_ROW_ALIGNMENT = 64 };
/* Bytes in such a block with one picture or one tensor. 0: the format is not fixed, or
 * describes packets or results. */
MR_API size_t mr_format_bytes(const mr_format *format);

/* Writes a format for people, such as "picture I420 1280x720" or "tensor f32 3x224x224". Returns `text`. */
MR_API const char *mr_format_print(const mr_format *format, char *text, size_t bytes);
enum { MR_FORMAT_TEXT = 96 };

#ifdef __cplusplus
}
#endif
#endif

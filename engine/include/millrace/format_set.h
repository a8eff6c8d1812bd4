/* Sets of formats that a port accepts or a link may carry. They are known before any frame moves.
 *
 * Each field of a set is fixed, bounded or open; a zeroed field is open. A set is the product of its fields: pixels
 * {I420, NV12} and widths 1 to 640 are all pictures in either layout up to that width. A picture's other properties
 * (colour, aspect, rotation) describe it and never conflict. Sets are plain values. `codec` is not owned and must live
 * as long as the plan. All functions are pure; any thread may call them. */
#ifndef MILLRACE_FORMAT_SET_H
#define MILLRACE_FORMAT_SET_H

#include "millrace/export.h"
#include "millrace/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A value of an enumeration as a member of pixels, dtypes or layouts. */
#define MR_IN_SET(value) (UINT32_C(1) << (value))

/* Inclusive; {0, 0}: any size. */
typedef struct mr_bounds {
    int64_t min, max;
} mr_bounds;

typedef struct mr_format_set {
    mr_payload payload;      /* ANY: all formats */
    const char *codec;       /* packets: the codec; NULL: not known, or several */
    uint32_t pixels;         /* pictures, and pictures that packets decode to: MR_IN_SET(pixel) | ...; 0: any */
    mr_bounds width, height; /* size of the same pictures in pixels, as stored (before rotation) */
    uint32_t dtypes;         /* tensors: MR_IN_SET(dtype) | ...; 0: any */
    uint32_t layouts;        /* tensors: MR_IN_SET(layout) | ...; 0: any */
    int32_t rank;            /* tensors; 0: any */
    mr_bounds dims[MR_MAX_RANK];
    mr_format look;          /* only matrix, range, siting, sar, rotation and flip, where all frames agree */
} mr_format_set;

/* All formats with the fixed (nonzero) fields of `format`. */
MR_API mr_format_set mr_format_set_of(const mr_format *format);
/* The values that all members share; zero if they differ. */
MR_API mr_format mr_format_set_common(const mr_format_set *set);
/* True if all members need the same memory: layout and sizes are fixed. Always false for packets and results. */
MR_API bool mr_format_set_is_fixed(const mr_format_set *set);

/* Computes the formats in both sets. False: there are none, and *result is unchanged. */
MR_API bool mr_format_set_meet(const mr_format_set *a, const mr_format_set *b, mr_format_set *result);
/* Widens `set` until it also holds `more`. False: the payloads differ, and `set` is unchanged. */
MR_API bool mr_format_set_widen(mr_format_set *set, const mr_format_set *more);
/* True if every member of `part` is in `whole`. */
MR_API bool mr_format_set_holds(const mr_format_set *whole, const mr_format_set *part);
MR_API bool mr_format_set_has(const mr_format_set *set, const mr_format *format);

/* Bytes in the largest member as the engine lays it out (mr_io_acquire). 0: there is no bound, or the engine lays out
 * no payload (packets and results). */
MR_API size_t mr_format_set_most_bytes(const mr_format_set *set);

/* Writes a set for people, such as "picture I420 1280x720", "picture RGB24|GRAY8 up to 640x480", "packet h264 1280x720"
 * or "tensor f32 3x?x?". Returns `text`. */
MR_API const char *mr_format_set_print(const mr_format_set *set, char *text, size_t bytes);
enum { MR_FORMAT_SET_TEXT = 192 };

#ifdef __cplusplus
}
#endif
#endif

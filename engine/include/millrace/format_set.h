/* Sets of formats that a port accepts or a link may carry, known before any frame moves.
 *
 * Each field of a set is fixed, bounded or open; a zeroed field is open. A set is the product of its fields: pixels
 * {I420, NV12} and widths 1 to 640 are all pictures of either layout up to that width. The other properties of a
 * picture (colour, aspect, rotation) describe it and never conflict. Sets are plain values; `codec` is not owned and
 * lives as long as the plan. Functions here are pure and may be called from any thread. */
#ifndef MILLRACE_FORMAT_SET_H
#define MILLRACE_FORMAT_SET_H

#include "millrace/export.h"
#include "millrace/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One value of an enumeration as a member of pixels, dtypes or layouts. */
#define MR_IN_SET(value) (UINT32_C(1) << (value))

/* Inclusive; {0, 0}: any size. */
typedef struct mr_bounds {
    int64_t min, max;
} mr_bounds;

typedef struct mr_format_set {
    mr_payload payload;      /* ANY: every format there is */
    const char *codec;       /* packets: of which codec; NULL: not known, or several */
    uint32_t pixels;         /* pictures, and those that packets decode to: MR_IN_SET(pixel) | ...; 0: any */
    mr_bounds width, height; /* of the same, in pixels, as stored (before rotation) */
    uint32_t dtypes;         /* tensors: MR_IN_SET(dtype) | ...; 0: any */
    uint32_t layouts;        /* tensors: MR_IN_SET(layout) | ...; 0: any */
    int32_t rank;            /* tensors; 0: any */
    mr_bounds dims[MR_MAX_RANK];
    mr_format look;          /* only matrix, range, siting, sar, rotation and flip, if all frames agree */
} mr_format_set;

/* All formats with the fixed fields (those that are not zero) of `format`. */
MR_API mr_format_set mr_format_set_of(const mr_format *format);
/* The values that all members have in common; zero if they differ. */
MR_API mr_format mr_format_set_common(const mr_format_set *set);
/* True if all members need the same memory: layout and sizes are fixed. Packets and results never are. */
MR_API bool mr_format_set_is_fixed(const mr_format_set *set);

/* The formats that are in both sets; false if there are none (result is then untouched). */
MR_API bool mr_format_set_meet(const mr_format_set *a, const mr_format_set *b, mr_format_set *result);
/* Widens `set` until it holds all of `more` too; false, and unchanged, if their payloads differ. */
MR_API bool mr_format_set_widen(mr_format_set *set, const mr_format_set *more);
/* True if each member of `part` is in `whole`. */
MR_API bool mr_format_set_holds(const mr_format_set *whole, const mr_format_set *part);
MR_API bool mr_format_set_has(const mr_format_set *set, const mr_format *format);

/* Bytes of the largest member as the engine lays it out (mr_io_acquire); 0 if there is no bound, or no payload of ours:
 * packets and results. */
MR_API size_t mr_format_set_most_bytes(const mr_format_set *set);

/* Writes a set for people, such as "picture I420 1280x720", "picture RGB24|GRAY8 up to 640x480", "packet h264
 * 1280x720" or "tensor f32 3x?x?"; returns `text`. */
MR_API const char *mr_format_set_print(const mr_format_set *set, char *text, size_t bytes);
enum { MR_FORMAT_SET_TEXT = 192 };

#ifdef __cplusplus
}
#endif
#endif

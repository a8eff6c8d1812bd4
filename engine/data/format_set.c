#include "millrace/format_set.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- fields ---------------------------------------------------------------------------------------------------- */

static bool is_open(mr_bounds bounds) {
    return bounds.min == 0 && bounds.max == 0;
}

static bool is_one(mr_bounds bounds) {
    return bounds.min == bounds.max && bounds.max > 0;
}

static mr_bounds just(int64_t size) {
    return (mr_bounds){size, size};
}

static bool meet_bounds(mr_bounds *met, mr_bounds b) {
    if (is_open(*met))
        *met = b;
    if (is_open(b))
        return true;
    met->min = met->min > b.min ? met->min : b.min;
    met->max = met->max < b.max ? met->max : b.max;
    return met->min <= met->max;
}

static void widen_bounds(mr_bounds *bounds, mr_bounds more) {
    if (is_open(*bounds) || is_open(more)) {
        *bounds = (mr_bounds){0, 0};
        return;
    }
    bounds->min = bounds->min < more.min ? bounds->min : more.min;
    bounds->max = bounds->max > more.max ? bounds->max : more.max;
}

static bool bounds_hold(mr_bounds whole, mr_bounds part) {
    return is_open(whole) || (!is_open(part) && whole.min <= part.min && part.max <= whole.max);
}

static bool meet_members(uint32_t *met, uint32_t b) {
    if (*met && b && !(*met & b))
        return false;
    *met = *met && b ? *met & b : *met | b;
    return true;
}

static uint32_t widen_members(uint32_t a, uint32_t b) {
    return a && b ? a | b : 0;
}

static bool members_hold(uint32_t whole, uint32_t part) {
    return !whole || (part && !(part & ~whole));
}

/* The only member; 0 if the set has several members or is unrestricted. */
static int only_member(uint32_t members) {
    return members && !(members & (members - 1)) ? __builtin_ctz(members) : 0;
}

/* ---- from and to formats --------------------------------------------------------------------------------------- */

mr_format_set mr_format_set_of(const mr_format *format) {
    mr_format_set set = {.payload = format->payload,
                         .pixels = format->pixel ? MR_IN_SET(format->pixel) : 0,
                         .width = just(format->width),
                         .height = just(format->height),
                         .dtypes = format->dtype ? MR_IN_SET(format->dtype) : 0,
                         .layouts = format->layout ? MR_IN_SET(format->layout) : 0,
                         .rank = format->rank,
                         .look = {.matrix = format->matrix,
                                  .range = format->range,
                                  .siting = format->siting,
                                  .sar_num = format->sar_num,
                                  .sar_den = format->sar_den,
                                  .rotation = format->rotation,
                                  .flip = format->flip}};
    for (int i = 0; i < format->rank; i++)
        set.dims[i] = just(format->dims[i]);
    return set;
}

mr_format mr_format_set_common(const mr_format_set *set) {
    mr_format format = set->look;
    format.payload = set->payload;
    format.pixel = (mr_pixel)only_member(set->pixels);
    format.width = is_one(set->width) ? (int32_t)set->width.max : 0;
    format.height = is_one(set->height) ? (int32_t)set->height.max : 0;
    format.dtype = (mr_dtype)only_member(set->dtypes);
    format.layout = (mr_layout)only_member(set->layouts);
    format.rank = set->rank;
    for (int i = 0; i < set->rank; i++)
        format.dims[i] = is_one(set->dims[i]) ? set->dims[i].max : 0;
    return format;
}

bool mr_format_set_is_fixed(const mr_format_set *set) {
    mr_format common = mr_format_set_common(set);
    return (set->payload == MR_PAYLOAD_PICTURE || set->payload == MR_PAYLOAD_TENSOR) && mr_format_bytes(&common) > 0;
}

/* ---- operations ------------------------------------------------------------------------------------------------ */

/* If both describe how a picture looks, the first must win: it is the producer. */
static void meet_looks(mr_format *met, const mr_format *b) {
    met->matrix = met->matrix ? met->matrix : b->matrix;
    met->range = met->range ? met->range : b->range;
    met->siting = met->siting ? met->siting : b->siting;
    if (met->sar_num == 0) {
        met->sar_num = b->sar_num;
        met->sar_den = b->sar_den;
    }
    if (met->rotation == 0 && !met->flip) {
        met->rotation = b->rotation;
        met->flip = b->flip;
    }
}

static bool meet_dims(mr_format_set *met, const mr_format_set *b) {
    if (met->rank && b->rank && met->rank != b->rank)
        return false;
    met->rank = met->rank ? met->rank : b->rank;
    for (int i = 0; i < met->rank; i++)
        if (!meet_bounds(&met->dims[i], b->dims[i]))
            return false;
    return true;
}

bool mr_format_set_meet(const mr_format_set *a, const mr_format_set *b, mr_format_set *result) {
    mr_format_set met = *a;
    if (a->payload && b->payload && a->payload != b->payload)
        return false;
    met.payload = a->payload ? a->payload : b->payload;
    met.codec = a->codec ? a->codec : b->codec;
    if (!meet_members(&met.pixels, b->pixels) || !meet_bounds(&met.width, b->width) ||
        !meet_bounds(&met.height, b->height) || !meet_members(&met.dtypes, b->dtypes) ||
        !meet_members(&met.layouts, b->layouts) || !meet_dims(&met, b))
        return false;
    meet_looks(&met.look, &b->look);
    *result = met;
    return true;
}

static void widen_looks(mr_format *look, const mr_format *more) {
    look->matrix = look->matrix == more->matrix ? look->matrix : MR_MATRIX_ANY;
    look->range = look->range == more->range ? look->range : MR_RANGE_ANY;
    look->siting = look->siting == more->siting ? look->siting : MR_SITING_ANY;
    if (look->sar_num != more->sar_num || look->sar_den != more->sar_den)
        look->sar_num = look->sar_den = 0;
    if (look->rotation != more->rotation || look->flip != more->flip) {
        look->rotation = 0;
        look->flip = false;
    }
}

bool mr_format_set_widen(mr_format_set *set, const mr_format_set *more) {
    if (set->payload != more->payload)
        return false;
    if (!set->codec || !more->codec || strcmp(set->codec, more->codec) != 0)
        set->codec = NULL;
    set->pixels = widen_members(set->pixels, more->pixels);
    widen_bounds(&set->width, more->width);
    widen_bounds(&set->height, more->height);
    set->dtypes = widen_members(set->dtypes, more->dtypes);
    set->layouts = widen_members(set->layouts, more->layouts);
    if (set->rank != more->rank) {
        set->rank = 0;
        memset(set->dims, 0, sizeof set->dims);
    }
    for (int i = 0; i < set->rank; i++)
        widen_bounds(&set->dims[i], more->dims[i]);
    widen_looks(&set->look, &more->look);
    return true;
}

bool mr_format_set_holds(const mr_format_set *whole, const mr_format_set *part) {
    if (whole->payload == MR_PAYLOAD_ANY)
        return true;
    bool held = whole->payload == part->payload && members_hold(whole->pixels, part->pixels) &&
                bounds_hold(whole->width, part->width) && bounds_hold(whole->height, part->height) &&
                members_hold(whole->dtypes, part->dtypes) && members_hold(whole->layouts, part->layouts) &&
                (!whole->rank || whole->rank == part->rank);
    for (int i = 0; i < whole->rank; i++)
        held = held && bounds_hold(whole->dims[i], part->dims[i]);
    return held;
}

bool mr_format_set_has(const mr_format_set *set, const mr_format *format) {
    mr_format_set one = mr_format_set_of(format);
    return mr_format_set_holds(set, &one);
}

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static size_t most_picture_bytes(const mr_format_set *set) {
    size_t most = 0;
    mr_format format = {.payload = MR_PAYLOAD_PICTURE, .width = (int32_t)set->width.max,
                        .height = (int32_t)set->height.max};
    for (int pixel = 1; pixel < MR_PIXEL_COUNT; pixel++) {
        format.pixel = (mr_pixel)pixel;
        size_t bytes = !set->pixels || set->pixels & MR_IN_SET(pixel) ? mr_format_bytes(&format) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

static size_t most_tensor_bytes(const mr_format_set *set) {
    size_t most = 0;
    mr_format format = {.payload = MR_PAYLOAD_TENSOR, .rank = set->rank};
    for (int i = 0; i < set->rank; i++)
        format.dims[i] = set->dims[i].max;
    for (int dtype = MR_DTYPE_U8; dtype <= MR_DTYPE_I64; dtype++) {
        format.dtype = (mr_dtype)dtype;
        if (set->dtypes && !(set->dtypes & MR_IN_SET(dtype)))
            continue;
        size_t bytes = mr_format_bytes(&format);
        if (bytes == 0)
            return 0; /* Open, or too large to count: smaller members' sizes are no bound. */
        most = bytes > most ? bytes : most;
    }
    return most;
}

size_t mr_format_set_most_bytes(const mr_format_set *set) {
    return set->payload == MR_PAYLOAD_PICTURE  ? most_picture_bytes(set)
           : set->payload == MR_PAYLOAD_TENSOR ? most_tensor_bytes(set)
                                               : 0;
}

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* A text being written; it is cut off if it does not fit. */
typedef struct writer {
    char *text;
    size_t bytes, used;
} writer;

static void put(writer *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(writer *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(to->text + to->used, to->bytes - to->used, format, arguments);
    va_end(arguments);
    to->used += length > 0 ? (size_t)length : 0;
    to->used = to->used < to->bytes ? to->used : to->bytes - 1;
}

static void put_members(writer *to, uint32_t members, int count, const char *(*name)(int member)) {
    const char *separator = " ";
    for (int member = 1; member < count; member++)
        if (members & MR_IN_SET(member)) {
            put(to, "%s%s", separator, name(member));
            separator = "|";
        }
}

static void put_bounds(writer *to, mr_bounds bounds) {
    if (is_open(bounds))
        put(to, "?");
    else if (is_one(bounds))
        put(to, "%lld", (long long)bounds.max);
    else
        put(to, "%lld..%lld", (long long)bounds.min, (long long)bounds.max);
}

/* "1280x720". If sizes start at 1, prints only the largest. */
static void put_size(writer *to, const mr_format_set *set) {
    if (is_open(set->width) && is_open(set->height))
        return;
    mr_bounds width = set->width, height = set->height;
    bool up_to = !is_one(width) && !is_one(height) && width.min <= 1 && height.min <= 1;
    if (up_to && !is_open(width) && !is_open(height)) {
        put(to, " up to %lldx%lld", (long long)width.max, (long long)height.max);
        return;
    }
    put(to, " ");
    put_bounds(to, width);
    put(to, "x");
    put_bounds(to, height);
}

static const char *pixel_name(int pixel) {
    return mr_pixel_describe((mr_pixel)pixel)->name;
}

static const char *dtype_name(int dtype) {
    return mr_dtype_name((mr_dtype)dtype);
}

static const char *layout_name(int layout) {
    static const char *const names[] = {[MR_LAYOUT_NCHW] = "NCHW", [MR_LAYOUT_NHWC] = "NHWC",
                                        [MR_LAYOUT_FLAT] = "flat"};
    return names[layout];
}

static void put_tensor(writer *to, const mr_format_set *set) {
    mr_format common = mr_format_set_common(set);
    put_members(to, set->dtypes, MR_DTYPE_I64 + 1, dtype_name);
    for (int i = 0; i < set->rank; i++) {
        put(to, i ? "x" : " ");
        put_bounds(to, set->dims[i]);
    }
    /* Fixed dimensions already show the order. */
    if (!mr_tensor_count(&common) && common.layout != MR_LAYOUT_FLAT)
        put_members(to, set->layouts, MR_LAYOUT_FLAT + 1, layout_name);
}

const char *mr_format_set_print(const mr_format_set *set, char *text, size_t bytes) {
    writer to = {.text = text, .bytes = bytes};
    put(&to, "%s", mr_payload_name(set->payload));
    if (set->codec)
        put(&to, " %s", set->codec);
    if (set->payload == MR_PAYLOAD_PICTURE)
        put_members(&to, set->pixels, MR_PIXEL_COUNT, pixel_name);
    if (set->payload == MR_PAYLOAD_PICTURE || set->payload == MR_PAYLOAD_PACKET)
        put_size(&to, set);
    if (set->payload == MR_PAYLOAD_TENSOR)
        put_tensor(&to, set);
    return text;
}

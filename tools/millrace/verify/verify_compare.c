#include "tools/millrace/verify/verify_compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/format.h"

/* ---- captures ---------------------------------------------------------------------------------------------------- */

static bool is_wanted(const mr_result *result, const char *id) {
    return strcmp(result->stage, id) == 0;
}

static size_t aligned(size_t bytes) {
    return (bytes + 15) / 16 * 16;
}

/* A result's contents in a capture. */
static size_t result_room(const mr_result *result) {
    return aligned(mr_result_bytes(result)) + aligned(result->items_bytes);
}

static void add_payload(mr_capture *to, const mr_frame *frame, uint8_t *data) {
    bool picture = frame->format.payload == MR_PAYLOAD_PICTURE;
    mr_part *part = &to->part[to->part_count++];
    *part = (mr_part){.kind = picture ? NULL : mr_kind_tensor(),
                      .format = frame->format,
                      .bytes = mr_packed_bytes(&frame->format),
                      .data = data};
    mr_frame_pack(frame, data);
}

static void add_result(mr_capture *to, const mr_result *result, uint8_t *data) {
    mr_part *part = &to->part[to->part_count++];
    *part = (mr_part){.kind = result->kind,
                      .name = result->name,
                      .format = result->format,
                      .count = result->count,
                      .bytes = mr_result_bytes(result),
                      .items_bytes = result->items_bytes,
                      .items = data + aligned(mr_result_bytes(result)),
                      .data = data};
    if (part->bytes)
        memcpy(data, result->data, part->bytes);
    if (part->items_bytes)
        memcpy(data + aligned(part->bytes), result->items, part->items_bytes);
}

mr_capture *mr_capture_create(const mr_frame *frame, const char *id, bool payload) {
    size_t bytes = aligned(sizeof(mr_capture)), own = payload ? mr_packed_bytes(&frame->format) : 0;
    bytes += aligned(own);
    for (const mr_result *result = frame->results; result; result = result->next)
        bytes += is_wanted(result, id) ? result_room(result) : 0;
    mr_capture *made = malloc(bytes);
    if (!made)
        return NULL;
    made->identity = frame->identity;
    made->part_count = 0;
    made->next = NULL;
    uint8_t *data = (uint8_t *)made + aligned(sizeof *made);
    if (own)
        add_payload(made, frame, data);
    data += aligned(own);
    for (const mr_result *result = frame->results; result && made->part_count < MR_CAPTURE_PARTS;
         result = result->next)
        if (is_wanted(result, id)) {
            add_result(made, result, data);
            data += result_room(result);
        }
    return made;
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

/* Orders numbers in a sign-and-magnitude format, both zeros at 0. */
static double in_order(uint32_t bits, uint32_t sign) {
    return bits & sign ? -(double)(bits & ~sign) : (double)bits;
}

double mr_ulps_f32(float a, float b) {
    uint32_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : (double)INFINITY;
    return fabs(in_order(bits[0], UINT32_C(1) << 31) - in_order(bits[1], UINT32_C(1) << 31));
}

double mr_ulps_f16(uint16_t a, uint16_t b) {
    bool nan_a = (a & 0x7fff) > 0x7c00, nan_b = (b & 0x7fff) > 0x7c00;
    if (nan_a || nan_b)
        return nan_a && nan_b ? 0 : (double)INFINITY;
    return fabs(in_order(a, 0x8000) - in_order(b, 0x8000));
}

/* Equal infinities have distance 0. */
static double distance(double a, double b) {
    if (isnan(a) || isnan(b))
        return isnan(a) && isnan(b) ? 0 : (double)INFINITY;
    return a == b ? 0 : fabs(a - b);
}

static void add_value(mr_error_sum *sum, double error, double ulps, double allowed) {
    sum->values++;
    sum->differing += error > 0;
    sum->beyond += error > allowed;
    sum->sum += error;
    sum->ulps_sum += ulps;
    if (error > sum->largest)
        sum->largest = error;
    if (ulps > sum->most_ulps)
        sum->most_ulps = ulps;
}

static double allowed_of(double tolerance, double a) {
    return fabs(a) > 1 && isfinite(a) ? tolerance * fabs(a) : tolerance;
}

static void add_f32(mr_error_sum *sum, float a, float b, double tolerance) {
    sum->floats = true;
    add_value(sum, distance((double)a, (double)b), mr_ulps_f32(a, b), allowed_of(tolerance, (double)a));
}

static void add_f16(mr_error_sum *sum, uint16_t a, uint16_t b, double tolerance) {
    double value = mr_half_to_float(a);
    sum->floats = true;
    add_value(sum, distance(value, mr_half_to_float(b)), mr_ulps_f16(a, b), allowed_of(tolerance, value));
}

/* Two 64-bit numbers' difference need not fit into 64 bits. */
static double whole_distance(int64_t a, int64_t b) {
    return (double)(a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a);
}

static void compare_values(mr_dtype type, const void *a, const void *b, size_t count, double tolerance,
                           mr_error_sum *sum) {
    for (size_t i = 0; i < count; i++)
        switch (type) {
        case MR_DTYPE_F32:
            add_f32(sum, ((const float *)a)[i], ((const float *)b)[i], tolerance);
            break;
        case MR_DTYPE_F16:
            add_f16(sum, ((const uint16_t *)a)[i], ((const uint16_t *)b)[i], tolerance);
            break;
        case MR_DTYPE_I32:
            add_value(sum, whole_distance(((const int32_t *)a)[i], ((const int32_t *)b)[i]), 0, tolerance);
            break;
        case MR_DTYPE_I64:
            add_value(sum, whole_distance(((const int64_t *)a)[i], ((const int64_t *)b)[i]), 0, tolerance);
            break;
        default:
            add_value(sum, whole_distance(((const uint8_t *)a)[i], ((const uint8_t *)b)[i]), 0, tolerance);
            break;
        }
}

static void compare_words(const uint16_t *a, const uint16_t *b, size_t count, double tolerance, mr_error_sum *sum) {
    for (size_t i = 0; i < count; i++)
        add_value(sum, whole_distance(a[i], b[i]), 0, tolerance);
}

/* ---- elements ---------------------------------------------------------------------------------------------------- */

typedef struct comparison {
    double tolerance;
    mr_error_sum *sum;
} comparison;

static void add_values(void *context, mr_field_type type, const void *a, const void *b) {
    static const mr_dtype dtypes[MR_FIELD_TYPES] = {[MR_FIELD_BOOL] = MR_DTYPE_U8, [MR_FIELD_I32] = MR_DTYPE_I32,
                                                    [MR_FIELD_I64] = MR_DTYPE_I64, [MR_FIELD_F32] = MR_DTYPE_F32,
                                                    [MR_FIELD_TIME] = MR_DTYPE_I64, [MR_FIELD_DATE] = MR_DTYPE_I64,
                                                    [MR_FIELD_ID] = MR_DTYPE_I64};
    const comparison *to = context;
    if (dtypes[type]) {
        compare_values(dtypes[type], a, b, 1, to->tolerance, to->sum);
    } else if (type == MR_FIELD_F64) {
        double x = *(const double *)a, y = *(const double *)b;
        add_value(to->sum, distance(x, y), 0, allowed_of(to->tolerance, x));
    } else {
        const char *x = *(const char *const *)a, *y = *(const char *const *)b;
        bool same = x == y || (x && y && strcmp(x, y) == 0);
        add_value(to->sum, same ? 0 : (double)INFINITY, 0, to->tolerance);
    }
}

static void add_move(void *context) {
    const comparison *to = context;
    to->sum->reordered++;
}

/* Not to be changed through. */
static mr_result view(const mr_part *part) {
    return (mr_result){.kind = part->kind, .count = part->count, .data = (void *)(uintptr_t)part->data,
                       .items = (void *)(uintptr_t)part->items, .items_bytes = part->items_bytes};
}

static void compare_elements(const mr_part *a, const mr_part *b, double tolerance, mr_error_sum *sum) {
    comparison context = {tolerance, sum};
    const mr_comparison to = {add_values, add_move, &context};
    const mr_result one = view(a), other = view(b);
    if (a->kind->compare) {
        a->kind->compare(&one, &other, &to);
        return;
    }
    for (size_t at = 0; at < a->bytes; at += a->kind->element_bytes)
        for (const mr_field *field = a->kind->fields; field->name; field++)
            mr_result_compare_field(field, &one, (const uint8_t *)a->data + at, &other, (const uint8_t *)b->data + at,
                                    &to);
}

/* ---- parts ------------------------------------------------------------------------------------------------------- */

static bool alike(const mr_part *a, const mr_part *b) {
    const mr_format *f = &a->format, *g = &b->format;
    if (a->kind != b->kind || a->bytes != b->bytes || a->count != b->count)
        return false;
    if (!a->kind)
        return f->pixel == g->pixel && f->width == g->width && f->height == g->height;
    return a->kind->fields || (f->dtype == g->dtype && f->rank == g->rank &&
                               memcmp(f->dims, g->dims, (size_t)f->rank * sizeof *f->dims) == 0);
}

bool mr_compare_parts(const mr_part *a, const mr_part *b, double tolerance, mr_error_sum *sum) {
    if (!alike(a, b))
        return false;
    if (a->kind && a->kind->fields)
        compare_elements(a, b, tolerance, sum);
    else if (a->kind)
        compare_values(a->format.dtype, a->data, b->data, mr_tensor_count(&a->format), tolerance, sum);
    else if (mr_pixel_describe(a->format.pixel)->depth > 8)
        compare_words(a->data, b->data, a->bytes / 2, tolerance, sum);
    else
        compare_values(MR_DTYPE_U8, a->data, b->data, a->bytes, tolerance, sum);
    return true;
}

void mr_error_sum_add(mr_error_sum *to, const mr_error_sum *from) {
    to->values += from->values;
    to->differing += from->differing;
    to->beyond += from->beyond;
    to->reordered += from->reordered;
    to->sum += from->sum;
    to->ulps_sum += from->ulps_sum;
    to->floats = to->floats || from->floats;
    to->largest = from->largest > to->largest ? from->largest : to->largest;
    to->most_ulps = from->most_ulps > to->most_ulps ? from->most_ulps : to->most_ulps;
}

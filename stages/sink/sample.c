#include "millrace/sample.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/sink/record_json.h"
#include "stages/sink/still_encoder.h"

enum { QUALITY = 85, MOST_JPEG = 24 << 20, MOST_NUMBERS = 256 };

/* ---- tensors ----------------------------------------------------------------------------------------------------- */

static double value_at(const uint8_t *data, mr_dtype dtype, size_t i) {
    switch (dtype) {
    case MR_DTYPE_U8: return data[i];
    case MR_DTYPE_F16: return (double)mr_half_to_float(((const uint16_t *)(const void *)data)[i]);
    case MR_DTYPE_F32: return (double)((const float *)(const void *)data)[i];
    case MR_DTYPE_I32: return ((const int32_t *)(const void *)data)[i];
    case MR_DTYPE_I64: return (double)((const int64_t *)(const void *)data)[i];
    default: return NAN;
    }
}

static int take_values(const mr_frame *frame, int most, mr_sample *sample) {
    const size_t count = mr_tensor_count(&frame->format);
    double sum = 0;
    sample->first = malloc(((size_t)most + 1) * sizeof *sample->first);
    if (!sample->first)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a sample");
    for (size_t i = 0; i < count; i++) {
        const double value = value_at(frame->plane[0].data, frame->format.dtype, i);
        sum += value;
        sample->least = fmin(i ? sample->least : value, value); /* NaN only if all are */
        sample->most = fmax(i ? sample->most : value, value);
        if (i < (size_t)most)
            sample->first[sample->given++] = value;
    }
    sample->count = count;
    sample->mean = count ? sum / (double)count : 0;
    return MR_OK;
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* Copies the pixels, so that the run has its buffer back while they are encoded. */
static int copy_picture(const mr_frame *frame, mr_frame *copy, mr_buffer **buffer) {
    const size_t bytes = mr_format_bytes(&frame->format);
    *buffer = bytes ? mr_buffer_alloc(bytes) : NULL;
    if (!*buffer)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    mr_frame_place(copy, &frame->format, *buffer, 0, MR_ROW_ALIGNMENT);
    mr_copy_rows(&frame->format, copy->plane, frame->plane);
    return MR_OK;
}

static int encode(const mr_frame *picture, mr_sample *sample) {
    mr_still_encoder encoder = {.choices = {.kind = MR_STILL_JPEG, .quality = QUALITY, .turn = true}};
    int status = mr_still_encode(&encoder, picture, &sample->jpeg, &sample->jpeg_bytes);
    mr_still_encoder_close(&encoder);
    if (!status && sample->jpeg_bytes > MOST_JPEG)
        status = mr_fail(MR_ERROR_DATA, "the picture has %zu bytes as JPEG, and an answer takes at most %d",
                         sample->jpeg_bytes, MOST_JPEG);
    return status;
}

static void drop_picture(mr_frame *copy, mr_buffer **buffer) {
    for (int i = 0; i < MR_MAX_PLANES; i++)
        mr_buffer_unref(&copy->plane[i].buffer);
    mr_buffer_unref(buffer);
}

/* ---- a sample ---------------------------------------------------------------------------------------------------- */

/* Whether the frame has named tensors, such as a hash, and all of them are short: a record holds them whole. */
static bool has_few_numbers(const mr_frame *frame) {
    size_t count = 0;
    for (const mr_result *one = frame->results; one; one = one->next)
        if (!one->kind->fields)
            count += mr_tensor_count(&one->format);
    return count > 0 && count <= MOST_NUMBERS;
}

static int take_record(const mr_frame *frame, mr_sample *sample) {
    mr_record record = {0};
    const mr_recorded recorded = {.frame = frame, .source = sample->source, .tensors = has_few_numbers(frame)};
    size_t bytes;
    int status = mr_record_open(&record);
    const char *line = status ? NULL : mr_record_make(&record, &recorded, &bytes);
    if (line)
        sample->record = strndup(line, bytes - (bytes > 0 && line[bytes - 1] == '\n'));
    mr_record_close(&record);
    return sample->record ? MR_OK : status ? status : mr_fail(MR_ERROR_MEMORY, "no memory for a sample");
}

static bool is_readable(const mr_frame *frame) {
    return frame->plane[0].buffer && frame->plane[0].buffer->memory != MR_MEMORY_DEVICE;
}

int mr_sample_take(mr_pipeline *pipeline, const char *stage, const mr_sample_choices *choices,
                   mr_sample *sample) {
    mr_frame *frame, copy = {0};
    mr_buffer *pixels = NULL;
    *sample = (mr_sample){.stage = stage};
    int status = mr_pipeline_tap(pipeline, stage, choices->wait_ns, &frame, &sample->source);
    if (status)
        return status;
    const bool picture = choices->picture && frame->format.payload == MR_PAYLOAD_PICTURE;
    const bool tensor = choices->values && frame->format.payload == MR_PAYLOAD_TENSOR;
    mr_format_print(&frame->format, sample->format, sizeof sample->format);
    sample->elsewhere = (picture || tensor) && !is_readable(frame);
    status = take_record(frame, sample);
    if (!status && tensor && !sample->elsewhere)
        status = take_values(frame, choices->values, sample);
    if (!status && picture && !sample->elsewhere)
        status = copy_picture(frame, &copy, &pixels);
    mr_frame_unref(&frame);
    if (!status && pixels)
        status = encode(&copy, sample);
    drop_picture(&copy, &pixels);
    if (status)
        mr_sample_fini(sample);
    return status;
}

void mr_sample_fini(mr_sample *sample) {
    free(sample->record);
    free(sample->first);
    mr_free(sample->jpeg);
    *sample = (mr_sample){0};
}

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "engine/base/utf8.h"
#include "engine/data/receipt.h"
#include "engine/data/store.h"
#include "engine/device/device.h"
#include "millrace/frame.h"

int64_t mr_time_bound(int64_t time_ns) {
    return time_ns >= -MR_MOST_TIME_NS && time_ns <= MR_MOST_TIME_NS ? time_ns : MR_NO_TIME;
}

int64_t mr_time_step(int64_t time_ns, int64_t count, int64_t step_ns) {
    int64_t span_ns, sum_ns;
    if (time_ns == MR_NO_TIME || __builtin_mul_overflow(count, step_ns, &span_ns) ||
        __builtin_add_overflow(time_ns, span_ns, &sum_ns))
        return MR_NO_TIME;
    return mr_time_bound(sum_ns);
}

int64_t mr_media_interval_ns(const mr_media *media) {
    static const int64_t second_ns = 1000000000, day_s = 86400;
    if (media->rate_num <= 0 || media->rate_den <= 0)
        return 0;
    const int64_t interval_ns = (second_ns * media->rate_den + media->rate_num / 2) / media->rate_num;
    return interval_ns < day_s * second_ns ? interval_ns : day_s * second_ns;
}

mr_frame *mr_frame_ref(mr_frame *frame) {
    mr_references_take(&frame->references);
    return frame;
}

void mr_frame_unref(mr_frame **frame) {
    mr_frame *gone = *frame;
    *frame = NULL;
    /* A sole holder needs no locked instruction: nobody else can take a reference. */
    if (!gone || (!mr_references_alone(&gone->references) && !mr_references_drop(&gone->references)))
        return;
    for (int i = 0; i < MR_MAX_PLANES; i++)
        if (gone->plane[i].buffer)
            mr_buffer_unref(&gone->plane[i].buffer);
    if (gone->names)
        mr_buffer_unref(&gone->names);
    if (gone->media)
        mr_media_unref(&gone->media);
    if (gone->results)
        mr_result_unref(&gone->results);
    if (gone->ready)
        mr_event_unref(&gone->ready);
    mr_receipt *receipt = gone->receipt;
    mr_store_take_frame(gone->store, gone);
    mr_receipt_unref(&receipt);
}

/* The buffer holds the names one after another, each with a terminating zero. */
int mr_frame_name(mr_frame *frame, const mr_frame_names *names) {
    const struct {
        const char *text;
        size_t most;
    } given[] = {{names->id, MR_FRAME_ID}, {names->file, MR_FRAME_FILE}, {names->label, MR_FRAME_LABEL}};
    enum { COUNT = sizeof given / sizeof *given };
    size_t length[COUNT], bytes = COUNT;
    for (int i = 0; i < COUNT; i++)
        bytes += length[i] = given[i].text ? mr_utf8_fit(given[i].text, given[i].most) : 0;
    if (bytes == COUNT) {
        mr_buffer_unref(&frame->names);
        return MR_OK;
    }
    mr_buffer *made = mr_buffer_alloc(bytes);
    if (!made)
        return MR_ERROR_MEMORY;
    char *to = (char *)made->data;
    for (int i = 0; i < COUNT; i++, *to++ = '\0') {
        if (length[i])
            memcpy(to, given[i].text, length[i]);
        to += length[i];
    }
    mr_buffer_unref(&frame->names);
    frame->names = made;
    return MR_OK;
}

mr_frame_names mr_frame_given_names(const mr_frame *frame) {
    if (!frame->names)
        return (mr_frame_names){"", "", ""};
    const char *id = (const char *)frame->names->data, *file = id + strlen(id) + 1;
    return (mr_frame_names){id, file, file + strlen(file) + 1};
}

const char *mr_frame_id(const mr_frame *frame) {
    const char *given = mr_frame_given_names(frame).id;
    return *given ? given : NULL;
}

const char *mr_frame_file(const mr_frame *frame) {
    const char *given = mr_frame_given_names(frame).file, *read = NULL;
    if (frame->media && frame->media->is_file)
        read = frame->media->path;
    return *given ? given : read;
}

const char *mr_frame_label(const mr_frame *frame) {
    const char *given = mr_frame_given_names(frame).label;
    return *given ? given : frame->media ? frame->media->label : NULL;
}

int mr_identity_compare(const mr_identity *a, const mr_identity *b) {
    if (a->epoch != b->epoch)
        return a->epoch < b->epoch ? -1 : 1;
    if (a->seq != b->seq)
        return a->seq < b->seq ? -1 : 1;
    if (a->sub != b->sub)
        return a->sub < b->sub ? -1 : 1;
    if (a->source != b->source)
        return a->source < b->source ? -1 : 1;
    return 0;
}

const char *mr_identities_print(const mr_identity *frames, size_t count, uint64_t all, char *text, size_t bytes) {
    size_t length = 0;
    *text = 0;
    for (size_t i = 0; i < count && length < bytes; i++) {
        length += (size_t)snprintf(text + length, bytes - length, "%s%" PRIu64, i ? ", " : "", frames[i].seq);
        if (frames[i].sub && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length, ".%" PRIu32, frames[i].sub);
        if (frames[i].epoch && length < bytes)
            length += (size_t)snprintf(text + length, bytes - length, " of epoch %" PRIu32, frames[i].epoch);
    }
    if (all > count && length < bytes)
        snprintf(text + length, bytes - length, "%s%" PRIu64 " more", count ? " and " : "", all - count);
    return text;
}

const mr_result *mr_frame_result(const mr_frame *frame, const mr_result_kind *kind, const char *stage) {
    return mr_result_find(frame->results, kind, stage);
}

size_t mr_vector_length(const mr_format *format) {
    size_t count = format->payload == MR_PAYLOAD_TENSOR ? mr_tensor_count(format) : 0;
    for (int i = 0; i < format->rank; i++)
        if (count && format->dims[i] == (int64_t)count)
            return count;
    return 0;
}

static bool is_wanted(const mr_result *result, const char *tensor) {
    return result->kind == mr_kind_tensor() && (!tensor || strcmp(result->name, tensor) == 0) &&
           mr_vector_length(&result->format);
}

int mr_frame_find_vector(const mr_frame *frame, const char *tensor, mr_frame_vector *found) {
    const mr_format *format = &frame->format;
    *found = (mr_frame_vector){.data = (const void *)frame->plane[0].data, .buffer = frame->plane[0].buffer};
    if (tensor || !mr_vector_length(format)) {
        const mr_result *result = frame->results;
        while (result && !is_wanted(result, tensor))
            result = result->next;
        if (!result)
            return mr_fail(MR_ERROR_NO_INPUT, "no vector%s%s among the results of a frame", tensor ? " called " : "",
                           tensor ? tensor : "");
        format = &result->format;
        *found = (mr_frame_vector){.data = (const float *)result->data, .buffer = result->buffer};
    }
    found->length = mr_vector_length(format);
    if (format->dtype != MR_DTYPE_F32)
        return mr_fail(MR_ERROR_DATA, "only f32 can be classified, not %s", mr_dtype_name(format->dtype));
    return MR_OK;
}

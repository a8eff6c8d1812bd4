#include "engine/flow/instance/spacing.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

int mr_spacing_create(mr_spacing *spacing, const mr_view_calls *calls, size_t source_count) {
    *spacing = (mr_spacing){.every = calls->every, .spared = calls->spared, .source_count = source_count};
    if (!spacing->every.time_ns)
        return MR_OK;
    spacing->sources = mr_calloc(source_count, sizeof *spacing->sources);
    return spacing->sources ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the times of %zu sources", source_count);
}

void mr_spacing_destroy(mr_spacing *spacing) {
    mr_free(spacing->sources);
    spacing->sources = NULL;
}

void mr_spacing_renew(mr_spacing *spacing) {
    if (spacing->sources)
        memset(spacing->sources, 0, spacing->source_count * sizeof *spacing->sources);
}

/* Whether times begin anew with the frame. */
static bool begins(const mr_spaced *source, const mr_frame *frame) {
    return !source->begun || source->last.epoch != frame->identity.epoch || mr_frame_time_ns(frame) < source->last_ns;
}

/* Whether both were made from one frame, as the tiles of a picture are. */
static bool is_part_of_last(const mr_spaced *source, const mr_frame *frame) {
    return source->begun && source->last.epoch == frame->identity.epoch && source->last.seq == frame->identity.seq;
}

bool mr_spacing_passes(const mr_spacing *spacing, uint32_t source, const mr_frame *frame) {
    if (spacing->spared && frame->format.payload == MR_PAYLOAD_RESULTS)
        return true;
    if (!spacing->sources)
        return spacing->every.frames > 1 && frame->identity.seq % (uint64_t)spacing->every.frames != 0;
    const mr_spaced *one = &spacing->sources[source];
    return is_part_of_last(one, frame) ? one->passed : !begins(one, frame) && mr_frame_time_ns(frame) < one->due_ns;
}

/* The time of the step after `now_ns`; INT64_MAX if it cannot be represented. */
static int64_t step_after(int64_t from_ns, int64_t now_ns, int64_t step_ns) {
    const int64_t due_ns = mr_time_step(from_ns, (now_ns - from_ns) / step_ns + 1, step_ns);
    return due_ns == MR_NO_TIME ? INT64_MAX : due_ns;
}

void mr_spacing_take(mr_spacing *spacing, uint32_t source, const mr_frame *frame) {
    mr_spaced *one = spacing->sources ? &spacing->sources[source] : NULL;
    if (!one || (spacing->spared && frame->format.payload == MR_PAYLOAD_RESULTS) || is_part_of_last(one, frame))
        return;
    one->passed = mr_spacing_passes(spacing, source, frame);
    const int64_t now_ns = mr_frame_time_ns(frame), step_ns = spacing->every.time_ns;
    if (begins(one, frame))
        one->due_ns = step_after(now_ns, now_ns, step_ns);
    else if (now_ns >= one->due_ns)
        one->due_ns = step_after(one->due_ns, now_ns, step_ns);
    one->begun = true;
    one->last = frame->identity;
    one->last_ns = now_ns;
}

/* Its time is between the last two steps, unless another frame has been taken for a later one. */
void mr_spacing_take_back(mr_spacing *spacing, uint32_t source, const mr_frame *frame) {
    mr_spaced *one = spacing->sources ? &spacing->sources[source] : NULL;
    const int64_t step_ns = spacing->every.time_ns, now_ns = mr_frame_time_ns(frame);
    if (one && one->begun && one->last.epoch == frame->identity.epoch && now_ns < one->due_ns &&
        now_ns >= one->due_ns - step_ns)
        one->due_ns -= step_ns;
}

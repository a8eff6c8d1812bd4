#include "kernels/detect/detect.h"

#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/detect/box_db.h"
#include "kernels/detect/box_numbers.h"
#include "kernels/detect/detect_cuda.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

static int find_lines(const mr_detect_work *work) {
    mr_db_lines lines = {.width = work->head->width, .height = work->head->height,
                         .most = work->wanted && !work->wanted[0] ? 0 : work->most, .item = work->found->item,
                         .corner = mr_found_numbers(work->found, work->head, (size_t)work->most, 0)};
    int status = mr_box_db_find(work->head, work->data[0], work->score, &lines);
    work->found->count = lines.count;
    work->found->cut = lines.cut && lines.most;
    work->found->odd = !status && !lines.count && mr_box_head_has_nan(work->head, work->data);
    return status;
}

static int add_numbers(const mr_detect_work *work) {
    const mr_found *found = work->found;
    int status = MR_OK;
    for (int32_t i = 0; i < found->count && !status; i++)
        status = mr_box_numbers(work->head, work->data, &found->item[i],
                                mr_found_numbers(found, work->head, (size_t)work->most, i));
    return status;
}

int mr_detect(const mr_detect_work *work) {
    if (work->head->family == MR_BOX_HEAD_DB)
        return find_lines(work);
    const size_t compared = (size_t)mr_detect_compared(work->most);
    const size_t all = mr_box_head_most(work->head) + 2, room = 2 * compared;
    const size_t capacity = all < room ? all : room;
    mr_box *items = mr_scratch(capacity * sizeof *items);
    mr_boxes candidates;
    if (!items)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for %zu boxes", capacity);
    mr_boxes_init(&candidates, items, capacity);
    mr_box_head_decode(work->head, work->data, work->score, work->wanted, &candidates);
    mr_boxes_sort(&candidates);
    const bool more = candidates.count > compared;
    candidates.count = more ? compared : candidates.count;
    mr_box_head_finish(work->head, work->overlap, (size_t)work->most + 1, &candidates);
    const size_t kept = candidates.count < (size_t)work->most ? candidates.count : (size_t)work->most;
    work->found->count = (int32_t)kept;
    work->found->cut = more || candidates.count > kept;
    work->found->odd = candidates.odd || (!candidates.passed && mr_box_head_has_nan(work->head, work->data));
    memcpy(work->found->item, items, kept * sizeof *items);
    return add_numbers(work);
}

static int run_detect(void *arguments) {
    return mr_detect(arguments);
}

/* ---- CUDA -------------------------------------------------------------------------------------------------------- */

typedef struct detect_launch {
    mr_detect_cuda_work work;
    void *scratch;
} detect_launch;

static int launch_detect(const void *arguments, void *handle) {
    const detect_launch *a = arguments;
    return mr_detect_cuda(&a->work, a->scratch, handle);
}

/* False: a wanted class is too high for a launch. */
static bool pack_wanted(const mr_detect_work *work, mr_detect_cuda_work *to) {
    const int32_t classes = work->head->classes ? work->head->classes : MR_BOX_HEAD_MOST_CLASSES;
    to->filtered = work->wanted != NULL;
    for (int32_t i = 0; work->wanted && i < classes; i++) {
        if (work->wanted[i] && i >= MR_DETECT_CUDA_CLASSES)
            return false;
        if (work->wanted[i])
            to->wanted[i / 32] |= 1u << i % 32;
    }
    return true;
}

static int enqueue_cuda(mr_stream *stream, const mr_detect_work *work) {
    detect_launch a;
    memset(&a, 0, sizeof a); /* launches are compared with their padding */
    memcpy(&a.work.head, work->head, sizeof a.work.head);
    memcpy(a.work.data, work->data, sizeof a.work.data);
    a.work.limit = mr_box_raw_limit(work->head, work->score);
    a.work.score = work->score;
    a.work.overlap = mr_box_head_overlap(work->head, work->overlap);
    a.work.most = work->most;
    a.work.found = work->found;
    if (!pack_wanted(work, &a.work))
        return mr_fail(MR_ERROR_CONFIG, "on a CUDA device, classes must be below %d", MR_DETECT_CUDA_CLASSES);
    int status = mr_cuda_scratch(stream, mr_detect_cuda_scratch(work->head, work->most), &a.scratch);
    return status ? status : mr_cuda_launch(stream, launch_detect, &a, sizeof a, 1 + MR_DETECT_CUDA_LAUNCHES);
}

size_t mr_detect_cuda_scratch(const mr_box_head *head, int32_t most) {
    const size_t all = mr_box_head_most(head), compared = (size_t)mr_detect_compared(most);
    const size_t kept = all < compared ? all : compared;
    return MR_DETECT_CUDA_COUNTERS + (all + 1) * sizeof(uint64_t) + (kept + 1) * sizeof(mr_box);
}

int mr_detect_enqueue(mr_stream *stream, const mr_detect_work *work) {
    return mr_stream_is_cuda(stream) ? enqueue_cuda(stream, work)
                                     : mr_stream_submit(stream, run_detect, work, sizeof *work);
}

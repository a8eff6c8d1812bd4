#include "kernels/detect/detect.h"

#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "kernels/detect/box_db.h"
#include "kernels/detect/box_numbers.h"
#include "kernels/scratch.h"
#include "millrace/status.h"

/* Candidates that are compared. If more pass the score, the better ones are. */
enum { MOST_CANDIDATES = 1 << 17 };

static int find_lines(const mr_detect_work *work) {
    mr_db_lines lines = {.width = work->width, .height = work->height,
                         .most = work->wanted && !work->wanted[0] ? 0 : work->most, .item = work->found->item,
                         .corner = mr_found_numbers(work->found, work->head, (size_t)work->most, 0)};
    int status = mr_box_db_find(work->head, work->data[0], work->score, &lines);
    work->found->count = lines.count;
    work->found->cut = lines.cut && lines.most;
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

static int run_detect(void *arguments) {
    const mr_detect_work *work = arguments;
    if (work->head->family == MR_BOX_HEAD_DB)
        return find_lines(work);
    const size_t all = mr_box_head_most(work->head) + 2, capacity = all < MOST_CANDIDATES ? all : MOST_CANDIDATES;
    mr_box *items = mr_scratch(capacity * sizeof *items);
    mr_boxes candidates;
    if (!items)
        return mr_fail(MR_ERROR_MEMORY, "no scratch memory for %zu boxes", capacity);
    mr_boxes_init(&candidates, items, capacity);
    mr_box_head_decode(work->head, work->data, work->score, work->wanted, &candidates);
    mr_box_head_finish(work->head, work->overlap, (size_t)work->most + 1, &candidates);
    const size_t kept = candidates.count < (size_t)work->most ? candidates.count : (size_t)work->most;
    work->found->count = (int32_t)kept;
    work->found->cut = candidates.count > kept;
    memcpy(work->found->item, items, kept * sizeof *items);
    return add_numbers(work);
}

int mr_detect_enqueue(mr_stream *stream, const mr_detect_work *work) {
    return mr_stream_submit(stream, run_detect, work, sizeof *work);
}

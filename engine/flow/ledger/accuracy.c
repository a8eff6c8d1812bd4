#include "engine/flow/ledger/accuracy.h"

#include <string.h>

#include "engine/base/memory.h"

static mr_truth *truth_of(mr_truths *truths, const mr_media *media) {
    size_t index = (size_t)media->label_index;
    if (media->label_index < 0 || index >= MR_MOST_TRUTHS)
        return NULL;
    if (index >= truths->room) {
        size_t room = index + 1 + index / 2;
        mr_truth *wider = mr_realloc(truths->of, room * sizeof *wider);
        if (!wider)
            return NULL;
        memset(wider + truths->room, 0, (room - truths->room) * sizeof *wider);
        truths->of = wider;
        truths->room = room;
    }
    mr_truth *truth = &truths->of[index];
    if (!truth->label)
        truth->label = mr_strdup(media->label);
    return truth->label ? truth : NULL;
}

static bool is_right(const mr_class *class, const mr_media *media) {
    return class->label ? strcmp(class->label, media->label) == 0 : class->index == media->label_index;
}

void mr_truths_add(mr_truths *truths, const mr_media *media, const mr_result *classes) {
    if (!media || !media->label)
        return;
    size_t at = 0;
    while (at < classes->count && !is_right(&classes->classes[at], media))
        at++;
    const bool listed = at < classes->count, right = listed && at == 0;
    truths->frames++;
    truths->right += right;
    truths->listed += listed;
    if (classes->count > truths->longest)
        truths->longest = classes->count;
    mr_truth *truth = truth_of(truths, media);
    if (!truth)
        return;
    truth->frames++;
    truth->right += right;
    truth->listed += listed;
}

void mr_truths_summarize(const mr_truths *truths, mr_source_summary *summary) {
    summary->labelled = truths->frames;
    summary->right = truths->right;
    summary->listed = truths->listed;
    summary->longest = truths->longest;
    summary->truths = truths->room ? mr_calloc(truths->room, sizeof *summary->truths) : NULL;
    for (size_t i = 0; summary->truths && i < truths->room; i++) {
        const mr_truth *truth = &truths->of[i];
        if (truth->frames)
            summary->truths[summary->truth_count++] =
                (mr_truth_count){(int32_t)i, truth->label, truth->frames, truth->right, truth->listed};
    }
}

void mr_truths_fini(mr_truths *truths) {
    for (size_t i = 0; i < truths->room; i++)
        mr_free(truths->of[i].label);
    mr_free(truths->of);
    *truths = (mr_truths){0};
}

#include "engine/flow/ledger/tally.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/base/memory.h"

typedef struct class_count {
    _Atomic uint64_t frames;
    _Atomic double score; /* sum */
    _Atomic(const char *) label;
} class_count;

typedef struct truth {
    _Atomic(char *) label; /* NULL: no frame has it yet */
    _Atomic uint64_t frames, right, listed;
} truth;

static void count(_Atomic uint64_t *to, uint64_t more) {
    atomic_fetch_add_explicit(to, more, memory_order_release);
}

static uint64_t read_count(const _Atomic uint64_t *from) {
    return atomic_load_explicit(from, memory_order_acquire);
}

/* ---- adding ----------------------------------------------------------------------------------------------------- */

static void add_score(class_count *to, double score) {
    double sum = atomic_load_explicit(&to->score, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(&to->score, &sum, sum + score, memory_order_relaxed,
                                                  memory_order_relaxed))
        continue;
}

static void add_first(mr_tally *tally, const mr_class *first) {
    const size_t index = (size_t)first->index;
    class_count *class = index < MR_MOST_CLASSES ? mr_growing_make(&tally->classes, sizeof *class, index) : NULL;
    if (!class)
        return;
    add_score(class, (double)first->score);
    atomic_store_explicit(&class->label, first->label, memory_order_release);
    count(&class->frames, 1);
    count(&tally->frames, 1);
}

static truth *truth_of(mr_tally *tally, const mr_media *media) {
    const size_t index = (size_t)media->label_index;
    truth *of = media->label_index >= 0 && index < MR_MOST_TRUTHS ? mr_growing_make(&tally->truths, sizeof *of, index)
                                                                  : NULL;
    char *none = NULL, *label;
    if (!of || atomic_load_explicit(&of->label, memory_order_acquire))
        return of;
    if ((label = mr_strdup(media->label)) &&
        !atomic_compare_exchange_strong_explicit(&of->label, &none, label, memory_order_acq_rel, memory_order_acquire))
        mr_free(label);
    return atomic_load_explicit(&of->label, memory_order_acquire) ? of : NULL;
}

static bool is_right(const mr_class *class, const mr_media *media) {
    return class->label ? strcmp(class->label, media->label) == 0 : class->index == media->label_index;
}

/* Counts a total before the parts; readers read it last. So no reader can find more right than listed. */
static void add_truth(mr_tally *tally, const mr_media *media, const mr_result *classes) {
    size_t at = 0;
    while (at < classes->count && !is_right(&classes->classes[at], media))
        at++;
    const bool listed = at < classes->count, right = listed && at == 0;
    uint64_t longest = read_count(&tally->longest);
    while (classes->count > longest && !atomic_compare_exchange_weak(&tally->longest, &longest, classes->count))
        continue;
    truth *of = truth_of(tally, media);
    if (of) {
        count(&of->frames, 1);
        count(&of->listed, listed);
        count(&of->right, right);
    }
    count(&tally->labelled, 1);
    count(&tally->listed, listed);
    count(&tally->right, right);
}

void mr_tally_add(mr_tally *tally, const mr_media *media, const mr_result *classes) {
    if (classes->count && classes->classes[0].index >= 0)
        add_first(tally, &classes->classes[0]);
    if (media && media->label)
        add_truth(tally, media, classes);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool is_before(const mr_class_count *a, const mr_class_count *b) {
    return a->frames != b->frames ? a->frames > b->frames : a->index < b->index;
}

/* Inserts the class into the most frequent so far, if it belongs there. */
static void rank(mr_source_summary *row, const mr_class_count *class) {
    enum { TOP = sizeof row->classes / sizeof row->classes[0] };
    size_t at = row->class_count;
    while (at > 0 && is_before(class, &row->classes[at - 1]))
        at--;
    if (at == TOP)
        return;
    row->class_count += row->class_count < TOP;
    for (size_t i = row->class_count - 1; i > at; i--)
        row->classes[i] = row->classes[i - 1];
    row->classes[at] = *class;
}

static void rank_classes(const mr_tally *tally, mr_source_summary *row) {
    for (size_t i = 0; (i = mr_growing_next(&tally->classes, i)) < MR_MOST_CLASSES; i++) {
        const class_count *class = mr_growing_at(&tally->classes, sizeof *class, i);
        const uint64_t frames = read_count(&class->frames);
        if (frames)
            rank(row, &(mr_class_count){(int32_t)i, atomic_load_explicit(&class->label, memory_order_acquire), frames,
                                        atomic_load_explicit(&class->score, memory_order_relaxed) / (double)frames});
    }
}

static size_t count_truths(const mr_tally *tally) {
    size_t some = 0;
    for (size_t i = 0; (i = mr_growing_next(&tally->truths, i)) < MR_MOST_TRUTHS; i++)
        some += read_count(&((const truth *)mr_growing_at(&tally->truths, sizeof(truth), i))->frames) > 0;
    return some;
}

/* A folder whose first frame comes during this call must wait for the next summary. */
static void list_truths(const mr_tally *tally, mr_source_summary *row) {
    const size_t most = count_truths(tally);
    row->truths = most ? mr_calloc(most, sizeof *row->truths) : NULL;
    for (size_t i = 0; row->truths && row->truth_count < most; i++) {
        i = mr_growing_next(&tally->truths, i);
        const truth *of = mr_growing_at(&tally->truths, sizeof *of, i);
        const uint64_t right = read_count(&of->right), listed = read_count(&of->listed);
        const uint64_t frames = read_count(&of->frames);
        if (frames)
            row->truths[row->truth_count++] = (mr_truth_count){
                (int32_t)i, atomic_load_explicit(&of->label, memory_order_acquire), frames, right, listed};
    }
}

void mr_tally_summarize(const mr_tally *tally, mr_source_summary *row) {
    row->classified = read_count(&tally->frames);
    row->right = read_count(&tally->right);
    row->listed = read_count(&tally->listed);
    row->labelled = read_count(&tally->labelled);
    row->longest = read_count(&tally->longest);
    rank_classes(tally, row);
    list_truths(tally, row);
}

/* ---- labels, and the end ---------------------------------------------------------------------------------------- */

void mr_tally_keep_labels(mr_tally *tally, const char *(*keep)(void *context, const char *label), void *context) {
    for (size_t i = 0; (i = mr_growing_next(&tally->classes, i)) < MR_MOST_CLASSES; i++) {
        class_count *class = mr_growing_at(&tally->classes, sizeof *class, i);
        const char *label = atomic_load_explicit(&class->label, memory_order_acquire);
        if (label)
            atomic_store_explicit(&class->label, keep(context, label), memory_order_release);
    }
}

void mr_tally_fini(mr_tally *tally) {
    for (size_t i = 0; (i = mr_growing_next(&tally->truths, i)) < MR_MOST_TRUTHS; i++)
        mr_free(((truth *)mr_growing_at(&tally->truths, sizeof(truth), i))->label);
    mr_growing_fini(&tally->classes);
    mr_growing_fini(&tally->truths);
    *tally = (mr_tally){0};
}

#include "engine/flow/ledger/retired.h"

#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/memory.h"

void mr_row_fini(mr_source_summary *row) {
    mr_free(row->lines);
    mr_free(row->objects.lines);
    mr_free(row->truths);
    if (row->message && *row->message)
        mr_free((char *)(uintptr_t)row->message);
    *row = (mr_source_summary){0};
}

static const mr_source_summary *at(const mr_retired *retired, size_t index) {
    return &retired->accounts[(retired->first + index) % MR_MOST_RETIRED];
}

/* ---- all that came before ---------------------------------------------------------------------------------------- */

void mr_ledger_lines_add(mr_ledger_line **lines, size_t *count, const mr_ledger_line *line) {
    for (size_t i = 0; i < *count; i++) {
        mr_ledger_line *known = &(*lines)[i];
        if (known->outcome == line->outcome && strcmp(known->stage, line->stage) == 0 &&
            strcmp(known->reason, line->reason) == 0) {
            known->frames += line->frames;
            return;
        }
    }
    mr_ledger_line *more = mr_realloc(*lines, (*count + 1) * sizeof *more);
    if (!more)
        return;
    *lines = more;
    more[(*count)++] = *line;
}

void mr_objects_add(mr_object_summary *to, const mr_object_summary *from) {
    to->in += from->in;
    to->delivered += from->delivered;
    to->dropped += from->dropped;
    to->absorbed += from->absorbed;
    to->in_flight += from->in_flight;
    to->unaccounted += from->unaccounted;
    for (size_t i = 0; i < from->line_count; i++)
        mr_ledger_lines_add(&to->lines, &to->line_count, &from->lines[i]);
}

/* Lines from the sources themselves are merged too; otherwise there would be one for each id. */
static void merge(mr_source_summary *to, const mr_source_summary *from) {
    to->in += from->in;
    to->delivered += from->delivered;
    to->dropped += from->dropped;
    to->absorbed += from->absorbed;
    to->unaccounted += from->unaccounted;
    to->unread += from->unread;
    to->seams += from->seams;
    to->classified += from->classified;
    to->status = to->status ? to->status : from->status;
    for (size_t i = 0; i < from->line_count; i++) {
        mr_ledger_line line = from->lines[i];
        if (strcmp(line.stage, from->id) == 0)
            line.stage = "sources";
        mr_ledger_lines_add(&to->lines, &to->line_count, &line);
    }
    mr_objects_add(&to->objects, &from->objects);
    if (from->stay.last_epoch > to->stay.last_epoch)
        to->stay.last_epoch = from->stay.last_epoch;
}

static void make_room(mr_retired *retired) {
    mr_source_summary *oldest = &retired->accounts[retired->first];
    if (!retired->merged)
        retired->earlier = (mr_source_summary){
            .id = "", .message = "", .ended = true, .stay = {.changes = true, .removed = true}};
    retired->merged = true;
    merge(&retired->earlier, oldest);
    mr_row_fini(oldest);
    retired->first = (retired->first + 1) % MR_MOST_RETIRED;
    retired->count--;
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

typedef struct mr_retired_epochs {
    const char *id;
    uint32_t next;
} mr_retired_epochs;

static void note_epoch(mr_retired *retired, const char *id, uint32_t next) {
    for (size_t i = 0; i < retired->epoch_count; i++)
        if (strcmp(retired->epochs[i].id, id) == 0) {
            retired->epochs[i].next = next;
            return;
        }
    if (mr_grow((void **)&retired->epochs, retired->epoch_count, &retired->epoch_room, sizeof *retired->epochs))
        retired->epochs[retired->epoch_count++] = (mr_retired_epochs){id, next};
    else
        retired->forgotten = next > retired->forgotten ? next : retired->forgotten;
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

void mr_retired_add(mr_retired *retired, mr_source_summary *account) {
    note_epoch(retired, account->id, account->stay.last_epoch + 1);
    if (retired->count == MR_MOST_RETIRED)
        make_room(retired);
    retired->accounts[(retired->first + retired->count++) % MR_MOST_RETIRED] = *account;
    *account = (mr_source_summary){0};
}

size_t mr_retired_count(const mr_retired *retired) {
    return retired->count + retired->merged;
}

static void *copy_of(const void *items, size_t bytes) {
    void *copy = mr_alloc(bytes + 1);
    if (copy && bytes)
        memcpy(copy, items, bytes);
    return copy;
}

bool mr_retired_copy(const mr_retired *retired, size_t index, mr_source_summary *copy) {
    const mr_source_summary *from = !retired->merged ? at(retired, index)
                             : index           ? at(retired, index - 1)
                                               : &retired->earlier;
    *copy = *from;
    copy->lines = copy_of(from->lines, from->line_count * sizeof *from->lines);
    copy->objects.lines = copy_of(from->objects.lines, from->objects.line_count * sizeof *from->objects.lines);
    copy->truths = copy_of(from->truths, from->truth_count * sizeof *from->truths);
    copy->message = *from->message ? mr_strdup(from->message) : "";
    if (copy->lines && copy->objects.lines && copy->truths && copy->message)
        return true;
    mr_row_fini(copy);
    return false;
}

uint64_t mr_retired_unaccounted(const mr_retired *retired) {
    uint64_t sum = retired->earlier.unaccounted + retired->earlier.objects.unaccounted;
    for (size_t i = 0; i < retired->count; i++)
        sum += at(retired, i)->unaccounted + at(retired, i)->objects.unaccounted;
    return sum;
}

uint32_t mr_retired_epoch(const mr_retired *retired, const char *id) {
    for (size_t i = 0; i < retired->epoch_count; i++)
        if (strcmp(retired->epochs[i].id, id) == 0)
            return retired->epochs[i].next;
    return retired->forgotten;
}

void mr_retired_fini(mr_retired *retired) {
    for (size_t i = 0; i < retired->count; i++)
        mr_row_fini(&retired->accounts[(retired->first + i) % MR_MOST_RETIRED]);
    mr_row_fini(&retired->earlier);
    mr_free(retired->epochs);
    *retired = (mr_retired){0};
}

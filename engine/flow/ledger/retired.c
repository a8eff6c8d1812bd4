#include "engine/flow/ledger/retired.h"

#include <string.h>

#include "engine/base/memory.h"

void mr_row_fini(mr_source_summary *row) {
    mr_free(row->lines);
    mr_free(row->truths);
    if (row->message && *row->message)
        mr_free((char *)(uintptr_t)row->message);
    *row = (mr_source_summary){0};
}

static const mr_account *at(const mr_retired *retired, size_t index) {
    return &retired->accounts[(retired->first + index) % MR_MOST_RETIRED];
}

/* ---- all that came before ---------------------------------------------------------------------------------------- */

static void merge_line(mr_source_summary *to, const mr_ledger_line *line) {
    for (size_t i = 0; i < to->line_count; i++) {
        mr_ledger_line *known = &to->lines[i];
        if (known->outcome == line->outcome && strcmp(known->stage, line->stage) == 0 &&
            strcmp(known->reason, line->reason) == 0) {
            known->frames += line->frames;
            return;
        }
    }
    mr_ledger_line *lines = mr_realloc(to->lines, (to->line_count + 1) * sizeof *lines);
    if (!lines)
        return; /* The total still counts it. */
    to->lines = lines;
    lines[to->line_count++] = *line;
}

/* Lines of the sources themselves are put together, too: else there would be one for each id. */
static void merge(mr_account *to, const mr_account *from) {
    mr_source_summary *sum = &to->row;
    const mr_source_summary *row = &from->row;
    sum->in += row->in;
    sum->delivered += row->delivered;
    sum->dropped += row->dropped;
    sum->absorbed += row->absorbed;
    sum->unaccounted += row->unaccounted;
    sum->unread += row->unread;
    sum->seams += row->seams;
    sum->classified += row->classified;
    sum->status = sum->status ? sum->status : row->status;
    for (size_t i = 0; i < row->line_count; i++) {
        mr_ledger_line line = row->lines[i];
        if (strcmp(line.stage, row->id) == 0)
            line.stage = "sources";
        merge_line(sum, &line);
    }
    if (from->stay.last_epoch > to->stay.last_epoch)
        to->stay.last_epoch = from->stay.last_epoch;
}

static void make_room(mr_retired *retired) {
    mr_account *oldest = &retired->accounts[retired->first];
    if (!retired->merged)
        retired->earlier = (mr_account){.row = {.id = "", .message = "", .ended = true}, .stay.removed = true};
    retired->merged = true;
    merge(&retired->earlier, oldest);
    mr_row_fini(&oldest->row);
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
    if (retired->epoch_count == retired->epoch_room) {
        size_t room = 2 * retired->epoch_room + 64;
        mr_retired_epochs *wider = mr_realloc(retired->epochs, room * sizeof *wider);
        if (!wider) {
            retired->forgotten = next > retired->forgotten ? next : retired->forgotten;
            return;
        }
        retired->epochs = wider;
        retired->epoch_room = room;
    }
    retired->epochs[retired->epoch_count++] = (mr_retired_epochs){id, next};
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

void mr_retired_add(mr_retired *retired, mr_account *account) {
    note_epoch(retired, account->row.id, account->stay.last_epoch + 1);
    if (retired->count == MR_MOST_RETIRED)
        make_room(retired);
    retired->accounts[(retired->first + retired->count++) % MR_MOST_RETIRED] = *account;
    *account = (mr_account){0};
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

bool mr_retired_copy(const mr_retired *retired, size_t index, mr_account *copy) {
    const mr_account *from = !retired->merged ? at(retired, index)
                             : index           ? at(retired, index - 1)
                                               : &retired->earlier;
    *copy = *from;
    copy->row.lines = copy_of(from->row.lines, from->row.line_count * sizeof *from->row.lines);
    copy->row.truths = copy_of(from->row.truths, from->row.truth_count * sizeof *from->row.truths);
    copy->row.message = *from->row.message ? mr_strdup(from->row.message) : "";
    if (copy->row.lines && copy->row.truths && copy->row.message)
        return true;
    mr_row_fini(&copy->row);
    return false;
}

uint64_t mr_retired_unaccounted(const mr_retired *retired) {
    uint64_t sum = retired->earlier.row.unaccounted;
    for (size_t i = 0; i < retired->count; i++)
        sum += at(retired, i)->row.unaccounted;
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
        mr_row_fini(&retired->accounts[(retired->first + i) % MR_MOST_RETIRED].row);
    mr_row_fini(&retired->earlier.row);
    mr_free(retired->epochs);
    *retired = (mr_retired){0};
}

#include "engine/flow/ledger/departed.h"

#include <string.h>

#include "engine/base/memory.h"

void mr_row_fini(mr_source_summary *row) {
    mr_free(row->lines);
    mr_free(row->truths);
    if (row->message && *row->message)
        mr_free((char *)(uintptr_t)row->message);
    *row = (mr_source_summary){0};
}

static const mr_source_summary *at(const mr_departed *departed, size_t index) {
    return &departed->accounts[(departed->first + index) % MR_MOST_DEPARTED];
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
        merge_line(to, &line);
    }
    if (from->stay.last_epoch > to->stay.last_epoch)
        to->stay.last_epoch = from->stay.last_epoch;
}

static void make_room(mr_departed *departed) {
    mr_source_summary *oldest = &departed->accounts[departed->first];
    if (!departed->merged)
        departed->earlier = (mr_source_summary){
            .id = "", .message = "", .ended = true, .stay = {.changes = true, .removed = true}};
    departed->merged = true;
    merge(&departed->earlier, oldest);
    mr_row_fini(oldest);
    departed->first = (departed->first + 1) % MR_MOST_DEPARTED;
    departed->count--;
}

/* ---- epochs ------------------------------------------------------------------------------------------------------ */

typedef struct mr_departed_epochs {
    const char *id;
    uint32_t next;
} mr_departed_epochs;

static void note_epoch(mr_departed *departed, const char *id, uint32_t next) {
    for (size_t i = 0; i < departed->epoch_count; i++)
        if (strcmp(departed->epochs[i].id, id) == 0) {
            departed->epochs[i].next = next;
            return;
        }
    if (departed->epoch_count == departed->epoch_room) {
        size_t room = 2 * departed->epoch_room + 64;
        mr_departed_epochs *wider = mr_realloc(departed->epochs, room * sizeof *wider);
        if (!wider) {
            departed->forgotten = next > departed->forgotten ? next : departed->forgotten;
            return;
        }
        departed->epochs = wider;
        departed->epoch_room = room;
    }
    departed->epochs[departed->epoch_count++] = (mr_departed_epochs){id, next};
}

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

void mr_departed_add(mr_departed *departed, mr_source_summary *account) {
    note_epoch(departed, account->id, account->stay.last_epoch + 1);
    if (departed->count == MR_MOST_DEPARTED)
        make_room(departed);
    departed->accounts[(departed->first + departed->count++) % MR_MOST_DEPARTED] = *account;
    *account = (mr_source_summary){0};
}

size_t mr_departed_count(const mr_departed *departed) {
    return departed->count + departed->merged;
}

static void *copy_of(const void *items, size_t bytes) {
    void *copy = mr_alloc(bytes + 1);
    if (copy && bytes)
        memcpy(copy, items, bytes);
    return copy;
}

bool mr_departed_copy(const mr_departed *departed, size_t index, mr_source_summary *copy) {
    const mr_source_summary *from = !departed->merged ? at(departed, index)
                             : index           ? at(departed, index - 1)
                                               : &departed->earlier;
    *copy = *from;
    copy->lines = copy_of(from->lines, from->line_count * sizeof *from->lines);
    copy->truths = copy_of(from->truths, from->truth_count * sizeof *from->truths);
    copy->message = *from->message ? mr_strdup(from->message) : "";
    if (copy->lines && copy->truths && copy->message)
        return true;
    mr_row_fini(copy);
    return false;
}

uint64_t mr_departed_unaccounted(const mr_departed *departed) {
    uint64_t sum = departed->earlier.unaccounted;
    for (size_t i = 0; i < departed->count; i++)
        sum += at(departed, i)->unaccounted;
    return sum;
}

uint32_t mr_departed_epoch(const mr_departed *departed, const char *id) {
    for (size_t i = 0; i < departed->epoch_count; i++)
        if (strcmp(departed->epochs[i].id, id) == 0)
            return departed->epochs[i].next;
    return departed->forgotten;
}

void mr_departed_fini(mr_departed *departed) {
    for (size_t i = 0; i < departed->count; i++)
        mr_row_fini(&departed->accounts[(departed->first + i) % MR_MOST_DEPARTED]);
    mr_row_fini(&departed->earlier);
    mr_free(departed->epochs);
    *departed = (mr_departed){0};
}

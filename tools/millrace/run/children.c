/* Reports of children, and their totals. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/json.h"
#include "tools/millrace/run/children.h"

enum { CHUNK = 65536, MOST_LINE = 64 << 20 };

static yajl_val member(yajl_val report, const char *key, yajl_type type) {
    const char *path[] = {key, NULL};
    return report ? yajl_tree_get(report, path, type) : NULL;
}

int64_t mr_report_integer(yajl_val report, const char *key) {
    yajl_val value = member(report, key, yajl_t_number);
    return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : 0;
}

double mr_report_number(yajl_val report, const char *key) {
    yajl_val value = member(report, key, yajl_t_number);
    return YAJL_IS_DOUBLE(value) ? YAJL_GET_DOUBLE(value) : (double)mr_report_integer(report, key);
}

bool mr_report_true(yajl_val report, const char *key) {
    return member(report, key, yajl_t_true) != NULL;
}

const char *mr_report_text(yajl_val report, const char *key) {
    const char *text = YAJL_GET_STRING(member(report, key, yajl_t_string));
    return text ? text : "";
}

yajl_val *mr_report_array(yajl_val report, const char *key, size_t *count) {
    yajl_val array = member(report, key, yajl_t_array);
    *count = array ? array->u.array.len : 0;
    return array ? array->u.array.values : NULL;
}

mr_identity mr_report_frame(yajl_val report) {
    return (mr_identity){.epoch = (uint32_t)mr_report_integer(report, "epoch"),
                         .seq = (uint64_t)mr_report_integer(report, "seq"),
                         .sub = (uint32_t)mr_report_integer(report, "sub")};
}

/* Keeps a whole line; a line that is not a report is left out. */
static void take_line(mr_child *child, const char *line) {
    char wrong[256];
    yajl_val report = mr_json_parse(line, wrong, sizeof wrong);
    char *copy = report ? strdup(line) : NULL;
    if (!copy) {
        yajl_tree_free(report);
        return;
    }
    yajl_tree_free(child->report);
    free(child->line);
    child->report = report;
    child->line = copy;
    child->ready = true;
    child->finished = member(report, "exit_code", yajl_t_number) != NULL;
}

/* Only the last line counts: those before it are older. */
static void take_lines(mr_child *child) {
    char *last = memrchr(child->text, '\n', child->length);
    if (!last)
        return;
    *last = 0;
    char *before = memrchr(child->text, '\n', (size_t)(last - child->text));
    take_line(child, before ? before + 1 : child->text);
    child->length -= (size_t)(last + 1 - child->text);
    memmove(child->text, last + 1, child->length);
}

static bool make_room(mr_child *child) {
    if (child->room - child->length >= CHUNK)
        return true;
    size_t room = child->room * 2 + CHUNK;
    char *wider = room <= MOST_LINE ? realloc(child->text, room) : NULL;
    if (!wider)
        return false;
    child->text = wider;
    child->room = room;
    return true;
}

void mr_child_read(mr_child *child) {
    while (child->pipe >= 0 && make_room(child)) {
        ssize_t got = read(child->pipe, child->text + child->length, child->room - child->length);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) {
            if (got == 0 || errno != EAGAIN) {
                close(child->pipe);
                child->pipe = -1;
            }
            break;
        }
        child->length += (size_t)got;
        take_lines(child);
    }
}

void mr_child_fini(mr_child *child) {
    if (child->pipe >= 0)
        close(child->pipe);
    free(child->text);
    free(child->line);
    yajl_tree_free(child->report);
}

/* ---- the ledger ------------------------------------------------------------------------------------------------ */

static uint64_t frames_of(yajl_val report, const char *key) {
    size_t count;
    uint64_t frames = 0;
    yajl_val *lines = mr_report_array(report, key, &count);
    for (size_t i = 0; i < count; i++)
        frames += (uint64_t)mr_report_integer(lines[i], "frames");
    return frames;
}

static void add(mr_tally_of_nodes *sum, const mr_tally_of_nodes *of) {
    sum->in += of->in;
    sum->delivered += of->delivered;
    sum->dropped += of->dropped;
    sum->absorbed += of->absorbed;
    sum->in_flight += of->in_flight;
    sum->missing += of->missing;
    sum->balanced = sum->balanced && of->balanced;
}

mr_tally_of_nodes mr_child_tally(const mr_child *child, yajl_val source) {
    mr_tally_of_nodes tally = {
        .in = (uint64_t)mr_report_integer(source, "in"),
        .delivered = (uint64_t)mr_report_integer(source, "delivered"),
        .dropped = frames_of(source, "dropped"),
        .absorbed = frames_of(source, "absorbed"),
        .in_flight = (uint64_t)mr_report_integer(source, "in_flight"),
    };
    uint64_t known = tally.delivered + tally.dropped + tally.absorbed;
    tally.missing = child->done && tally.in > known ? tally.in - known : 0;
    /* While it runs its numbers are not all of one moment. */
    tally.balanced = !child->done || (mr_report_true(source, "balanced") && tally.in == known && child->finished);
    return tally;
}

/* Each frame that it had read was settled somewhere, or was in the process when it died. */
static mr_tally_of_nodes sum_up(const mr_child *child) {
    mr_tally_of_nodes tally = {.balanced = true};
    size_t sources;
    yajl_val *source = mr_report_array(child->report, "sources", &sources);
    /* Frames that came over cuts are counted by the node of their source. */
    for (size_t s = 0; s < sources; s++) {
        if (mr_report_true(source[s], "elsewhere"))
            continue;
        const mr_tally_of_nodes one = mr_child_tally(child, source[s]);
        add(&tally, &one);
    }
    return tally;
}

void mr_child_remember(mr_child *child, bool settled) {
    mr_tally_of_nodes gone = sum_up(child);
    *(settled ? &gone.absorbed : &gone.dropped) += gone.in_flight;
    gone.in_flight = 0;
    gone.balanced = true;
    add(&child->before, &gone);
    yajl_tree_free(child->report);
    free(child->line);
    child->report = NULL;
    child->line = NULL;
}

mr_tally_of_nodes mr_children_tally(const mr_child *children, size_t count) {
    mr_tally_of_nodes tally = {.balanced = true};
    for (size_t i = 0; i < count; i++) {
        const mr_tally_of_nodes now = sum_up(&children[i]);
        add(&tally, &now);
        tally.in += children[i].before.in;
        tally.delivered += children[i].before.delivered;
        tally.dropped += children[i].before.dropped;
        tally.absorbed += children[i].before.absorbed;
    }
    return tally;
}

/* ---- lost frames ----------------------------------------------------------------------------------------------- */

static void add_lost(mr_loss *loss, yajl_val source) {
    size_t count;
    yajl_val *line = mr_report_array(source, "dropped", &count);
    for (size_t i = 0; i < count && !mr_report_true(source, "elsewhere"); i++)
        mr_loss_add(loss, mr_report_text(line[i], "stage"), mr_report_text(line[i], "reason"),
                    (uint64_t)mr_report_integer(line[i], "frames"));
    if (!mr_report_true(source, "elsewhere"))
        mr_loss_add_unread(loss, mr_report_text(source, "id"), (uint64_t)mr_report_integer(source, "unread"));
}

mr_loss mr_children_loss(const mr_child *children, size_t count) {
    mr_loss loss = {.in = mr_children_tally(children, count).in};
    for (size_t i = 0; i < count; i++) {
        size_t sources;
        yajl_val *source = mr_report_array(children[i].report, "sources", &sources);
        for (size_t s = 0; s < sources; s++)
            add_lost(&loss, source[s]);
        if (children[i].before.dropped)
            mr_loss_add(&loss, children[i].name, "in it when it died, or before", children[i].before.dropped);
    }
    return loss;
}

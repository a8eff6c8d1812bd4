/* Reads reports from children and adds them up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "tools/millrace/run/children.h"

enum { CHUNK = 65536, MOST_LINE = 64 << 20 };

void mr_child_name(char name[MR_CHILD_NAME], const mr_view_node *node, int replica) {
    snprintf(name, MR_CHILD_NAME, node->replicas > 1 ? "%s.%d" : "%s", node->id, replica);
}

static void forget(mr_child *child) {
    mr_summary_read_fini(&child->report);
    yajl_tree_free(child->tree);
    free(child->line);
    child->tree = NULL;
    child->line = NULL;
}

/* Keeps a complete line; ignores a line that is not a report. */
static void take_line(mr_child *child, const char *line) {
    mr_summary report = {0};
    yajl_val tree = mr_json_parse(line, NULL, 0);
    char *copy = tree ? strdup(line) : NULL;
    if (!copy || mr_summary_read(tree, &report)) {
        yajl_tree_free(tree);
        free(copy);
        return;
    }
    forget(child);
    child->report = report;
    child->tree = tree;
    child->line = copy;
    child->ready = true;
    yajl_val code = mr_json_member(tree, "exit_code", yajl_t_number);
    child->finished = code;
    child->reported_code = YAJL_IS_INTEGER(code) ? (int)YAJL_GET_INTEGER(code) : 0;
}

/* Takes only the last line, since earlier ones are older. */
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
    for (size_t i = 0; i < child->past_count; i++)
        free(child->past[i].source);
    mr_free(child->past);
    forget(child);
}

/* ---- the ledger ------------------------------------------------------------------------------------------------ */

static void add(mr_tally_of_nodes *sum, const mr_tally_of_nodes *of) {
    sum->in += of->in;
    sum->delivered += of->delivered;
    sum->dropped += of->dropped;
    sum->absorbed += of->absorbed;
    sum->in_flight += of->in_flight;
    sum->missing += of->missing;
    sum->balanced = sum->balanced && of->balanced;
}

mr_tally_of_nodes mr_child_tally(const mr_child *child, const mr_source_summary *source) {
    mr_tally_of_nodes tally = {
        .in = source->in,
        .delivered = source->delivered,
        .dropped = source->dropped,
        .absorbed = source->absorbed,
        .in_flight = source->in_flight,
    };
    uint64_t known = tally.delivered + tally.dropped + tally.absorbed;
    tally.missing = child->done && tally.in > known ? tally.in - known : 0;
    /* While a process runs, the numbers are from different moments. */
    tally.balanced = !child->done || (!source->unaccounted && tally.in == known && child->finished);
    return tally;
}

/* Each frame that a dead process had read was settled somewhere, or was in the process. */
static mr_tally_of_nodes sum_up(const mr_child *child) {
    mr_tally_of_nodes tally = {.balanced = true};
    /* The source's node counts frames that came over cuts. */
    for (size_t s = 0; s < child->report.source_count; s++) {
        const mr_source_summary *source = &child->report.sources[s];
        const mr_tally_of_nodes one = mr_child_tally(child, source);
        if (!source->elsewhere)
            add(&tally, &one);
    }
    return tally;
}

/* Without memory the frames are missing by source, and count in `before` alone. */
static void remember_source(mr_child *child, const mr_source_summary *source, bool settled) {
    const mr_tally_of_nodes one = mr_child_tally(child, source);
    size_t at = 0;
    while (at < child->past_count && strcmp(child->past[at].source, source->id) != 0)
        at++;
    if (at == child->past_count) {
        char *id = strdup(source->id);
        if (!id || !mr_grow((void **)&child->past, at, &child->past_room, sizeof *child->past)) {
            free(id);
            return;
        }
        child->past[child->past_count++] = (mr_child_past){.source = id};
    }
    mr_child_past *past = &child->past[at];
    past->in += one.in;
    past->delivered += one.delivered;
    past->dropped += one.dropped + (settled ? 0 : one.in_flight);
    past->absorbed += one.absorbed + (settled ? one.in_flight : 0);
}

void mr_child_remember(mr_child *child, bool settled) {
    mr_tally_of_nodes gone = sum_up(child);
    *(settled ? &gone.absorbed : &gone.dropped) += gone.in_flight;
    gone.in_flight = 0;
    gone.balanced = true;
    add(&child->before, &gone);
    for (size_t s = 0; s < child->report.source_count; s++)
        if (!child->report.sources[s].elsewhere)
            remember_source(child, &child->report.sources[s], settled);
    forget(child);
}

/* ---- reports with what was before ------------------------------------------------------------------------------ */

/* Adds to a source; its lines are a copy then. */
static void add_past(const mr_child *child, const mr_child_past *past, mr_source_summary *source) {
    const mr_ledger_line more[] = {{MR_OUTCOME_DROPPED, child->name, MR_CHILD_LOST, past->dropped},
                                   {MR_OUTCOME_ABSORBED, child->name, MR_CHILD_ABSORBED, past->absorbed}};
    mr_ledger_line *lines = calloc(source->line_count + 2, sizeof *lines);
    if (source->line_count && lines)
        memcpy(lines, source->lines, source->line_count * sizeof *lines);
    for (size_t i = 0; lines && i < 2; i++)
        if (more[i].frames)
            lines[source->line_count++] = more[i];
    if (!lines)
        source->line_count = 0;
    source->lines = lines;
    source->in += past->in;
    source->delivered += past->delivered;
    source->dropped += past->dropped;
    source->absorbed += past->absorbed;
}

mr_summary mr_child_whole(const mr_child *child) {
    mr_summary whole = child->report;
    if (!child->past_count)
        return whole;
    mr_source_summary *sources = calloc(whole.source_count + child->past_count, sizeof *sources);
    if (!sources)
        return whole;
    if (whole.source_count)
        memcpy(sources, whole.sources, whole.source_count * sizeof *sources);
    whole.sources = sources;
    for (size_t i = 0; i < child->past_count; i++) {
        size_t at = 0;
        while (at < whole.source_count && strcmp(sources[at].id, child->past[i].source) != 0)
            at++;
        if (at == whole.source_count)
            sources[whole.source_count++] = (mr_source_summary){.id = child->past[i].source, .message = ""};
        add_past(child, &child->past[i], &sources[at]);
    }
    return whole;
}

void mr_child_whole_fini(const mr_child *child, mr_summary *whole) {
    if (whole->sources == child->report.sources)
        return;
    for (size_t s = 0; s < whole->source_count; s++)
        if (s >= child->report.source_count || whole->sources[s].lines != child->report.sources[s].lines)
            free(whole->sources[s].lines);
    free(whole->sources);
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

static void add_lost(mr_loss *loss, const mr_source_summary *source) {
    for (size_t i = 0; i < source->line_count; i++)
        if (source->lines[i].outcome == MR_OUTCOME_DROPPED)
            mr_loss_add(loss, source->lines[i].stage, source->lines[i].reason, source->lines[i].frames);
    mr_loss_add_unread(loss, source->id, source->unread);
}

mr_loss mr_children_loss(const mr_child *children, size_t count) {
    mr_loss loss = {.in = mr_children_tally(children, count).in};
    for (size_t i = 0; i < count; i++) {
        const mr_summary *report = &children[i].report;
        for (size_t s = 0; s < report->source_count; s++)
            if (!report->sources[s].elsewhere)
                add_lost(&loss, &report->sources[s]);
        if (children[i].before.dropped)
            mr_loss_add(&loss, children[i].name, MR_CHILD_LOST, children[i].before.dropped);
    }
    return loss;
}

#include "tools/millrace/summary/loss.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "millrace/status.h"

/* ---- the command line ------------------------------------------------------------------------------------------ */

int mr_loss_take(void *to, char *text) {
    mr_loss_limit *limit = to;
    const char *given = text ? text : "0";
    char *end;
    double most = strtod(given, &end);
    bool percent = *end == '%';
    if (!isdigit((unsigned char)*given) || strpbrk(given, "xXnN") || end[percent] || (percent && most > 100) ||
        (!percent && most != floor(most)))
        return mr_fail(MR_ERROR_USAGE, "takes a number of frames or percent, such as 10 or 0.5%%, "
                                       "not \"%s\"", given);
    *limit = (mr_loss_limit){.text = given, .most = most, .percent = percent};
    return MR_OK;
}

/* ---- lost frames ----------------------------------------------------------------------------------------------- */

static bool is_part(const mr_loss *loss, size_t i, const char *stage, const char *reason) {
    const char *other = loss->part[i].reason;
    return strcmp(loss->part[i].stage, stage) == 0 && (reason && other ? strcmp(other, reason) == 0 : reason == other);
}

void mr_loss_add(mr_loss *loss, const char *stage, const char *reason, uint64_t frames) {
    size_t i = 0;
    loss->lost += frames;
    while (i < loss->count && !is_part(loss, i, stage, reason))
        i++;
    if (i == MR_LOSS_PARTS)
        return;
    if (i == loss->count) {
        loss->part[loss->count].stage = stage;
        loss->part[loss->count].reason = reason;
        loss->part[loss->count++].frames = 0;
    }
    loss->part[i].frames += frames;
}

void mr_loss_add_unread(mr_loss *loss, const char *source, uint64_t frames) {
    loss->in += frames;
    if (frames)
        mr_loss_add(loss, source, NULL, frames);
}

mr_loss mr_loss_of(const mr_summary *summary) {
    mr_loss loss = {.in = summary->in};
    for (size_t i = 0; i < summary->line_count; i++)
        if (summary->lines[i].outcome == MR_OUTCOME_DROPPED)
            mr_loss_add(&loss, summary->lines[i].stage, summary->lines[i].reason, summary->lines[i].frames);
    for (size_t i = 0; i < summary->source_count; i++)
        mr_loss_add_unread(&loss, summary->sources[i].id, summary->sources[i].unread);
    return loss;
}

/* Finds the next part in descending order: the one with the most lost frames among those with fewer than `below`, or
 * with `below` and after `after`. */
static size_t next_part(const mr_loss *loss, uint64_t below, size_t after) {
    size_t best = loss->count;
    for (size_t i = 0; i < loss->count; i++) {
        uint64_t frames = loss->part[i].frames;
        bool is_left = frames < below || (frames == below && i > after);
        if (is_left && (best == loss->count || frames > loss->part[best].frames))
            best = i;
    }
    return best;
}

static void print_part(const mr_loss *loss, size_t i, const char *before, FILE *stream) {
    if (loss->part[i].reason)
        mr_print(stream, "%s %" PRIu64 " dropped by %s (%s)", before, loss->part[i].frames, loss->part[i].stage,
                 loss->part[i].reason);
    else
        mr_print(stream, "%s %" PRIu64 " not read (%s ends early)", before, loss->part[i].frames, loss->part[i].stage);
}

void mr_loss_print(const mr_loss *loss, FILE *stream) {
    enum { MOST_TOLD = 4 };
    if (!loss->lost)
        return;
    fprintf(stream, "LOST %" PRIu64 " of %" PRIu64 " frames", loss->lost, loss->in);
    uint64_t named = 0;
    size_t part = next_part(loss, UINT64_MAX, SIZE_MAX);
    for (int i = 0; i < MOST_TOLD && part < loss->count; i++) {
        print_part(loss, part, i ? "," : ":", stream);
        named += loss->part[part].frames;
        part = next_part(loss, loss->part[part].frames, part);
    }
    if (named < loss->lost)
        fprintf(stream, ", %" PRIu64 " others", loss->lost - named);
    fputc('\n', stream);
}

int mr_loss_check(const mr_loss *loss, const mr_loss_limit *limit) {
    double lost = (double)loss->lost, most = limit->percent ? limit->most / 100 * (double)loss->in : limit->most;
    if (!limit->text || lost <= most)
        return MR_OK;
    return mr_fail(MR_ERROR_DATA, "%" PRIu64 " of %" PRIu64 " frames were lost, and --fail-on-loss allows %s",
                   loss->lost, loss->in, strcmp(limit->text, "0") == 0 ? "none" : limit->text);
}

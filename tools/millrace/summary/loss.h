/* Counts lost frames. A frame is lost if a stage drops it for any reason, or if a file announced it and ended before
 * it. Absorbed frames are not lost. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>

#include "millrace/millrace.h"
#include "tools/millrace/cli/command.h"

/* --fail-on-loss: the number or the percentage of incoming frames that may be lost. */
typedef struct mr_loss_limit {
    const char *text; /* the option's text; NULL: it was not given */
    double most;
    bool percent;
} mr_loss_limit;

/* Reads the text into a limit: a number of frames or a percentage; NULL is 0. MR_ERROR_USAGE. */
mr_usage_take_function mr_loss_take;

/* Losses by stage and reason, up to the table's size; `lost` counts all. */
enum { MR_LOSS_PARTS = 64 };
typedef struct mr_loss {
    uint64_t in, lost; /* in: includes frames that were announced and not read */
    size_t count;
    struct {
        const char *stage, *reason; /* reason NULL: `stage` is a source, and the frames were not read */
        uint64_t frames;
    } part[MR_LOSS_PARTS];
} mr_loss;

/* Borrows the strings. */
void mr_loss_add_unread(mr_loss *loss, const char *source, uint64_t frames);
void mr_loss_add(mr_loss *loss, const char *stage, const char *reason, uint64_t frames);
mr_loss mr_loss_of(const mr_summary *summary);
/* Prints "LOST 789 of 795 frames: 789 dropped by decode (corrupt)", or nothing if none was lost. */
void mr_loss_print(const mr_loss *loss, FILE *stream);
/* MR_OK, or MR_ERROR_DATA with a message if more was lost than is allowed. */
int mr_loss_check(const mr_loss *loss, const mr_loss_limit *limit);

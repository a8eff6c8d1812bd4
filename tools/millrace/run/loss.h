/* Lost frames: dropped, by any stage and for any reason, or announced by a file that ends before them. A frame that a
 * stage absorbs is not lost. */
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>

#include "millrace/millrace.h"
#include "tools/millrace/cli/command.h"

/* --fail-on-loss: how many frames, or what percentage of incoming ones, can be lost. */
typedef struct mr_loss_limit {
    const char *text; /* the option's text; NULL: it was not given */
    double most;
    bool percent;
} mr_loss_limit;

/* Reads the text into a limit: a number of frames or a percentage; NULL is 0. MR_ERROR_USAGE. */
mr_usage_take_function mr_loss_take;

/* By stage and reason, as long as there is room; `lost` counts all. */
enum { MR_LOSS_PARTS = 64 };
typedef struct mr_loss {
    uint64_t in, lost; /* in: includes frames that were announced and not read */
    size_t count;
    struct {
        const char *stage, *reason; /* reason NULL: `stage` is a source, and the frames were not read */
        uint64_t frames;
    } part[MR_LOSS_PARTS];
} mr_loss;

/* Strings are borrowed. */
void mr_loss_add_unread(mr_loss *loss, const char *source, uint64_t frames);
void mr_loss_add(mr_loss *loss, const char *stage, const char *reason, uint64_t frames);
mr_loss mr_loss_of(const mr_summary *summary);
/* "LOST 789 of 795 frames: 789 dropped by decode (corrupt)"; nothing if none was lost. */
void mr_loss_print(const mr_loss *loss, FILE *stream);
/* MR_OK, or MR_ERROR_DATA with a message if more was lost than is allowed. */
int mr_loss_check(const mr_loss *loss, const mr_loss_limit *limit);

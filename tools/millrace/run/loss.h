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

enum { MR_LOSS_OPTION = 1536 };
#define MR_LOSS_OPTIONS MR_OPTION_CODE("fail-on-loss", optional_argument, MR_LOSS_OPTION)
#define MR_LOSS_HELP                                                                                              \
    "  --fail-on-loss [N]   exits with 65 if more than N frames, or more than N% of all, were dropped, or not read\n" \
    "                     since a file ends early; without N if any was. Absorbed frames are not lost\n"

/* Joins "--fail-on-loss" with a number that follows it as a separate argument, which getopt would leave over. Returns
 * the number of arguments left, or a negative status. The caller must free *made (NULL: nothing was joined). */
int mr_loss_join(int argc, char **argv, char **made);
/* NULL is 0. False if the text is not a number of frames or a percentage. */
bool mr_loss_parse(mr_loss_limit *limit, const char *text);

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

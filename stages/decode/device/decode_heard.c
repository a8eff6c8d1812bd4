#include "stages/decode/device/decode_heard.h"

#include <libavutil/log.h>
#include <string.h>

#include "engine/base/thread.h"

enum { TAKEN = -1 };

static void forget_from(mr_heard_numbers *numbers, int64_t number) {
    for (unsigned i = 0; i < MR_HEARD; i++)
        if (numbers->number[i] >= number)
            numbers->number[i] = TAKEN;
}

void mr_heard_init(mr_heard *heard) {
    pthread_mutex_init(&heard->lock, NULL);
    forget_from(&heard->pictures, 0);
    forget_from(&heard->news, 0);
    forget_from(&heard->spilt, 0);
    forget_from(&heard->refused, 0);
    heard->first = INT64_MAX;
}

void mr_heard_fini(mr_heard *heard) {
    pthread_mutex_destroy(&heard->lock);
}

void mr_heard_begin(mr_heard *heard) {
    MR_LOCKED(&heard->lock);
    heard->first = INT64_MAX;
}

void mr_heard_forget(mr_heard *heard, int64_t number) {
    MR_LOCKED(&heard->lock);
    forget_from(&heard->pictures, number);
    forget_from(&heard->news, number);
    forget_from(&heard->spilt, number);
    forget_from(&heard->refused, number);
}

/* ---- listening --------------------------------------------------------------------------------------------------- */

typedef const char *const beginning;

/* Logged when a decoder conceals errors, gives up macroblocks or slices, finds impossible values in HEVC slices, or
 * gives up JPEG scans. */
static beginning damages[] = {"concealing ", "error while decoding MB ", "decode_slice_header error",
                              "Error parsing NAL unit ", "CABAC_MAX_BIN ", "The cu_qp_delta ", "The slice_qp ",
                              "error y=", "overread ", NULL};
/* Logged when H.264 (CAVLC) gives up a macroblock in the middle of the coefficients. */
static beginning spills[] = {"corrupted macroblock ", "negative number of zero coeffs ", "Invalid level prefix", NULL};

static bool begins_as(const char *format, beginning *one) {
    while (*one && strncmp(format, *one, strlen(*one)) != 0)
        one++;
    return *one;
}

static bool is_last(const mr_heard_numbers *numbers, int64_t number) {
    return numbers->count > 0 && numbers->number[(numbers->count - 1) % MR_HEARD] == number;
}

static void note(mr_heard_numbers *numbers, int64_t number) {
    if (!is_last(numbers, number))
        numbers->number[numbers->count++ % MR_HEARD] = number;
}

void mr_heard_line(mr_heard *heard, int64_t number, int level, const char *format) {
    const bool damage = begins_as(format, damages);
    if (level > AV_LOG_ERROR && !damage)
        return;
    MR_LOCKED(&heard->lock);
    if (level <= AV_LOG_ERROR)
        note(&heard->refused, number);
    if (begins_as(format, spills))
        note(&heard->spilt, number);
    if (damage) {
        note(&heard->pictures, number);
        note(&heard->news, number);
        heard->first = number > 0 && number < heard->first ? number : heard->first;
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

bool mr_heard_of(mr_heard *heard, int64_t number) {
    bool found = false;
    MR_LOCKED(&heard->lock);
    for (unsigned i = 0; i < MR_HEARD && i < heard->pictures.count; i++)
        if (heard->pictures.number[i] == number) {
            heard->pictures.number[i] = TAKEN;
            found = true;
        }
    return found;
}

bool mr_heard_spilt(mr_heard *heard, int64_t number) {
    bool found = false;
    MR_LOCKED(&heard->lock);
    for (unsigned i = 0; i < MR_HEARD && i < heard->spilt.count; i++)
        found |= heard->spilt.number[i] == number;
    return found;
}

void mr_heard_spoil(mr_heard *heard, int64_t number) {
    MR_LOCKED(&heard->lock);
    heard->first = number < heard->first ? number : heard->first;
}

int64_t mr_heard_first(mr_heard *heard) {
    MR_LOCKED(&heard->lock);
    return heard->first;
}

/* Takes the lowest number from `least`; 0: none. */
static int64_t take(mr_heard *heard, mr_heard_numbers *numbers, int64_t least) {
    int64_t *lowest = NULL;
    MR_LOCKED(&heard->lock);
    for (unsigned i = 0; i < MR_HEARD && i < numbers->count; i++)
        if (numbers->number[i] >= least && (!lowest || numbers->number[i] < *lowest))
            lowest = &numbers->number[i];
    const int64_t number = lowest ? *lowest : 0;
    for (unsigned i = 0; number && i < MR_HEARD; i++)
        if (numbers->number[i] == number)
            numbers->number[i] = TAKEN;
    return number;
}

int64_t mr_heard_take(mr_heard *heard) {
    return take(heard, &heard->news, 1);
}

int64_t mr_heard_take_refused(mr_heard *heard, int64_t least) {
    return take(heard, &heard->refused, least > 1 ? least : 1);
}

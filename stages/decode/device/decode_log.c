#include "stages/decode/device/decode_log.h"

#include <libavutil/log.h>
#include <string.h>

#include "engine/base/thread.h"

enum { TAKEN = -1 };

static void forget_from(mr_decode_log_numbers *numbers, int64_t number) {
    for (unsigned i = 0; i < MR_DECODE_LOG; i++)
        if (numbers->number[i] >= number)
            numbers->number[i] = TAKEN;
}

void mr_decode_log_init(mr_decode_log *log) {
    pthread_mutex_init(&log->lock, NULL);
    forget_from(&log->pictures, 0);
    forget_from(&log->news, 0);
    forget_from(&log->spilt, 0);
    forget_from(&log->refused, 0);
    log->first = INT64_MAX;
}

void mr_decode_log_fini(mr_decode_log *log) {
    pthread_mutex_destroy(&log->lock);
}

void mr_decode_log_begin(mr_decode_log *log) {
    MR_LOCKED(&log->lock);
    log->first = INT64_MAX;
}

void mr_decode_log_forget(mr_decode_log *log, int64_t number) {
    MR_LOCKED(&log->lock);
    forget_from(&log->pictures, number);
    forget_from(&log->news, number);
    forget_from(&log->spilt, number);
    forget_from(&log->refused, number);
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

static bool is_last(const mr_decode_log_numbers *numbers, int64_t number) {
    return numbers->count > 0 && numbers->number[(numbers->count - 1) % MR_DECODE_LOG] == number;
}

static void note(mr_decode_log_numbers *numbers, int64_t number) {
    if (!is_last(numbers, number))
        numbers->number[numbers->count++ % MR_DECODE_LOG] = number;
}

void mr_decode_log_line(mr_decode_log *log, int64_t number, int level, const char *format) {
    const bool damage = begins_as(format, damages);
    if (level > AV_LOG_ERROR && !damage)
        return;
    MR_LOCKED(&log->lock);
    if (level <= AV_LOG_ERROR)
        note(&log->refused, number);
    if (begins_as(format, spills))
        note(&log->spilt, number);
    if (damage) {
        note(&log->pictures, number);
        note(&log->news, number);
        log->first = number > 0 && number < log->first ? number : log->first;
    }
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

bool mr_decode_log_blames(mr_decode_log *log, int64_t number) {
    bool found = false;
    MR_LOCKED(&log->lock);
    for (unsigned i = 0; i < MR_DECODE_LOG && i < log->pictures.count; i++)
        if (log->pictures.number[i] == number) {
            log->pictures.number[i] = TAKEN;
            found = true;
        }
    return found;
}

bool mr_decode_log_spilt(mr_decode_log *log, int64_t number) {
    bool found = false;
    MR_LOCKED(&log->lock);
    for (unsigned i = 0; i < MR_DECODE_LOG && i < log->spilt.count; i++)
        found |= log->spilt.number[i] == number;
    return found;
}

void mr_decode_log_spoil(mr_decode_log *log, int64_t number) {
    MR_LOCKED(&log->lock);
    log->first = number < log->first ? number : log->first;
}

int64_t mr_decode_log_first(mr_decode_log *log) {
    MR_LOCKED(&log->lock);
    return log->first;
}

/* Takes the lowest number from `least`; 0: none. */
static int64_t take(mr_decode_log *log, mr_decode_log_numbers *numbers, int64_t least) {
    int64_t *lowest = NULL;
    MR_LOCKED(&log->lock);
    for (unsigned i = 0; i < MR_DECODE_LOG && i < numbers->count; i++)
        if (numbers->number[i] >= least && (!lowest || numbers->number[i] < *lowest))
            lowest = &numbers->number[i];
    const int64_t number = lowest ? *lowest : 0;
    for (unsigned i = 0; number && i < MR_DECODE_LOG; i++)
        if (numbers->number[i] == number)
            numbers->number[i] = TAKEN;
    return number;
}

int64_t mr_decode_log_take(mr_decode_log *log) {
    return take(log, &log->news, 1);
}

int64_t mr_decode_log_take_refused(mr_decode_log *log, int64_t least) {
    return take(log, &log->refused, least > 1 ? least : 1);
}

#include "tools/millrace/run/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/thread.h"
#include "millrace/log.h"

/* Goes to the start of the line and clears it (ECMA-48: erase in line). */
#define CLEAR "\r\033[K"
enum { LINE = 160 };
/* The rate covers the last few seconds: short enough to follow changes, long enough to read. */
static const double window_s = 2.0;

static pthread_mutex_t terminal = PTHREAD_MUTEX_INITIALIZER;
static char shown[LINE];

/* Where lines went before. */
static mr_log_function *write_line;
static void *write_context;

static void log_above(void *context, mr_log_level level, const char *line) {
    MR_LOCKED(&terminal);
    fprintf(stderr, CLEAR);
    write_line(write_context, level, line);
    fprintf(stderr, "%s", shown);
    fflush(stderr);
}

bool mr_progress_suits_terminal(void) {
    const char *kind = getenv("TERM");
    return isatty(STDERR_FILENO) && kind && *kind && strcmp(kind, "dumb") != 0;
}

void mr_progress_begin(mr_progress *progress) {
    *progress = (mr_progress){0};
    shown[0] = 0;
    write_line = mr_log_target(&write_context);
    mr_log_to(log_above, NULL);
}

/* Frames that all sources together announce; 0: one of them announces none. */
static uint64_t total_of(const mr_summary *summary) {
    uint64_t total = 0;
    for (size_t i = 0; i < summary->source_count; i++) {
        const mr_source_summary *source = &summary->sources[i];
        if (source->ended)
            total += source->in;
        else if (source->expected > 0)
            total += (uint64_t)source->expected;
        else
            return 0;
    }
    return total;
}

static void measure(mr_progress *progress, const mr_summary *summary, uint64_t done) {
    double passed = summary->wall_s - progress->since_s;
    if (passed > 0)
        progress->rate = (double)(done - progress->since_frames) / passed;
    if (passed > window_s) {
        progress->since_s = summary->wall_s;
        progress->since_frames = done;
    }
}

static void add(char line[LINE], const char *text) {
    size_t length = strlen(line);
    snprintf(line + length, LINE - length, "%s", text);
}

static void add_total(char line[LINE], uint64_t done, uint64_t total, double rate) {
    char text[96];
    double left_s = rate > 0 && total > done ? (double)(total - done) / rate : 0;
    snprintf(text, sizeof text, " of %llu (%.0f%%)", (unsigned long long)total, 100.0 * (double)done / (double)total);
    add(line, text);
    snprintf(text, sizeof text, ", %.0f:%02.0f left", (double)(int64_t)(left_s / 60),
             left_s - 60 * (double)(int64_t)(left_s / 60));
    if (rate > 0)
        add(line, text);
}

void mr_progress_show(mr_progress *progress, const mr_summary *summary) {
    uint64_t done = summary->delivered + summary->dropped + summary->absorbed, total = total_of(summary);
    char line[LINE], text[96];
    measure(progress, summary, done);
    snprintf(line, sizeof line, "%llu", (unsigned long long)done);
    if (total >= done && total > 0)
        add_total(line, done, total, progress->rate);
    snprintf(text, sizeof text, ", %.1f fps, %llu dropped", progress->rate, (unsigned long long)summary->dropped);
    add(line, text);
    MR_LOCKED(&terminal);
    snprintf(shown, sizeof shown, "frames %.*s", LINE - 8, line);
    fprintf(stderr, CLEAR "%s", shown);
    fflush(stderr);
}

void mr_progress_end(mr_progress *progress) {
    mr_log_to(write_line, write_context);
    MR_LOCKED(&terminal);
    if (*shown)
        fprintf(stderr, CLEAR);
    shown[0] = 0;
    fflush(stderr);
}

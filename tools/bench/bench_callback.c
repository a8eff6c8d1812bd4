/* Measures what it costs to give frames to a program: a source of empty frames, and a callback in C that counts them.
 * tools/bench/python_frames.py compares the Python module with it.
 *
 *   bench_callback FRAMES
 *
 * Prints microseconds per frame, by the clock and of processors. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "millrace/millrace.h"

static void on_frame(void *context, const char *source, const mr_frame *frame) {
    (void)source, (void)frame;
    ++*(long *)context;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

int main(int argc, char **argv) {
    static const char text[] = "version: 1\npipeline: numbers\nsources:\n  numbers: {type: \"null\", frames: 1}\n"
                               "stages:\n  answers: {type: callback, input: numbers}\n";
    const mr_override frames = {"sources.numbers.frames", argc > 1 ? argv[1] : "100000"};
    const mr_pipeline_params params = {
        .types = mr_stage_types(), .path = "numbers", .text = text, .override_count = 1, .overrides = &frames};
    mr_pipeline *pipeline;
    mr_diagnostics wrong = {0};
    long count = 0;
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    if (status)
        return mr_status_exit_code(status);
    status = mr_pipeline_subscribe(pipeline, "answers", on_frame, &count);
    const double clock = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    status = status ? status : mr_pipeline_start(pipeline);
    status = status ? status : mr_pipeline_wait(pipeline, -1);
    if (status)
        fprintf(stderr, "bench_callback: %s\n", mr_message());
    else
        printf("%.3f %.3f\n", (seconds(CLOCK_MONOTONIC) - clock) * 1e6 / (double)count,
               (seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu) * 1e6 / (double)count);
    mr_pipeline_destroy(&pipeline);
    return mr_status_exit_code(status);
}

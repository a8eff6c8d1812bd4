#include "tests/support/suite.h"
#include "tests/support/transport/node_process.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/pipeline/pipeline.h"
#include "millrace/log.h"
#include "tests/support/flow_stages.h"
#include "tests/support/transport/node_stages.h"
#include "tests/support/worker_counts.h"

enum { PATIENCE_S = 240, MOST_TYPES = 64 };

/* ---- record ----------------------------------------------------------------------------------------------------- */

typedef struct options {
    const char *path;
} options;

typedef struct record_state {
    int fd;
    char *known; /* the file's length when it was opened */
} record_state;

static const mr_option option_table[] = {
    {.name = "path", .kind = MR_OPTION_STRING, .offset = offsetof(options, path), .required = true, .help = "File."},
    MR_OPTIONS_END,
};

static char *read_all(const char *path) {
    FILE *file = fopen(path, "r");
    size_t room = 1 << 22, got = 0;
    char *text = malloc(room);
    if (file && text)
        got = fread(text, 1, room - 1, file);
    if (file)
        fclose(file);
    if (text)
        text[got] = '\0';
    return text;
}

static int record_open(mr_stage *self) {
    record_state *state = self->state;
    const options *given = self->options;
    state->known = read_all(given->path);
    state->fd = open(given->path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    return state->fd < 0 ? mr_fail(MR_ERROR_IO, "cannot open %s", given->path) : MR_OK;
}

static bool is_known(const char *known, const char *line) {
    for (const char *found = strstr(known, line); found; found = strstr(found + 1, line))
        if (found == known || found[-1] == '\n')
            return true;
    return false;
}

static int record_process(mr_stage *self, mr_io *io) {
    record_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    const mr_result *note = mr_frame_result(frame, mr_kind_tensor(), NULL);
    int64_t noted = 0;
    char line[128];
    if (note)
        memcpy(&noted, note->data, sizeof noted);
    int bytes = snprintf(line, sizeof line, "%s %u %llu %u %lld\n", mr_stage_source_id(self, frame->identity.source),
                         frame->identity.epoch, (unsigned long long)frame->identity.seq, frame->identity.sub,
                         (long long)noted);
    if (is_known(state->known, line))
        return MR_DONE;
    return write(state->fd, line, (size_t)bytes) == bytes ? MR_DONE : mr_fail(MR_ERROR_IO, "cannot write");
}

static void record_close(mr_stage *self) {
    record_state *state = self->state;
    if (state->known)
        close(state->fd);
    free(state->known);
}

static const mr_port inputs[] = {{.name = "in", .help = "frames"}, {0}};

static const mr_stage_type record = {
    .name = "record",
    .summary = "writes a line for each frame",
    .inputs = inputs,
    .options = option_table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(record_state),
    .entry = MR_ENTRY_SHARED,
    .open = record_open,
    .process = record_process,
    .close = record_close,
};

static const mr_stage_type *const *all_types(void) {
    static const mr_stage_type *types[MOST_TYPES + 1];
    size_t count = 0;
    for (const mr_stage_type *const *type = flow_stage_types(); *type && count < MOST_TYPES - 5; type++)
        types[count++] = *type;
    types[count++] = &node_chew;
    types[count++] = &node_hold;
    types[count++] = &node_bulk;
    types[count++] = &node_load;
    types[count++] = &node_paint;
    types[count++] = &node_gray;
    types[count] = &record;
    return types;
}

/* ---- the child --------------------------------------------------------------------------------------------------- */

static void tell(int out, int status, mr_pipeline *pipeline, uint64_t planned_bytes) {
    node_report report = {.status = status, .planned_bytes = planned_bytes};
    mr_summary *sums = NULL;
    if (status)
        snprintf(report.message, sizeof report.message, "%s", mr_message());
    if (pipeline && mr_pipeline_summarize(pipeline, &sums) == MR_OK) {
        report.in = sums->in;
        report.delivered = sums->delivered;
        report.dropped = sums->dropped;
        report.absorbed = sums->absorbed;
        report.pool_bytes = sums->host_bytes + sums->shared_bytes;
        size_t used = 0;
        for (size_t i = 0; i < sums->line_count && used < sizeof report.lines; i++)
            used += (size_t)snprintf(report.lines + used, sizeof report.lines - used, "%s %s %s %llu;",
                                     sums->lines[i].outcome == MR_OUTCOME_DROPPED ? "dropped" : "absorbed",
                                     sums->lines[i].stage, sums->lines[i].reason,
                                     (unsigned long long)sums->lines[i].frames);
        mr_summary_destroy(&sums);
    }
    ssize_t written = write(out, &report, sizeof report);
    (void)written; /* The parent may have ended. */
}

/* The planned limit for this process's pools; 0: no bound is known. */
static uint64_t bound_of(const mr_pipeline_params *params) {
    mr_diagnostics wrong = {0};
    mr_plan *plan = NULL;
    uint64_t bytes = 0;
    if (!mr_pipeline_plan(&plan, params, &wrong)) {
        const mr_plan_node *node = &plan->nodes[plan->node];
        bytes = node->host.unknown || node->shared.unknown ? 0 : node->host.bytes + node->shared.bytes;
        mr_plan_destroy(&plan);
    }
    mr_diagnostics_fini(&wrong);
    return bytes;
}

/* Stops a pipeline when this process is asked to end. */
typedef struct stopper {
    mr_pipeline *pipeline;
    atomic_bool ended;
    pthread_t thread;
    bool running;
} stopper;

static void *await_stop(void *context) {
    stopper *waiting = context;
    sigset_t stops;
    int signal_number;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigwait(&stops, &signal_number);
    if (!atomic_load(&waiting->ended))
        mr_pipeline_stop(waiting->pipeline, false);
    return NULL;
}

static void stopper_begin(stopper *waiting, mr_pipeline *pipeline) {
    waiting->pipeline = pipeline;
    atomic_init(&waiting->ended, false);
    waiting->running = pthread_create(&waiting->thread, NULL, await_stop, waiting) == 0;
}

static void stopper_end(stopper *waiting) {
    atomic_store(&waiting->ended, true);
    if (waiting->running) {
        pthread_kill(waiting->thread, SIGTERM);
        pthread_join(waiting->thread, NULL);
    }
}

static void run_child(const char *text, const char *node, int replica, const char *runtime, int workers, int out) {
    mr_diagnostics wrong = {0};
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = NULL;
    ENDED_BY(stopper_end) stopper stopping = {0};
    const mr_pipeline_params params = {.types = all_types(),
                                       .path = "test.yaml",
                                       .text = text,
                                       .workers = workers,
                                       .cuts = true,
                                       .node = node,
                                       .replica = replica,
                                       .runtime = runtime};
    const uint64_t bound = bound_of(&params);
    int status = mr_pipeline_open(&pipeline, &params, &wrong);
    if (wrong.errors)
        mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    if (!status) {
        stopper_begin(&stopping, pipeline);
        status = mr_pipeline_start(pipeline);
    }
    if (!status)
        status = mr_pipeline_wait(pipeline, -1);
    if (status)
        fprintf(stderr, "node %s: %s\n", node, mr_message());
    tell(out, status, pipeline, bound);
}

node_process node_start(const char *text, const char *node, const char *runtime) {
    return node_start_replica(text, node, 0, runtime);
}

node_process node_start_replica(const char *text, const char *node, int replica, const char *runtime) {
    int ends[2], workers = next_worker_count();
    sigset_t stops, before;
    assert_int_equal(pipe(ends), 0);
    sigemptyset(&stops);
    sigaddset(&stops, SIGTERM);
    sigprocmask(SIG_BLOCK, &stops, &before);
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[0]);
        mr_log_set_level(MR_LOG_ERROR);
        run_child(text, node, replica, runtime, workers, ends[1]);
        _exit(0);
    }
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(ends[1]);
    return (node_process){pid, ends[0]};
}

/* ---- the parent -------------------------------------------------------------------------------------------------- */

node_report node_finish(node_process *process) {
    node_report report = {0};
    struct pollfd told = {.fd = process->report, .events = POLLIN};
    int ready = poll(&told, 1, PATIENCE_S * 1000);
    ssize_t got = ready == 1 ? read(process->report, &report, sizeof report) : 0;
    if (got != sizeof report) {
        node_kill(process);
        fail_msg("a node %s", ready == 1 ? "died" : "does not end");
    }
    int status;
    waitpid(process->pid, &status, 0);
    close(process->report);
    process->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    return report;
}

bool node_await_death(node_process *process) {
    struct pollfd told = {.fd = process->report, .events = POLLIN};
    if (poll(&told, 1, PATIENCE_S * 1000) != 1)
        fail_msg("a node neither dies nor ends");
    if (told.revents & POLLIN)
        return false;
    node_kill(process);
    return true;
}

void node_kill(node_process *process) {
    if (process->pid == 0)
        return;
    kill(process->pid, SIGKILL);
    waitpid(process->pid, NULL, 0);
    close(process->report);
    process->pid = 0;
}

size_t node_count_lines(const char *path) {
    char *text = read_all(path);
    size_t lines = 0;
    for (const char *at = text; at && *at; at++)
        lines += *at == '\n';
    free(text);
    return lines;
}

void node_await_lines(const char *path, size_t lines) {
    for (int turn = 0; node_count_lines(path) < lines; turn++) {
        if (turn == PATIENCE_S * 100)
            fail_msg("%s has %zu lines of %zu", path, node_count_lines(path), lines);
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
}

/* The millrace command as a function: finds the verb. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "millrace/devices.h"
#include "millrace/command.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/first_process.h"
#include "tools/millrace/cli/table.h"
#include "tools/millrace/cli/topics.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"

const mr_verb *const mr_verbs[] = {
    &mr_run_verb, &mr_ctl_verb, &mr_top_verb, &mr_tap_verb, &mr_hub_verb, &mr_check_verb, &mr_plan_verb, &mr_graph_verb,
    &mr_deploy_verb, &mr_submit_verb, &mr_status_verb, &mr_cancel_verb, &mr_verify_verb, &mr_train_verb,
    &mr_evaluate_verb, &mr_export_verb, &mr_devices_verb, &mr_list_verb, &mr_inspect_verb, &mr_models_verb,
    &mr_keygen_verb, &mr_schema_verb, &mr_bench_verb, &mr_help_verb, NULL,
};

static void print_topics(FILE *stream) {
    char text[1024] = "";
    for (const mr_topic *topic = mr_topics; topic->name; topic++) {
        const size_t length = strlen(text);
        snprintf(text + length, sizeof text - length, "%s%s", topic->name, topic[1].name ? ", " : "");
    }
    mr_print_filled(100, stream, "    ", text);
}

static void print_help(FILE *stream) {
    fprintf(stream, "usage: millrace VERB ...\n\n"
                    "Runs video and image analysis pipelines that are written in YAML.\n\n");
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        fprintf(stream, "  %-8s %s\n", (*verb)->usage->verb, (*verb)->summary);
    fprintf(stream,
            "\n\"millrace VERB --help\" lists the options of a verb, as does \"millrace help VERB\"; --version prints\n"
            "the version. \"millrace help TOPIC\" explains:\n");
    print_topics(stream);
    fprintf(stream, "\n"
                    "Exit codes: 0 done, 64 usage, 65 bad data, 66 no such input, 69 not available, 70 internal\n"
                    "error, 71 out of memory, 74 input or output failed, 75 cancelled or not now, 76 protocol\n"
                    "violated, 77 permission denied, 78 wrong pipeline, 141 the reader of standard output has\n"
                    "ended; verify: 1 if values differ.\n");
}

static int unknown(const char *verb) {
    mr_nearest nearest = {.wanted = verb};
    char hint[256];
    for (const mr_verb *const *one = mr_verbs; *one; one++)
        mr_nearest_offer(&nearest, (*one)->usage->verb);
    const char *dot = strrchr(verb, '.'), *other = "\"millrace --help\" lists the verbs";
    if (dot && (strcmp(dot, ".yaml") == 0 || strcmp(dot, ".yml") == 0))
        other = "name what to do with it first: check, plan or run";
    else if (strcmp(verb, "-v") == 0)
        other = "did you mean \"--version\"?";
    mr_print(stderr, "millrace: error: unknown %s \"%s\"\n  hint: %s\n", *verb == '-' ? "option" : "verb", verb,
             mr_nearest_hint(&nearest, hint, sizeof hint, other));
    return mr_status_exit_code(MR_ERROR_USAGE);
}

static int call(const char *verb, int argc, char **argv) {
    for (const mr_verb *const *one = mr_verbs; *one; one++)
        if (strcmp(verb, (*one)->usage->verb) == 0)
            return (*one)->run(argc, argv);
    return unknown(verb);
}

/* If a standard stream is closed, the next file or socket would get that number, and results would be written into it.
 * An O_PATH descriptor can be neither read nor written, so any use of it fails, as it must. */
static void hold_standard_streams(void) {
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            open("/dev/null", O_PATH);
}

/* Each file, socket and shared memory block needs a descriptor. Many sources may need a thousand, and the system's
 * default limit is low. */
static void allow_files(void) {
    struct rlimit limit;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

/* The parent may have ignored SIGCHLD, so that no node's end could be waited for, or blocked the signals that end
 * nodes. Children inherit both. SIGHUP stays blocked: the supervisor blocks it, so that it cannot end a starting
 * node. */
static void expect_signals(void) {
    sigset_t set;
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

int mr_main(int argc, char **argv, const mr_stage_type *const *types) {
    mr_first_process();
    hold_standard_streams();
    allow_files();
    mr_gpu_want_connections();
    /* write(2) reports a closed pipe instead, and the run ends normally. */
    signal(SIGPIPE, SIG_IGN);
    /* The same holds for a file size limit (ulimit -f). Nodes inherit both. */
    signal(SIGXFSZ, SIG_IGN);
    expect_signals();
    /* Nodes are started from /proc/self/exe and would otherwise be named "exe". */
    prctl(PR_SET_NAME, "millrace");
    if (argc < 2) {
        print_help(stderr);
        return mr_status_exit_code(MR_ERROR_USAGE);
    }
    const char *verb = argv[1];
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0) {
        print_help(stdout);
        return mr_flush_stdout();
    }
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0 || strcmp(verb, "version") == 0) {
        printf("millrace %s\n", mr_version());
        return mr_flush_stdout();
    }
    int status = mr_types_begin(types);
    if (status)
        return mr_command_failed(status == MR_ERROR_DATA ? MR_ERROR_INTERNAL : status);
    return call(verb, argc - 1, argv + 1);
}

/* millrace ctl: prints the status of a run, and changes it while it runs. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <yajl/yajl_tree.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/run/control.h"
#include "tools/millrace/run/control_answer.h"

/* How many times to ask again if a run closes the connection: for five seconds. */
enum { MOST_TRIES = 100 };

typedef struct arguments {
    const char *path;
    int pid; /* 0: not given */
    bool json;
    const char *what, *argument;
    char **options; /* KEY=VALUE */
    int option_count;
} arguments;

static const mr_usage_option words[] = {
    MR_WORD("status", NULL, "the summary so far, and for each stage the work of each device"),
    MR_WORD("disable", "DEVICE",
            "gives a device no more work. The other devices of its stages, or those in `on_device_error`, take over. "
            "Refused if a stage has no other device"),
    MR_WORD("enable", "DEVICE", "gives a device work again, also after it has failed"),
    MR_WORD("drain", NULL, "ends the sources and delivers frames in flight, as SIGTERM does"),
    MR_WORD("stop", NULL, "ends the run at once. Frames in flight are dropped and counted"),
    MR_WORD("log", "LEVEL", "sets how much is logged from now on: error, warning, info or debug"),
    MR_WORD("add", "ID KEY=VALUE...",
            "adds a source to a pipeline with `sources: {max: N}`. Options are those of its file. The source is proven "
            "first; if anything is wrong, nothing changes. Relative paths start in the run's working directory"),
    MR_WORD("set", "ID KEY=VALUE...",
            "changes options of a source and keeps the others. The source starts again"),
    MR_WORD("remove", "ID", "removes a source. Frames in flight are delivered"),
    MR_WORD("trigger", "ID",
            "makes `record` record now: the stage with this id, or all stages for the source with this id"),
    {.name = NULL},
};

static const mr_usage_option options[] = {
    MR_OPTION("control", "PATH", arguments, path, "the socket that `run --control PATH` has named"),
    MR_OPTION_NUMBER("pid", "PID", arguments, pid, 1, INT_MAX, "the run with this process id"),
    MR_OPTION("json", NULL, arguments, json, "prints the run's answer as it is, one JSON object"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"status", "--pid 4711 disable cuda:1", "log debug",
                                       "add door uri=door.mp4 every=10", "remove door", NULL};

static const mr_usage usage = {
    .verb = "ctl",
    .synopsis = "COMMAND",
    .help = "Shows the status of a run, and changes it while it runs, through its control socket. Without --control "
            "and --pid it takes the only run of this user.",
    .words = words,
    .options = options,
    .examples = examples,
};

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* The run checks the rest of the request. */
static int check(const arguments *to) {
    if (to->path && to->pid)
        return mr_usage_error(&usage, "give either --control or --pid, not both");
    if (mr_control_check(to->what, to->argument, false))
        return mr_usage_error(&usage, "%s", mr_message());
    if (to->option_count && mr_control_check(to->what, to->argument, true))
        return mr_usage_error(&usage, "one command at a time: unexpected \"%s\"", to->options[0]);
    for (int i = 0; i < to->option_count; i++)
        if (!strchr(to->options[i], '=') || to->options[i][0] == '=')
            return mr_usage_error(&usage, "%s takes options as KEY=VALUE, such as every=10, not \"%s\"", to->what,
                                  to->options[i]);
    return 0;
}

static bool parse(arguments *to, int argc, char **argv, int *code) {
    if (!mr_usage_take(&usage, argc, argv, to, code))
        return false;
    if (optind == argc)
        *code = mr_usage_error(&usage, "say what to do: status, disable, enable, drain, stop, log, add, set, "
                                       "remove or trigger");
    if (*code)
        return false;
    to->what = argv[optind];
    to->argument = optind + 1 < argc ? argv[optind + 1] : NULL;
    to->options = argv + optind + 2;
    to->option_count = optind + 2 < argc ? argc - optind - 2 : 0;
    *code = check(to);
    return !*code;
}

/* ---- which run ------------------------------------------------------------------------------------------------- */

typedef struct search {
    int fd, count;
    char lines[800]; /* one for each: process number and command line */
} search;

/* A process's arguments, which distinguish several nodes; "" if they cannot be read. */
static void read_words(long long pid, char *text, size_t bytes) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%lld/cmdline", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, bytes - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    size_t name = strlen(text) < length ? strlen(text) + 1 : length;
    for (size_t i = name; i + 1 < length; i++)
        if (!text[i])
            text[i] = ' ';
    memmove(text, text + name, length + 1 - name);
}

/* Finds the process that listens at the other end. */
static struct ucred peer_of(int fd) {
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
        who = (struct ucred){.uid = (uid_t)-1};
    return who;
}

/* Checks a searched folder: anybody can create the one in /tmp to intercept requests for a run. */
static int connect_own(const char *path, int *fd) {
    int status = mr_control_connect(path, fd);
    if (status || peer_of(*fd).uid == geteuid())
        return status;
    close(*fd);
    *fd = -1;
    return mr_fail(MR_ERROR_PERMISSION, "a process of another user listens at %s", path);
}

/* Connects to a run, or removes a dead run's socket. A starting run holds the folder's lock until it listens. So a
 * socket that refuses is known to be dead only while this process holds the lock. */
static int connect_or_remove(int folder, const char *path, int *fd) {
    int status = connect_own(path, fd);
    if (status != MR_ERROR_UNAVAILABLE || flock(folder, LOCK_EX))
        return status;
    status = connect_own(path, fd);
    if (status == MR_ERROR_UNAVAILABLE)
        unlink(path);
    flock(folder, LOCK_UN);
    return status;
}

/* `list` is the open folder. */
static void look_at(search *s, DIR *list, const char *folder, const char *name) {
    char path[MR_CONTROL_PATH];
    long long pid;
    int fd;
    char number[24], command[100];
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits >= sizeof number || strcmp(name + digits, ".sock") != 0)
        return;
    snprintf(number, sizeof number, "%.*s", (int)digits, name);
    if (!mr_parse_integer(number, 1, INT_MAX, &pid) || mr_control_name(folder, (pid_t)pid, path))
        return;
    if (connect_or_remove(dirfd(list), path, &fd))
        return;
    size_t length = strlen(s->lines);
    read_words(pid, command, sizeof command);
    mr_print_into(s->lines + length, sizeof s->lines - length, "  %lld  %s\n", pid, command);
    if (s->count++)
        close(fd);
    else
        s->fd = fd;
}

static void look_into(search *s, const char *folder) {
    DIR *list = opendir(folder);
    for (const struct dirent *entry; list && (entry = readdir(list));)
        look_at(s, list, folder, entry->d_name);
    if (list)
        closedir(list);
}

static const char *print_folders(const mr_control_folders *folders, char *text, size_t room) {
    size_t length = 0;
    for (int i = 0; i < folders->count; i++)
        length += mr_print_into(text + length, room - length, "%s%s", i ? ", " : "", folders->path[i]);
    return text;
}

/* If there are several runs, prints them after the message. The caller must free `lines`. */
static int find_only(int *fd, char **lines) {
    mr_control_folders folders;
    char where[sizeof folders.path + 32];
    search s = {0};
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count; i++)
        look_into(&s, folders.path[i]);
    if (s.count == 1) {
        *fd = s.fd;
        return MR_OK;
    }
    if (s.count == 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "no run of yours can be reached in %s; --control PATH names the socket of "
                                             "another", print_folders(&folders, where, sizeof where));
    close(s.fd);
    *lines = strdup(s.lines);
    return mr_fail(MR_ERROR_USAGE, "%d runs can be reached: choose one with --pid:", s.count);
}

static int find_by_pid(pid_t pid, int *fd) {
    mr_control_folders folders;
    char path[MR_CONTROL_PATH];
    int status = MR_ERROR_NO_INPUT;
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count && status == MR_ERROR_NO_INPUT; i++) {
        status = mr_control_name(folders.path[i], pid, path);
        if (!status)
            status = connect_own(path, fd);
    }
    return status == MR_ERROR_NO_INPUT ? mr_fail(status, "no run of yours that can be reached has the process number "
                                                         "%ld", (long)pid) : status;
}

static int reach(const arguments *from, int *fd, char **lines) {
    if (from->path)
        return mr_control_connect(from->path, fd);
    return from->pid ? find_by_pid((pid_t)from->pid, fd) : find_only(fd, lines);
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

static void put_options(yajl_gen json, const arguments *from) {
    char key[256];
    MR_JSON_MAP(json, "options")
        for (int i = 0; i < from->option_count; i++) {
            const char *equals = strchr(from->options[i], '=');
            snprintf(key, sizeof key, "%.*s", (int)(equals - from->options[i]), from->options[i]);
            mr_json_text(json, key, equals + 1);
        }
}

static int send_request(const arguments *from, int fd) {
    yajl_gen json = mr_json_create(false);
    char *text = NULL;
    size_t length = 0;
    FILE *stream = json ? open_memstream(&text, &length) : NULL;
    if (!stream)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a request");
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "millrace", MR_CONTROL_VERSION);
        mr_json_text(json, "do", from->what);
        if (from->argument)
            mr_json_text(json, "argument", from->argument);
        if (from->option_count)
            put_options(json, from);
    }
    int status = mr_json_finish(json, stream);
    fclose(stream);
    if (!status)
        status = mr_control_send(fd, text, length);
    free(text);
    return status;
}

/* Reconnects to the same process. */
static int connect_again(int *fd) {
    const struct ucred before = peer_of(*fd);
    struct sockaddr_un at = {0};
    socklen_t bytes = sizeof at;
    if (getpeername(*fd, (struct sockaddr *)&at, &bytes))
        return mr_fail(MR_ERROR_UNAVAILABLE, "the run has ended before it answered");
    close(*fd);
    *fd = -1;
    int status = mr_control_connect(at.sun_path, fd);
    return status || peer_of(*fd).pid != before.pid
               ? mr_fail(MR_ERROR_UNAVAILABLE, "the run has ended before it answered") : MR_OK;
}

/* A run with too many clients closes connections whose requests it has not read. */
static int ask(const arguments *from, int *fd, char **answer) {
    const struct timespec pause = {.tv_nsec = 50000000};
    for (int tries = 0;; tries++) {
        int status = send_request(from, *fd);
        if (!status)
            status = mr_control_receive(*fd, answer);
        if (status != MR_ERROR_CLOSED)
            return status;
        if (tries == MOST_TRIES)
            return mr_fail(MR_ERROR_AGAIN, "the run is busy with the requests of other programs: try again");
        nanosleep(&pause, NULL);
        status = connect_again(fd);
        if (status)
            return status;
    }
}

static yajl_val member(yajl_val tree, const char *key, yajl_type type) {
    const char *way[] = {key, NULL};
    return yajl_tree_get(tree, way, type);
}

/* Prints each line as text, so that control characters in the answer do not reach the terminal. */
static void print_lines(const char *text) {
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        mr_print(stdout, "%.*s\n", (int)length, text);
    }
}

/* Prints the answer for people; returns an exit code. */
static int tell(const arguments *from, const char *answer) {
    char why[256] = "";
    yajl_val tree = mr_json_parse(answer, why, sizeof why);
    yajl_val ok = member(tree, "ok", yajl_t_any), error = member(tree, "error", yajl_t_string),
             text = member(tree, "text", yajl_t_string), number = member(tree, "exit_code", yajl_t_number);
    int code = 0;
    if (!YAJL_IS_TRUE(ok) && !YAJL_IS_FALSE(ok))
        code = mr_command_failed(mr_fail(MR_ERROR_PROTOCOL, "the answer is not from a millrace run"));
    else if (from->json)
        printf("%s\n", answer);
    else if (error && error->u.string)
        mr_print(stderr, "millrace: error: %s\n", error->u.string);
    else if (text && text->u.string)
        print_lines(text->u.string);
    if (YAJL_IS_FALSE(ok))
        code = YAJL_IS_INTEGER(number) ? (int)YAJL_GET_INTEGER(number) : mr_status_exit_code(MR_ERROR_INTERNAL);
    yajl_tree_free(tree);
    return code ? code : mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    arguments given = {0};
    char *answer = NULL, *lines = NULL;
    int fd = -1, code = 0;
    if (!parse(&given, argc, argv, &code))
        return code;
    int status = reach(&given, &fd, &lines);
    if (!status)
        status = ask(&given, &fd, &answer);
    if (fd >= 0)
        close(fd);
    code = answer ? tell(&given, answer) : mr_command_failed(status);
    if (lines)
        fputs(lines, stderr);
    free(answer);
    free(lines);
    return code;
}

const mr_verb mr_ctl_verb = {&usage, "show the status of a run, and change it while it runs", run_verb};

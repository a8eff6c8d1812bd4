#include "tools/millrace/cli/command.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/types.h"

int mr_usage_error(const mr_usage *usage, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "millrace %s: error: ", usage->verb);
    mr_vprint(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n  hint: \"millrace %s --help\" shows how it is called\n", usage->verb);
    return mr_status_exit_code(MR_ERROR_USAGE);
}

int mr_usage_number(const mr_usage *usage, const char *name, long long min, long long max, long long *value) {
    char upper[32];
    if (mr_parse_integer(optarg, min, max, value))
        return 0;
    snprintf(upper, sizeof upper, "to %lld", max);
    return mr_usage_error(usage, "--%s takes a number from %lld %s, not \"%s\"", name, min,
                          max == LLONG_MAX ? "on" : upper, optarg);
}

/* Options of other verbs and programs that people try. `needs` is an option that the hint is about: other verbs do not
 * give it; NULL: all do. */
static const struct {
    const char *options, *needs, *hint;
} elsewhere[] = {
    {" assume ", NULL, "--assume is for plan, graph and deploy; a run takes the devices that are there"},
    {" profile ", NULL, "--profile is for plan"},
    {" format ", NULL, "--format is for check and graph"},
    {" output ", NULL, "--output is for run, plan, graph and deploy"},
    {" offline ", NULL, "--offline is for plan and graph"},
    {" resume ", NULL, "--resume is for run and train"},
    {" device gpu gpus cuda ", "set", "the pipeline says where a stage computes: --set stages.ID.device=cuda:0"},
    {" batch batch-size size fps every model weights labels threshold ", "set",
     "the pipeline says it: --set stages.ID.KEY=VALUE, or --set sources.ID.KEY=VALUE"},
    {" j threads cores ", "workers", "--workers N says how many threads run stages"},
    {" v verbose debug loglevel log-level ", "log", "--log info or --log debug tells more"},
    {" c f config pipeline file ", "set", "name the pipeline without an option"},
    {" source video image url uri ", "input", "--input URI replaces the uri of the only source"},
    {" out dest save ", "output", "did you mean \"--output\"?"},
    {" show display gui view ", "set", "a stage of type preview shows pictures in a browser"},
};

static const mr_usage_option *option_named(const mr_usage *usage, const char *name) {
    const mr_usage_option *one = usage->options;
    while (one->name && strcmp(one->name, name) != 0)
        one++;
    return one->name ? one : NULL;
}

static const char *hint_elsewhere(const mr_usage *usage, const char *option) {
    char word[80];
    snprintf(word, sizeof word, " %s ", option);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strstr(elsewhere[i].options, word) && (!elsewhere[i].needs || option_named(usage, elsewhere[i].needs)))
            return elsewhere[i].hint;
    return NULL;
}

static int unknown_option(const mr_usage *usage, const char *argument) {
    mr_nearest nearest = {.wanted = argument + strspn(argument, "-")};
    char wanted[64], hint[256];
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(nearest.wanted, "="), nearest.wanted);
    nearest.wanted = wanted;
    for (const mr_usage_option *one = usage->options; one->name; one++)
        mr_nearest_offer(&nearest, one->name);
    mr_print(stderr, "millrace %s: error: unknown option \"%s\"\n", usage->verb, argument);
    const char *where = hint_elsewhere(usage, wanted);
    if (where)
        snprintf(hint, sizeof hint, "%s", where);
    else if (nearest.best)
        snprintf(hint, sizeof hint, "did you mean \"--%s\"?", nearest.best);
    else
        snprintf(hint, sizeof hint, "\"millrace %s --help\" lists the options", usage->verb);
    mr_print(stderr, "  hint: %s\n", hint);
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* Long options that have a letter, in every verb that takes them. */
static const struct {
    char letter;
    const char *name;
} letters[] = {{'i', "input"}, {'o', "output"}, {'q', "quiet"}};
enum { LETTERS = sizeof letters / sizeof *letters };

enum { KEPT = 1 << 16, MOST_OPTIONS = 64 };

/* What getopt returns for an option: its code, or KEPT and its number. */
static int value_of(const mr_usage *usage, const mr_usage_option *one) {
    return one->code ? one->code : KEPT + (int)(one - usage->options);
}

static void list_options(const mr_usage *usage, struct option list[MOST_OPTIONS]) {
    size_t count = 0;
    for (const mr_usage_option *one = usage->options; one->name && count + 1 < MOST_OPTIONS; one++)
        list[count++] = (struct option){.name = one->name, .has_arg = one->has_arg, .val = value_of(usage, one)};
    list[count] = (struct option){.name = NULL};
}

/* For getopt: the letters whose options the verb has. */
static void list_letters(const mr_usage *usage, char text[3 * LETTERS + 4]) {
    char *at = text + sprintf(text, ":hV");
    for (size_t i = 0; i < LETTERS; i++) {
        const mr_usage_option *one = option_named(usage, letters[i].name);
        if (one)
            at += sprintf(at, "%c%s", letters[i].letter, one->has_arg ? ":" : "");
    }
}

/* Maps a letter from getopt to its long option. */
static int long_for(const mr_usage *usage, int got) {
    for (size_t i = 0; i < LETTERS; i++)
        if (got == letters[i].letter)
            return value_of(usage, option_named(usage, letters[i].name));
    return got;
}

static const char *name_of(const mr_usage *usage, int val) {
    const mr_usage_option *one = usage->options;
    while (one->name && value_of(usage, one) != val)
        one++;
    return one->name ? one->name : "?";
}

static void print_help(const mr_usage *usage) {
    printf("usage: millrace %s%s%s\n\n%s\n"
           "  --help             print this\n"
           "  --version          print the version\n\n"
           "Examples:\n\n",
           usage->verb, *usage->synopsis ? " " : "", usage->synopsis, usage->help);
    for (const char *const *words = usage->examples; *words; words++)
        printf("  millrace %s%s%s\n", usage->verb, **words ? " " : "", *words);
    printf("\n"
           "\"millrace --help\" lists the exit codes.\n");
}

enum { EXIT = -2 }; /* the command is done */

/* The next option that is not --plugin, whose types are known from then on; EXIT if that failed. */
static int next_option(const mr_usage *usage, int argc, char **argv, int *code) {
    char letters_taken[3 * LETTERS + 4];
    struct option list[MOST_OPTIONS];
    int got;
    list_letters(usage, letters_taken);
    list_options(usage, list);
    while ((got = getopt_long(argc, argv, letters_taken, list, NULL)) == MR_USAGE_PLUGIN) {
        int status = mr_types_add_plugin(optarg);
        if (status) {
            *code = mr_command_failed(status);
            return EXIT;
        }
    }
    return long_for(usage, got);
}

static int next(const mr_usage *usage, int argc, char **argv, int *code) {
    opterr = 0;
    int got = next_option(usage, argc, argv, code);
    switch (got) {
    case 'h':
        print_help(usage);
        *code = mr_flush_stdout();
        return EXIT;
    case 'V':
        printf("millrace %s\n", mr_version());
        *code = mr_flush_stdout();
        return EXIT;
    case ':':
        *code = mr_usage_error(usage, "--%s needs a value", name_of(usage, long_for(usage, optopt)));
        return EXIT;
    case '?':
        /* optopt is set for a short option, and for a long one that has no value but was given one. */
        if (optopt && strncmp(argv[optind - 1], "--", 2) == 0)
            *code = mr_usage_error(usage, "--%s takes no value", name_of(usage, optopt));
        else
            *code = unknown_option(usage, argv[optind - 1]);
        return EXIT;
    default:
        return got;
    }
}

static int keep(const mr_usage *usage, const mr_usage_option *one, void *to) {
    void *at = (char *)to + one->at;
    long long number = 0;
    int code = 0;
    if (one->kind == MR_USAGE_TEXT)
        *(const char **)at = optarg;
    else if (one->kind == MR_USAGE_FLAG)
        *(bool *)at = true;
    else
        code = mr_usage_number(usage, one->name, one->least, one->most, &number);
    if (one->kind == MR_USAGE_INT)
        *(int *)at = (int)number;
    else if (one->kind == MR_USAGE_LONG)
        memcpy(at, &number, sizeof number);
    return code;
}

bool mr_usage_take(const mr_usage *usage, int argc, char **argv, int (*take)(void *to, int option), void *to,
                   int *code) {
    int got;
    while ((got = next(usage, argc, argv, code)) != -1)
        if (got == EXIT ||
            (*code = got >= KEPT ? keep(usage, &usage->options[got - KEPT], to) : take(to, got)))
            return false;
    return true;
}

static bool takes_input(const mr_usage *usage) {
    for (const mr_usage_option *option = usage->options; option->name; option++)
        if (strcmp(option->name, "input") == 0)
            return true;
    return false;
}

const char *mr_usage_pipeline(const mr_usage *usage, int argc, char **argv, int *code) {
    if (optind + 1 == argc)
        return argv[optind];
    if (optind == argc)
        *code = mr_usage_error(usage, "name a pipeline");
    else
        *code = mr_usage_error(usage, "one pipeline at a time: unexpected \"%s\"%s", argv[optind + 1],
                               takes_input(usage) ? "; quote a glob of inputs: --input 'clips/*.mp4'" : "");
    return NULL;
}

int mr_command_failed(int status) {
    if (status == MR_ERROR_CLOSED)
        return mr_status_exit_code(status);
    mr_print(stderr, "millrace: error: %s\n", *mr_message() ? mr_message() : mr_status_words(status));
    return mr_status_exit_code(status);
}

bool mr_parse_integer(const char *text, long long min, long long max, long long *value) {
    char *end;
    errno = 0;
    long long parsed = strtoll(text, &end, 10);
    if (errno || end == text || *end || parsed < min || parsed > max)
        return false;
    *value = parsed;
    return true;
}

bool mr_stdout_has_reader(void) {
    int error = errno;
    struct pollfd one = {.fd = STDOUT_FILENO, .events = POLLOUT};
    bool closed = poll(&one, 1, 0) > 0 && (one.revents & POLLERR);
    errno = error;
    return !closed;
}

int mr_flush_stdout(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return 0;
    int status = mr_stdout_has_reader() ? MR_ERROR_IO : MR_ERROR_CLOSED;
    return mr_command_failed(mr_fail(status, "cannot write to standard output: %s", strerror(errno)));
}

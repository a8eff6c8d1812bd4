#include "tools/millrace/cli/command.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "millrace/log.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"

int mr_usage_error(const mr_usage *usage, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "millrace %s: error: ", usage->verb);
    mr_vprint(stderr, format, arguments);
    va_end(arguments);
    fprintf(stderr, "\n  hint: \"millrace %s --help\" shows how it is called\n", usage->verb);
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* Options from other programs that people try. `needs` is the option that the hint is about; only verbs that have it
 * give the hint. */
static const struct {
    const char *options, *needs, *hint;
} elsewhere[] = {
    {" device gpu gpus cuda ", "set", "the pipeline says where a stage computes: --set stages.ID.device=cuda:0"},
    {" batch batch-size size fps every model weights labels threshold ", "set",
     "the pipeline says it: --set stages.ID.KEY=VALUE, or --set sources.ID.KEY=VALUE"},
    {" j threads cores ", "workers", "--workers N says how many threads run stages"},
    {" v verbose debug loglevel log-level ", "log", "--log info or --log debug tells more"},
    {" c f config pipeline file ", "set", "name the pipeline without an option"},
    {" source video image url uri ", "input", "--input URI replaces the uri of the only source"},
    {" partition account time mem nodelist gres namespace context user ", "target-option",
     "an option of the site's program is given as --target-option KEY=VALUE"},
    {" port bind address ", "listen",
     "--listen tcp://HOST:PORT says where runs report, and --http HOST:PORT where the page is"},
    {" o output ", "target-option", "the pipeline says where results go: --set stages.ID.path=FILE"},
    {" out dest save ", "output", "did you mean \"--output\"?"},
    {" show display gui view ", "set", "a stage of type preview shows pictures in a browser"},
};

const mr_usage_option *mr_usage_find(const mr_usage *usage, const char *name) {
    const mr_usage_option *one = usage->options;
    while (one->name && strcmp(one->name, name) != 0)
        one++;
    return one->name ? one : NULL;
}

static const char *hint_elsewhere(const mr_usage *usage, const char *option) {
    char word[80];
    snprintf(word, sizeof word, " %s ", option);
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if (strstr(elsewhere[i].options, word) && mr_usage_find(usage, elsewhere[i].needs))
            return elsewhere[i].hint;
    return NULL;
}

/* Prints "--profile is for plan". False if no verb has that option. */
static bool hint_verbs(const char *option, char *text, size_t room) {
    size_t length = 0;
    for (const mr_verb *const *verb = mr_verbs; *verb && length < room; verb++) {
        if (!mr_usage_find((*verb)->usage, option))
            continue;
        if (!length)
            length = (size_t)snprintf(text, room, "--%s is for %s", option, (*verb)->usage->verb);
        else
            length += (size_t)snprintf(text + length, room - length, ", %s", (*verb)->usage->verb);
    }
    return length;
}

static int unknown_option(const mr_usage *usage, const char *argument) {
    mr_nearest nearest = {.wanted = argument + strspn(argument, "-")};
    char wanted[64], hint[256] = "";
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(nearest.wanted, "="), nearest.wanted);
    nearest.wanted = wanted;
    for (const mr_usage_option *one = usage->options; one->name; one++)
        mr_nearest_offer(&nearest, one->name);
    mr_print(stderr, "millrace %s: error: unknown option \"%s\"\n", usage->verb, argument);
    const char *where = hint_elsewhere(usage, wanted);
    if (where)
        snprintf(hint, sizeof hint, "%s", where);
    else if (!hint_verbs(wanted, hint, sizeof hint) && nearest.best)
        snprintf(hint, sizeof hint, "did you mean \"--%s\"?", nearest.best);
    else if (!*hint)
        snprintf(hint, sizeof hint, "\"millrace %s --help\" lists the options", usage->verb);
    mr_print(stderr, "  hint: %s\n", hint);
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* Long options with a letter, in every verb that has them. */
static const struct {
    char letter;
    const char *name;
} letters[] = {{'h', "help"}, {'V', "version"}, {'i', "input"}, {'o', "output"}, {'q', "quiet"}};
enum { LETTERS = sizeof letters / sizeof *letters };

/* getopt returns FIRST plus the option's index. */
enum { FIRST = 1 << 16, MOST_OPTIONS = 64 };

static int has_argument(const mr_usage_option *one) {
    return !one->argument ? no_argument : *one->argument == '[' ? optional_argument : required_argument;
}

static void list_options(const mr_usage *usage, struct option list[MOST_OPTIONS]) {
    int count = 0;
    for (const mr_usage_option *one = usage->options; one->name && count + 1 < MOST_OPTIONS; one++, count++)
        list[count] = (struct option){.name = one->name, .has_arg = has_argument(one), .val = FIRST + count};
    list[count] = (struct option){.name = NULL};
}

/* For getopt: the letters of the verb's options. */
static void list_letters(const mr_usage *usage, char text[3 * LETTERS + 2]) {
    char *at = text + sprintf(text, ":");
    for (size_t i = 0; i < LETTERS; i++) {
        const mr_usage_option *one = mr_usage_find(usage, letters[i].name);
        if (one)
            at += sprintf(at, "%c%s", letters[i].letter, one->argument ? ":" : "");
    }
}

/* The option that getopt returned or stored in optopt; NULL: none. */
static const mr_usage_option *option_for(const mr_usage *usage, int got) {
    if (got >= FIRST)
        return &usage->options[got - FIRST];
    for (size_t i = 0; i < LETTERS; i++)
        if (got == letters[i].letter)
            return mr_usage_find(usage, letters[i].name);
    return NULL;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static int take_text(const mr_usage *usage, const mr_usage_option *one, const char **at, char *text) {
    if (*at && one->needed)
        return mr_usage_error(usage, "--%s can be given once", one->name);
    *at = text;
    return 0;
}

static int take_number(const mr_usage *usage, const mr_usage_option *one, void *at, const char *text) {
    long long number;
    char upper[32];
    if (mr_parse_integer(text, one->least, one->most, &number)) {
        if (one->kind == MR_USAGE_INT)
            *(int *)at = (int)number;
        else
            memcpy(at, &number, sizeof number);
        return 0;
    }
    snprintf(upper, sizeof upper, "to %lld", one->most);
    return mr_usage_error(usage, "--%s takes a number from %lld %s, not \"%s\"", one->name, one->least,
                          one->most == LLONG_MAX ? "on" : upper, text);
}

/* A word's index in "text|json|github"; -1: not found. */
static int choice_of(const char *words, const char *wanted) {
    const size_t length = strlen(wanted);
    for (int i = 0;; i++) {
        const size_t bytes = strcspn(words, "|");
        if (bytes == length && strncmp(words, wanted, length) == 0)
            return i;
        if (!words[bytes])
            return -1;
        words += bytes + 1;
    }
}

/* "--format takes text, json or github, ..." */
static int refuse_choice(const mr_usage *usage, const mr_usage_option *one, const char *text) {
    char words[256] = "";
    for (const char *at = one->argument, *before = ""; *at; before = strchr(at, '|') ? ", " : " or ") {
        const size_t bytes = strcspn(at, "|"), length = strlen(words);
        snprintf(words + length, sizeof words - length, "%s%.*s", before, (int)bytes, at);
        at += bytes + (at[bytes] == '|');
    }
    return mr_usage_error(usage, "--%s takes %s, not \"%s\"", one->name, words, text);
}

int mr_words_add(mr_words *words, const char *word) {
    const char **wider = realloc(words->item, (words->count + 2) * sizeof *wider);
    if (!wider)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the command line");
    words->item = wider;
    words->item[words->count++] = word;
    words->item[words->count] = NULL;
    return MR_OK;
}

void mr_words_fini(mr_words *words) {
    free(words->item);
    *words = (mr_words){0};
}

static int take_with(const mr_usage *usage, const mr_usage_option *one, void *at, char *text) {
    const int status = one->take(at, text);
    if (status && one->kind != MR_USAGE_TAKE)
        return mr_usage_error(usage, "%s", mr_message());
    if (status == MR_ERROR_USAGE)
        return mr_usage_error(usage, "--%s %s", one->name, mr_message());
    return status ? mr_command_failed(status) : 0;
}

int mr_usage_take_level(void *to, char *text) {
    mr_log_level level;
    int status = mr_log_parse_level(text, &level);
    if (!status)
        mr_log_set_level(level);
    return status;
}

int mr_usage_take_plugin(void *to, char *path) {
    return mr_types_add_plugin(path);
}

/* Returns an exit code. */
static int take(const mr_usage *usage, const mr_usage_option *one, void *to, char *text) {
    void *at = (char *)to + one->at;
    const bool limited = text && islower((unsigned char)*one->argument);
    const int choice = limited ? choice_of(one->argument, text) : 0;
    if (choice < 0)
        return refuse_choice(usage, one, text);
    const int code = one->take ? take_with(usage, one, at, text) : 0;
    if (code)
        return code;
    switch (one->kind) {
    case MR_USAGE_TEXT:
        return take_text(usage, one, at, text);
    case MR_USAGE_LIST:
        return mr_words_add(at, text) ? mr_command_failed(MR_ERROR_MEMORY) : 0;
    case MR_USAGE_FLAG:
        *(bool *)at = !one->off;
        return 0;
    case MR_USAGE_CHOICE:
        *(int *)at = choice;
        return 0;
    case MR_USAGE_INT:
    case MR_USAGE_LONG:
        return take_number(usage, one, at, text);
    default:
        return 0;
    }
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

/* optopt is set for a short option, and for a long one that takes no value but got one. */
static int refuse(const mr_usage *usage, const char *argument, bool value_missing) {
    const mr_usage_option *one = option_for(usage, optopt);
    if (value_missing)
        return mr_usage_error(usage, "--%s needs a value", one ? one->name : "?");
    if (one && strncmp(argument, "--", 2) == 0)
        return mr_usage_error(usage, "--%s takes no value", one->name);
    return unknown_option(usage, argument);
}

/* The option's value. If the value may be omitted, a number in the next word counts too. */
static char *value_of(const mr_usage_option *one, char **argv) {
    char *next = argv[optind];
    if (optarg || has_argument(one) != optional_argument || !next || !*next ||
        strspn(next, "0123456789.%") != strlen(next))
        return optarg;
    optind++;
    return next;
}

/* For --help and --version: the command is done. */
static bool show(const mr_usage *usage, mr_usage_kind kind, int *code) {
    if (kind == MR_USAGE_HELP)
        mr_usage_print(usage, stdout);
    else
        printf("millrace %s\n", mr_version());
    *code = mr_flush_stdout();
    return false;
}

bool mr_usage_take(const mr_usage *usage, int argc, char **argv, void *to, int *code) {
    char letters_taken[3 * LETTERS + 2];
    struct option list[MOST_OPTIONS];
    int got;
    list_letters(usage, letters_taken);
    list_options(usage, list);
    opterr = 0;
    while ((got = getopt_long(argc, argv, letters_taken, list, NULL)) != -1) {
        const mr_usage_option *one = option_for(usage, got);
        if (one && (one->kind == MR_USAGE_HELP || one->kind == MR_USAGE_VERSION))
            return show(usage, one->kind, code);
        *code = one ? take(usage, one, to, value_of(one, argv)) : refuse(usage, argv[optind - 1], got == ':');
        if (*code)
            return false;
    }
    if (!*usage->synopsis && optind < argc)
        *code = mr_usage_error(usage, "it takes no \"%s\"", argv[optind]);
    return !*code;
}

const char *mr_usage_pipeline(const mr_usage *usage, int argc, char **argv, int *code) {
    if (optind + 1 == argc)
        return argv[optind];
    if (optind == argc)
        *code = mr_usage_error(usage, "name a pipeline");
    else
        *code = mr_usage_error(usage, "one pipeline at a time: unexpected \"%s\"%s", argv[optind + 1],
                               mr_usage_find(usage, "input") ? "; quote a glob of inputs: --input 'clips/*.mp4'" : "");
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

bool mr_parse_number(const char *text, double min, double max, double *value) {
    char *end;
    const double parsed = strtod(text, &end);
    if (end == text || *end || !isfinite(parsed) || parsed < min || parsed > max)
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

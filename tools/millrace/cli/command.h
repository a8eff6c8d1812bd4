/* The millrace command: one file per verb, and code shared by the verbs.
 *
 * Exit codes follow sysexits (millrace/status.h). Results and requested output go to standard output; progress, errors
 * and summaries go to standard error. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "millrace/millrace.h"

/* The values of a repeatable option. */
typedef struct mr_words {
    const char **item; /* ended by NULL; NULL: none */
    size_t count;
} mr_words;
/* Adds a word, which is borrowed. MR_OK or MR_ERROR_MEMORY. */
int mr_words_add(mr_words *words, const char *word);
void mr_words_fini(mr_words *words);

typedef enum mr_usage_kind {
    MR_USAGE_TEXT, MR_USAGE_LIST, MR_USAGE_FLAG, MR_USAGE_CHOICE, MR_USAGE_INT, MR_USAGE_LONG, MR_USAGE_TAKE,
    MR_USAGE_HELP, MR_USAGE_VERSION
} mr_usage_kind;

/* Reads an option's value into `to`, the place that the row names. `text` is NULL if the value was omitted. Returns
 * MR_OK or a status with a message; MR_ERROR_USAGE if the value is wrong: "takes KEY=VALUE, not ...". */
typedef int mr_usage_take_function(void *to, char *text);

/* A verb's option: mr_usage_take reads it, and --help, the manual page and completions print it. */
typedef struct mr_usage_option {
    const char *name;
    const char *argument; /* "FILE"; "[N]" may be omitted; "text|json", in lower case, allows only these words; NULL:
                             takes no value */
    const char *help;
    bool needed, several; /* it must be given; it may be repeated */
    mr_usage_kind kind;
    bool off;              /* a flag that sets false */
    size_t at;             /* the offset of the place for the value */
    long long least, most; /* for a number */
    mr_usage_take_function *take; /* for other kinds than MR_USAGE_TAKE: only checks the text; may be NULL */
} mr_usage_option;

/* Chosen by the field's type: a flag, a text, a list of texts, or the index of the word among the allowed ones.
 * MR_OPTION_NUMBER: a whole number. MR_OPTION_TAKE: `function` reads the value. More members may follow `text`. */
#define MR_OPTION(option, value, type, field, ...)                                                               \
    {.name = option, .argument = value, .at = offsetof(type, field),                                             \
     .kind = _Generic(((type *)0)->field, bool: MR_USAGE_FLAG, const char *: MR_USAGE_TEXT,                      \
                      mr_words: MR_USAGE_LIST, default: MR_USAGE_CHOICE),                                        \
     .several = _Generic(((type *)0)->field, mr_words: true, default: false), .help = __VA_ARGS__}
#define MR_OPTION_NUMBER(option, value, type, field, from, to, text)                                             \
    {.name = option, .argument = value, .at = offsetof(type, field), .least = from, .most = to, .help = text,    \
     .kind = _Generic(((type *)0)->field, int: MR_USAGE_INT, long long: MR_USAGE_LONG, uint64_t: MR_USAGE_LONG)}
#define MR_OPTION_TAKE(option, value, type, field, function, ...)                                                \
    {.name = option, .argument = value, .at = offsetof(type, field), .kind = MR_USAGE_TAKE, .take = function,    \
     .help = __VA_ARGS__}
/* The same, but `function` gets all of `arguments`. */
#define MR_OPTION_CALL(option, value, function, text)                                                            \
    {.name = option, .argument = value, .kind = MR_USAGE_TAKE, .take = function, .help = text}
/* A word that is not an option, for mr_usage.words. */
#define MR_WORD(word, value, text) {.name = word, .argument = value, .help = text}

/* A verb's arguments. In texts, newlines separate paragraphs. A line that begins with blanks is kept unchanged. */
typedef struct mr_usage {
    const char *verb;
    const char *synopsis;         /* the words before the options: "PIPELINE.yaml" */
    const char *help;             /* the purpose */
    const mr_usage_option *words; /* for the first word; ended by a NULL name; may be NULL */
    const mr_usage_option *options; /* with MR_USAGE_COMMON at the end */
    const char *notes;            /* printed after the options; may be NULL */
    const char *const *examples;  /* command lines after "millrace VERB"; NULL after the last */
} mr_usage;

#define MR_USAGE_COMMON                                                                                          \
    {.name = "help", .kind = MR_USAGE_HELP, .help = "print this"},                                               \
        {.name = "version", .kind = MR_USAGE_VERSION, .help = "print the version"}, {.name = NULL}

/* For `--log LEVEL`: takes effect at once, because later options may log. */
mr_usage_take_function mr_usage_take_level;
/* For verbs that know stage types: loads the plugins of --plugin. */
mr_usage_take_function mr_usage_take_plugin;
#define MR_USAGE_PLUGINS                                                                                         \
    {.name = "plugin", .argument = "FILE", .kind = MR_USAGE_TAKE, .take = mr_usage_take_plugin, .several = true, \
     .help = "loads your own stage types from a shared library, whose code then runs. A name without a slash is " \
             "also searched in $MILLRACE_PLUGIN_PATH"}

/* Reads all options into `to`; argv[optind...] then holds the other arguments. False if the command is done: it printed
 * --help, --version or an error, and *code is the exit code. */
bool mr_usage_take(const mr_usage *usage, int argc, char **argv, void *to, int *code);
/* The pipeline after the options, which must be the only word there. NULL: *code is the exit code. */
const char *mr_usage_pipeline(const mr_usage *usage, int argc, char **argv, int *code);
/* The option with that name; NULL: the verb has none. */
const mr_usage_option *mr_usage_find(const mr_usage *usage, const char *name);

/* Both print to standard error and return exit code 64. */
int mr_usage_error(const mr_usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* usage_help.c: prints the help. */
void mr_usage_print(const mr_usage *usage, FILE *to);
/* Calls `put` with each paragraph of a text, which may be NULL. */
void mr_usage_paragraphs(const char *text, void (*put)(void *to, const char *paragraph), void *to);
/* Writes "--output FILE" after `before`, with dashes if it is an option. Returns the length. */
int mr_usage_name(const mr_usage_option *one, const char *before, char *text, size_t room);
/* Prints "millrace VERB" with everything that may follow, within that width if possible. */
void mr_usage_synopsis(const mr_usage *usage, int width, FILE *to);

/* Prints "millrace: error: ..." with the thread's message and returns the exit code for `status`. MR_ERROR_CLOSED is
 * not an error and prints nothing. */
int mr_command_failed(int status);
/* Reads a whole number in [min, max]; false if the text is anything else. */
bool mr_parse_integer(const char *text, long long min, long long max, long long *value);
/* Reads a finite number in [min, max]; false if the text is anything else. */
bool mr_parse_number(const char *text, double min, double max, double *value);
/* False if standard output is a pipe whose reader has closed it, such as `| head`. */
bool mr_stdout_has_reader(void);
/* Flushes standard output. Returns 0, or 74 with a message, or 141 if the reader has closed it. */
int mr_flush_stdout(void);

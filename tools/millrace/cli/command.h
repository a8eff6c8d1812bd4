/* The millrace command: one file per verb, and code shared by the verbs.
 *
 * Exit codes follow sysexits (millrace/status.h). Results and requested output go to standard output; progress, errors
 * and summaries go to standard error. */
#pragma once

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/millrace.h"

/* A verb's option. mr_usage_take itself keeps the value if the option has a place for it. */
typedef enum mr_usage_kind { MR_USAGE_TEXT, MR_USAGE_FLAG, MR_USAGE_INT, MR_USAGE_LONG } mr_usage_kind;
typedef struct mr_usage_option {
    const char *name;
    int has_arg;           /* as getopt_long has it */
    int code;              /* for `take`; 0: the value is kept */
    mr_usage_kind kind;
    size_t at;             /* in what mr_usage_take reads into */
    long long least, most; /* for a number */
} mr_usage_option;

#define MR_OPTION_CODE(option, argument, number) {.name = option, .has_arg = argument, .code = number}
/* A text or a flag, by the field's type; a number. */
#define MR_OPTION_FIELD(option, type, field)                                                                     \
    {.name = option, .at = offsetof(type, field),                                                                \
     .has_arg = _Generic(((type *)0)->field, bool: no_argument, const char *: required_argument),                \
     .kind = _Generic(((type *)0)->field, bool: MR_USAGE_FLAG, const char *: MR_USAGE_TEXT)}
#define MR_OPTION_NUMBER(option, type, field, from, to)                                                          \
    {.name = option, .has_arg = required_argument, .at = offsetof(type, field), .least = from, .most = to,       \
     .kind = _Generic(((type *)0)->field, int: MR_USAGE_INT, long long: MR_USAGE_LONG, uint64_t: MR_USAGE_LONG)}

/* A verb's arguments, for getopt_long and for people. */
typedef struct mr_usage {
    const char *verb;
    const char *synopsis;         /* "PIPELINE.yaml [--set KEY=VALUE]..." */
    const char *help;             /* the rest of --help: purpose and options */
    const char *const *examples;  /* what follows "millrace VERB" on command lines; NULL after the last */
    const mr_usage_option *options; /* with MR_USAGE_COMMON at the end */
} mr_usage;

#define MR_USAGE_COMMON                                                                                          \
    MR_OPTION_CODE("help", no_argument, 'h'), MR_OPTION_CODE("version", no_argument, 'V'), {.name = NULL}

/* For verbs that know stage types: mr_usage_take itself loads the plugins of --plugin. */
enum { MR_USAGE_PLUGIN = 768, MR_USAGE_NO_PLUGINS };
#define MR_USAGE_PLUGINS MR_OPTION_CODE("plugin", required_argument, MR_USAGE_PLUGIN)
#define MR_USAGE_PLUGINS_HELP                                                                                    \
    "  --plugin FILE      loads stage types of one's own from a shared library, which is code; may be given\n"   \
    "                     several times. Without a slash also looked for in $MILLRACE_PLUGIN_PATH\n"

/* Reads all options into `to`. For one that is not kept, `take` gets `to` and the option's code, with the value in
 * optarg, and must return 0 or an exit code; NULL: all are kept. The other arguments are then argv[optind...]. False if
 * the command is done, with the exit code in *code: --help or --version was printed, or an error. */
bool mr_usage_take(const mr_usage *usage, int argc, char **argv, int (*take)(void *to, int option), void *to,
                   int *code);
/* The pipeline that is named after the options, and no other; NULL with an exit code in *code. */
const char *mr_usage_pipeline(const mr_usage *usage, int argc, char **argv, int *code);

/* Print to standard error and return exit code 64. */
int mr_usage_error(const mr_usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints "millrace: error: ..." with the thread's message and returns the exit code of `status`; MR_ERROR_CLOSED is not
 * an error and prints nothing. */
int mr_command_failed(int status);
/* Reads optarg, the value of --NAME, into *value: 0, or exit code 64 if it is not a whole number in [min, max]. */
int mr_usage_number(const mr_usage *usage, const char *name, long long min, long long max, long long *value);
/* Reads a whole number in [min, max]; false if it is not one. */
bool mr_parse_integer(const char *text, long long min, long long max, long long *value);
/* False if standard output is a pipe whose reader has closed it, such as `| head`. */
bool mr_stdout_has_reader(void);
/* Flushes standard output: 0, or 74 with a message, or 141 if whoever reads it has closed it. */
int mr_flush_stdout(void);

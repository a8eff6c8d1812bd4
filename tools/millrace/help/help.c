/* millrace help: prints topics and verbs. Also makes the files for man(1) and for shells. */
#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/base/print.h"
#include "millrace/millrace.h"
#include "tools/millrace/cli/topics.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/help/help.h"
#include "tools/millrace/help/help_page.h"

typedef struct given {
    const char *man, *completion;
} given;

static const mr_usage_option options[] = {
    MR_OPTION("man", "millrace|millrace.yaml", given, man, "prints the manual page, for man(1)"),
    MR_OPTION("completion", "bash|zsh", given, completion,
              "prints the script that completes words of the command in that shell"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"formats", "run", "--completion bash", NULL};

static const mr_usage usage = {
    .verb = "help",
    .synopsis = "[TOPIC | VERB]",
    .help = "Explains a topic, or lists the options of a verb. Without an argument it lists the topics. The texts are "
            "those of the project's documents.",
    .options = options,
    .examples = examples,
};

const mr_topic *mr_topic_find(const char *name) {
    for (const mr_topic *topic = mr_topics; topic->name; topic++)
        if (strcmp(topic->name, name) == 0)
            return topic;
    return NULL;
}

static const mr_verb *find_verb(const char *name) {
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        if (strcmp((*verb)->usage->verb, name) == 0)
            return *verb;
    return NULL;
}

static void list_topics(void) {
    printf("usage: millrace help %s\n\n", usage.synopsis);
    for (const mr_topic *topic = mr_topics; topic->name; topic++)
        printf("  %-12s %s\n", topic->name, topic->summary);
    printf("\n\"millrace --help\" lists the verbs.\n");
}

static int unknown(const char *word) {
    mr_nearest nearest = {.wanted = word};
    char hint[256];
    for (const mr_topic *topic = mr_topics; topic->name; topic++)
        mr_nearest_offer(&nearest, topic->name);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        mr_nearest_offer(&nearest, (*verb)->usage->verb);
    const char *elsewhere = "\"millrace help\" lists the topics";
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        if (strcmp((*type)->name, word) == 0)
            elsewhere = "it is a stage type: \"millrace inspect\" and its name show its options";
    mr_print(stderr, "millrace help: error: no topic and no verb is called \"%s\"\n  hint: %s\n", word,
             mr_nearest_hint(&nearest, hint, sizeof hint, elsewhere));
    return mr_status_exit_code(MR_ERROR_USAGE);
}

/* A word can be both: prints the verb's options, then the topic. */
static int explain(char *word) {
    char help[] = "--help";
    char *arguments[] = {word, help, NULL};
    const mr_topic *topic = mr_topic_find(word);
    const mr_verb *verb = find_verb(word);
    int code = 0, status = MR_OK;
    if (!topic && !verb)
        return unknown(word);
    optind = 0;
    if (verb)
        code = verb->run(2, arguments);
    if (verb && topic)
        putchar('\n');
    if (topic && !code)
        status = mr_page_write(stdout, topic->lines, &mr_page_text);
    return code ? code : status ? mr_command_failed(status) : mr_flush_stdout();
}

static int run_verb(int argc, char **argv) {
    given from = {0};
    int code = 0, status = MR_OK;
    if (!mr_usage_take(&usage, argc, argv, &from, &code))
        return code;
    if (optind + 1 < argc || (optind < argc && (from.man || from.completion)))
        return mr_usage_error(&usage, "one word at a time: unexpected \"%s\"", argv[argc - 1]);
    if (from.man && from.completion)
        return mr_usage_error(&usage, "--man and --completion are two things");
    if (optind < argc)
        return explain(argv[optind]);
    if (from.man)
        status = mr_help_manual(stdout, strcmp(from.man, "millrace.yaml") == 0);
    else if (from.completion)
        mr_help_completion(stdout, *from.completion == 'z');
    else
        list_topics();
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

const mr_verb mr_help_verb = {&usage, "explain a topic or a verb", run_verb};

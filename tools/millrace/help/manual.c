/* Makes manual pages: millrace(1) from the verbs' usages and some topics, millrace.yaml(5) from topics. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/millrace.h"
#include "tools/millrace/cli/topics.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/help/help.h"
#include "tools/millrace/help/help_page.h"

static void put(FILE *to, const char *text) {
    fputs(*text == '.' ? "\\&" : "", to);
    mr_roff_put(to, text, strlen(text));
    fputc('\n', to);
}

/* A line that begins with blanks is printed unchanged. */
static void put_paragraph(void *context, const char *text) {
    FILE *to = context;
    if (!*text)
        return;
    fputs(*text == ' ' ? ".PP\n.RS 4\n.nf\n" : ".PP\n", to);
    put(to, text + strspn(text, " "));
    fputs(*text == ' ' ? ".fi\n.RE\n" : "", to);
}

static void put_rows(FILE *to, const mr_usage_option *rows, const char *dashes) {
    for (const mr_usage_option *one = rows; one && one->name; one++) {
        char name[160];
        mr_usage_name(one, dashes, name, sizeof name);
        fputs(".TP\n.B ", to);
        put(to, name);
        put(to, one->help);
    }
}

static void put_synopsis(FILE *to, const mr_usage *usage) {
    char *text = NULL;
    size_t bytes;
    FILE *into = open_memstream(&text, &bytes);
    if (!into)
        return;
    mr_usage_synopsis(usage, INT_MAX, into);
    fclose(into);
    fputs(".PP\n", to);
    mr_roff_put(to, text, bytes);
    free(text);
}

static void put_verb(FILE *to, const mr_usage *usage) {
    fprintf(to, ".SS millrace %s\n", usage->verb);
    put_synopsis(to, usage);
    mr_usage_paragraphs(usage->help, put_paragraph, to);
    put_rows(to, usage->words, "");
    put_rows(to, usage->options, "--");
    mr_usage_paragraphs(usage->notes, put_paragraph, to);
    fputs(".PP\nExamples:\n.PP\n.RS 4\n.nf\n", to);
    for (const char *const *words = usage->examples; *words; words++) {
        fprintf(to, "millrace %s ", usage->verb);
        put(to, *words);
    }
    fputs(".fi\n.RE\n", to);
}

static int put_topics(FILE *to, const char *const *names) {
    int status = MR_OK;
    for (; *names && !status; names++)
        status = mr_page_write(to, mr_topic_find(*names)->lines, &mr_page_manual);
    return status;
}

static void put_title(FILE *to, const char *name, const char *section, const char *summary) {
    fprintf(to, ".\\\" Made by millrace help --man.\n.TH %s %s \"\" \"millrace %s\"\n.SH NAME\n%s \\- %s\n", name,
            section, mr_version(), name, summary);
}

static int put_command(FILE *to) {
    static const char *const topics[] = {"signals", "exit-codes", "environment", NULL};
    put_title(to, "millrace", "1", "runs video and image analysis pipelines that are written in YAML");
    fputs(".SH SYNOPSIS\n.B millrace\n.I VERB\n\\&...\n.br\n.B millrace help\n[\\fITOPIC\\fR | \\fIVERB\\fR]\n.br\n"
          ".B millrace \\-\\-version\n.SH VERBS\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++) {
        fprintf(to, ".TP\n.B %s\n", (*verb)->usage->verb);
        put(to, (*verb)->summary);
    }
    fputs(".SH OPTIONS\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        put_verb(to, (*verb)->usage);
    int status = put_topics(to, topics);
    fputs(".SH SEE ALSO\n.BR millrace.yaml (5)\n", to);
    return status;
}

static int put_pipeline(FILE *to) {
    static const char *const topics[] = {"pipeline", "formats", "sources",   "cameras", "video",
                                         "nodes",    "zmq",     "reference", NULL};
    put_title(to, "millrace.yaml", "5", "a pipeline for millrace");
    int status = put_topics(to, topics);
    fputs(".SH SEE ALSO\n.BR millrace (1)\n", to);
    return status;
}

int mr_help_manual(FILE *to, bool pipeline) {
    return pipeline ? put_pipeline(to) : put_command(to);
}

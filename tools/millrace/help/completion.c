/* Makes shell completions: verbs with words and options, fixed values, topics and stage types. Everything else is a
 * file. */
#include <ctype.h>
#include <string.h>

#include "millrace/millrace.h"
#include "tools/millrace/cli/topics.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/help/help.h"

static void put_verbs(FILE *to) {
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        fprintf(to, "%s ", (*verb)->usage->verb);
}

static bool explains(const mr_usage *usage) {
    return strcmp(usage->verb, "help") == 0;
}

/* Whether the verb takes words; otherwise it takes files. */
static bool has_words(const mr_usage *usage) {
    return usage->words || explains(usage);
}

static void put_words(FILE *to, const mr_usage *usage) {
    for (const mr_usage_option *word = usage->words; word && word->name; word++)
        fprintf(to, "%s ", word->name);
    for (const mr_topic *topic = mr_topics; explains(usage) && topic->name; topic++)
        fprintf(to, "%s ", topic->name);
    if (explains(usage))
        put_verbs(to);
}

static void put_types(FILE *to) {
    for (const mr_stage_type *const *type = mr_types(); *type; type++)
        fprintf(to, "%s ", (*type)->name);
}

static bool inspects(const mr_usage *usage) {
    return strcmp(usage->verb, "inspect") == 0;
}

static bool has_choices(const mr_usage_option *one) {
    return one->argument && islower((unsigned char)*one->argument);
}

static void put_choices(FILE *to, const mr_usage_option *one) {
    for (const char *at = one->argument; *at; at++)
        fputc(*at == '|' ? ' ' : *at, to);
}

/* ---- bash ------------------------------------------------------------------------------------------------------ */

static void put_bash_verb(FILE *to, const mr_usage *usage) {
    for (const mr_usage_option *one = usage->options; one->name; one++)
        if (has_choices(one)) {
            fprintf(to, "    %s:--%s:*) words=\"", usage->verb, one->name);
            put_choices(to, one);
            fputs("\" ;;\n", to);
        }
    fprintf(to, "    %s:*:-*) words=\"", usage->verb);
    for (const mr_usage_option *one = usage->options; one->name; one++)
        fprintf(to, "--%s ", one->name);
    fprintf(to, "\" ;;\n    %s:*) words=\"", usage->verb);
    if (inspects(usage))
        put_types(to);
    put_words(to, usage);
    fputs("\" ;;\n", to);
}

static void put_bash(FILE *to) {
    fputs("# Completion of millrace for bash. Made by millrace help --completion bash.\n"
          "_millrace() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
          "    COMPREPLY=()\n"
          "    [ \"$COMP_CWORD\" != 1 ] || words=\"--help --version ", to);
    put_verbs(to);
    fputs("\"\n"
          "    case ${COMP_WORDS[1]}:$before:$word in\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        put_bash_verb(to, (*verb)->usage);
    fputs("    esac\n"
          "    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "}\n"
          "complete -o bashdefault -o default -F _millrace millrace\n", to);
}

/* ---- zsh ------------------------------------------------------------------------------------------------------- */

/* A description within '...[...]' must have no quote, bracket or colon, and must fit on a line. */
static void put_described(FILE *to, const char *text) {
    for (size_t i = 0; text[i] && i < 70 && text[i] != ';' && text[i] != ':' && strncmp(text + i, ". ", 2) != 0; i++)
        fputc(strchr("[]'\\", text[i]) ? ' ' : text[i], to);
}

static void put_zsh_option(FILE *to, const mr_usage_option *one) {
    const bool takes = one->argument && *one->argument != '[';
    fprintf(to, "            '*--%s%s[", one->name, takes ? "=" : "");
    put_described(to, one->help);
    fputs("]", to);
    if (takes)
        fprintf(to, ":%s:%s", one->name, has_choices(one) ? "(" : "_files");
    if (has_choices(one)) {
        put_choices(to, one);
        fputc(')', to);
    }
    fputs("' \\\n", to);
}

static void put_zsh_verb(FILE *to, const mr_usage *usage) {
    fprintf(to, "    %s)\n        _arguments \\\n", usage->verb);
    for (const mr_usage_option *one = usage->options; one->name; one++)
        put_zsh_option(to, one);
    fputs("            '*:word:", to);
    if (inspects(usage)) {
        fputs("{_alternative \"types:type:(", to);
        put_types(to);
        fputs(")\" \"files:file:_files\"}", to);
    } else if (has_words(usage)) {
        fputc('(', to);
        put_words(to, usage);
        fputc(')', to);
    } else {
        fputs("_files", to);
    }
    fputs("'\n        ;;\n", to);
}

static void put_zsh(FILE *to) {
    fputs("#compdef millrace\n"
          "# Completion of millrace for zsh. Made by millrace help --completion zsh.\n"
          "_millrace() {\n"
          "    local -a verbs=(\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++) {
        fprintf(to, "        '%s:", (*verb)->usage->verb);
        for (const char *at = (*verb)->summary; *at; at++)
            fputs(*at == '\'' ? "'\\''" : (char[]){*at, 0}, to);
        fputs("'\n", to);
    }
    fputs("    )\n"
          "    if (( CURRENT == 2 )); then\n"
          "        _describe verb verbs\n"
          "        return\n"
          "    fi\n"
          "    local verb=$words[2]\n"
          "    shift words\n"
          "    (( CURRENT-- ))\n"
          "    case $verb in\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        put_zsh_verb(to, (*verb)->usage);
    fputs("    esac\n"
          "}\n"
          "if [ \"${funcstack[1]-}\" = _millrace ]; then\n"
          "    _millrace \"$@\"\n"
          "else\n"
          "    compdef _millrace millrace\n"
          "fi\n", to);
}

void mr_help_completion(FILE *to, bool zsh) {
    (zsh ? put_zsh : put_bash)(to);
}

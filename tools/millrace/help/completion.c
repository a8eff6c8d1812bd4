/* Completion for shells: verbs, their options, topics and stage types; everything else is a file. */
#include <string.h>

#include "millrace/millrace.h"
#include "tools/millrace/cli/topics.h"
#include "tools/millrace/cli/types.h"
#include "tools/millrace/cli/verbs.h"
#include "tools/millrace/help/help.h"

static void put_verbs(FILE *to) {
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        fprintf(to, "%s%s", verb == mr_verbs ? "" : " ", (*verb)->usage->verb);
}

static void put_topics(FILE *to) {
    for (const mr_topic *topic = mr_topics; topic->name; topic++)
        fprintf(to, "%s%s", topic == mr_topics ? "" : " ", topic->name);
}

static void put_types(FILE *to) {
    for (const mr_stage_type *const *type = mr_types(); *type; type++)
        fprintf(to, "%s%s", type == mr_types() ? "" : " ", (*type)->name);
}

/* Argument values: choices that are not "a, b or c" in the table must be listed here. */
static const struct {
    const char *option, *words;
} choices[] = {{"log", "error warning info debug"}, {"target", "slurm kubernetes systemd"},
               {"man", "millrace millrace.yaml"}, {"completion", "bash zsh"}};

static const char *choices_of(const char *option) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        if (strcmp(choices[i].option, option) == 0)
            return choices[i].words;
    return NULL;
}

/* ---- bash ------------------------------------------------------------------------------------------------------ */

static void put_bash_verb(FILE *to, const mr_usage *usage) {
    fprintf(to, "    %s) options=\"", usage->verb);
    for (const mr_usage_option *one = usage->options; one->name; one++)
        fprintf(to, "%s--%s", one == usage->options ? "" : " ", one->name);
    fputs("\" ;;\n", to);
}

static void put_bash(FILE *to) {
    fputs("# Completion of millrace for bash. Made by millrace help --completion bash.\n"
          "_millrace() {\n"
          "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} options= words=\n"
          "    COMPREPLY=()\n"
          "    if [ \"$COMP_CWORD\" = 1 ]; then\n"
          "        COMPREPLY=($(compgen -W \"", to);
    put_verbs(to);
    fputs(" --help --version\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case $before in\n", to);
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++)
        fprintf(to, "    --%s) words=\"%s\" ;;\n", choices[i].option, choices[i].words);
    fputs("    esac\n"
          "    if [ -n \"$words\" ]; then\n"
          "        COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "        return\n"
          "    fi\n"
          "    case ${COMP_WORDS[1]} in\n", to);
    for (const mr_verb *const *verb = mr_verbs; *verb; verb++)
        put_bash_verb(to, (*verb)->usage);
    fputs("    esac\n"
          "    case ${COMP_WORDS[1]}:$word in\n"
          "    *:-*) words=$options ;;\n"
          "    help:*) words=\"", to);
    put_topics(to);
    fputc(' ', to);
    put_verbs(to);
    fputs("\" ;;\n"
          "    inspect:*) words=\"", to);
    put_types(to);
    fputs("\" ;;\n"
          "    ctl:*) words=\"status disable enable drain stop log add set remove trigger\" ;;\n"
          "    bench:*) words=\"null paced soak\" ;;\n"
          "    esac\n"
          "    [ -z \"$words\" ] || COMPREPLY=($(compgen -W \"$words\" -- \"$word\"))\n"
          "}\n"
          "complete -o bashdefault -o default -F _millrace millrace\n", to);
}

/* ---- zsh ------------------------------------------------------------------------------------------------------- */

/* A description within '...[...]': no quote, no bracket, no colon, and not longer than a line. */
static void put_described(FILE *to, const char *text) {
    for (size_t i = 0; text[i] && i < 70 && text[i] != ';' && text[i] != ':' && strncmp(text + i, ". ", 2) != 0; i++)
        fputc(strchr("[]'\\", text[i]) ? ' ' : text[i], to);
}

static void put_zsh_option(FILE *to, const mr_usage *usage, const mr_usage_option *one) {
    char argument[64], text[512];
    const char *words = choices_of(one->name);
    mr_help_option(usage, one->name, argument, sizeof argument, text, sizeof text);
    fprintf(to, "            '*--%s%s[", one->name, one->has_arg == required_argument ? "=" : "");
    put_described(to, *text ? text : one->name);
    fputs("]", to);
    if (one->has_arg == required_argument && words)
        fprintf(to, ":%s:(%s)", one->name, words);
    else if (one->has_arg == required_argument)
        fprintf(to, ":%s:_files", one->name);
    fputs("' \\\n", to);
}

static void put_zsh_verb(FILE *to, const mr_usage *usage) {
    fprintf(to, "    %s)\n        _arguments \\\n", usage->verb);
    for (const mr_usage_option *one = usage->options; one->name; one++)
        put_zsh_option(to, usage, one);
    fputs("            '*:word:", to);
    if (strcmp(usage->verb, "help") == 0) {
        fputc('(', to);
        put_topics(to);
        fputc(' ', to);
        put_verbs(to);
        fputc(')', to);
    } else if (strcmp(usage->verb, "inspect") == 0) {
        fputs("{_alternative \"types:type:(", to);
        put_types(to);
        fputs(")\" \"files:file:_files\"}", to);
    } else if (strcmp(usage->verb, "ctl") == 0) {
        fputs("(status disable enable drain stop log add set remove trigger)", to);
    } else if (strcmp(usage->verb, "bench") == 0) {
        fputs("(null paced soak)", to);
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

int mr_help_completion(FILE *to, const char *shell) {
    if (strcmp(shell, "bash") != 0 && strcmp(shell, "zsh") != 0)
        return mr_fail(MR_ERROR_USAGE, "--completion takes bash or zsh, not \"%s\"", shell);
    (*shell == 'b' ? put_bash : put_zsh)(to);
    return MR_OK;
}

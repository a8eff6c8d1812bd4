/* Texts that `millrace deploy` refuses to write. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/print.h"
#include "tools/millrace/deploy/deployment.h"

/* Characters that may begin a command's name, and those allowed in ids. */
static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
static const char id_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

char *mr_deploy_name(const char *name) {
    char *plain = strdup(*name ? name : "pipeline");
    for (char *at = plain; at && *at; at++) {
        const unsigned char letter = (unsigned char)*at;
        *at = letter > 127 || !isalnum(letter) ? '-' : (char)tolower(letter);
    }
    return plain;
}

char *mr_deploy_object_name(const char *name, const char *node) {
    char *whole = NULL;
    if (asprintf(&whole, "%s-%s", name, node) < 0)
        return NULL;
    for (char *at = whole; *at; at++)
        *at = *at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
    return whole;
}

/* A control character could begin a new line in a unit or a script, and text there must be UTF-8. */
static int check_text(const char *what, const char *text) {
    if (mr_printable(text))
        return MR_OK;
    return mr_fail(MR_ERROR_USAGE,
                   "%s \"%s\" holds a control character, or bytes that are not UTF-8: others would read "
                   "it as lines of their own; write it without", what, text);
}

static int check_overrides(const mr_overrides *overrides) {
    int status = MR_OK;
    for (size_t i = 0; i < overrides->override_count && !status; i++) {
        status = check_text("the key of --set", overrides->override[i].key);
        if (!status)
            status = check_text("the value of --set", overrides->override[i].value);
    }
    for (size_t i = 0; i < overrides->inputs.count && !status; i++)
        status = check_text("--input", overrides->inputs.item[i]);
    return status;
}

/* systemd reads a sign before a command's path as a modifier, and srun a dash as an option. */
static int check_command(const char *command) {
    bool absolute = *command == '/', name = strspn(command, letters) > 0 && !strchr(command, '/');
    if (absolute || name)
        return check_text("--command", command);
    return mr_fail(MR_ERROR_USAGE,
                   "--command takes an absolute path, or a name that begins with a letter or a digit, not "
                   "\"%s\"", command);
}

static int check_nodes(const mr_plan_view *plan) {
    for (size_t n = 0; n < plan->node_count; n++) {
        const char *id = plan->nodes[n].id;
        if (strspn(id, id_letters) != strlen(id))
            return mr_fail(MR_ERROR_CONFIG,
                           "nodes.%s: units and jobs are called by it: use the letters a to z and A to Z, "
                           "digits, - and _", id);
    }
    return MR_OK;
}

int mr_deploy_check(const mr_deployment *of) {
    int status = check_text("the pipeline's path", of->path);
    if (!status)
        status = check_command(of->command);
    if (!status && of->image)
        status = check_text("--image", of->image);
    if (!status)
        status = check_text("--output", of->folder);
    if (!status)
        status = check_overrides(of->overrides);
    for (char *const *word = of->words; *word && !status; word++)
        status = check_text("the word", *word);
    if (!status && of->claim)
        status = check_text("--volume", of->claim);
    if (!status && of->claim)
        status = check_text("--volume", of->mount);
    if (!status)
        status = check_nodes(of->plan);
    if (!status && *of->name == '-')
        status = mr_fail(MR_ERROR_CONFIG,
                         "pipeline: files of \"%s\" would be called \"%s\", and a name that begins with - "
                         "is read as an option: begin it with a letter of a to z, or a digit",
                         of->plan->name, of->name);
    return status;
}

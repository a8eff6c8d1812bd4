#include "tools/millrace/submit/sites.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/print.h"

#define PATIENCE_NS (INT64_C(60) * 1000000000)
enum { MOST_OUTPUT = 64 << 20, MOST_WORDS = 600 };

const mr_site *mr_site_of(const mr_submission *one) {
    static const mr_site *const sites[] = {&mr_site_slurm, &mr_site_kubernetes, &mr_site_systemd};
    return sites[one->target];
}

/* ---- words ----------------------------------------------------------------------------------------------------- */

void mr_site_add(mr_site_words *to, const char *format, ...) {
    char *word = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&word, format, list) < 0)
        word = NULL;
    va_end(list);
    if (!word || mr_words_add(&to->words, word)) {
        free(word);
        to->failed = true;
    }
}

void mr_site_add_all(mr_site_words *to, const mr_words *words) {
    for (size_t i = 0; i < words->count; i++)
        mr_site_add(to, "%s", words->item[i]);
}

void mr_site_words_fini(mr_site_words *words) {
    for (size_t i = 0; i < words->words.count; i++)
        free((char *)(uintptr_t)words->words.item[i]);
    mr_words_fini(&words->words);
}

/* ---- calls ----------------------------------------------------------------------------------------------------- */

/* The programs have exit code 1 for all that goes wrong. */
static int status_of(const char *words) {
    static const struct {
        const char *part;
        int status;
    } known[] = {{"ermission denied", MR_ERROR_PERMISSION}, {"orbidden", MR_ERROR_PERMISSION},
                 {"nauthorized", MR_ERROR_PERMISSION},      {"ccess denied", MR_ERROR_PERMISSION},
                 {"authentication required", MR_ERROR_PERMISSION},
                 {"nrecognized option", MR_ERROR_USAGE},    {"unknown flag", MR_ERROR_USAGE},
                 {"nvalid", MR_ERROR_USAGE}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strstr(words, known[i].part))
            return known[i].status;
    return MR_ERROR_UNAVAILABLE;
}

/* On one line: a program may print several. */
static int refuse(const char *program, const mr_exec_result *result) {
    char text[MOST_WORDS];
    size_t bytes = 0;
    const char *words = result->err_bytes ? result->err : result->out;
    for (const char *at = words; *at && bytes + 2 < sizeof text; at++) {
        const bool blank = *at == '\n' || *at == ' ';
        if (!blank || (bytes && text[bytes - 1] != ' '))
            text[bytes++] = blank ? ' ' : *at;
    }
    while (bytes && text[bytes - 1] == ' ')
        bytes--;
    text[bytes] = 0;
    return mr_fail(status_of(words), "%s refuses, with exit code %d: %s", program, result->code,
                   bytes ? text : "it prints no reason");
}

int mr_site_call(const mr_submission *one, mr_site_words *words, char **out) {
    const mr_exec call = {.words = words->words.item, .package = mr_site_of(one)->package,
                          .patience_ns = PATIENCE_NS, .most = MOST_OUTPUT};
    mr_exec_result result = {0};
    int status = words->failed ? mr_fail(MR_ERROR_MEMORY, "no memory for a submission") : mr_exec_run(&call, &result);
    if (!status && result.code)
        status = refuse(call.words[0], &result);
    *out = NULL;
    if (!status) {
        *out = result.out;
        result.out = NULL;
    }
    words->doubtful = status && result.code > 128;
    mr_exec_fini(&result);
    mr_site_words_fini(words);
    return status;
}

bool mr_site_same(const mr_submission *a, const mr_submission *b) {
    bool same = a->target == b->target && a->options.count == b->options.count;
    for (size_t i = 0; same && i < a->options.count; i++)
        same = strcmp(a->options.item[i], b->options.item[i]) == 0;
    return same && (a->target != MR_DEPLOY_SYSTEMD || strcmp(a->host, b->host) == 0);
}

bool mr_site_is_here(const mr_submission *one) {
    char host[MR_JOB_TEXT] = "";
    bool elsewhere = one->target != MR_DEPLOY_SYSTEMD || gethostname(host, sizeof host - 1);
    for (size_t i = 0; i < one->options.count; i++)
        elsewhere |= strncmp(one->options.item[i], "--host=", 7) == 0;
    return elsewhere || strcmp(host, one->host) == 0;
}

int mr_site_withdraw(mr_submission *one, int status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", mr_message());
    const bool doubtful = one->left;
    one->left = mr_site_of(one)->cancel(one) != MR_OK;
    /* A site that refuses both for one reason has taken nothing. */
    if (one->left && !doubtful && strcmp(mr_message(), why) == 0)
        one->left = false;
    if (one->left)
        return mr_fail(status, "%s; %s may be left at the site: %s", why, *one->site_id ? one->site_id : one->name,
                       mr_message());
    return mr_fail(status, "%s", why);
}

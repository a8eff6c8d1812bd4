#include "tools/millrace/otlp/otlp_target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/version.h"

enum { MOST_HEADERS_BYTES = 1 << 16, HOST_NAME = 256, INSTANCE = 1024 };

/* A variable that is set and not empty; otherwise NULL. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* ---- lists in variables ------------------------------------------------------------------------------------------ */

static int hex_of(char digit) {
    const char *const digits = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* In place. */
static void decode_percent(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        const int high = *from == '%' ? hex_of(from[1]) : -1, low = high >= 0 ? hex_of(from[2]) : -1;
        *to++ = (char)(low >= 0 ? high << 4 | low : *from);
        from += low >= 0 ? 2 : 0;
    }
    *to = '\0';
}

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    for (char *end = text + strlen(text); end > text && strchr(" \t\r", end[-1]);)
        *--end = '\0';
    return text;
}

/* Splits the next "key=value" of a list, in place; NULL: there is none. */
static char *next_pair(char **list, const char *between, char mark, char **value) {
    for (char *pair; (pair = strsep(list, between));) {
        char *at = strchr(pair, mark);
        if (!at)
            continue;
        *at = '\0';
        *value = trimmed(at + 1);
        return trimmed(pair);
    }
    return NULL;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

static int add_headers(mr_otlp_target *to, const char *between, char mark, const char *origin) {
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789!#$%&'*+-.^_`|~";
    char *list = to->text, *value, *name;
    while ((name = next_pair(&list, between, mark, &value))) {
        if (mark == '=')
            decode_percent(value);
        if (!*name || name[strspn(name, allowed)] || strpbrk(value, "\r\n"))
            return mr_fail(MR_ERROR_CONFIG, "%s: \"%s\" cannot name a header", origin, name);
        if (to->header_count == MR_OTLP_MOST_HEADERS)
            return mr_fail(MR_ERROR_CONFIG, "%s: there are more than %d headers", origin, MR_OTLP_MOST_HEADERS);
        to->headers[to->header_count++] = (mr_http_header){name, value};
    }
    return MR_OK;
}

static int read_headers(mr_otlp_target *to, const char *path) {
    mr_file_bytes content;
    FILE *file = fopen(path, "re");
    int status = file ? mr_secret_file_check(fileno(file), path, "a header's value") : MR_OK;
    if (file)
        fclose(file);
    if (!status)
        status = mr_file_read("the headers", path, MOST_HEADERS_BYTES, 0, &content);
    if (!status) {
        to->text = (char *)content.data;
        status = add_headers(to, "\n", ':', path);
    }
    return status;
}

static int find_headers(mr_otlp_target *to, const mr_view_otlp *otlp) {
    const char *given = variable("OTEL_EXPORTER_OTLP_HEADERS");
    if (otlp->headers_file)
        return read_headers(to, otlp->headers_file);
    if (!given)
        return MR_OK;
    to->text = mr_strdup(given);
    return to->text ? add_headers(to, ",", '=', "OTEL_EXPORTER_OTLP_HEADERS")
                    : mr_fail(MR_ERROR_MEMORY, "no memory for headers");
}

/* ---- the resource ------------------------------------------------------------------------------------------------ */

/* Field number of Resource. */
enum { ATTRIBUTES = 1 };

typedef struct attribute {
    const char *key, *value;
} attribute;

/* Whether the variable has that key, so that it replaces ours. */
static bool is_given(const char *attributes, const char *key) {
    const size_t length = strlen(key);
    for (const char *at = attributes; at; at = strchr(at, ',')) {
        at += strspn(at, ", \t");
        if (strncmp(at, key, length) == 0 && at[length + strspn(at + length, " \t")] == '=')
            return true;
        if (!*at)
            return false;
    }
    return false;
}

/* `but`: a key to leave out; NULL: none. */
static void add_given(mr_otlp_bytes *to, const char *attributes, const char *but) {
    char *text = attributes ? strdup(attributes) : NULL, *list = text, *key, *value;
    to->failed = to->failed || (attributes && !text);
    while ((key = next_pair(&list, ",", '=', &value))) {
        decode_percent(value);
        if (!but || strcmp(key, but) != 0)
            mr_otlp_attribute(to, ATTRIBUTES, key, value);
    }
    free(text);
}

/* The instance is the same for each start of the pipeline, so that starts make no new series. */
static int make_resource(mr_otlp_target *to, const mr_plan_view *plan, const mr_view_otlp *otlp, const char *process) {
    const char *given = variable("OTEL_RESOURCE_ATTRIBUTES");
    const char *service = otlp->service ? otlp->service : variable("OTEL_SERVICE_NAME");
    char host[HOST_NAME] = "", instance[INSTANCE];
    gethostname(host, sizeof host - 1);
    snprintf(instance, sizeof instance, "%s/%s%s%s", host, plan->name, process ? "/" : "", process ? process : "");
    const attribute own[] = {{"service.name", service ? service : "millrace"}, {"service.instance.id", instance},
                             {"service.version", MILLRACE_VERSION}, {"host.name", host},
                             {"millrace.pipeline", plan->name}, {"millrace.digest", plan->digest},
                             {"millrace.process", process}};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if ((i == 0 && service) || !is_given(given, own[i].key))
            mr_otlp_attribute(&to->resource, ATTRIBUTES, own[i].key, own[i].value);
    add_given(&to->resource, given, service ? "service.name" : NULL); /* a name that was given alone wins */
    return to->resource.failed ? mr_fail(MR_ERROR_MEMORY, "no memory for OTLP") : MR_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool is_disabled(void) {
    const char *value = variable("OTEL_SDK_DISABLED");
    return value && strcasecmp(value, "true") == 0;
}

int mr_otlp_target_find(mr_otlp_target *target, const mr_plan_view *plan, const char *process) {
    const mr_view_otlp *otlp = mr_plan_view_otlp(plan);
    *target = (mr_otlp_target){.endpoint = otlp->endpoint, .login = otlp->login, .ca_file = otlp->ca_file};
    if (!target->endpoint && !otlp->off && !is_disabled())
        target->endpoint = variable("OTEL_EXPORTER_OTLP_ENDPOINT");
    if (!target->endpoint && otlp->traces > 0 && !otlp->off && !is_disabled())
        return mr_fail(MR_ERROR_USAGE, "traces have nowhere to go: name a collector with --otlp, otlp.endpoint or "
                       "OTEL_EXPORTER_OTLP_ENDPOINT");
    if (!target->endpoint)
        return MR_OK;
    if (!target->ca_file)
        target->ca_file = variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
    int status = mr_http_client_check(target->endpoint);
    if (!status)
        status = find_headers(target, otlp);
    if (!status)
        status = make_resource(target, plan, otlp, process);
    if (status)
        mr_otlp_target_fini(target);
    else if ((target->header_count || target->login.password) && mr_http_client_shows(target->endpoint))
        mr_log(MR_LOG_WARNING, "otlp: %s: headers are sent without encryption: write https://", target->endpoint);
    return status;
}

void mr_otlp_target_fini(mr_otlp_target *target) {
    if (target->text)
        explicit_bzero(target->text, strlen(target->text));
    mr_free(target->text);
    free(target->resource.data);
    *target = (mr_otlp_target){0};
}

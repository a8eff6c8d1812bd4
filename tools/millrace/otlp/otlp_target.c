#include "tools/millrace/otlp/otlp_target.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "millrace/log.h"
#include "millrace/version.h"

enum { MOST_HEADERS_BYTES = 1 << 16, HOST_NAME = 256, INSTANCE = 1024, MOST_NAME = 64 };

/* A variable that is set and not empty; otherwise NULL. */
static const char *variable(const char *name) {
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

/* The variable whose name has the signal, in capital letters, at the %s. */
static const char *variable_of(const char *format, const char *signal) {
    char name[MOST_NAME], capitals[MOST_NAME];
    size_t length = 0;
    for (; signal[length] && length + 1 < sizeof capitals; length++)
        capitals[length] = (char)toupper((unsigned char)signal[length]);
    capitals[length] = '\0';
    snprintf(name, sizeof name, format, capitals);
    return variable(name);
}

/* ---- lists in variables ------------------------------------------------------------------------------------------ */

static int hex_of(char digit) {
    const char *const digits = "0123456789abcdef";
    const char *at = digit ? strchr(digits, digit | 0x20) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* In place. A zero byte would end the text: it stays encoded. */
static void decode_percent(char *text) {
    char *to = text;
    for (const char *from = text; *from; from++) {
        const int high = *from == '%' ? hex_of(from[1]) : -1, low = high >= 0 ? hex_of(from[2]) : -1;
        const int byte = low >= 0 ? high << 4 | low : 0;
        *to++ = byte ? (char)byte : *from;
        from += byte ? 2 : 0;
    }
    *to = '\0';
}

static char *trimmed(char *text) {
    text += strspn(text, " \t");
    for (char *end = text + strlen(text); end > text && strchr(" \t\r", end[-1]);)
        *--end = '\0';
    return text;
}

/* A list of "key=value", which is split in place. Messages name an entry by its number: it may be a secret. */
typedef struct list {
    char *rest;
    const char *between, *origin; /* between: characters that part entries */
    char mark;
    int number;                   /* the pair's; empty entries count */
    char *key, *value;            /* key NULL: there is no further pair */
} list;

static int next_pair(list *from) {
    from->key = NULL;
    for (char *entry; (entry = strsep(&from->rest, from->between));) {
        from->number++;
        char *at = strchr(entry, from->mark);
        if (!at && !*trimmed(entry))
            continue;
        if (!at)
            return mr_fail(MR_ERROR_CONFIG, "%s: entry %d has no \"%c\": write NAME%cVALUE", from->origin, from->number,
                           from->mark, from->mark);
        *at = '\0';
        from->value = trimmed(at + 1);
        from->key = trimmed(entry);
        break;
    }
    return MR_OK;
}

/* ---- headers ----------------------------------------------------------------------------------------------------- */

static int add_headers(mr_otlp_route *to, const char *between, char mark, const char *origin) {
    list from = {.rest = to->text, .between = between, .mark = mark, .origin = origin};
    int status;
    while (!(status = next_pair(&from)) && from.key) {
        if (mark == '=')
            decode_percent(from.value);
        if (!mr_http_is_header_name(from.key))
            return mr_fail(MR_ERROR_CONFIG, "%s: entry %d: what stands before \"%c\" cannot name a header", origin,
                           from.number, mark);
        if (strpbrk(from.value, "\r\n"))
            return mr_fail(MR_ERROR_CONFIG, "%s: entry %d: the value must be one line", origin, from.number);
        if (to->header_count == MR_OTLP_MOST_HEADERS)
            return mr_fail(MR_ERROR_CONFIG, "%s: there are more than %d headers", origin, MR_OTLP_MOST_HEADERS);
        to->headers[to->header_count++] = (mr_http_header){from.key, from.value};
    }
    return status;
}

static int read_headers(mr_otlp_route *to, const char *path) {
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

static int find_headers(mr_otlp_route *to, const mr_view_otlp *otlp, const char *signal) {
    const char *own = variable_of("OTEL_EXPORTER_OTLP_%s_HEADERS", signal);
    const char *given = own ? own : variable("OTEL_EXPORTER_OTLP_HEADERS");
    if (otlp->headers_file)
        return read_headers(to, otlp->headers_file);
    if (!given)
        return MR_OK;
    to->text = mr_strdup(given);
    return to->text ? add_headers(to, ",", '=', own ? "OpenTelemetry's variable for a signal's headers"
                                                    : "OTEL_EXPORTER_OTLP_HEADERS")
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
static int add_given(mr_otlp_bytes *to, const char *attributes, const char *but) {
    char *text = attributes ? mr_strdup(attributes) : NULL;
    list from = {.rest = text, .between = ",", .mark = '=', .origin = "OTEL_RESOURCE_ATTRIBUTES"};
    int status;
    to->failed = to->failed || (attributes && !text);
    while (!(status = next_pair(&from)) && from.key) {
        decode_percent(from.value);
        if (!but || strcmp(from.key, but) != 0)
            mr_otlp_attribute(to, ATTRIBUTES, from.key, from.value);
    }
    mr_free(text);
    return status;
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
    /* A name that was given alone wins. */
    const int status = add_given(&to->resource, given, service ? "service.name" : NULL);
    return to->resource.failed ? mr_fail(MR_ERROR_MEMORY, "no memory for OTLP") : status;
}

/* ---- one signal -------------------------------------------------------------------------------------------------- */

/* "none", or other ways alone, such as "prometheus". */
static bool is_off(const char *signal) {
    const char *exporters = variable(strcmp(signal, "traces") == 0 ? "OTEL_TRACES_EXPORTER" : "OTEL_METRICS_EXPORTER");
    return exporters && !strstr(exporters, "otlp");
}

/* The collector that variables name for a signal; NULL: there is none. *whole: it is the whole URL. */
static const char *endpoint_of(const char *signal, bool *whole) {
    const char *own = variable_of("OTEL_EXPORTER_OTLP_%s_ENDPOINT", signal);
    *whole = own != NULL;
    return is_off(signal) ? NULL : own ? own : variable("OTEL_EXPORTER_OTLP_ENDPOINT");
}

static void check_protocol(const char *signal) {
    const char *own = variable_of("OTEL_EXPORTER_OTLP_%s_PROTOCOL", signal);
    const char *protocol = own ? own : variable("OTEL_EXPORTER_OTLP_PROTOCOL");
    if (protocol && strcmp(protocol, "http/protobuf") != 0)
        mr_log(MR_LOG_WARNING, "otlp: OpenTelemetry's variables ask for the protocol %s, but %s are sent as "
               "http/protobuf: a collector's port for that is 4318, as a rule", protocol, signal);
}

/* People also write a signal's whole URL as the collector's. */
static size_t length_of_base(const char *endpoint) {
    static const char *const ends[] = {"/", "/v1/metrics", "/v1/traces", "/"};
    size_t length = strlen(endpoint);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        const size_t end = strlen(ends[i]);
        if (length > end && strncmp(endpoint + length - end, ends[i], end) == 0)
            length -= end;
    }
    return length;
}

static int make_url(mr_otlp_route *route, const mr_otlp_target *target, const char *signal) {
    bool whole = false;
    const char *endpoint = target->by_variables ? endpoint_of(signal, &whole) : target->endpoint;
    if (!endpoint)
        return MR_OK;
    const int length = whole ? snprintf(route->url, sizeof route->url, "%s", endpoint)
                             : snprintf(route->url, sizeof route->url, "%.*s/v1/%s", (int)length_of_base(endpoint),
                                        endpoint, signal);
    if (length >= MR_OTLP_URL)
        return mr_fail(MR_ERROR_CONFIG, "otlp: the URL has more than %d characters", MR_OTLP_URL - 1);
    return mr_http_client_check(route->url);
}

/* What others could read on the way; NULL: nothing. A variable's URL may have a user and a password. */
static const char *shown_by(const mr_otlp_route *route, const mr_otlp_target *target) {
    mr_url url;
    const bool has_user = mr_url_split_strictly(route->url, &url) && url.user.text;
    if (!mr_http_client_shows(route->url))
        return NULL;
    return has_user || target->otlp->login.password ? "user and password are" : route->header_count ? "headers are"
                                                                                                   : NULL;
}

int mr_otlp_route_find(mr_otlp_route *route, const mr_otlp_target *target, const char *signal) {
    const char *own = variable_of("OTEL_EXPORTER_OTLP_%s_CERTIFICATE", signal), *shown;
    *route = (mr_otlp_route){.ca_file = target->otlp->ca_file};
    int status = make_url(route, target, signal);
    if (status || !*route->url)
        return status;
    if (target->by_variables)
        check_protocol(signal);
    if (!route->ca_file)
        route->ca_file = own ? own : variable("OTEL_EXPORTER_OTLP_CERTIFICATE");
    status = find_headers(route, target->otlp, signal);
    if (status)
        mr_otlp_route_fini(route);
    else if ((shown = shown_by(route, target)))
        mr_log(MR_LOG_WARNING, "otlp: %s: %s sent without encryption: write https://", route->url, shown);
    return status;
}

void mr_otlp_route_fini(mr_otlp_route *route) {
    if (route->text)
        explicit_bzero(route->text, strlen(route->text));
    mr_free(route->text);
    *route = (mr_otlp_route){0};
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static bool is_disabled(void) {
    const char *value = variable("OTEL_SDK_DISABLED");
    return value && strcasecmp(value, "true") == 0;
}

/* Where variables send signals. */
static int read_variables(mr_otlp_target *target) {
    bool whole;
    const char *of_metrics = endpoint_of("metrics", &whole), *of_traces = endpoint_of("traces", &whole);
    target->by_variables = true;
    if (!(target->otlp->traces > 0))
        of_traces = NULL;
    else if (!of_traces && !is_off("traces"))
        return mr_fail(MR_ERROR_USAGE, "traces have nowhere to go: name a collector with --otlp, otlp.endpoint or "
                       "OTEL_EXPORTER_OTLP_ENDPOINT");
    target->endpoint = of_metrics ? of_metrics : of_traces;
    return MR_OK;
}

int mr_otlp_target_find(mr_otlp_target *target, const mr_plan_view *plan, const char *process) {
    const mr_view_otlp *otlp = mr_plan_view_otlp(plan);
    *target = (mr_otlp_target){.otlp = otlp, .endpoint = otlp->endpoint};
    int status = target->endpoint || otlp->off || is_disabled() ? MR_OK : read_variables(target);
    if (status || !target->endpoint)
        return status;
    status = make_resource(target, plan, otlp, process);
    if (status)
        mr_otlp_target_fini(target);
    return status;
}

void mr_otlp_target_fini(mr_otlp_target *target) {
    free(target->resource.data);
    *target = (mr_otlp_target){0};
}

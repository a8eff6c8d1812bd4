/* Where OTLP is sent, with which headers, and in whose name: from `otlp` of the YAML, and from OpenTelemetry's
 * environment variables where that says nothing:
 *
 *     OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE,
 *     OTEL_EXPORTER_OTLP_PROTOCOL, and those for one signal, such as OTEL_EXPORTER_OTLP_TRACES_ENDPOINT;
 *     OTEL_METRICS_EXPORTER, OTEL_TRACES_EXPORTER, OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED
 *
 * A signal is "metrics" or "traces". One thread at a time. */
#pragma once

#include "engine/serve/http_client.h"
#include "millrace/plan.h"
#include "tools/millrace/otlp/otlp_bytes.h"

enum { MR_OTLP_MOST_HEADERS = 32, MR_OTLP_URL = 2048 };

typedef struct mr_otlp_target {
    const mr_view_otlp *otlp;
    const char *endpoint;        /* the YAML's, or the first that a variable names; NULL: nothing is sent */
    bool by_variables;           /* variables name it */
    mr_otlp_bytes resource;      /* the fields of OpenTelemetry's Resource */
} mr_otlp_target;

/* How one signal is sent. */
typedef struct mr_otlp_route {
    char url[MR_OTLP_URL];       /* "": it is not */
    const char *ca_file;         /* NULL: the system's */
    char *text;                  /* the headers' */
    mr_http_header headers[MR_OTLP_MOST_HEADERS];
    size_t header_count;
} mr_otlp_route;

/* `process` is this process's name among the nodes, such as "worker.0"; NULL: one process runs all. MR_ERROR_USAGE:
 * traces are asked for, and have nowhere to go. MR_ERROR_CONFIG. On failure there is nothing to free. */
int mr_otlp_target_find(mr_otlp_target *target, const mr_plan_view *plan, const char *process);
void mr_otlp_target_fini(mr_otlp_target *target);

/* MR_ERROR_CONFIG, and errors of engine/base/file.h and key_file.h for the file of headers. On failure there is nothing
 * to free. */
int mr_otlp_route_find(mr_otlp_route *route, const mr_otlp_target *target, const char *signal);
void mr_otlp_route_fini(mr_otlp_route *route);

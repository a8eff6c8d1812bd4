/* Where OTLP is sent, with which headers, and in whose name: from `otlp` of the YAML, and from OpenTelemetry's
 * environment variables where that says nothing:
 *
 *     OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_SERVICE_NAME,
 *     OTEL_RESOURCE_ATTRIBUTES, OTEL_SDK_DISABLED
 *
 * One thread at a time. */
#pragma once

#include "engine/serve/http_client.h"
#include "millrace/plan.h"
#include "tools/millrace/otlp/otlp_bytes.h"

enum { MR_OTLP_MOST_HEADERS = 32 };

typedef struct mr_otlp_target {
    const char *endpoint;        /* NULL: nothing is sent */
    const char *ca_file;         /* NULL: the system's */
    mr_credentials login;
    char *text;                  /* the headers' */
    mr_http_header headers[MR_OTLP_MOST_HEADERS];
    size_t header_count;
    mr_otlp_bytes resource;      /* the fields of OpenTelemetry's Resource */
} mr_otlp_target;

/* `process` is this process's name among the nodes, such as "worker.0"; NULL: one process runs all. MR_ERROR_CONFIG,
 * and errors of engine/base/file.h and key_file.h for the file of headers. On failure there is nothing to free. */
int mr_otlp_target_find(mr_otlp_target *target, const mr_plan_view *plan, const char *process);
void mr_otlp_target_fini(mr_otlp_target *target);

#include "engine/spec/spec_otlp.h"

#include <string.h>

#include "engine/serve/http_client.h"
#include "millrace/status.h"

#define FIELD(name) offsetof(mr_view_otlp, name)
const mr_option mr_otlp_keys[] = {
    {.name = "endpoint", .kind = MR_OPTION_URI, .file = MR_FILE_SENT, .offset = FIELD(endpoint),
     .credentials = FIELD(login), .example = "http://127.0.0.1:4318",
     .help = "the collector's URL, to which /v1/metrics and /v1/traces are added; without it "
             "$OTEL_EXPORTER_OTLP_ENDPOINT; \"off\" is none, whatever that variable says. A user and a password in it "
             "are never shown"},
    {.name = "traces", .kind = MR_OPTION_DOUBLE, .offset = FIELD(traces), .fallback = "0", .min = 0, .max = 1,
     .example = "0.01",
     .help = "the share of frames whose way is sent as a trace, with a span for each stage and each queue; all nodes "
             "choose the same frames"},
    {.name = "interval", .kind = MR_OPTION_DURATION, .offset = FIELD(interval_ns), .fallback = "10s", .min = 1e8,
     .max = 3600e9, .help = "how often metrics are sent"},
    {.name = "timeout", .kind = MR_OPTION_DURATION, .offset = FIELD(timeout_ns), .fallback = "5s", .min = 1e8,
     .max = 600e9,
     .help = "how long a request may take, and how long the end of a run may wait until the last numbers and spans are "
             "sent"},
    {.name = "headers_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(headers_file),
     .example = "otlp.headers",
     .help = "a file with headers for each request, one `Name: value` on a line, such as Authorization; only its owner "
             "may read it"},
    {.name = "ca_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(ca_file), .example = "ca.pem",
     .help = "certificates (PEM) of those who may sign the collector's certificate; without it "
             "$OTEL_EXPORTER_OTLP_CERTIFICATE, else the system's"},
    {.name = "service", .kind = MR_OPTION_STRING, .offset = FIELD(service), .example = "lobby-cameras",
     .help = "the resource's service.name; without it $OTEL_SERVICE_NAME, else millrace"},
    MR_OPTIONS_END};

static bool check(const mr_option_reader *reader, const mr_yaml *map, const mr_view_otlp *otlp) {
    const int status = otlp->endpoint ? mr_http_client_check(otlp->endpoint) : MR_OK;
    if (!status || status == MR_ERROR_UNAVAILABLE) /* the start refuses that */
        return true;
    mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, status, mr_yaml_get(map, "endpoint")->place,
                "write the collector's address, such as http://127.0.0.1:4318", "otlp.endpoint: %s", mr_message());
    return false;
}

int mr_spec_read_otlp(const mr_option_reader *reader, const mr_yaml *map, mr_view_otlp *otlp) {
    char found[64];
    mr_view_otlp given;
    if (mr_options_default(reader, mr_otlp_keys, otlp, sizeof *otlp) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    if (!map || mr_yaml_is_null(map))
        return MR_OK;
    if (map->kind != MR_YAML_MAP) {
        mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, map->place,
                    "write otlp: {endpoint: http://127.0.0.1:4318}", "otlp: expected a map of options, found %s",
                    mr_yaml_found(map, found, sizeof found));
        return MR_OK;
    }
    given = *otlp;
    int status = mr_options_read(reader, mr_otlp_keys, NULL, map, &given);
    given.off = !status && given.endpoint && strcmp(mr_yaml_get(map, "endpoint")->text, "off") == 0;
    if (given.off) /* it would be a path */
        given.endpoint = NULL;
    if (!status && check(reader, map, &given))
        *otlp = given;
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

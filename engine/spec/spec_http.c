#include "engine/spec/spec_http.h"

#include <string.h>

#include "engine/serve/http_address.h"
#include "millrace/status.h"

#define FIELD(name) offsetof(mr_view_http, name)
const mr_option mr_http_keys[] = {
    {.name = "listen", .kind = MR_OPTION_STRING, .offset = FIELD(listen), .example = "127.0.0.1:9100",
     .help = "address and port, or unix:PATH; port 0 is any free one, which the log names; other machines can only be "
             "let in with token_file, certificate and key; off, which is the default, is nowhere"},
    {.name = "token_file", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(token_file),
     .example = "http.token",
     .help = "a file with a token, which only its owner may read; requests must give it, as `Authorization: Bearer "
             "TOKEN` or `?token=TOKEN`, except those for /livez, /readyz and /healthz"},
    {.name = "certificate", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(certificate),
     .example = "http.crt", .help = "the server's certificate for TLS, with those above it, in PEM form; a Unix "
                                   "socket needs none"},
    {.name = "key", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(key), .example = "http.key",
     .help = "the certificate's secret key, in PEM form, which only its owner may read"},
    {.name = "hosts", .kind = MR_OPTION_STRINGS, .offset = FIELD(hosts), .min = 1, .max = 64,
     .example = "[box.example.com]",
     .help = "names by which clients may ask for the server, beside this machine's loopback names; without it any "
             "name if there is a token_file, and else none"},
    {.name = "linger", .kind = MR_OPTION_DURATION, .offset = FIELD(linger_ns), .fallback = "15s", .min = 0,
     .max = 3600e9,
     .help = "how long the end of a run waits for a last scrape of /metrics with the final numbers, if there was a "
             "scrape before"},
    {.name = "stall", .kind = MR_OPTION_DURATION, .offset = FIELD(stall_ns), .fallback = "5m", .min = 1e9,
     .max = 86400e9,
     .help = "a run is not alive if frames are in flight and none has moved for this long, unless a service or node "
             "is away that may hold them up; /livez and a service manager's watchdog then fail"},
    MR_OPTIONS_END};

/* Whether clients are let in as they should be. */
static bool check(const mr_option_reader *reader, const mr_yaml *map, mr_view_http *http) {
    mr_http_address address;
    const char *wrong, *hint = "TLS needs `certificate` and `key`";
    if (!mr_http_address_check(http->listen, http->token_file, http->certificate, http->key, &wrong)) {
        if (http->listen && !mr_http_address_parse(http->listen, &address) && address.file)
            http->certificate = http->key = NULL; /* needs no TLS */
        return true;
    }
    if (strcmp(wrong, "listen") == 0)
        hint = mr_http_address_parse(http->listen, &address)
                   ? NULL : "add token_file: FILE, certificate: FILE and key: FILE to `http` in the pipeline, or "
                          "listen at 127.0.0.1";
    mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, mr_yaml_get(map, wrong)->place, hint,
                "http.%s: %s", wrong, mr_message());
    return false;
}

int mr_spec_read_http(const mr_option_reader *reader, const mr_yaml *map, mr_view_http *http) {
    char found[64];
    mr_view_http given;
    if (mr_options_default(reader, mr_http_keys, http, sizeof *http) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    if (!map || mr_yaml_is_null(map))
        return MR_OK;
    if (map->kind != MR_YAML_MAP) {
        mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, map->place,
                    "write http: {listen: 127.0.0.1:9100}", "http: expected a map of options, found %s",
                    mr_yaml_found(map, found, sizeof found));
        return MR_OK;
    }
    given = *http;
    int status = mr_options_read(reader, mr_http_keys, NULL, map, &given);
    if (!status && given.listen && strcmp(given.listen, "off") == 0)
        given.listen = NULL;
    if (!status && check(reader, map, &given))
        *http = given;
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

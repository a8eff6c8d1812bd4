#include "engine/spec/spec_hub.h"

#include <string.h>

#include "engine/base/url.h"
#include "engine/transport/zmq/socket.h"
#include "millrace/status.h"

#define FIELD(name) offsetof(mr_view_hub, name)
const mr_option mr_hub_keys[] = {
    {.name = "endpoint", .kind = MR_OPTION_STRING, .offset = FIELD(endpoint), .example = "tcp://127.0.0.1:9200",
     .help = "where `millrace hub` listens: tcp://HOST:PORT, or ipc://FOLDER/NAME; beyond this machine only with keys; "
             "off, which is the default, is nowhere"},
    {.name = "key", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(key), .example = "keys/camera.key",
     .help = "file with the run's key pair, made by `millrace keygen`, whose public key the hub allows"},
    {.name = "server", .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .offset = FIELD(server),
     .example = "keys/hub.pub", .help = "file with the hub's public key"},
    {.name = "page", .kind = MR_OPTION_STRING, .offset = FIELD(page), .example = "https://camera.example.com:9100/",
     .help = "the address of the run's page as the hub's readers reach it; by default http.listen, with this machine's "
             "name if it listens at all addresses"},
    MR_OPTIONS_END};

static void refuse(const mr_option_reader *reader, const mr_yaml *map, const char *key, const char *hint) {
    const mr_yaml *at = mr_yaml_get(map, key);
    mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, at ? at->place : map->place, hint,
                "hub.%s: %s", key, mr_message());
}

static bool check(const mr_option_reader *reader, const mr_yaml *map, const mr_view_hub *hub) {
    const char *wrong = NULL;
    if (hub->page && !mr_url_has_scheme(hub->page, "http") && !mr_url_has_scheme(hub->page, "https")) {
        mr_fail(MR_ERROR_CONFIG, "\"%s\" is not the address of a page", hub->page);
        refuse(reader, map, "page", "write https://HOST:PORT/");
        return false;
    }
    if (!hub->endpoint || !mr_zmq_check(&(mr_zmq_params){.id = "hub", .endpoint = hub->endpoint, .key = hub->key,
                                                         .server = hub->server}, &wrong))
        return true;
    refuse(reader, map, wrong, NULL);
    return false;
}

int mr_spec_read_hub(const mr_option_reader *reader, const mr_yaml *map, mr_view_hub *hub) {
    char found[64];
    mr_view_hub given = {0};
    *hub = given;
    if (!map || mr_yaml_is_null(map))
        return MR_OK;
    if (map->kind != MR_YAML_MAP) {
        mr_diagnose(reader->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, map->place,
                    "write hub: {endpoint: tcp://127.0.0.1:9200}", "hub: expected a map of options, found %s",
                    mr_yaml_found(map, found, sizeof found));
        return MR_OK;
    }
    int status = mr_options_read(reader, mr_hub_keys, NULL, map, &given);
    if (!status && given.endpoint && strcmp(given.endpoint, "off") == 0)
        given.endpoint = NULL;
    if (!status && check(reader, map, &given))
        *hub = given;
    return status == MR_ERROR_MEMORY ? status : MR_OK;
}

/* `nodes:` in the YAML, by itself: each node's stages and addresses. */
#include "engine/spec/spec_nodes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/spec/spec_id.h"
#include "millrace/status.h"

static const char *const modes[] = {"reliable", "live", NULL};
static const char *const compressions[] = {"none", "lz4", "zstd", NULL};
static const char *const checksums[] = {"envelope", "payload", NULL};

const mr_option mr_cut_keys[] = {
    {.name = "mode", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_spec_cut, mode), .fallback = "reliable",
     .choices = modes,
     .help = "reliable waits for room and resends, so that no frame is lost or duplicated; live drops the oldest "
             "frame, and counts it"},
    {.name = "window", .kind = MR_OPTION_INT, .offset = offsetof(mr_spec_cut, window), .min = 1, .max = 65536,
     .unit = "frames",
     .help = "the most frames in flight: sent, but not yet settled by the other node; by default as many as the "
             "frame size and later batches require"},
    {.name = "memory", .kind = MR_OPTION_BYTES, .offset = offsetof(mr_spec_cut, memory_bytes), .min = 65536,
     .max = 1099511627776,
     .help = "the same in bytes of payload, without objects and the like; refused if the frame size is not known and "
             "a later stage gathers frames, as a decoder gathers packets"},
    {.name = "compress", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_spec_cut, compress), .fallback = "none",
     .choices = compressions, .help = "how to compress frame payloads for the connection"},
    {.name = "checksum", .kind = MR_OPTION_ENUM, .offset = offsetof(mr_spec_cut, checksum), .fallback = "envelope",
     .choices = checksums,
     .help = "checksums in addition to those in TCP and CURVE: for the envelope, or for the payload too"},
    {.name = "inline", .kind = MR_OPTION_BOOL, .offset = offsetof(mr_spec_cut, in_line), .fallback = "false",
     .help = "send payloads through the socket even between processes on one machine, instead of through shared "
             "memory"},
    {.name = "lease", .kind = MR_OPTION_DURATION, .offset = offsetof(mr_spec_cut, lease_ns), .min = 1000000,
     .max = 86400e9,
     .help = "how long one of several processes on this node can hold a frame before another gets it; by default as "
             "long as the process lives"},
    {.name = "heartbeat", .kind = MR_OPTION_DURATION, .offset = offsetof(mr_spec_cut, heartbeat_ns),
     .min = 10000000, .max = 3600e9,
     .help = "interval of the heartbeats that both nodes send; if none comes for three intervals the peer is "
             "considered lost, and the connection is made again; by default once a second"},
    {.name = "dead_letters", .kind = MR_OPTION_PATH, .offset = offsetof(mr_spec_cut, dead_letters),
     .example = "dead-letters",
     .help = "a folder for frames during which two processes died, whose message was refused three times, or whose "
             "results are too large for a message. Without it a frame can kill any number of processes, and the others "
             "are only dropped"},
    MR_OPTIONS_END,
};

const mr_option mr_node_keys[] = {
    {.name = "stages",
     .kind = MR_OPTION_STRINGS,
     .offset = offsetof(mr_spec_node, stages),
     .example = "[decode, preprocess]",
     .help = "the stages that it runs; without it, it only reads `sources`"},
    {.name = "sources",
     .kind = MR_OPTION_STRINGS,
     .offset = offsetof(mr_spec_node, sources),
     .example = "[lobby]",
     .help = "sources that this node reads; by default those that its stages take as input, unless another node "
             "names them"},
    {.name = "listen",
     .kind = MR_OPTION_STRING,
     .offset = offsetof(mr_spec_node, listen),
     .example = "tcp://127.0.0.1:7001",
     .help = "endpoint where nodes that take this node's frames connect: tcp://HOST:PORT or ipc://PATH; if several "
             "links leave the node, they use this port and the following ones; by default a socket in a private "
             "folder on this machine"},
    {.name = "address",
     .kind = MR_OPTION_STRING,
     .offset = offsetof(mr_spec_node, address),
     .example = "tcp://camera.example:7001",
     .help = "the same endpoint as other machines reach it, if that differs"},
    {.name = "key",
     .kind = MR_OPTION_PATH,
     .offset = offsetof(mr_spec_node, key),
     .example = "keys/camera.key",
     .help = "file with the node's secret CURVE key (millrace keygen); required if it listens beyond this machine"},
    {.name = "public_key",
     .kind = MR_OPTION_PATH,
     .offset = offsetof(mr_spec_node, public_key),
     .example = "keys/camera.pub",
     .help =
         "file with the node's public key, by which others identify it; by default the file beside `key` that ends "
         "in .pub"},
    {.name = "replicas",
     .kind = MR_OPTION_INT,
     .offset = offsetof(mr_spec_node, replicas),
     .fallback = "1",
     .min = 1,
     .max = MR_SPEC_MAX_REPLICAS,
     .unit = "processes",
     .help = "how many processes share the node's work; each source's order is restored after them"},
    {.name = "busy_poll",
     .kind = MR_OPTION_DURATION,
     .offset = offsetof(mr_spec_node, busy_poll_ns),
     .min = 0,
     .max = MR_SPEC_MAX_BUSY_POLL_NS,
     .help = "how long idle workers poll for work before they sleep; by default the pipeline's `busy_poll`"},
    MR_OPTIONS_END,
};

/* ---- endpoints ------------------------------------------------------------------------------------------------- */

/* The port in "tcp://HOST:PORT"; 0 if there is none. */
static int port_of(const char *endpoint) {
    const char *colon = strrchr(endpoint, ':');
    char *end;
    long port = strtol(colon + 1, &end, 10);
    bool plain = colon[1] >= '0' && colon[1] <= '9' && *end == 0;
    return plain && colon > endpoint + strlen("tcp://") && port >= 1 && port <= 65535 ? (int)port : 0;
}

static bool is_endpoint(const char *text) {
    if (strncmp(text, "tcp://", 6) == 0)
        return port_of(text) > 0;
    return strncmp(text, "ipc://", 6) == 0 && text[6];
}

/* Nodes may be started in different folders. */
static bool is_relative(const char *endpoint) {
    return strncmp(endpoint, "ipc://", 6) == 0 && endpoint[6] && endpoint[6] != '/' && endpoint[6] != '@';
}

static void check_endpoint(mr_spec_parser *p, const mr_spec_node *node, const char *key, const char *endpoint) {
    char hint[256];
    if (endpoint && is_relative(endpoint)) {
        snprintf(hint, sizeof hint, "write an absolute path, such as ipc:///run/millrace/%s", node->id);
        mr_spec_error(p, mr_yaml_get(node->node, key)->place, hint,
                      "nodes.%s.%s: the path of \"%s\" depends on the folder in which a node is started", node->id, key,
                      endpoint);
        return;
    }
    if (!endpoint || is_endpoint(endpoint))
        return;
    mr_spec_error(p, mr_yaml_get(node->node, key)->place, "write tcp://127.0.0.1:7001 or ipc:///run/camera.ipc",
                  "nodes.%s.%s: \"%s\" is not an endpoint", node->id, key, endpoint);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

/* The public key for keys/camera.key is in keys/camera.pub. */
static int name_public_key(mr_spec_parser *p, mr_spec_node *node) {
    if (!node->key || node->public_key)
        return MR_OK;
    size_t length = strlen(node->key);
    size_t stem = length > 4 && strcmp(node->key + length - 4, ".key") == 0 ? length - 4 : length;
    node->public_key = mr_arena_print(&p->spec->arena, "%.*s.pub", (int)stem, node->key);
    return node->public_key ? MR_OK : MR_ERROR_MEMORY;
}

/* Checks addresses, and keys that need each other. */
static void check_node(mr_spec_parser *p, const mr_spec_node *node) {
    check_endpoint(p, node, "listen", node->listen);
    check_endpoint(p, node, "address", node->address);
    if (node->address && !node->listen)
        mr_spec_error(p, mr_yaml_get(node->node, "address")->place, "add `listen`, the endpoint at which it listens",
                      "nodes.%s.address: the node has no `listen`", node->id);
    if (node->public_key && !node->key)
        mr_spec_error(p, mr_yaml_get(node->node, "public_key")->place,
                      "add `key`, the file with the secret key; `millrace keygen` makes both",
                      "nodes.%s.public_key: the node has no `key`", node->id);
}

/* "camera: decode" and "camera: [decode, shrink]" for camera: {stages: ...}. */
static void hint_node(const mr_yaml *said, char *text, size_t bytes) {
    bool list = said->kind == MR_YAML_LIST && said->first;
    const mr_yaml *item = list ? said->first : said;
    const char *first = item->kind == MR_YAML_SCALAR && !mr_yaml_is_null(item) ? item->text : "decode";
    size_t length = (size_t)snprintf(text, bytes, "write %s: {stages: [%s", said->key, first);
    for (item = list ? item->next : NULL; item && length < bytes; item = item->next)
        if (item->kind == MR_YAML_SCALAR)
            length += (size_t)snprintf(text + length, bytes - length, ", %s", item->text);
    if (length < bytes)
        snprintf(text + length, bytes - length, "]}");
}

static int read_node(mr_spec_parser *p, const mr_yaml *map) {
    mr_spec_node node = {.id = map->key, .place = map->key_place, .node = map};
    char found[64], hint[256];
    if (!mr_spec_id_is_plain(map->key))
        mr_spec_error(p, map->key_place, "use up to 64 of the letters a to z and A to Z, digits, - and _",
                      "\"%s\" cannot be the name of a node", map->key);
    if (map->kind != MR_YAML_MAP) {
        hint_node(map, hint, sizeof hint);
        mr_spec_error(p, map->place, hint,
                      "nodes.%s: expected a map of options, found %s", map->key,
                      mr_yaml_found(map, found, sizeof found));
        return MR_OK;
    }
    const mr_option_reader reader = {.arena = &p->spec->arena,
                                     .diagnostics = p->diagnostics,
                                     .directory = p->directory,
                                     .where = mr_arena_print(&p->spec->arena, "nodes.%s", map->key),
                                     .synonyms = p->spec->synonyms};
    size_t before = p->diagnostics->errors;
    /* All defaults are in one field: a table that filled the whole struct would clear the fields set above. */
    node.replicas = 1;
    node.busy_poll_ns = -1;
    if (!reader.where || mr_options_read(&reader, mr_node_keys, NULL, map, &node) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    if (p->diagnostics->errors == before)
        check_node(p, &node);
    p->spec->nodes[p->spec->node_count++] = node;
    return name_public_key(p, &p->spec->nodes[p->spec->node_count - 1]);
}

int mr_spec_read_nodes(mr_spec_parser *p) {
    const mr_yaml *map = mr_yaml_get(p->spec->root, "nodes");
    size_t before = p->diagnostics->errors;
    char found[64];
    if (!map)
        return MR_OK;
    if (mr_yaml_is_null(map) || (map->kind == MR_YAML_MAP && map->count == 0)) {
        mr_spec_error(p, map->place,
                      "name the nodes: nodes: {camera: {stages: [decode]}, center: {stages: [results]}}",
                      "nodes: the map is empty");
        return MR_OK;
    }
    if (map->kind != MR_YAML_MAP) {
        mr_spec_error(p, map->place, "write nodes: {camera: {stages: [decode]}, center: {stages: [results]}}",
                      "nodes: expected a map of names, found %s", mr_yaml_found(map, found, sizeof found));
        p->spec->nodes_broken = true;
        return MR_OK;
    }
    if (map->count > MR_SPEC_MAX_NODES) {
        mr_spec_error(p, map->place, "run several processes of one node with `replicas`",
                      "nodes: there are %zu; at most %d are accepted", map->count, MR_SPEC_MAX_NODES);
        p->spec->nodes_broken = true;
        return MR_OK;
    }
    p->spec->nodes = mr_arena_array(&p->spec->arena, map->count, sizeof *p->spec->nodes);
    if (!p->spec->nodes)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *node = map->first; node; node = node->next)
        if (read_node(p, node))
            return MR_ERROR_MEMORY;
    p->spec->nodes_broken = map->doubled || p->diagnostics->errors > before;
    return MR_OK;
}

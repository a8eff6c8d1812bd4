/* `devices:` in the YAML: names, limits and states for the machine's devices; and the names that a stage's `device`
 * accepts. */
#include "engine/spec/spec_devices.h"

#include <stdio.h>
#include <string.h>

#include "engine/base/nearest.h"
#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/spec/spec_id.h"
#include "engine/text/synonyms.h"
#include "millrace/status.h"

typedef struct device_options {
    const char *device;
    int64_t memory_bytes;
    bool enabled;
} device_options;

const mr_option mr_device_keys[] = {
    {.name = "device",
     .kind = MR_OPTION_STRING,
     .offset = offsetof(device_options, device),
     .help = "the device: cpu, sim:N, cuda:N or cuda:GPU-<uuid>; not needed if the name itself is one of these"},
    {.name = "memory",
     .kind = MR_OPTION_BYTES,
     .offset = offsetof(device_options, memory_bytes),
     .min = 1048576,
     .max = 109951162777600,
     .help = "the most memory that buffers may take on it; a pipeline that could need more is refused"},
    {.name = "enabled",
     .kind = MR_OPTION_BOOL,
     .offset = offsetof(device_options, enabled),
     .fallback = "true",
     .help = "false: auto and lists skip it, and a stage cannot name it alone"},
    MR_OPTIONS_END,
};

static const mr_spec_device *find_by_id(const mr_spec *spec, const char *id) {
    for (size_t i = 0; i < spec->device_count; i++)
        if (strcmp(spec->devices[i].id, id) == 0)
            return &spec->devices[i];
    return NULL;
}

/* ---- `devices:` ------------------------------------------------------------------------------------------------ */

/* The id is a name that the author chose, or a device's. */
static bool check_id(mr_spec_parser *p, const mr_yaml *node) {
    if (strcmp(node->key, "auto") != 0 &&
        (mr_device_check_name(node->key) == MR_OK || mr_spec_id_is_plain(node->key)))
        return true;
    mr_spec_error(p, node->key_place,
                  "use up to 64 of the letters a to z and A to Z, digits, - and _, or the device itself, such as "
                  "cuda:0",
                  "\"%s\" cannot be the name of a device", node->key);
    return false;
}

/* mr_device_check_name's message, if it does not only report that there is no such device (a simulated one can have a
 * wrong parameter); else NULL. */
static const char *why_not(const char *name) {
    return strncmp(name, "sim:", 4) == 0 && strchr(name, '?') ? mr_message() : NULL;
}

/* A hint for a wrong name: if it names an unknown card, the nearest known one. */
static const char *name_hint(const char *name, const char *usual, char *text, size_t bytes) {
    const char *like = strstr(name, "like=");
    char wanted[MR_CARD_NAME];
    mr_card card;
    if (!why_not(name) || !like)
        return usual;
    snprintf(wanted, sizeof wanted, "%.*s", (int)strcspn(like + 5, "&"), like + 5);
    mr_nearest nearest = {.wanted = wanted};
    for (size_t i = 0; !mr_card_find(wanted, &card) && mr_card_name(i); i++)
        mr_nearest_offer(&nearest, mr_card_name(i));
    return mr_nearest_hint(&nearest, text, bytes, usual);
}

static bool check_device(mr_spec_parser *p, const mr_yaml *node, const device_options *given) {
    const mr_yaml *said = mr_yaml_get(node, "device");
    bool names_itself = mr_device_check_name(node->key) == MR_OK;
    if (!said && !names_itself) {
        mr_spec_error(p, node->key_place, "write the device, such as device: cuda:0",
                      "devices.%s: it names no device", node->key);
        return false;
    }
    if (said && (!given->device || mr_device_check_name(given->device))) {
        const char *name = given->device ? given->device : "", *why = why_not(name);
        char hint[128];
        mr_spec_error(p, said->place, name_hint(name, "write cpu, sim:0 or cuda:0", hint, sizeof hint),
                      "devices.%s.device: \"%s\"%s%s", node->key, name, why ? ": " : " is not a device",
                      why ? why : "");
        return false;
    }
    if (said && names_itself && strcmp(node->key, given->device) != 0) {
        mr_spec_error(p, said->place, "remove `device`, or give it another name",
                      "devices.%s: its name is %s, but its `device` is %s", node->key, node->key, given->device);
        return false;
    }
    return true;
}

/* Two names for one device would be two limits for one memory. */
static bool check_once(mr_spec_parser *p, const mr_spec_device *added) {
    for (size_t i = 0; i < p->spec->device_count; i++) {
        const mr_spec_device *other = &p->spec->devices[i];
        if (strcmp(other->device, added->device) != 0)
            continue;
        mr_spec_error(p, added->place, "keep one of them", "devices.%s: %s already has the name \"%s\" (%s:%d:%d)",
                      added->id, added->device, other->id, other->place.file, other->place.line, other->place.column);
        return false;
    }
    return true;
}

static int read_device(mr_spec_parser *p, const mr_yaml *node) {
    mr_spec *spec = p->spec;
    device_options given = {0};
    char found[64];
    if (!check_id(p, node))
        return MR_OK;
    if (node->kind != MR_YAML_MAP) {
        mr_spec_error(p, node->place, "write fast: {device: cuda:0, memory: 4GiB}",
                      "devices.%s: expected a map of options, found %s", node->key,
                      mr_yaml_found(node, found, sizeof found));
        return MR_OK;
    }
    const mr_option_reader reader = {.arena = &spec->arena,
                                     .diagnostics = p->diagnostics,
                                     .directory = p->directory,
                                     .where = mr_arena_print(&spec->arena, "devices.%s", node->key),
                                     .synonyms = spec->synonyms};
    if (!reader.where || mr_options_default(&reader, mr_device_keys, &given, sizeof given) == MR_ERROR_MEMORY)
        return MR_ERROR_MEMORY;
    int status = mr_options_read(&reader, mr_device_keys, NULL, node, &given);
    if (status)
        return status == MR_ERROR_MEMORY ? status : MR_OK;
    if (!check_device(p, node, &given))
        return MR_OK;
    const mr_spec_device added = {
        .id = node->key,
        .device = mr_device_full_name(&spec->arena, given.device ? given.device : node->key),
        .place = node->key_place,
        .memory_bytes = given.memory_bytes,
        .enabled = given.enabled,
    };
    if (!added.device)
        return MR_ERROR_MEMORY;
    if (check_once(p, &added))
        spec->devices[spec->device_count++] = added;
    return MR_OK;
}

int mr_spec_read_devices(mr_spec_parser *p) {
    const mr_yaml *map = mr_yaml_get(p->spec->root, "devices");
    if (!map || mr_yaml_is_null(map))
        return MR_OK;
    if (map->kind != MR_YAML_MAP || map->count > MR_SPEC_MAX_DEVICES) {
        mr_spec_error(p, map->place, "write devices: {fast: {device: cuda:0}}",
                      "devices: expected a map with at most %d names", MR_SPEC_MAX_DEVICES);
        return MR_OK;
    }
    p->spec->devices = mr_arena_array(&p->spec->arena, map->count, sizeof *p->spec->devices);
    if (!p->spec->devices)
        return MR_ERROR_MEMORY;
    for (const mr_yaml *node = map->first; node; node = node->next)
        if (read_device(p, node))
            return MR_ERROR_MEMORY;
    return MR_OK;
}

/* ---- `device` of a stage --------------------------------------------------------------------------------------- */

static void check_name(const mr_spec_parser *p, mr_spec_vertex *vertex, const char *key, const mr_yaml *said,
                       bool alone) {
    const char *usual = strcmp(key, "device") == 0 ? "write cpu, auto, sim:0 or cuda:0"
                                                   : "write drop, cpu, sim:0 or cuda:0";
    const mr_spec *spec = p->spec;
    char hint[256];
    if (said->kind != MR_YAML_SCALAR || mr_yaml_is_null(said) || said->broken)
        return; /* If it is not a name, the option table reports that. */
    bool automatic = strcmp(said->text, "auto") == 0;
    if ((automatic && alone) || find_by_id(spec, said->text) || mr_device_check_name(said->text) == MR_OK)
        return;
    vertex->broken = true;
    const char *why = why_not(said->text);
    if (why) {
        mr_spec_error(p, said->place, name_hint(said->text, usual, hint, sizeof hint), "stages.%s.%s: \"%s\": %s",
                      vertex->id, key, said->text, why);
        return;
    }
    const mr_yaml *map = mr_yaml_get(spec->root, "devices");
    if (map && map->kind == MR_YAML_MAP && mr_yaml_get(map, said->text))
        return; /* The error was reported there. */
    if (mr_option_misspelt(spec->synonyms, "devices", mr_spec_keys(MR_SPEC_PIPELINE), NULL, p->spec->root))
        return;
    if (automatic) {
        mr_spec_error(p, said->place, "write device: auto, or name the devices",
                      strcmp(key, "device") == 0 ? "stages.%s.%s: auto cannot be in a list"
                                                 : "stages.%s.%s: auto is not a device", vertex->id, key);
        return;
    }
    mr_nearest nearest = {.wanted = said->text};
    for (size_t i = 0; i < spec->device_count && !mr_diagnostics_full(p->diagnostics); i++)
        mr_nearest_offer(&nearest, spec->devices[i].id);
    const char *meant = mr_nearest_hint(&nearest, hint, sizeof hint, NULL);
    if (!meant && alone)
        meant = mr_synonym_choice(spec->synonyms, "device", NULL, said->text, hint, sizeof hint);
    mr_spec_error(p, said->place, meant ? meant : usual,
                  spec->device_count ? "stages.%s.%s: \"%s\" is neither a device nor a name under `devices`"
                                     : "stages.%s.%s: \"%s\" is not a device",
                  vertex->id, key, said->text);
}

void mr_spec_check_device(const mr_spec_parser *p, mr_spec_vertex *vertex) {
    const mr_yaml *said = mr_yaml_get(vertex->node, "device");
    const mr_yaml *after = mr_yaml_get(vertex->node, "on_device_error");
    if (after && (after->kind != MR_YAML_SCALAR || !after->text || strcmp(after->text, "drop") != 0))
        check_name(p, vertex, "on_device_error", after, false);
    if (!said)
        return;
    if (said->kind != MR_YAML_LIST) {
        check_name(p, vertex, "device", said, true);
        return;
    }
    vertex->broken = vertex->broken || said->count == 0 || said->count > MR_SPEC_MAX_DEVICES;
    if (said->count == 0)
        mr_spec_error(p, said->place, "name at least one device", "stages.%s.device: the list is empty", vertex->id);
    if (said->count > MR_SPEC_MAX_DEVICES) {
        mr_spec_error(p, said->place, "name each device once",
                      "stages.%s.device: the list has %zu names; at most %d are accepted", vertex->id, said->count,
                      MR_SPEC_MAX_DEVICES);
        return;
    }
    for (const mr_yaml *item = said->first; item; item = item->next)
        check_name(p, vertex, "device", item, said->count == 1);
}

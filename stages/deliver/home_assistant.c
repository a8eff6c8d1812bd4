#include "stages/deliver/home_assistant.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/grow.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"

/* Removed devices that are taken away again after a reconnect: a broker that was killed may have them back. */
enum { MOST_GONE = 64 };
enum { NAME_BYTES = 1024, TOPIC_BYTES = 4096, TEMPLATE_BYTES = 2048, OFF_DELAY_S = 30 };

/* A configuration that was published. */
typedef struct entity {
    char *topic, *payload;
    size_t bytes;
} entity;

typedef struct device {
    struct device *next; /* for removed ones */
    char *source;
    char *records; /* the topic of its records */
    char *picture; /* the topic of its pictures */
    uint32_t kinds;     /* those whose entities are published, and so the labels */
    size_t label_count;
    char *label[MR_POST_MOST_LABELS];
    entity *entities;
    size_t count, room;
} device;

struct mr_home {
    mr_home_params params;
    device **of; /* by source; NULL: nothing is known of it */
    size_t count, room;
    device *gone; /* the newest first */
};

/* ---- names ------------------------------------------------------------------------------------------------------- */

size_t mr_home_name(char *to, size_t room, const char *name) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
    size_t length = 0;
    for (; *name; name++) {
        char part[4] = {*name == '/' ? '-' : *name};
        if (*name != '/' && !strchr(plain, *name))
            snprintf(part, sizeof part, "_%02X", (unsigned char)*name);
        for (const char *next = part; *next; next++, length++)
            if (length + 1 < room)
                to[length] = *next;
    }
    to[length < room ? length : room - 1] = 0;
    return length;
}

/* A label as a text in a Jinja template. False: it is too long. */
static bool quote(char *to, size_t room, const char *label) {
    size_t length = (size_t)snprintf(to, room, "\"");
    for (; *label && length + 8 < room; label++) {
        const unsigned char sign = (unsigned char)*label;
        length += (size_t)snprintf(to + length, room - length,
                                   sign < ' ' || sign == '"' || sign == '\\' ? "\\x%02x" : "%c", sign);
    }
    snprintf(to + length, room - length, "\"");
    return !*label;
}

/* ---- configurations ---------------------------------------------------------------------------------------------- */

/* One of its entities. `key` is its name among those of the device. */
typedef struct description {
    const char *component, *key, *name;
    const char *template; /* NULL: a picture */
} description;

static void write_device(yajl_gen json, const mr_home *home, const device *of, const char *id) {
    MR_JSON_MAP(json, "device") {
        MR_JSON_ARRAY(json, "identifiers")
            mr_json_text(json, NULL, id);
        mr_json_text(json, "name", of->source);
        mr_json_text(json, "manufacturer", "millrace");
        mr_json_text(json, "model", home->params.pipeline);
    }
    MR_JSON_MAP(json, "origin")
        mr_json_text(json, "name", "millrace");
    MR_JSON_ARRAY(json, "availability")
        MR_JSON_MAP(json, NULL) {
            mr_json_text(json, "topic", home->params.state_topic);
            mr_json_text(json, "value_template",
                         "{{ 'online' if value_json.state == 'online' else 'offline' }}");
        }
}

static void write_state(yajl_gen json, const device *of, const description *one) {
    mr_json_text(json, "state_topic", of->records);
    mr_json_text(json, "value_template", one->template);
    if (strcmp(one->component, "binary_sensor") == 0) {
        mr_json_text(json, "device_class", "occupancy");
        mr_json_integer(json, "off_delay", OFF_DELAY_S);
    } else if (strcmp(one->key, "class") != 0) {
        mr_json_text(json, "state_class", "measurement");
    }
}

static char *make_payload(const mr_home *home, const device *of, const description *one, const char *id,
                          size_t *bytes) {
    char unique[2 * NAME_BYTES + 16];
    yajl_gen json = mr_json_create(false);
    if (!json)
        return NULL;
    snprintf(unique, sizeof unique, "%s-%s", id, one->key);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", one->name);
        mr_json_text(json, "unique_id", unique);
        if (one->template) {
            write_state(json, of, one);
        } else {
            mr_json_text(json, "image_topic", of->picture);
            mr_json_text(json, "content_type", "image/jpeg");
        }
        write_device(json, home, of, id);
    }
    char *text = mr_json_finish_text(json, bytes);
    *bytes -= text ? 1 : 0; /* the newline */
    return text;
}

static int publish(const mr_home *home, const entity *one) {
    return home->params.publish(home->params.context, one->topic, one->payload, one->bytes);
}

/* Publishes it. It is kept although that fails: a reconnect publishes it again. */
static int add_entity(mr_home *home, device *of, const description *one) {
    char name[NAME_BYTES], id[NAME_BYTES + 16], topic[TOPIC_BYTES];
    if (mr_home_name(name, sizeof name, of->records) >= sizeof name || strlen(one->key) >= NAME_BYTES)
        return MR_OK; /* too long for a topic */
    snprintf(id, sizeof id, "millrace-%s", name);
    snprintf(topic, sizeof topic, "%s/%s/%s/%s/config", home->params.prefix, one->component, id, one->key);
    for (size_t i = 0; i < of->count; i++)
        if (strcmp(of->entities[i].topic, topic) == 0)
            return publish(home, &of->entities[i]);
    if (!mr_grow((void **)&of->entities, of->count, &of->room, sizeof *of->entities))
        return mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
    entity *made = &of->entities[of->count];
    *made = (entity){.topic = mr_strdup(topic)};
    if (!made->topic || !(made->payload = make_payload(home, of, one, id, &made->bytes))) {
        mr_free(made->topic);
        return mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
    }
    of->count++;
    return publish(home, made);
}

/* ---- what is new ------------------------------------------------------------------------------------------------- */

static int keep_label(device *of, const char *label) {
    if (!(of->label[of->label_count] = mr_strdup(label)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
    of->label_count++;
    return MR_OK;
}

static int add_label(mr_home *home, device *of, const char *label) {
    char text[NAME_BYTES], name[NAME_BYTES], safe[NAME_BYTES / 2], key[NAME_BYTES], template[TEMPLATE_BYTES];
    static const char of_label[] = "value_json.objects | default([], true) | selectattr('label', 'eq', %s) | list";
    char chosen[sizeof of_label + NAME_BYTES];
    for (size_t i = 0; i < of->label_count; i++)
        if (strcmp(of->label[i], label) == 0)
            return MR_OK;
    if (of->label_count == MR_POST_MOST_LABELS)
        return MR_OK;
    if (!quote(text, sizeof text, label) || mr_home_name(safe, sizeof safe, label) >= sizeof safe)
        return keep_label(of, label);
    snprintf(chosen, sizeof chosen, of_label, text);
    snprintf(template, sizeof template, "{{ %s | count }}", chosen);
    snprintf(key, sizeof key, "count-%s", safe);
    snprintf(name, sizeof name, "%.*s count", (int)mr_utf8_fit(label, NAME_BYTES / 2), label);
    int status = add_entity(home, of, &(description){"sensor", key, name, template});
    snprintf(template, sizeof template, "{{ 'ON' if %s else 'OFF' }}", chosen);
    snprintf(key, sizeof key, "presence-%s", safe);
    snprintf(name, sizeof name, "%.*s", (int)mr_utf8_fit(label, NAME_BYTES / 2), label);
    if (!status)
        status = add_entity(home, of, &(description){"binary_sensor", key, name, template});
    return status ? status : keep_label(of, label);
}

static int add_kinds(mr_home *home, device *of, uint32_t fresh) {
    /* A state has at most 255 characters. */
    static const description class = {"sensor", "class", "Class",
                                      "{{ (value_json.classes[0].label | default(value_json.classes[0].index, true) | "
                                      "string)[:255] if value_json.classes else 'none' }}"};
    static const description objects = {"sensor", "objects", "Objects",
                                        "{{ value_json.objects | default([], true) | count }}"};
    static const description presence = {"binary_sensor", "presence", "Presence",
                                         "{{ 'ON' if value_json.objects else 'OFF' }}"};
    int status = fresh & MR_POST_CLASSES ? add_entity(home, of, &class) : MR_OK;
    if (!status && fresh & MR_POST_OBJECTS)
        status = add_entity(home, of, &objects);
    if (!status && fresh & MR_POST_OBJECTS)
        status = add_entity(home, of, &presence);
    of->kinds |= status ? 0 : fresh;
    return status;
}

static void free_device(device **of) {
    device *gone = *of;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++) {
        mr_free(gone->entities[i].topic);
        free(gone->entities[i].payload);
    }
    for (size_t i = 0; i < gone->label_count; i++)
        mr_free(gone->label[i]);
    mr_free(gone->entities);
    mr_free(gone->source);
    mr_free(gone->records);
    mr_free(gone->picture);
    mr_free(gone);
    *of = NULL;
}

static device *make_device(const char *source, const char *records) {
    char picture[TOPIC_BYTES];
    device *made = mr_calloc(1, sizeof *made);
    snprintf(picture, sizeof picture, "%s/picture", records);
    if (made) {
        made->source = mr_strdup(source);
        made->records = mr_strdup(records);
        made->picture = mr_strdup(picture);
    }
    if (made && (!made->source || !made->records || !made->picture))
        free_device(&made);
    return made;
}

/* Removes all of a device's entities from the broker, and its last picture. */
static int erase(mr_home *home, const device *of) {
    int status = MR_OK;
    for (size_t i = 0; i < of->count && !status; i++)
        status = home->params.publish(home->params.context, of->entities[i].topic, "", 0);
    return !status && home->params.picture ? home->params.publish(home->params.context, of->picture, "", 0) : status;
}

static int take_away(mr_home *home, device **of) {
    device **last = &home->gone;
    int status = erase(home, *of);
    if (!status)
        status = home->params.settle(home->params.context);
    if (status)
        return status;
    (*of)->next = home->gone;
    home->gone = *of;
    *of = NULL;
    for (size_t i = 0; *last && i < MOST_GONE; i++)
        last = &(*last)->next;
    free_device(last);
    return MR_OK;
}

/* A device with that topic is there again. */
static void recall(mr_home *home, const char *records) {
    for (device **at = &home->gone; *at;) {
        device *one = *at;
        if (strcmp(one->records, records) == 0) {
            *at = one->next;
            free_device(&one);
        } else {
            at = &one->next;
        }
    }
}

/* The source's device, which is made if it has none. A source that has another's place takes away what that had. */
static int find_device(mr_home *home, uint32_t source, const char *id, const mr_post *post, device **found) {
    while (home->count <= source) {
        if (!mr_grow((void **)&home->of, home->count, &home->room, sizeof *home->of))
            return mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
        home->of[home->count++] = NULL;
    }
    device **place = &home->of[source];
    int status = *place && strcmp((*place)->source, id) != 0 ? take_away(home, place) : MR_OK;
    const bool fresh = !*place;
    if (!status && fresh && !(*place = make_device(id, post->topic)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
    *found = *place;
    if (!status && fresh)
        recall(home, post->topic);
    if (!status && fresh && home->params.picture)
        status = add_entity(home, *found, &(description){"image", "picture", "Picture", NULL});
    return status;
}

int mr_home_note(mr_home *home, const mr_stage *self, uint32_t source, const mr_post *post) {
    device *of = NULL;
    int status = find_device(home, source, mr_stage_source_at(self, source), post, &of);
    if (!status && post->head.kinds & ~of->kinds)
        status = add_kinds(home, of, post->head.kinds & ~of->kinds);
    for (size_t at = 0; at < post->head.labels_bytes && !status; at += strlen(post->labels + at) + 1)
        status = add_label(home, of, post->labels + at);
    return status;
}

int mr_home_repeat(mr_home *home) {
    int status = MR_OK;
    for (const device *one = home->gone; one && !status; one = one->next)
        status = erase(home, one);
    for (size_t s = 0; s < home->count; s++)
        for (size_t i = 0; home->of[s] && i < home->of[s]->count && !status; i++)
            status = publish(home, &home->of[s]->entities[i]);
    return status;
}

int mr_home_forget(mr_home *home, const mr_stage *self) {
    int status = MR_OK;
    for (uint32_t s = 0; s < home->count && !status; s++)
        if (home->of[s] && !mr_stage_has_source(self, s, home->of[s]->source))
            status = take_away(home, &home->of[s]);
    return status;
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

int mr_home_create(mr_home **home, const mr_home_params *params) {
    mr_home *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for Home Assistant's configurations");
    made->params = *params;
    *home = made;
    return MR_OK;
}

void mr_home_destroy(mr_home **home) {
    mr_home *gone = *home;
    if (!gone)
        return;
    for (size_t s = 0; s < gone->count; s++)
        free_device(&gone->of[s]);
    for (device *one = gone->gone, *next; one; one = next) {
        next = one->next;
        free_device(&one);
    }
    mr_free(gone->of);
    mr_free(gone);
    *home = NULL;
}

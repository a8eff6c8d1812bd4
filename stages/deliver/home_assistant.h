/* Home Assistant's MQTT discovery: retained configurations, from which it makes entities by itself. One device for each
 * topic of records, which is a source.
 *
 * Entities appear when frames first have what they show: "Class" (the best class), "Objects" (their number), "Presence"
 * (whether there are any), the number and the presence of each label, up to MR_POST_MOST_LABELS, and "Picture". They
 * are all published again after a reconnect, and taken away when the source is removed.
 *
 * One thread at a time. */
#pragma once

#include "stages/deliver/post.h"

typedef struct mr_home mr_home;

typedef struct mr_home_params {
    const char *prefix;        /* of the topics; "homeassistant" unless Home Assistant is set up otherwise */
    const char *state_topic;
    const char *pipeline;
    bool picture;
    /* Publishes a retained message. 0 bytes: removes it. The topic lives until the next settle. */
    int (*publish)(void *context, const char *topic, const char *payload, size_t bytes);
    /* Waits until all that was published is acknowledged. */
    int (*settle)(void *context);
    void *context;
} mr_home_params;

/* The texts must live as long as it does. MR_ERROR_MEMORY. */
int mr_home_create(mr_home **home, const mr_home_params *params);
void mr_home_destroy(mr_home **home);
/* Before a post is published: publishes the configurations of what is new in it. */
int mr_home_note(mr_home *home, const mr_stage *self, uint32_t source, const mr_post *post);
/* After a reconnect: publishes all configurations again, and takes removed ones away again. Does not settle. */
int mr_home_repeat(mr_home *home);
/* Takes away the entities of sources that were removed. */
int mr_home_forget(mr_home *home, const mr_stage *self);

/* A name as part of a topic or an id of Home Assistant: letters, digits, _ and -. "/" becomes "-", and anything else
 * "_" and two hexadecimal digits, so that two names never become one. Returns its length; if that is not below `room`,
 * it is cut. */
size_t mr_home_name(char *to, size_t room, const char *name);

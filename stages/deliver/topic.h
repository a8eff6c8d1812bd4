/* Topics of an MQTT broker, from a template with words in braces: {pipeline}, {stage}, {source} and {class}.
 *
 * A value is one level of a topic, and no two values become the same: characters that a level cannot have (/ + # and
 * control characters), and %, become %XX. Pure functions: any thread. */
#pragma once

#include <stddef.h>

#include "millrace/stage.h"

typedef struct mr_topic_values {
    const char *pipeline, *stage, *source;
    const char *class; /* NULL: "none" */
} mr_topic_values;

/* For negotiate: refuses templates from which no topic can come. NULL is allowed. */
int mr_topic_check(mr_negotiation *negotiation, const char *option, const char *template);
/* Writes a topic with its NUL. Returns its length without it; if that is not below `room`, the topic is cut. */
size_t mr_topic_make(char *topic, size_t room, const char *template, const mr_topic_values *values);

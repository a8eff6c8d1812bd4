/* The texts for `millrace help TOPIC`: document sections that tools/topics.cmake compiles in. */
#pragma once

typedef struct mr_topic {
    const char *name, *summary;
    const char *const *lines; /* Markdown, ended by NULL */
} mr_topic;

/* Ended by a NULL name. */
extern const mr_topic mr_topics[];

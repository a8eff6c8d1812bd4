/* Elements of results as they stand in messages (millrace.proto, Result.elements): the fields of the kind in their
 * order, without gaps, a text as the number of a name, items as their count and each of them.
 *
 * Any bytes may be read: what is inconsistent is refused with MR_ERROR_PROTOCOL. Pure functions: any thread. */
#pragma once

#include "millrace/result.h"

/* Numbers names in a message. NULL has the number 0. */
typedef struct mr_element_names {
    int (*write)(void *context, const char *name, uint32_t *number);
    int (*read)(void *context, uint32_t number, const char **name);
    void *context;
} mr_element_names;

size_t mr_elements_bytes(const mr_result *result);
/* Writes mr_elements_bytes bytes. *count: what the message must state; 0 if elements of the kind have no items. */
int mr_elements_write(const mr_result *from, const mr_element_names *names, uint8_t *to, uint32_t *count);

/* How many elements `bytes` bytes are, in a message that states `stated`. */
int mr_elements_count(const mr_result_kind *kind, size_t bytes, uint32_t stated, size_t *count);
/* Reads `count` elements, for which `to` has room. */
int mr_elements_read(mr_result *to, const uint8_t *data, size_t bytes, size_t count, const mr_element_names *names);

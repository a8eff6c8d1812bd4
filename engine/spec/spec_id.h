/* Ids of sources and stages, and devices' names. Any thread. */
#pragma once

#include <stdbool.h>

#include "engine/base/arena.h"

/* Whether it has only letters, digits, - and _, so that a dot can separate a stage from a port; as MR_SPEC_ID. */
bool mr_spec_id_is_plain(const char *id);
/* The same for a source, which can have letters from any language; as MR_SPEC_SOURCE_ID. */
bool mr_spec_source_id_is_plain(const char *id);
/* A file's name without directory and extension as a source id: other characters become "_". NULL if there is no
 * memory. */
const char *mr_spec_source_id_from(mr_arena *arena, const char *input);

/* A device's name with its number: "cuda" is "cuda:0"; a UUID in small letters. NULL if there is no memory. */
const char *mr_device_full_name(mr_arena *arena, const char *name);

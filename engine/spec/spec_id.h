/* Ids of sources and stages. Any thread. */
#pragma once

#include <stdbool.h>

#include "engine/base/arena.h"

/* Whether it is made of letters, digits, - and _, so that a dot can part a stage from its port; as
 * MR_SPEC_ID. */
bool mr_spec_id_is_plain(const char *id);
/* The same of a source, whose letters may be those of any language; as MR_SPEC_SOURCE_ID. */
bool mr_spec_source_id_is_plain(const char *id);
/* The name of a file without directory and ending as the id of a source: other characters become "_". NULL without
 * memory. */
const char *mr_spec_source_id_from(mr_arena *arena, const char *input);

/* Room for sources that are added while the pipeline runs: `max` and `like` under `sources`. */
#pragma once

#include "engine/spec/spec_parser.h"

/* The keys under `sources` that are not sources: `max` and `like`. */
const mr_option *mr_spec_room_keys(void);

/* Takes them out of `sources`, which then has sources only, and puts in the one that is added. */
int mr_spec_take_room(mr_spec_parser *parser);
/* Copies an added source's map, with the options from `like` that it lacks. */
int mr_spec_like(mr_spec_parser *parser, const mr_spec_added *added, mr_yaml **whole);
/* Appends the reserved sources. */
int mr_spec_reserve(mr_spec_parser *parser);
/* Puts `max` and `like` back into the tree, which is complete again. */
int mr_spec_return_room(mr_spec_parser *parser);

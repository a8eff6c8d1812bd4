/* Between the files that make a spec (spec.c, spec_devices.c, spec_nodes.c, spec_stage.c, override.c); private to
 * them. */
#pragma once

#include "engine/spec/spec.h"
#include "engine/text/options.h"

/* Defaults for a stage type's options, filled once for all stages with that type. */
typedef struct mr_type_entry {
    const mr_stage_type *type;
    const void *defaults;
} mr_type_entry;

typedef struct mr_spec_parser {
    mr_spec *spec;
    const mr_spec_params *params;
    mr_diagnostics *diagnostics;
    const char *directory;     /* the file's, "" or ending in "/" */
    const char *default_source;
    bool *late;                /* for each override: it waits for sources that inputs make */
    mr_yaml *most, *like;      /* `max` and `like` under `sources`; NULL: not there */
    bool plugins_broken;       /* some could not be loaded: unknown types may be theirs */
    mr_index types[2];         /* name to mr_type_entry: for stages, for sources (a name can stand for one of each) */
} mr_spec_parser;

/* Diagnoses an error in the pipeline at `place`; returns MR_ERROR_CONFIG. */
#define mr_spec_error(parser, place, hint, ...)                                                                      \
    mr_diagnose((parser)->diagnostics, MR_SEVERITY_ERROR, MR_ERROR_CONFIG, (place), (hint), __VA_ARGS__)

/* spec_stage.c: the keys that every source and every stage has. */
extern const mr_option mr_source_keys[], mr_stage_keys[];
/* spec_devices.c: keys for an entry in `devices`. */
extern const mr_option mr_device_keys[];
/* spec_nodes.c: keys for an entry in `nodes`, and for a stage's `cut`. */
extern const mr_option mr_node_keys[], mr_cut_keys[];

/* override.c: replaces sources that name several streams by one for each, and applies the overrides of these. MR_OK or
 * MR_ERROR_MEMORY; all else is diagnosed. */
int mr_spec_spread(mr_spec_parser *parser);

/* override.c: applies the command line's overrides to the tree. MR_OK or MR_ERROR_MEMORY; all else is diagnosed. */
int mr_spec_override(mr_spec_parser *parser);

/* spec.c: reads a regular file, or standard input, up to one byte more than is accepted, so that too long a file is
 * refused by the parser. 0, EINVAL for any other file, ENOMEM, or the error of the read. */
int mr_spec_read_bytes(mr_arena *arena, int descriptor, const char **text, size_t *bytes);

/* override.c: sets an option by a dotted key; places show `name` instead of the file. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_set(mr_spec_parser *parser, const char *name, const char *key, const char *value);

/* spec_room.c: takes `max` and `like` out of `sources`, which then has sources only, and puts in the one that is added.
 * MR_OK or MR_ERROR_MEMORY; all else is diagnosed. */
int mr_spec_take_room(mr_spec_parser *parser);
/* Copies an added source's map, with the options from `like` that it lacks. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_like(mr_spec_parser *parser, const mr_spec_added *added, mr_yaml **whole);
/* Appends the reserved sources. Likewise. */
int mr_spec_reserve(mr_spec_parser *parser);
/* Puts `max` and `like` back into the tree, which is complete again. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_return_room(mr_spec_parser *parser);

/* spec.c: loads the libraries of `plugins`, before a type is needed. MR_OK or MR_ERROR_MEMORY; all else is
 * diagnosed. */
int mr_spec_read_plugins(mr_spec_parser *parser);
/* spec.c: registers the types by name. Must be called again after plugins have added some. */
int mr_spec_index_types(mr_spec_parser *parser);

/* spec_devices.c: the section `devices`; and whether a stage's `device` names devices. MR_OK or MR_ERROR_MEMORY; all
 * else is diagnosed. */
int mr_spec_read_devices(mr_spec_parser *parser);
void mr_spec_check_device(const mr_spec_parser *parser, mr_spec_vertex *vertex);

/* spec_nodes.c: the section `nodes`. MR_OK or MR_ERROR_MEMORY; all else is diagnosed. */
int mr_spec_read_nodes(mr_spec_parser *parser);

/* spec_stage.c: reads one source or stage whose id and node are set. MR_OK or MR_ERROR_MEMORY. */
int mr_spec_read_vertex(mr_spec_parser *parser, mr_spec_vertex *vertex);
/* The type that a source's or stage's map names, or that the id names; NULL if there is none. Reports nothing. */
const mr_type_entry *mr_spec_type_of(const mr_spec_parser *parser, const mr_yaml *node, bool is_source);

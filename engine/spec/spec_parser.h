/* What the files that make a spec share; private to this folder. Their functions return MR_OK or MR_ERROR_MEMORY; all
 * else is diagnosed. */
#pragma once

#include "engine/spec/spec_data.h"
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

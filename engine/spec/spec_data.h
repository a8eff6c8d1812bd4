/* What a specification holds (spec.h). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/spec/digest.h"
#include "engine/spec/spec_http.h"
#include "engine/spec/spec_hub.h"
#include "engine/spec/spec_otlp.h"
#include "engine/text/synonyms.h"
#include "engine/text/yaml.h"
#include "millrace/describe.h"
#include "millrace/millrace.h"

enum {
    MR_SPEC_MAX_SOURCES = 10000,
    MR_SPEC_MAX_STAGES = 1000,
    MR_SPEC_MAX_DEVICES = 256,
    MR_SPEC_MAX_NODES = 64,
    MR_SPEC_MAX_REPLICAS = 64, /* processes per node */
    MR_SPEC_MAX_BUSY_POLL_NS = 1000000000,
    MR_SPEC_ID_BYTES = 64,
    MR_SPEC_MAX_PORTS = 16 /* inputs per join */
};

/* The pattern for source and stage ids, as a regular expression (ECMA 262). */
#define MR_SPEC_ID "^(?!sources$)[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$"
/* The same for sources, which can have letters from any language. */
#define MR_SPEC_SOURCE_ID                                                                                           \
    "^(?!sources$)[^\\u0000-/:-@\\[-^`{-\\u00a0][^\\u0000-,./:-@\\[-^`{-\\u00a0]{0,63}$"
/* The pattern for device names under `devices`: such an id, or a device's name. */
#define MR_SPEC_DEVICE_ID                                                                                            \
    "^(?!auto$)[A-Za-z0-9_][A-Za-z0-9_-]{0,63}$|^(cpu|sim|cuda)(:[0-9]+)?(\\?.*)?$|" MR_SPEC_DEVICE_UUID
/* A GPU's name by UUID. */
#define MR_SPEC_DEVICE_UUID "^cuda:GPU-[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$"

/* What a link does if the queue is full. */
typedef enum mr_policy { MR_POLICY_BLOCK, MR_POLICY_DROP_OLDEST, MR_POLICY_DROP_NEWEST } mr_policy;

/* What happens if a call fails: the frames are dropped and the run continues, or the run fails. */
typedef enum mr_on_error { MR_ON_ERROR_DROP, MR_ON_ERROR_FAIL } mr_on_error;

/* One name in `input` or `join`: "stage", "stage.port", "source", "sources.*". */
typedef struct mr_spec_input {
    const char *port; /* in `join`: the port's name; in `input`: NULL */
    const char *from;
    mr_location place;
} mr_spec_input;

typedef struct mr_spec_queue {
    bool given;
    int64_t size;  /* one source's frames; 0: not set */
    int when_full; /* mr_policy */
} mr_spec_queue;

typedef struct mr_spec_batch {
    bool given;
    int64_t size;       /* frames */
    int64_t timeout_ns; /* 0: none */
} mr_spec_batch;

/* How frames arrive at a stage from another node. */
typedef struct mr_spec_cut {
    bool given;
    int mode;              /* mr_cut_mode */
    int64_t window;        /* frames; 0: not set */
    int64_t memory_bytes;  /* 0: not set */
    int compress;          /* mr_cut_compression */
    int checksum;          /* 1: also checks the payload */
    bool in_line;          /* no shared memory, even if both nodes are on one machine */
    int64_t lease_ns;      /* 0: none */
    int64_t heartbeat_ns;  /* 0: not set */
    const char *dead_letters; /* NULL: none */
} mr_spec_cut;

/* The keys that every stage has, beside type, input and join. */
typedef struct mr_spec_common {
    mr_strings device; /* device names, names under `devices`, or "auto" alone */
    const char *on_device_error; /* "drop", or the device that takes over */
    mr_spec_queue queue;
    mr_spec_batch batch;
    mr_spec_cut cut;
    int64_t in_flight; /* 0: not set */
    int64_t deadline_ns; /* for sources; 0: none */
    int on_error;      /* mr_on_error */
} mr_spec_common;

/* An entry in `devices`. */
typedef struct mr_spec_device {
    const char *id;
    const char *device;   /* the device's full name: "cpu", "cuda:0", "sim:1" */
    mr_location place;       /* the id's */
    int64_t memory_bytes; /* most that buffers may use there; 0: no limit */
    bool enabled;
} mr_spec_device;

/* An entry of `nodes`: the stages that it runs. Whether they exist is checked by the plan. */
typedef struct mr_spec_node {
    const char *id;
    mr_location place;          /* the id's */
    const mr_yaml *node;     /* the map, where a key's place can be found */
    mr_strings stages, sources;
    const char *listen;      /* endpoint that it binds; NULL: one in the runtime folder */
    const char *address;     /* endpoint that others connect to; NULL: `listen` */
    const char *key;         /* file with the secret key; NULL: none */
    const char *public_key;  /* file with the public one; NULL: beside `key` */
    int64_t replicas;        /* processes that run it */
    int64_t busy_poll_ns;    /* -1: as the pipeline's */
} mr_spec_node;

/* A source or a stage. */
typedef struct mr_spec_vertex {
    const char *id;
    mr_location place;            /* the id's */
    const char *place_text;    /* "file:line:column" */
    const mr_yaml *node;       /* the map, where an option's place can be found */
    const mr_stage_type *type; /* NULL if it is wrong */
    const void *options;       /* type->options_bytes bytes, filled */
    bool is_source;
    bool reserved;             /* a source that can be added while the pipeline runs; an author cannot use its id */
    bool partial;              /* likewise, and `like` leaves out what such a source must say */
    bool broken;               /* an error in it was diagnosed: it is not negotiated */
    mr_spec_common common;
    bool joins;                /* inputs stand under `join` */
    size_t input_count;
    mr_spec_input *inputs;
} mr_spec_vertex;

typedef struct mr_spec {
    const char *file;
    const char *text;          /* the file's */
    const char *name;          /* the pipeline's */
    int workers;               /* 0: not set */
    int jobs;                  /* 0: not set */
    int64_t busy_poll_ns;      /* 0: not set, or none */
    mr_view_http http;
    mr_view_hub hub;
    mr_view_otlp otlp;
    mr_strings required;       /* what must hold for all that leaves the pipeline (mr_stage_type.ensures) */
    bool broken;               /* an error was diagnosed */
    char digest[MR_DIGEST_TEXT]; /* the content's, overrides and variables included; "" if it is broken */
    const mr_stage_type *const *types; /* the program's, followed by those from plugins */
    const mr_synonym *synonyms; /* that come with `types`; NULL: none */
    mr_model_of *model_of;     /* for messages; NULL: no models are known */
    mr_type_list type_list;    /* the array that `types` points to if the pipeline names plugins */
    size_t device_count;
    mr_spec_device *devices;
    size_t node_count;         /* 0: one process runs all */
    mr_spec_node *nodes;
    bool nodes_broken;         /* an error in `nodes` was diagnosed: it is not known which stages they have */
    size_t source_count;
    mr_spec_vertex *sources;
    size_t most_sources;       /* sources: {max: N}; 0: none are added while it runs */
    mr_location most_place;       /* that key's */
    size_t reserved_count;     /* in `sources`: those after the author's */
    const char *sources_from;  /* a file or folder that lists others; NULL: none */
    mr_location from_place;       /* that key's */
    size_t stage_count;
    mr_spec_vertex *stages;
    const char *all_sources;   /* the id that stands for all sources since several inputs replaced it; else NULL */
    size_t group_count;
    struct mr_spec_group *groups; /* sources that were written as one */
    mr_yaml *root;
    mr_arena arena;
} mr_spec;

typedef struct mr_spec_group {
    const char *name;
    size_t first, count;       /* in `sources` */
} mr_spec_group;

/* A source to plan with the others in a file that says how many can be added. It replaces the reserved ones. */
typedef struct mr_spec_added {
    const char *id;
    const mr_yaml *node;               /* the map in another file; NULL: none. It is copied */
    size_t option_count;
    const mr_override *options;        /* key "every" or "reconnect.first"; replaces those in the map and in `like` */
} mr_spec_added;

typedef struct mr_spec_params {
    const mr_stage_type *const *types; /* ended by NULL; lives as long as the spec */
    bool plugins;                      /* plugins that the pipeline names are loaded; else it is refused */
    const char *default_source_type;   /* NULL: mr_spec_implied_source(types) */
    const char *path;                  /* the file, "-": standard input; NULL: none, the text is called "pipeline" */
    const char *text;                  /* NULL: it is read from the file */
    size_t override_count;
    const mr_override *overrides;
    const char *const *override_names; /* for messages, one for each; NULL: --set and the key */
    size_t input_count;
    const char *const *inputs;
    const char *output;
    const mr_spec_added *added;        /* NULL: none */
    mr_model_of *model_of;             /* NULL: no models are known */
} mr_spec_params;

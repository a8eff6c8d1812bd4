/* A plan to look at: what a run of a pipeline would do, or does. It is what `millrace plan` prints.
 *
 *     const mr_plan_view *view;
 *     mr_diagnostics wrong = {0};
 *     mr_pipeline_params params = {.types = mr_stage_types(), .path = "classify.yaml", .offline = true};
 *     if (mr_plan_view_open(&view, &params, &wrong)) { mr_diagnostics_print(&wrong, stderr); ... }
 *     for (size_t i = 0; i < view->link_count; i++)
 *         printf("%s -> %s\n", view->stages[view->links[i].from].id, view->stages[view->links[i].to].id);
 *     mr_plan_view_close(&view);
 *
 * Nothing moves: media and models are opened only as far as planning needs them, and with `offline` not at all. All
 * that a view points to belongs to it, is never changed, may be read by any thread, and lives until the view is closed.
 * Stages, links, devices and nodes are named by their index. Sizes are bytes, times nanoseconds, rates frames a second;
 * 0 means unknown where a field does not say otherwise. Structs grow only as version.h says: a program does not copy
 * mr_plan_view, and takes the elements of its arrays by address. */
#ifndef MILLRACE_PLAN_H
#define MILLRACE_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/diagnostics.h"
#include "millrace/export.h"
#include "millrace/millrace.h"
#include "millrace/stage.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Copies and ends of cuts are put in by the planner; all others are the author's. */
typedef enum mr_view_role {
    MR_VIEW_STAGE,
    MR_VIEW_SOURCE,
    MR_VIEW_UPLOAD,   /* a copy from the host to a device */
    MR_VIEW_DOWNLOAD, /* from a device to the host */
    MR_VIEW_PEER,     /* from device to device */
    MR_VIEW_CUT_OUT,  /* the end of a cut that sends */
    MR_VIEW_CUT_IN    /* the end that receives */
} mr_view_role;

/* Bytes that pools may take: an upper bound if all sizes are known. */
typedef struct mr_view_bytes {
    uint64_t bytes;  /* of all whose size is known */
    uint64_t likely; /* of these, those that a run is expected to take */
    bool unknown;    /* there are others, whose size has no bound */
} mr_view_bytes;

/* A pool of buffers. Each instance of a stage has one on each of its devices: at most count * bytes * instances of each
 * device's memory. */
typedef struct mr_view_pool {
    mr_memory memory;
    int device;     /* whose memory it is (of several devices, the first), or that pins it; 0 for memory of the host */
    int count;      /* buffers; 0: there is no such pool */
    int likely;     /* of these, those that a run is expected to use */
    uint64_t bytes; /* of one buffer at most; 0: not known */
    uint64_t mean;  /* of one buffer on average, as far as the inputs were looked at; `bytes` if they are all alike */
    uint64_t most;  /* of all buffers together: count * bytes, or less if few of them are as large as the largest */
    bool ahead;     /* all are made at the start; else as they are needed */
} mr_view_pool;

/* A device that the YAML, the parameters or a stage names. The first is always the host's processors. */
typedef struct mr_view_card mr_view_card;
typedef struct mr_view_device {
    const char *name;       /* "cpu", "sim:0", "cuda:1" */
    const char *alias;      /* its name under `devices:`; NULL: none */
    bool enabled, assumed;  /* assumed: it need not be there (mr_pipeline_params.assume) */
    bool used;              /* a stage or a copy computes there */
    uint64_t limit_bytes;   /* of pools, as `devices:` says; 0: no limit */
    uint64_t memory_bytes;  /* that it has */
    const mr_view_card *card; /* that it is, or is like; NULL: not known */
    mr_view_bytes memory;   /* of its own memory, for pools, weights and tables; of the first device: all host memory */
    mr_view_bytes libraries; /* beside them, for libraries */
} mr_view_device;

/* The figures of a card. */
typedef struct mr_view_codec {
    const char *name;  /* "h264" */
    double decode_fps; /* pictures of 1920x1080 a second, of one decoder */
} mr_view_codec;
struct mr_view_card {
    const char *name;   /* "h100" */
    const char *title;  /* "NVIDIA H100 SXM5 80GB" */
    const char *source; /* where the figures are from */
    bool measured;      /* some were measured; else they are a data sheet's */
    int64_t memory_bytes;
    double memory_rate, upload_rate, download_rate; /* bytes a second */
    double f32_rate, f16_rate;                      /* operations a second */
    double launch_ns;
    int copy_engines, kernels, decoders;
    size_t codec_count;
    const mr_view_codec *codecs;
};

/* A link between nodes. */
typedef struct mr_view_cut {
    const char *name; /* "preprocess->center": the output and the node that takes it */
    int from, to;     /* nodes */
    int out, in;      /* stages at its ends */
    const char *mode; /* "reliable", "live" */
    const char *compression; /* "none", "lz4", "zstd" */
    bool checksum_payload;   /* checksums cover payloads, too */
    bool shared_memory;      /* payloads stay in the host's memory */
    bool keys;               /* it is encrypted */
    int window;              /* frames under way at most */
    uint64_t frame_bytes, window_bytes; /* of one frame, and of those under way, at most */
    const char *listen;      /* where the sending end listens */
    size_t connect_count;    /* where the receiving end connects to */
    const char *const *connect;
} mr_view_cut;

/* A source, a stage, a copy or an end of a cut. */
typedef struct mr_view_stage {
    const char *id;
    const mr_stage_type *type;
    const void *options;            /* as type->options describes them */
    const char *place;              /* "file:line:column" */
    mr_view_role role;
    uint32_t source;                /* of sources: their number */
    const char *written;            /* of sources: their key under `sources`; several may be written as one */
    int node;                       /* 0 where there are no nodes */
    const char *device;             /* the first of its devices */
    const char *device_names;       /* of all of them: "sim:0, sim:1" */
    const char *device_reason;      /* why, where the choice was the planner's; else NULL */
    const char *remark;             /* what it does otherwise on that device, and why; else NULL */
    const char *note;               /* what it does otherwise on whichever device, and why; else NULL */
    size_t device_count;            /* more than one: frames are spread over them */
    const int *devices;
    bool has_reserve;
    int reserve;                    /* the device that takes over from any that fails */
    int instances;
    mr_entry entry;
    bool blocking;                  /* each instance has a thread of its own */
    int threads;                    /* that libraries start for each instance */
    int entries;                    /* workers that may be in an instance at once */
    int in_flight;                  /* calls of an instance under way at most */
    int batch;                      /* frames of a call at most */
    int64_t batch_timeout_ns;
    int queue;                      /* frames of a source that each of its links holds */
    const char *when_full;          /* "block", "drop-oldest", "drop-newest" */
    const char *on_error;           /* "drop", "fail" */
    bool works_on_devices;          /* its type can be put on devices other than the host's processors */
    size_t constant_bytes;          /* weights and tables of an instance, on each CUDA device */
    size_t input_count;
    const mr_planned_input *inputs;
    size_t output_count;
    const mr_planned_output *outputs;
    const uint64_t *output_bytes;   /* of one frame of each output at most, tensors among its results included */
    const mr_view_pool *pools;      /* one for each output */
    mr_view_pool scratch, staging, batches, block, results, pinned;
    double rate;                    /* of sources: that it offers */
    bool paced;                     /* it keeps to that rate, whether its frames are taken or not */
    bool repeats;                   /* of sources: it can give its frames again, in another run */
    bool endless;                   /* of sources: it has no end, or none that is known */
    int64_t frames;                 /* of sources: how many will come */
    int64_t deadline_ns;            /* of sources; 0: none */
    size_t source_count;            /* whose frames come here */
    const uint32_t *sources;        /* ascending */
    const mr_view_cut *cut;         /* that it is an end of; else NULL */
    int gathers;                    /* more than 1: without a batch, a call takes up to so many of the frames that wait
                                       while all workers are busy, and waits for none */
} mr_view_stage;

/* From an output of one stage to an input of another. */
typedef struct mr_view_link {
    int from, from_port; /* stage, and index into its type's outputs */
    int to, to_port;     /* stage, and index into its inputs */
} mr_view_link;

typedef enum mr_view_kind {
    MR_VIEW_HOST,
    MR_VIEW_PINNED,
    MR_VIEW_SHARED,
    MR_VIEW_QUEUES,   /* host memory in which ZeroMQ keeps messages */
    MR_VIEW_DEVICE,   /* a device's own memory */
    MR_VIEW_LIBRARIES /* what libraries take of a device, beside its pools */
} mr_view_kind;

/* The account of memory: a row for every use of memory in one process of a node. All totals of a plan are sums of these
 * rows: of those of a node and a kind, and with MR_VIEW_DEVICE and MR_VIEW_LIBRARIES of a device. */
typedef struct mr_view_row {
    int node;
    mr_view_kind kind;
    int device;
    const char *of;   /* id of the stage or source, or name of the cut */
    const char *what; /* "output", "output NAME", "work", "staging", "batches", "block", "pinned", "results",
                         "constants", "library", "messages" */
    int64_t buffers;  /* of all instances together; 0: it is not counted in buffers */
    uint64_t each;    /* bytes of one buffer at most; 0: not known, or none */
    mr_view_bytes most;
} mr_view_row;

/* A thread of a process, or several of one name. */
typedef struct mr_view_thread {
    int node;
    const char *name;  /* as the system shows it; "" where a library names it */
    int count;
    const char *what;  /* "main", "signals", "worker", "sources" (watches a list), "source", "stage", "cut", "device",
                          "library" */
    const char *stage; /* or device or cut that it works for; NULL: for all */
} mr_view_thread;

/* A file, folder or address that a stage names. */
typedef struct mr_view_file {
    int stage;
    const mr_option *option; /* option->file says whether it is read or written */
    const char *path;        /* "-": standard output */
} mr_view_file;

/* The most sources of a pipeline, entries of `nodes`, and processes of one entry. */
enum { MR_VIEW_MOST_SOURCES = 10000, MR_VIEW_MOST_NODES = 64, MR_VIEW_MOST_REPLICAS = 64 };
/* An entry of `nodes`: one process, or several that do the same. */
typedef struct mr_view_node {
    const char *id;
    int replicas;
    int64_t busy_poll_ns;
    const char *listen, *address;   /* where its first process listens, how others reach it; NULL: it sends nothing */
    const char *key, *public_key;   /* files; NULL: none */
    size_t source_count, stage_count; /* of the author's */
    mr_view_bytes host, pinned, shared, queues; /* of one process */
    const mr_view_bytes *devices;   /* of each device */
    bool restarts_matter;           /* it reads sources or writes something */
    bool restarts_continue;         /* a process that is started again can go on where the earlier one was */
} mr_view_node;

/* What one frame takes of a card, in nanoseconds; of a batch its share. */
typedef struct mr_view_work {
    double upload_ns, download_ns, launch_ns, memory_ns, operation_ns, decode_ns;
} mr_view_work;
typedef struct mr_view_expected_stage {
    int device;          /* the first that is like a card; -1: none */
    mr_view_work part;
    double host_ns;      /* of a processor, as measured */
    double rate;         /* with the card to itself */
    const char *limit;   /* what it takes most of */
    const char *missing; /* what the model leaves out; NULL: nothing */
} mr_view_expected_stage;
typedef struct mr_view_expected_device {
    double upload_ns, download_ns, compute_ns, decode_ns; /* of a frame that the sources give */
} mr_view_expected_device;
/* The most frames a second that a model of the cards expects: bytes, launches, decoders and the arithmetic of
 * networks. */
typedef struct mr_view_expected {
    const mr_view_expected_stage *stages;   /* one for each stage */
    const mr_view_expected_device *devices; /* one for each device */
    double rate;       /* of all sources together; 0: nothing that is modelled limits it */
    const char *limit; /* "uploads", "the card's processors", ...; NULL: nothing */
    int device, stage; /* whose resource it is, and the stage that takes most of it; -1: none */
} mr_view_expected;

typedef struct mr_plan_view {
    const char *name, *file;
    const char *digest;             /* as mr_summary.digest */
    const mr_stage_type *const *types; /* that the pipeline could use, ended by NULL */
    bool plugins;                   /* the pipeline names plugins */
    int workers;
    int asked_workers;              /* as the YAML says; 0: it says nothing */
    int jobs;                       /* of the sources that wait for their turn, so many are open at a time */
    size_t waiting;                 /* sources that wait for their turn */
    int64_t busy_poll_ns, grace_ns;
    bool continues;                 /* a run that is started again can go on where the last one was (--resume) */
    bool assumed;                   /* for hardware that need not be there: it cannot be started */
    size_t source_count;
    size_t stage_count;             /* sources included */
    const mr_view_stage *stages;    /* sources first, then in topological order */
    size_t link_count;
    const mr_view_link *links;      /* by `to` */
    size_t device_count;
    const mr_view_device *devices;
    size_t row_count;
    const mr_view_row *rows;        /* by node, then by kind */
    mr_view_bytes host, pinned, shared, queues; /* of one process */
    size_t thread_count;
    const mr_view_thread *threads;  /* by node */
    size_t file_count;
    const mr_view_file *files;      /* by stage */
    size_t written_nodes;           /* entries of `nodes` in the YAML, also where one process runs all */
    size_t node_count;              /* 0: one process runs all */
    const mr_view_node *nodes;
    int node;                       /* that this is the plan of; -1: of all; 0 where there are none */
    int replica;
    size_t cut_count;
    const mr_view_cut *cuts;        /* in the order of the graph */
    const mr_view_expected *expected; /* NULL: no device is like a card */
    size_t most_sources;            /* at a time, of those above and those that are added while it runs, which have the
                                       places "+1", "+2", ... among them; 0: none are added */
} mr_plan_view;

/* mr_plan_view_open for callers that state the size of their mr_pipeline_params themselves, as
 * mr_pipeline_open_sized. */
MR_API int mr_plan_view_open_sized(const mr_plan_view **view, const mr_pipeline_params *params, size_t params_bytes,
                                   mr_diagnostics *diagnostics);
/* Reads, checks and plans what mr_pipeline_open with the same parameters would run. On failure *view is NULL; errors
 * and warnings are in `diagnostics`, as of mr_pipeline_open. */
static inline int mr_plan_view_open(const mr_plan_view **view, const mr_pipeline_params *params,
                                    mr_diagnostics *diagnostics) {
    return mr_plan_view_open_sized(view, params, sizeof *params, diagnostics);
}
/* The plan of a pipeline that is open. Close the view before the pipeline is destroyed, and, if sources come and go,
 * before one of them does. MR_ERROR_MEMORY. */
MR_API int mr_pipeline_view(const mr_pipeline *pipeline, const mr_plan_view **view);
/* Warns, at its place, of each deadline that is shorter than what a frame takes on the longest way from its source, by
 * measured costs: nanoseconds inside each stage for one frame, in the order of `stages`. MR_OK or MR_ERROR_MEMORY. */
MR_API int mr_plan_view_check_costs(const mr_plan_view *view, const int64_t *cost_ns, mr_diagnostics *diagnostics);
/* The cards that `like` and mr_pipeline_params.assume know by name; NULL behind the last. They live as long as the
 * process. Any thread. */
MR_API const mr_view_card *mr_view_model(size_t index);
/* MR_OK if a text is valid in mr_pipeline_params.assume, else MR_ERROR_USAGE. Any thread. */
MR_API int mr_plan_check_assumption(const char *text);
/* Also of NULL; sets *view to NULL. */
MR_API void mr_plan_view_close(const mr_plan_view **view);

#ifdef __cplusplus
}
#endif
#endif

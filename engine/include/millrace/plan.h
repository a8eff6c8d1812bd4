/* A readable plan: what a run of a pipeline would do, or does. `millrace plan` prints it.
 *
 *     const mr_plan_view *view;
 *     mr_diagnostics wrong = {0};
 *     mr_pipeline_params params = {.types = mr_stage_types(), .path = "classify.yaml", .offline = true};
 *     if (mr_plan_view_open(&view, &params, &wrong)) { mr_diagnostics_print(&wrong, stderr); ... }
 *     for (size_t i = 0; i < view->link_count; i++)
 *         printf("%s -> %s\n", view->stages[view->links[i].from].id, view->stages[view->links[i].to].id);
 *     mr_plan_view_close(&view);
 *
 * No frame moves. Media and models are opened only as far as planning needs them, and not at all with `offline`. A view
 * owns everything it points to and never changes. Any thread may read it until it is closed. Stages, links, devices and
 * nodes are identified by index. Sizes are in bytes, times in nanoseconds, rates in frames per second. 0 means not
 * known, unless a field states otherwise. Structs grow only as version.h states: a program must not copy mr_plan_view,
 * and must take array elements by address. */
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

/* The planner inserts copies and ends of cuts; all others are the author's. */
typedef enum mr_view_role {
    MR_VIEW_STAGE,
    MR_VIEW_SOURCE,
    MR_VIEW_UPLOAD,   /* a copy from the host to a device */
    MR_VIEW_DOWNLOAD, /* from a device to the host */
    MR_VIEW_PEER,     /* from device to device */
    MR_VIEW_CUT_OUT,  /* the sending end of a cut */
    MR_VIEW_CUT_IN    /* the receiving end of a cut */
} mr_view_role;

/* Bytes that pools may take. An upper bound if all sizes are known. */
typedef struct mr_view_bytes {
    uint64_t bytes;  /* total of the known sizes */
    uint64_t likely; /* the part that a run is expected to take */
    bool unknown;    /* there are others, without an upper bound */
} mr_view_bytes;

/* A pool of buffers. Each instance of a stage has one on each device. Together the pools on a device can take at most
 * count * bytes * instances. */
typedef struct mr_view_pool {
    mr_memory memory;
    int device;     /* The device that owns or pins the memory; with several devices, the first. 0 for host memory. */
    int count;      /* number of buffers; 0: there is no such pool */
    int likely;     /* number of buffers that a run is expected to use */
    uint64_t bytes; /* most bytes in one buffer; 0: not known */
    uint64_t mean;  /* average bytes in one buffer, from the inputs that were read; `bytes` if all are alike */
    uint64_t most;  /* most bytes in all buffers: count * bytes, or less if few are as large as the largest */
    bool ahead;     /* all are allocated at the start; else as needed */
} mr_view_pool;

/* A device that the YAML, the parameters or a stage names. The first is always the host's processors. */
typedef struct mr_view_card mr_view_card;
typedef struct mr_view_device {
    const char *name;       /* "cpu", "sim:0", "cuda:1" */
    const char *alias;      /* Optional. The name under `devices:`. */
    bool enabled, assumed;  /* assumed: it may be missing (mr_pipeline_params.assume) */
    bool used;              /* a stage or a copy computes there */
    uint64_t limit_bytes;   /* limit for pools from `devices:`; 0: no limit */
    uint64_t memory_bytes;  /* memory of the device */
    const mr_view_card *card; /* the card that it is, or resembles; NULL: not known */
    mr_view_bytes memory;   /* Device memory for pools, weights and tables. For the first device: all host memory. */
    mr_view_bytes libraries; /* memory for libraries, in addition */
} mr_view_device;

/* Performance figures of a card. */
typedef struct mr_view_codec {
    const char *name;  /* "h264" */
    double decode_fps; /* 1920x1080 pictures per second on one decoder */
} mr_view_codec;
struct mr_view_card {
    const char *name;   /* "h100" */
    const char *title;  /* "NVIDIA H100 SXM5 80GB" */
    const char *source; /* origin of the figures */
    bool measured;      /* some figures were measured; else they come from a data sheet */
    int64_t memory_bytes;
    double memory_rate, upload_rate, download_rate; /* bytes per second */
    double f32_rate, f16_rate;                      /* operations per second */
    double launch_ns;
    int copy_engines, kernels, decoders;
    size_t codec_count;
    const mr_view_codec *codecs;
};

/* A link between nodes. */
typedef struct mr_view_cut {
    const char *name; /* "preprocess->center": the output and the receiving node */
    int from, to;     /* node indexes */
    int out, in;      /* stages at the two ends */
    const char *mode; /* "reliable", "live" */
    const char *compression; /* "none", "lz4", "zstd" */
    bool checksum_payload;   /* checksums cover payloads too */
    bool shared_memory;      /* payloads stay in host memory */
    bool keys;               /* the link is encrypted */
    int window;              /* most frames in flight */
    uint64_t frame_bytes, window_bytes; /* most bytes in one frame, and in all frames in flight */
    const char *listen;      /* address on which the sending end listens */
    size_t connect_count;    /* addresses to which the receiving end connects */
    const char *const *connect;
} mr_view_cut;

/* The devices of a stage. */
typedef struct mr_view_devices {
    const char *first;              /* name of the first device */
    const char *names;              /* all devices: "sim:0, sim:1" */
    const char *reason;             /* Optional. The reason, if the planner chose the device. */
    size_t count;                   /* at least 1; more: frames are spread over them */
    const int *at;                  /* indexes of the devices */
    int turn;                       /* several devices: the number of frames in a row that go to the same one */
    bool has_reserve;
    int reserve;                    /* the device that takes over from a failed one; the stage is open there too */
    bool any;                       /* the type can run on devices other than the host's processors */
} mr_view_devices;

/* How a stage is called. */
typedef struct mr_view_calls {
    int instances;
    mr_entry entry;
    bool blocking;                  /* each instance has a thread */
    int threads;                    /* threads that libraries start per instance */
    int overlap;                    /* MR_ENTRY_PER_SOURCE: calls of an instance that may overlap */
    int entries;                    /* most workers in an instance at once */
    int in_flight;                  /* most calls of an instance in progress */
    int batch;                      /* most frames in a call; 1 without `batch:` */
    int64_t batch_timeout_ns;
    mr_every every;                 /* the frames on which the stage works; it passes the others. Zero: all */
    bool spared;                    /* frames that an earlier stage passed come without payload, and are passed */
    int spacing;                    /* one of how many frames that is; with a time, at the sources' rates */
    int gathers;                    /* More than 1: without a batch, a call takes up to this number of waiting frames
                                       while all workers are busy. It never waits for frames. */
} mr_view_calls;

/* Memory of a stage besides its outputs. */
typedef struct mr_view_memory {
    size_t waiting_bytes;           /* records that wait until a service takes them, per instance, in host memory */
    size_t constant_bytes;          /* weights and tables per instance, on each CUDA device */
    mr_view_pool scratch;           /* working memory of calls */
    mr_view_pool staging;           /* several devices: uploads to the memory of each */
    mr_view_pool batches;           /* copies of small frames: the target of several together */
    mr_view_pool block;             /* uploads of small frames: pinned memory in which they are put together */
    mr_view_pool results;           /* host memory to which results of calls are downloaded */
    mr_view_pool pinned;            /* host memory through which external memory goes to a device */
} mr_view_memory;

/* What a source offers. */
typedef struct mr_view_offer {
    const char *written;            /* the key under `sources`; several may share one */
    double rate;                    /* frames per second; 0: as fast as possible, or unknown */
    bool paced;                     /* keeps to that rate even if frames are not taken */
    bool repeats;                   /* can give the same frames again in another run */
    bool endless;                   /* has no end, or no known end */
    bool waits;                     /* Opened only when it is due. If it cannot be opened, the run continues without
                                       it. */
    bool reserved;                  /* a slot for a source that is added during the run */
    bool unreadable;                /* could not be opened for the plan, but similar ones could */
    int64_t frames;                 /* number of frames; 0: unknown */
    int64_t deadline_ns;            /* no work is begun on frames that are late by this time; 0: none */
} mr_view_offer;

/* How a stage's behaviour differs from the options, and why. Each is optional. */
typedef struct mr_view_remarks {
    const char *here;               /* on the chosen device */
    const char *anywhere;           /* on any device */
    bool forced;                    /* the author has overruled a difference (`force:`) */
} mr_view_remarks;

/* A source, a stage, a copy or an end of a cut. */
typedef struct mr_view_stage {
    const char *id;
    const mr_stage_type *type;
    const void *options;            /* as type->options describes them */
    const char *place;              /* "file:line:column" */
    mr_view_role role;
    uint32_t source;                /* sources: the index */
    int node;                       /* 0 if there are no nodes */
    mr_view_devices devices;
    mr_view_remarks remarks;
    mr_view_calls calls;
    int queue;                      /* frames of one source that each incoming link holds */
    const char *when_full;          /* "block", "drop-oldest", "drop-newest" */
    const char *on_error;           /* "drop", "fail" */
    size_t input_count;
    const mr_planned_input *inputs;
    size_t output_count;
    const mr_planned_output *outputs;
    const uint64_t *output_bytes;   /* most bytes in one frame on each output, with tensors among the results */
    const mr_view_pool *pools;      /* one per output */
    mr_view_memory memory;
    mr_view_offer offer;            /* sources */
    size_t source_count;            /* sources whose frames reach this stage */
    const uint32_t *sources;        /* ascending */
    const mr_view_cut *cut;         /* Optional. The cut, if this is an end of one. */
} mr_view_stage;

/* From a stage's output to another stage's input. */
typedef struct mr_view_link {
    int from, from_port; /* stage, and index into the type's outputs */
    int to, to_port;     /* stage, and index into the type's inputs */
} mr_view_link;

typedef enum mr_view_kind {
    MR_VIEW_HOST,
    MR_VIEW_PINNED,
    MR_VIEW_SHARED,
    MR_VIEW_QUEUES,   /* host memory in which ZeroMQ keeps messages */
    MR_VIEW_DEVICE,   /* device memory */
    MR_VIEW_LIBRARIES /* device memory that libraries take, besides pools */
} mr_view_kind;

/* The account of memory: one row per use of memory in one process of a node. All totals in a plan are sums over rows
 * with the same node and kind; for MR_VIEW_DEVICE and MR_VIEW_LIBRARIES also with the same device. */
typedef struct mr_view_row {
    int node;
    mr_view_kind kind;
    int device;
    const char *of;   /* id of the stage or source, or the cut's name */
    const char *what; /* "output", "output NAME", "work", "staging", "batches", "block", "pinned", "results",
                         "waiting", "constants", "library", "messages" */
    int64_t buffers;  /* in all instances together; 0: not counted in buffers */
    uint64_t each;    /* most bytes in one buffer; 0: not known, or none */
    mr_view_bytes most;
} mr_view_row;

/* One or several threads of a process that share a name. */
typedef struct mr_view_thread {
    int node;
    const char *name;  /* the system's name for it; "" if a library names it */
    int count;
    const char *what;  /* "main", "signals", "worker", "sources" (watches a list), "source", "stage", "cut", "device",
                          "library", "http", "otlp" */
    const char *stage; /* the stage, device or cut that it works for; NULL: all */
} mr_view_thread;

/* A file, folder or address that a stage names. */
typedef struct mr_view_file {
    int stage;
    const mr_option *option; /* option->file tells whether it is read or written */
    const char *path;        /* "-": standard output */
} mr_view_file;

/* The most sources in a pipeline, entries of `nodes`, and processes per entry. */
enum { MR_VIEW_MOST_SOURCES = 10000, MR_VIEW_MOST_NODES = 64, MR_VIEW_MOST_REPLICAS = 64 };
/* An entry of `nodes`: one process, or several with the same work. */
typedef struct mr_view_node {
    const char *id;
    int replicas;
    int64_t busy_poll_ns;
    const char *listen, *address;   /* where the first process listens, and how others reach it; NULL: the node sends
                                       nothing */
    const char *key, *public_key;   /* files; NULL: none */
    size_t source_count, stage_count; /* sources and stages that the author wrote */
    mr_view_bytes host, pinned, shared, queues; /* per process */
    const mr_view_bytes *devices;   /* per device */
    bool restarts_matter;           /* the node reads sources or writes something */
    bool restarts_continue;         /* a restarted process can continue from where the earlier one was */
} mr_view_node;

/* A card's load per frame, in nanoseconds. For a batch, one frame's share. */
typedef struct mr_view_work {
    double upload_ns, download_ns, launch_ns, memory_ns, operation_ns, decode_ns;
} mr_view_work;
typedef struct mr_view_expected_stage {
    int device;          /* the first device that resembles a card; -1: none */
    mr_view_work part;
    double host_ns;      /* measured time on a processor */
    double rate;         /* rate if it has the card alone */
    const char *limit;   /* the resource that limits it */
    const char *missing; /* Optional. What the model leaves out. */
} mr_view_expected_stage;
typedef struct mr_view_expected_device {
    double upload_ns, download_ns, compute_ns, decode_ns; /* per frame from the sources */
} mr_view_expected_device;
/* The highest frame rate that a model of the cards predicts. The model has bytes, launches, decoders and the arithmetic
 * of networks. */
typedef struct mr_view_expected {
    const mr_view_expected_stage *stages;   /* one per stage */
    const mr_view_expected_device *devices; /* one per device */
    double rate;       /* all sources together; 0: nothing in the model limits it */
    const char *limit; /* Optional. "uploads", "the card's processors", ...; NULL: nothing. */
    int device, stage; /* the device with that resource, and the stage that uses most of it; -1: none */
} mr_view_expected;

/* Threads that do requests of its clients. */
enum { MR_VIEW_HTTP_JOBS = 3 };
/* Where `millrace run` answers over HTTP (`http` in the YAML). Paths are as files are opened. */
typedef struct mr_view_http {
    const char *listen;             /* "127.0.0.1:9100", "unix:PATH"; NULL: nowhere */
    const char *token_file, *certificate, *key; /* NULL: none */
    mr_strings hosts;               /* names by which clients may ask, beside the loopback ones */
    int64_t linger_ns, stall_ns;
} mr_view_http;

/* Where `millrace run` reports its state (`hub` in the YAML). Paths are as files are opened. */
typedef struct mr_view_hub {
    const char *endpoint;           /* tcp://HOST:PORT, ipc://FOLDER/NAME; NULL: nowhere */
    const char *key, *server;       /* CURVE keys; NULL: none */
    const char *page;               /* the address of the run's page; NULL: it follows from mr_view_http */
} mr_view_hub;

/* The OpenTelemetry collector to which `millrace run` sends metrics and traces (`otlp` in the YAML). */
typedef struct mr_view_otlp {
    const char *endpoint;           /* a URL; NULL: the environment names it, unless `off` */
    mr_credentials login;           /* the URL's, which it has lost */
    bool off;
    double traces;                  /* the share of frames that are traced; 0: none */
    int64_t interval_ns, timeout_ns;
    const char *headers_file, *ca_file, *service; /* NULL: none */
} mr_view_otlp;

typedef struct mr_plan_view {
    const char *name, *file;
    const char *digest;             /* see mr_summary.digest */
    const mr_stage_type *const *types; /* types that the pipeline could use, ended by NULL */
    bool plugins;                   /* the pipeline names plugins */
    int workers;
    int asked_workers;              /* from the YAML; 0: not set */
    int jobs;                       /* queued sources that are open at a time */
    size_t waiting;                 /* number of queued sources: they open one after another */
    int64_t busy_poll_ns, grace_ns;
    bool continues;                 /* a restarted run can continue from where the last one was (--resume) */
    bool assumed;                   /* planned for hardware that may be missing: cannot be started */
    size_t source_count;
    size_t stage_count;             /* includes sources */
    const mr_view_stage *stages;    /* sources first, then in topological order */
    size_t link_count;
    const mr_view_link *links;      /* sorted by `to` */
    size_t device_count;
    const mr_view_device *devices;
    size_t row_count;
    const mr_view_row *rows;        /* sorted by node, then by kind */
    mr_view_bytes host, pinned, shared, queues; /* per process */
    size_t thread_count;
    const mr_view_thread *threads;  /* sorted by node */
    size_t file_count;
    const mr_view_file *files;      /* sorted by stage */
    size_t written_nodes;           /* entries of `nodes` in the YAML, even if one process runs all */
    size_t node_count;              /* 0: one process runs all */
    const mr_view_node *nodes;
    int node;                       /* the node of this plan; -1: all; 0 if there are no nodes */
    int replica;
    size_t cut_count;
    const mr_view_cut *cuts;        /* in graph order */
    const mr_view_expected *expected; /* Optional. NULL: no device resembles a card. */
    size_t most_sources;            /* Most sources at a time, including those that can be added during the run. Slots
                                       for added sources have the ids "+1", "+2", ... 0: none can be added. */
} mr_plan_view;

/* mr_plan_view_open for callers that pass the size of mr_pipeline_params themselves; see mr_pipeline_open_sized. */
MR_API int mr_plan_view_open_sized(const mr_plan_view **view, const mr_pipeline_params *params, size_t params_bytes,
                                   mr_diagnostics *diagnostics);
/* Reads, checks and plans what mr_pipeline_open would run with the same parameters. On failure *view is NULL. Errors
 * and warnings are in `diagnostics`, as for mr_pipeline_open. */
static inline int mr_plan_view_open(const mr_plan_view **view, const mr_pipeline_params *params,
                                    mr_diagnostics *diagnostics) {
    return mr_plan_view_open_sized(view, params, sizeof *params, diagnostics);
}
/* Views the plan of an open pipeline. Close the view before you destroy the pipeline. If sources come and go, the view
 * shows those of this moment; the options of a source may be gone once it is removed. MR_ERROR_MEMORY. */
MR_API int mr_pipeline_view(const mr_pipeline *pipeline, const mr_plan_view **view);
/* Warns about each deadline that is shorter than the measured time on the longest path from that source. `cost_ns` has
 * the time inside each stage per frame, in the order of `stages`. A warning has the deadline's place. MR_OK or
 * MR_ERROR_MEMORY. */
MR_API int mr_plan_view_check_costs(const mr_plan_view *view, const int64_t *cost_ns, mr_diagnostics *diagnostics);
/* The cards that `like` and mr_pipeline_params.assume know by name. NULL past the last. They live as long as the
 * process. Any thread. */
MR_API const mr_view_card *mr_view_model(size_t index);
/* Checks a text for mr_pipeline_params.assume. MR_OK, or MR_ERROR_USAGE if the text is not valid. Any thread. */
MR_API int mr_plan_check_assumption(const char *text);
/* Valid as long as the view. */
MR_API const mr_view_http *mr_plan_view_http(const mr_plan_view *view);
MR_API const mr_view_hub *mr_plan_view_hub(const mr_plan_view *view);
MR_API const mr_view_otlp *mr_plan_view_otlp(const mr_plan_view *view);
/* Frees a view and sets *view to NULL; NULL is allowed. */
MR_API void mr_plan_view_close(const mr_plan_view **view);

#ifdef __cplusplus
}
#endif
#endif

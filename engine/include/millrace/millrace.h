/* Running a pipeline from a program.
 *
 *     mr_pipeline *pipeline;
 *     mr_diagnostics wrong = {0};
 *     mr_pipeline_params params = {.types = mr_stage_types(), .path = "classify.yaml"};
 *     if (mr_pipeline_open(&pipeline, &params, &wrong)) { mr_diagnostics_print(&wrong, stderr); ... }
 *     mr_pipeline_subscribe(pipeline, "results", on_result, NULL);
 *     mr_pipeline_start(pipeline);
 *     mr_pipeline_push(pipeline, "camera", &picture, -1);
 *     mr_pipeline_end(pipeline, "camera");
 *     mr_pipeline_wait(pipeline, -1);
 *     mr_pipeline_destroy(&pipeline);
 *
 * open plans the pipeline, start runs it on threads of its own, wait returns when all sources have ended and every
 * frame is accounted for. Functions on one pipeline may be called from any thread, except that open, subscribe, start
 * and destroy come in that order from one. Callbacks run on the pipeline's threads and must not block.
 *
 * The library changes no signal handlers. Its own threads block SIGPIPE and SIGXFSZ, so that a closed pipe or a
 * limit of the size of files (RLIMIT_FSIZE) is a failed write there; mr_pipeline_start creates files on the caller's
 * thread, so a program with such a limit ignores SIGXFSZ itself, as the command does. */
#ifndef MILLRACE_H
#define MILLRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/diagnostics.h"
#include "millrace/export.h"
#include "millrace/frame.h"
#include "millrace/stage.h"
#include "millrace/status.h"
#include "millrace/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that was linked; MILLRACE_VERSION is that of these headers. */
MR_API const char *mr_version(void);

/* The stage types that come with millrace, ended by NULL. A program with stages of its own passes a longer list. */
MR_API const mr_stage_type *const *mr_stage_types(void);

/* Stage types of several origins in one list, for mr_pipeline_params.types: those of millrace, of the program, and of
 * plugins. All zero is an empty list. It owns the array, not the types. One thread at a time. */
typedef struct mr_type_list {
    const mr_stage_type **item; /* ended by NULL once there is any */
    size_t count;
} mr_type_list;
/* Adds types (ended by NULL; NULL: none); one that is there already, at the same address, is not added twice. With
 * `own_names`, MR_ERROR_DATA if another one has the name: of sources a source, of others another. MR_ERROR_MEMORY. On
 * failure the list is as before. */
MR_API int mr_type_list_add(mr_type_list *list, const mr_stage_type *const *types, bool own_names);
/* Frees the array; the list is empty then. */
MR_API void mr_type_list_fini(mr_type_list *list);

/* True once a sink of this process that comes with millrace (`jsonl`, `csv`) has opened standard output for its
 * records: the program writes its own text to standard error then. Any thread. */
MR_API bool mr_output_takes_stdout(void);

typedef struct mr_pipeline mr_pipeline;

typedef struct mr_override {
    const char *key; /* "stages.features.batch.size" */
    const char *value; /* as YAML text */
} mr_override;

/* The measured cost of a stage. */
typedef struct mr_measured_cost {
    const char *stage;
    double ns;               /* of its device, or of a processor, for each frame of the sources */
} mr_measured_cost;

/* Grows at its end (version.h): fields are set by name, and those that are not set are zero. */
typedef struct mr_pipeline_params {
    const mr_stage_type *const *types;
    bool plugins;            /* the pipeline may name plugins (plugin.h), which are code, and are loaded; else one that
                                does is refused */
    const char *path;        /* the YAML file; "-": standard input */
    const char *text;        /* its text, if it is not read from the file; path then only names it. NULL: read the
                                file */
    size_t override_count;
    const mr_override *overrides;
    size_t input_count;      /* one replaces the only source's uri; several make one source each */
    const char *const *inputs;
    const char *output;      /* replaces the path of the only sink that has one; NULL: as written */
    int workers;             /* threads that run stages; 0: as the YAML says, else one for each usable core */
    int jobs;                /* videos that are open at a time; 0: as the YAML says, else for each folder or glob as
                                many as there are workers, at least 2, and all other sources */
    bool cuts;               /* `nodes` of the YAML holds; else this process runs all stages, whether it has `nodes` or
                                not */
    const char *node;        /* with cuts: the node that this process runs; NULL: all are planned, and none can be
                                started */
    int replica;             /* with node: which of its processes this is: 0, 1, ... */
    int process, processes;  /* in place of node and replica: the number of this process, counted node by node, and how
                                many there are; processes 0: not given */
    size_t host_count;       /* with cuts: machines of all processes, counted likewise; 0: not known */
    const char *const *hosts;
    const char *runtime;     /* with cuts: folder for the sockets of nodes without an address of their own; NULL:
                                $MILLRACE_RUNTIME, else one of the pipeline's own */
    size_t assume_count;     /* plan for hardware that may be missing: "cuda:8x80GiB" (eight with so much memory each),
                                "sim:2". Such a pipeline is only proven, as with `offline` */
    const char *const *assume;
    size_t cost_count;       /* not 0: `device: auto` balances by these; they are read until it is open */
    const mr_measured_cost *costs;
    int64_t grace_ns;        /* the time that a run may take to end once it was asked to, all its nodes together; 0: ten
                                seconds. A blocked write to a reader, a peer or a full disk gets three tenths of it */
    bool offline;            /* only prove it: open neither media nor models; it cannot be started */
    const char *profile;     /* not NULL: outputs of the YAML are written to /dev/null, or, by stages that write into
                                folders, below this existing folder; and mr_summary has processor times */
    const char *trace;       /* not NULL: mr_pipeline_start creates this file, with a trace of the run for Perfetto or
                                chrome://tracing */
    const char *resume;      /* not NULL: a checkpoint. mr_pipeline_start continues from it, or begins anew if the file
                                is missing; it is kept up to date while the pipeline runs */
    uint64_t seed;           /* not 0: one worker, the caller's thread, simulated clock, order drawn from seed
                                (tests) */
    bool connect;            /* the plan connects to streams of cameras and servers, for what they tell of themselves;
                                it holds without that */
    bool force;              /* overrules what a stage refuses and may be overruled, such as a classifier that was
                                trained behind other stages: as if the stage had `force: true` */
    bool quiet_sources;      /* a source that fails while it runs is not written to the log: mr_pipeline_wait and
                                mr_summary have it */
} mr_pipeline_params;

/* mr_pipeline_open for callers that give the size of their mr_pipeline_params themselves, such as bindings of other
 * languages. MR_ERROR_USAGE if it is smaller than the struct ever was, or sets fields that this library does not
 * know. */
MR_API int mr_pipeline_open_sized(mr_pipeline **pipeline, const mr_pipeline_params *params, size_t params_bytes,
                                  mr_diagnostics *diagnostics);
/* Reads, checks and plans. On failure *pipeline is NULL, and `diagnostics` holds every error and warning found; on
 * success it may hold warnings. The status is the first error's. */
static inline int mr_pipeline_open(mr_pipeline **pipeline, const mr_pipeline_params *params,
                                   mr_diagnostics *diagnostics) {
    return mr_pipeline_open_sized(pipeline, params, sizeof *params, diagnostics);
}

/* Calls `function` with every frame that reaches the stage of type `callback` with that id. The frame is borrowed for
 * the call. */
typedef void mr_frame_function(void *context, const char *source, const mr_frame *frame);
MR_API int mr_pipeline_subscribe(mr_pipeline *pipeline, const char *stage, mr_frame_function *function, void *context);

/* Opens all stages and starts. A stage that is open begins to work while others are still being opened, but nothing is
 * delivered, no sink is opened and no source that keeps to a clock begins before all others are open. On failure
 * nothing runs, every frame that was read is dropped ("stopped"), and mr_message has the reason. */
MR_API int mr_pipeline_start(mr_pipeline *pipeline);

/* A picture or tensor of the program's, for a source of type `push`. The memory is read until release(context) is
 * called, once, from any thread; if release is NULL it is copied before the call returns. A GPU copies directly from
 * pinned memory (cudaHostAlloc); other memory is copied through the pipeline's pinned memory. Grows at its end, as
 * mr_pipeline_params. */
typedef struct mr_push {
    mr_format format;
    const void *data[MR_MAX_PLANES];
    ptrdiff_t stride[MR_MAX_PLANES]; /* pictures */
    int64_t pts_ns;
    void (*release)(void *context);
    void *context;
} mr_push;
/* mr_pipeline_push for callers that give the size of their mr_push themselves, as mr_pipeline_open_sized. */
MR_API int mr_pipeline_push_sized(mr_pipeline *pipeline, const char *source, const mr_push *push, size_t push_bytes,
                                  int64_t timeout_ns);
/* Waits up to timeout_ns (0: not at all, -1: without end) for room. MR_ERROR_AGAIN if there was none, MR_ERROR_DATA if
 * the format is not the planned one, MR_ERROR_CANCELLED once stopping. On failure release is not called. */
static inline int mr_pipeline_push(mr_pipeline *pipeline, const char *source, const mr_push *push, int64_t timeout_ns) {
    return mr_pipeline_push_sized(pipeline, source, push, sizeof *push, timeout_ns);
}
/* Ends that source: it gives no more frames. */
MR_API int mr_pipeline_end(mr_pipeline *pipeline, const char *source);

/* Asks all sources to end; frames in flight are still delivered. `at_once`: frames in flight are dropped and blocking
 * calls are interrupted. Safe in a thread beside signal handling, not in a handler itself. */
MR_API void mr_pipeline_stop(mr_pipeline *pipeline, bool at_once);

/* While it runs: disabled, no more calls go to the device of that name (its own, or that under `devices:`), and the
 * other devices of its stages take over its share; enabled, calls go there again, even if it had failed. Calls under
 * way finish on their device. MR_ERROR_USAGE if the run has no such device open; MR_ERROR_UNAVAILABLE, naming the
 * stage, if one would be left without a device: then nothing has changed. */
MR_API int mr_pipeline_enable_device(mr_pipeline *pipeline, const char *name, bool enabled);

/* While it runs: triggers a stage of that id, for all of its sources, or all stages for the source of that id; of the
 * types that come with the library, `record` then records. MR_ERROR_USAGE if there is none that can be triggered. */
MR_API int mr_pipeline_trigger(mr_pipeline *pipeline, const char *id);

/* Waits up to timeout_ns (-1: without end) for the end. MR_ERROR_AGAIN while it still runs; else the first failure of
 * any source or sink, MR_OK if there was none, MR_ERROR_INTERNAL if the ledger does not balance, and MR_ERROR_IO if the
 * trace could not be written. */
MR_API int mr_pipeline_wait(mr_pipeline *pipeline, int64_t timeout_ns);

/* Stops at once if it still runs. Frames that a program still holds stay valid. */
MR_API void mr_pipeline_destroy(mr_pipeline **pipeline);

/* ---- sources that come and go ------------------------------------------------------------------------------------ */

/* A pipeline with `sources: {max: N}` may have so many sources at a time, and begin with none; it runs until it is
 * asked to end. Each source that is added is proven first, as mr_pipeline_open proves a file: a wrong key or value, a
 * file that cannot be read, a format that a stage does not take or that exceeds what was planned, or a source above N
 * is an error in `diagnostics`, and nothing has changed. Nothing that a source does keeps the others or these calls
 * waiting, except that add and set open the new one once to see what it gives.
 *
 * All three may be called from any thread once the pipeline has started, and from several at once, but not from its
 * callbacks. MR_ERROR_CANCELLED once it is stopping. */

/* Adds a source: `id` as in a file, and its options, with keys such as "uri", "every" and "type" and values as YAML
 * text; those that are not given are as under `like`. Relative paths start in the working directory. An id may be added
 * again after it was removed or has ended: its epochs (mr_identity) then go on behind those of before. MR_ERROR_USAGE:
 * a source of that id is there, or the pipeline has no room for any. The status is the first error's, as of
 * mr_pipeline_open. */
MR_API int mr_pipeline_add_source(mr_pipeline *pipeline, const char *id, size_t option_count,
                                  const mr_override *options, mr_diagnostics *diagnostics);
/* Removes a source: it gives no more frames, those on their way are delivered or dropped by name, and its threads,
 * files and memory are released. Waits for that up to timeout_ns (0: not at all, -1: without end); MR_ERROR_AGAIN:
 * frames of it are still on their way, or held by the program, and the rest happens without the caller. MR_ERROR_USAGE:
 * there is no source of that id. */
MR_API int mr_pipeline_remove_source(mr_pipeline *pipeline, const char *id, int64_t timeout_ns);
/* Changes options of a source, and keeps the others. The new source is proven, then takes the place of the old one, as
 * if that had been removed and another had been added with the same id: it begins anew, in a new epoch, as soon as the
 * last frame of the old one is settled. Does not wait for that. If no option changes nothing happens, which a warning
 * in `diagnostics` says, unless the source has ended: then it begins anew. */
MR_API int mr_pipeline_set_source(mr_pipeline *pipeline, const char *id, size_t option_count,
                                  const mr_override *options, mr_diagnostics *diagnostics);

/* Reads the list of sources anew (`sources_from`), as if a file of it had changed: those that are new are added, those
 * whose options differ begin anew, those that are gone are removed, and all others stay as they are. Does not wait for
 * that. Errors are logged (log.h), each with its place; if the list's text has one, nothing has changed.
 * MR_ERROR_USAGE: the pipeline has no list, or does not run. */
MR_API int mr_pipeline_reload_sources(mr_pipeline *pipeline);

/* Asks the sinks to open their files anew, so that a file that was moved (logrotate) is no longer written: each does so
 * before its next record, and makes the file if it is not there. Any thread. */
MR_API void mr_pipeline_reopen(mr_pipeline *pipeline);

/* ---- summary of the run so far --------------------------------------------------------------------------------- */

typedef enum mr_outcome { MR_OUTCOME_DELIVERED, MR_OUTCOME_DROPPED, MR_OUTCOME_ABSORBED } mr_outcome;

/* Dropped or absorbed source frames. stage and reason live as long as the pipeline. */
typedef struct mr_ledger_line {
    mr_outcome outcome; /* DROPPED or ABSORBED */
    const char *stage, *reason;
    uint64_t frames;
} mr_ledger_line;

typedef struct mr_class_count {
    int32_t index;
    const char *label;
    uint64_t frames;    /* in which it was the first */
    double mean_score;  /* over those frames */
} mr_class_count;

/* Delivered frames of one class of a labelled folder. */
typedef struct mr_truth_count {
    int32_t index;            /* of the folder */
    const char *label;
    uint64_t frames, right;   /* whose first class was that one */
    uint64_t listed;          /* with that class among theirs */
} mr_truth_count;

/* The most unaccounted frames that are named. */
enum { MR_UNSETTLED_FRAMES = 16 };

typedef struct mr_source_summary {
    const char *id;
    bool elsewhere;           /* it is read by another node; these are the frames that came over cuts */
    uint64_t in, delivered, dropped, absorbed, in_flight, unaccounted;
    int64_t expected;         /* frames announced by the container; 0 unknown */
    uint64_t unread;          /* announced frames that were not read, since the stream ended early */
    uint64_t seams;           /* interruptions of the stream: recordings were joined, or a part is missing */
    bool ended;
    int status;               /* MR_OK, or the status of its failure */
    const char *message;      /* of that failure; "" */
    uint64_t classified;      /* frames with classes that were delivered */
    size_t class_count;       /* the most frequent, at most 5, most frequent first */
    mr_class_count classes[5];
    uint64_t labelled;        /* delivered frames with classes and a label (media: labels) */
    uint64_t right, listed;   /* of those, the ones with the label as their first class, and with it among their
                                 classes */
    size_t longest;           /* most classes of one frame: right is top-1, listed is top-`longest` */
    size_t truth_count;
    mr_truth_count *truths;   /* by class, in the order of the folders */
    size_t line_count;
    mr_ledger_line *lines;
    size_t unsettled_count;   /* unaccounted frames, followed by those in flight, the oldest first; none should be left
                                 once the run has ended */
    mr_identity unsettled[MR_UNSETTLED_FRAMES];
    mr_source_report report;  /* of a source that connects to a camera or server; else UNREPORTED */
    const char *note;         /* as in the plan (mr_negotiation.remark): "reads 2 pictures and leaves out 1 video"; else
                                 NULL */
} mr_source_summary;

/* The stay of a source in a pipeline whose sources come and go. */
typedef struct mr_source_stay {
    uint32_t first_epoch, last_epoch; /* of its frames so far */
    bool leaving;             /* it was removed, and frames of it are on their way */
    bool removed;             /* it is not there any more. Those that were removed first are one row, if there were very
                                 many: it has an empty id */
} mr_source_stay;

typedef enum mr_device_state {
    MR_DEVICE_WORKS,
    MR_DEVICE_RESERVED,       /* no frames go there until another device has failed, or is disabled */
    MR_DEVICE_DISABLED,       /* by mr_pipeline_enable_device */
    MR_DEVICE_FAILED
} mr_device_state;

/* The work of a stage on one of its devices. */
typedef struct mr_share_summary {
    const char *device;
    mr_device_state state;
    uint64_t frames;          /* that went there */
    int64_t busy_ns;          /* time with calls of the stage under way there; 0 on the host's processors */
    int64_t cost_ns;          /* that a frame takes there, by the last calls; 0: not known */
} mr_share_summary;

/* Durations, counted in buckets: bucket i has those below mr_duration_bound_ns(i) that no bucket before it has; the
 * last one has no bound. Counts and sums only rise while a pipeline runs. */
enum { MR_DURATION_BUCKETS = 22 };
typedef struct mr_durations {
    uint64_t count, sum_ns;
    uint64_t bucket[MR_DURATION_BUCKETS];
} mr_durations;

/* From 16 microseconds on, each twice the one before, to 17 seconds. */
static inline int64_t mr_duration_bound_ns(int bucket) {
    return INT64_C(1) << (14 + bucket);
}

typedef struct mr_stage_summary {
    const char *id, *type, *device; /* several devices: "sim:0, sim:1" */
    bool is_source;
    int instances;
    uint64_t in, out;         /* frames */
    uint64_t calls;           /* of the stage type: includes those that gave or took nothing, and those that flush */
    int64_t busy_ns;          /* inside the stage, all instances and entries together */
    int64_t cpu_ns;           /* of the engine's threads inside the stage; 0 unless profiled */
    int queue_peak;           /* most frames of one source that waited before an instance; at most the planned
                                 queue */
    int batch_peak;           /* most frames of one call; at most the planned batch, or what may be gathered */
    int64_t p50_ns, p99_ns;   /* from entering the stage's queue to leaving the stage */
    mr_durations latency;     /* the same, of all frames */
    size_t share_count;       /* one for each device; none for copies and for stages that run on the processors only */
    mr_share_summary *shares;
} mr_stage_summary;

/* Counters of one end of a cut: the producer's, or the consumer's. */
typedef struct mr_cut_summary {
    const char *id;           /* of the stage: "decode->worker", or "decode->worker:in" */
    uint64_t frames;          /* sent, or received; each once */
    uint64_t again;           /* sent once more, since their consumer was lost; or received once more, and left out */
    uint64_t set_aside;       /* producer: frames that may have killed their consumers, or were refused by them */
    uint64_t sessions;        /* that began: if some were lost, more than there are processes at the other end */
    uint64_t stale;           /* messages of ended sessions, which were left out */
    uint64_t malformed;       /* messages that broke the protocol; each ends its session */
    uint64_t rejected;        /* greetings that were rejected; consumer: rejections received */
    uint64_t refused;         /* connections: wrong keys, too many, or silent for too long */
} mr_cut_summary;

/* Memory of a device that is not the host's. */
typedef struct mr_device_summary {
    const char *name;
    uint64_t bytes;           /* most that buffers of pools took there at once */
} mr_device_summary;

/* A difference that the author has overruled (mr_negotiation.forced): results may be worse than they look. */
typedef struct mr_forced_summary {
    const char *stage, *why;
} mr_forced_summary;

typedef struct mr_summary {
    const char *pipeline;     /* name */
    const char *digest;       /* of its content, in hexadecimal (SHA-256): equal for equal pipelines, whatever their
                                 layout and comments; overrides and variables count */
    double wall_s, cpu_s;     /* since start; CPU of the whole process */
    double threads_cpu_s;     /* CPU of the engine's own threads: workers, and those of blocking stages; the rest of
                                 cpu_s is that of threads of libraries and devices, and of the program. 0 unless
                                 profiled */
    double first_s;           /* from the start until the first frame was delivered; 0: none was */
    uint64_t peak_bytes;      /* resident, of the process */
    uint64_t host_bytes, pinned_bytes, shared_bytes; /* most that buffers of pools took at once */
    uint64_t in, delivered, dropped, absorbed, in_flight;
    bool balanced;            /* in = delivered + dropped + absorbed + in_flight, for every source */
    size_t line_count;        /* dropped and absorbed, over all sources */
    mr_ledger_line *lines;
    size_t source_count;
    mr_source_summary *sources; /* those with frames in this process */
    size_t stage_count;
    mr_stage_summary *stages; /* of this process, in the order of the plan; sources first. A cut has the name of the
                                 link, "decode->worker"; its end in the consumer, "decode->worker:in" */
    size_t cut_count;
    mr_cut_summary *cuts;     /* ends that are in this process */
    size_t device_count;
    mr_device_summary *devices; /* but the host's processors */
    int64_t latency_p50_ns, latency_p99_ns; /* from source to sink */
    mr_durations latency;     /* the same, of all frames: a frame that reaches several sinks counts for each */
    uint64_t allocations;     /* blocks millrace itself has allocated since start (libraries not counted) */
    int64_t draining_ns;      /* since the run was asked to end, while frames in flight are still delivered; 0: it was
                                 not asked, drops what is in flight, or is over */
    size_t most_sources;      /* at a time: sources: {max: N}; 0: none are added or removed */
    mr_source_stay *stays;    /* one for each source; NULL: none are added or removed */
    size_t forced_count;
    mr_forced_summary *forced;
} mr_summary;

/* A consistent-enough picture at any time, exact after the end. The summary refers to strings of the pipeline. */
MR_API int mr_pipeline_summarize(mr_pipeline *pipeline, mr_summary **summary);
/* The same for many readers: a summary that all of them share, and that was made at most `age_ns` ago (0: it is made
 * now; MR_SNAPSHOT_NS: what readers usually take) and after the last change of a source's state, of the sources, of a
 * device, and after a stop; or after the end. No delivered frame waits for it. It must not be
 * changed; each reader destroys it once, before the pipeline. Any thread. */
#define MR_SNAPSHOT_NS INT64_C(500000000)
MR_API int mr_pipeline_snapshot(mr_pipeline *pipeline, int64_t age_ns, mr_summary **summary);
MR_API void mr_summary_destroy(mr_summary **summary);

#ifdef __cplusplus
}
#endif
#endif

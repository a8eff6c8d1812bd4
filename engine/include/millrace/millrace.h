/* Runs a pipeline from a program.
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
 * mr_pipeline_open plans the pipeline. mr_pipeline_start runs it on the library's threads. mr_pipeline_wait returns
 * when all sources have ended and every frame is accounted for. You must call open, subscribe, start and destroy in
 * that order from one thread; any thread may call the other functions. Callbacks run on the pipeline's threads and must
 * not block.
 *
 * The library changes no signal handlers. Library threads block SIGPIPE and SIGXFSZ, so a closed pipe or an exceeded
 * file size limit (RLIMIT_FSIZE) is a failed write there. mr_pipeline_start creates files on the caller's thread: a
 * program that runs under a file size limit must ignore SIGXFSZ itself, as the command does. */
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

/* The version of the linked library. MILLRACE_VERSION is the version of these headers. */
MR_API const char *mr_version(void);

/* millrace's stage types, ended by NULL. A program that adds stage types must pass a longer list. */
MR_API const mr_stage_type *const *mr_stage_types(void);

/* A list of stage types for mr_pipeline_params.types: those of millrace, the program and plugins together. All zero is
 * an empty list. It owns the array, not the types. Only one thread at a time may use it. */
typedef struct mr_type_list {
    const mr_stage_type **item; /* NULL until the first type is added, then ended by NULL */
    size_t count;
} mr_type_list;
/* Adds `types`, which end with NULL; NULL adds none. A type that is already there, at the same address, is not added
 * again. With `own_names`, a source must not have the name of another source, and a stage must not have the name of
 * another stage. MR_ERROR_DATA: a name is taken, or two types declare different result kinds under one name.
 * MR_ERROR_MEMORY. On failure the list is unchanged. */
MR_API int mr_type_list_add(mr_type_list *list, const mr_stage_type *const *types, bool own_names);
/* Frees the array and empties the list. */
MR_API void mr_type_list_fini(mr_type_list *list);

/* True once one of millrace's sinks in this process (`jsonl`, `csv`) has opened standard output for records. The
 * program must then write any other text to standard error. Any thread. */
MR_API bool mr_output_takes_stdout(void);

typedef struct mr_pipeline mr_pipeline;

typedef struct mr_override {
    const char *key; /* "stages.features.batch.size" */
    const char *value; /* YAML text */
} mr_override;

/* The measured cost of a stage. */
typedef struct mr_measured_cost {
    const char *stage;
    double ns;               /* per frame from the sources: time on the stage's device, or on a processor */
} mr_measured_cost;

/* Writes the name of the model that `millrace models get` makes, and that a file such as "lite0-head.npy" belongs to.
 * False: there is none. */
typedef bool mr_model_of(const char *file, char *model, size_t bytes);

/* Grows at its end (version.h): set fields by name and leave the others zero. */
typedef struct mr_pipeline_params {
    const mr_stage_type *const *types;
    bool plugins;            /* The pipeline may load plugins, which are code (plugin.h). If false, a pipeline that
                                names plugins is refused. */
    const char *path;        /* the YAML file; "-": standard input */
    const char *text;        /* Optional. The YAML text itself; `path` then only names it in messages. NULL: reads
                                the file. */
    size_t override_count;
    const mr_override *overrides;
    size_t input_count;      /* One input replaces the only source's uri. Several inputs make one source each. */
    const char *const *inputs;
    const char *output;      /* Optional. Replaces the path of the only sink that has one. */
    int workers;             /* threads that run stages; 0: as in the YAML, by default one per usable core */
    int jobs;                /* Videos that are open at a time. 0: as in the YAML; by default each folder or glob may
                                have as many open as there are workers, at least 2, and all other sources are open. */
    bool cuts;               /* Uses `nodes` of the YAML. If false, this process runs all stages, even if the YAML
                                has `nodes`. */
    const char *node;        /* with cuts: the node that this process runs. NULL: plans all nodes and can start none. */
    int replica;             /* with node: the index of this process among the node's processes: 0, 1, ... */
    int process, processes;  /* An alternative to node and replica: the index of this process, counted node by node,
                                and the number of all processes. processes 0: not given. */
    size_t host_count;       /* with cuts: the machine of each process, counted likewise; 0: not known */
    const char *const *hosts;
    const char *runtime;     /* with cuts: the folder for sockets of nodes that have no address. NULL:
                                $MILLRACE_RUNTIME, else a folder that the pipeline creates. */
    size_t assume_count;     /* Plans for hardware that may be missing: "cuda:8x80GiB" (eight GPUs with 80 GiB each),
                                "sim:2". Such a pipeline can only be checked, as with `offline`. */
    const char *const *assume;
    size_t cost_count;       /* If not 0, `device: auto` balances by these costs. The memory must stay valid until
                                mr_pipeline_open returns. */
    const mr_measured_cost *costs;
    int64_t grace_ns;        /* The time that all nodes together may take to end once the run was asked to; 0: ten
                                seconds. A write that blocks on a reader, a peer or a full disk may take three tenths
                                of it. */
    bool offline;            /* Only checks the pipeline: opens neither media nor models. It cannot be started. */
    const char *profile;     /* Optional. Measures the run: mr_summary then has processor times. Outputs go to
                                /dev/null; stages that write into folders write below this folder, which must exist. */
    const char *trace;       /* Optional. mr_pipeline_start creates this file and writes a trace for Perfetto or
                                chrome://tracing. */
    const char *resume;      /* Optional. A checkpoint file. mr_pipeline_start continues from the file, or begins anew
                                if it is missing. The running pipeline updates it. */
    uint64_t seed;           /* For tests. If not 0, one worker runs on the caller's thread with a simulated clock,
                                in an order drawn from the seed. */
    bool connect;            /* Planning may connect to cameras and servers to learn their formats. The plan is valid
                                without that. */
    bool force;              /* Overrules every refusal that may be overruled, as if each stage had `force: true`.
                                One example is a classifier that was trained after other stages. */
    bool quiet_sources;      /* Does not log a source that fails during the run. mr_pipeline_wait and mr_summary
                                still report it. */
    const char *const *override_names; /* Optional. What messages call each override, such as "--http"; NULL, or NULL
                                for one: "--set KEY". The texts must live until mr_pipeline_open returns. */
    bool check_stages;       /* For authors of stage types: stops the run if a stage changes a frame that it gets, or
                                the frame's results. Slow: calls of stages take turns, so the functions of
                                mr_pipeline_subscribe must not wait for other stages. Device memory is not checked. */
    mr_model_of *model_of;   /* Optional. For messages about models that are missing. */
} mr_pipeline_params;

/* mr_pipeline_open for callers that pass the size of mr_pipeline_params themselves, such as bindings for other
 * languages. MR_ERROR_USAGE: the size is smaller than the struct ever was, or a field is set that this library does not
 * know. */
MR_API int mr_pipeline_open_sized(mr_pipeline **pipeline, const mr_pipeline_params *params, size_t params_bytes,
                                  mr_diagnostics *diagnostics);
/* Reads, checks and plans the pipeline. On failure *pipeline is NULL, and `diagnostics` holds every error and warning;
 * the return value is the status of the first error. On success `diagnostics` may hold warnings. */
static inline int mr_pipeline_open(mr_pipeline **pipeline, const mr_pipeline_params *params,
                                   mr_diagnostics *diagnostics) {
    return mr_pipeline_open_sized(pipeline, params, sizeof *params, diagnostics);
}

/* Calls `function` with every frame that reaches the stage `stage`, which must have the type `callback`. The frame is
 * borrowed for the call. Whatever the program's locale, the calling thread writes and reads numbers with a decimal
 * point; the other categories are as they were when the library was first used. */
typedef void mr_frame_function(void *context, const char *source, const mr_frame *frame);
MR_API int mr_pipeline_subscribe(mr_pipeline *pipeline, const char *stage, mr_frame_function *function, void *context);
/* Makes a frame with the same payload, results and metadata, for which no run accounts: for a program that keeps it
 * longer than a call. With mr_frame_ref alone, the frame would stay in flight, and a pipeline whose sources come and go
 * would wait for it at its end. The payload lies in planned pools all the same: programs must not keep many.
 * MR_ERROR_MEMORY. Any thread. */
MR_API int mr_frame_keep(const mr_frame *from, mr_frame **kept);

/* Waits for the next frame that passes a stage of the running pipeline: one that it emits, or takes if it has no
 * outputs; for a source, one that it reads. The frame's device is done with it. Nothing in the run waits for the call,
 * and the ledger does not count it, but the payload lies in planned pools: call mr_frame_unref within milliseconds.
 * *source lives as long as the pipeline. Any thread, several at once. MR_ERROR_USAGE: there is no such stage in this
 * process; MR_ERROR_AGAIN: no frame passed in time; MR_ERROR_CLOSED: the run has ended; MR_ERROR_DEVICE. */
MR_API int mr_pipeline_tap(mr_pipeline *pipeline, const char *stage, int64_t timeout_ns, mr_frame **frame,
                           const char **source);

/* Opens all stages and starts the run. A stage that is open may work while others are still being opened. Until all
 * other stages are open, nothing is delivered, no sink is opened and no source that keeps to a clock begins. On failure
 * nothing runs, frames that were read are dropped as "stopped", and mr_message has the reason. */
MR_API int mr_pipeline_start(mr_pipeline *pipeline);

/* A picture or tensor that the program passes to a source of type `push`. If `release` is set, the library reads the
 * memory until it calls release(context), once, from any thread. If `release` is NULL, the call copies the data before
 * it returns. A GPU copies directly from pinned memory (cudaHostAlloc); other memory goes through the pipeline's pinned
 * memory. Grows at its end, as mr_pipeline_params. */
typedef struct mr_push {
    mr_format format;
    const void *data[MR_MAX_PLANES];
    ptrdiff_t stride[MR_MAX_PLANES]; /* pictures: bytes from row to row; negative if the picture lies bottom up */
    int64_t pts_ns;
    void (*release)(void *context);
    void *context;
} mr_push;
/* mr_pipeline_push for callers that pass the size of mr_push themselves; see mr_pipeline_open_sized. */
MR_API int mr_pipeline_push_sized(mr_pipeline *pipeline, const char *source, const mr_push *push, size_t push_bytes,
                                  int64_t timeout_ns);
/* Passes a frame to a source. Waits for room for up to timeout_ns (0: not at all, -1: without limit). MR_ERROR_AGAIN:
 * there was no room. MR_ERROR_DATA: the format is not the planned one, or has no size. MR_ERROR_CANCELLED: the pipeline
 * is stopping. On failure `release` is not called. */
static inline int mr_pipeline_push(mr_pipeline *pipeline, const char *source, const mr_push *push, int64_t timeout_ns) {
    return mr_pipeline_push_sized(pipeline, source, push, sizeof *push, timeout_ns);
}
/* Ends a source of type `push`: it gives no more frames. MR_ERROR_USAGE: there is no such source. */
MR_API int mr_pipeline_end(mr_pipeline *pipeline, const char *source);

/* Asks all sources to end. Frames in flight are still delivered. With `at_once`, frames in flight are dropped and
 * blocking calls are interrupted. Do not call it in a signal handler; a thread that waits for signals may call it. */
MR_API void mr_pipeline_stop(mr_pipeline *pipeline, bool at_once);

/* Disables or enables a device while the pipeline runs. `name` is the device's name or its key under `devices:`. A
 * disabled device gets no more calls, and the other devices of each stage take over its share. An enabled device gets
 * calls again, even if it had failed. Calls in progress finish on the old device. MR_ERROR_USAGE: the run has no such
 * device open. MR_ERROR_UNAVAILABLE: a stage, which the message names, would have no device left; nothing has
 * changed. */
MR_API int mr_pipeline_enable_device(mr_pipeline *pipeline, const char *name, bool enabled);

/* Triggers stages while the pipeline runs: the stage with that id for all sources, or all stages for the source with
 * that id. millrace's stage `record` then records. MR_ERROR_USAGE: no stage with that id can be triggered. */
MR_API int mr_pipeline_trigger(mr_pipeline *pipeline, const char *id);

/* Waits for the end of the run, for up to timeout_ns (-1: without limit). MR_ERROR_AGAIN: it still runs. Else returns
 * the first failure of a source or sink; MR_OK if none failed. MR_ERROR_INTERNAL: the ledger does not balance.
 * MR_ERROR_IO: the trace could not be written. */
MR_API int mr_pipeline_wait(mr_pipeline *pipeline, int64_t timeout_ns);

/* Frees the pipeline; stops it at once if it still runs. Frames that the program still holds stay valid. */
MR_API void mr_pipeline_destroy(mr_pipeline **pipeline);

/* ---- sources that come and go ------------------------------------------------------------------------------------ */

/* A pipeline with `sources: {max: N}` may have up to N sources at a time and may begin with none. It runs until it is
 * asked to end. A new source is checked first, as mr_pipeline_open checks a file. Errors are in `diagnostics`: a wrong
 * key or value, an unreadable file, a format that a stage does not accept or the plan does not cover, or a source above
 * N. After an error nothing has changed. `diagnostics` also gets the warnings that mr_pipeline_open did not give. No
 * source can delay the others or these calls, but add and set open the new source once to learn its format.
 *
 * Any thread may call these functions once the pipeline has started, several at once, but not from callbacks.
 * MR_ERROR_CANCELLED: the pipeline is stopping. */

/* Adds a source. `id` is as in a file. Options have keys such as "uri", "every" and "type", and values in YAML text;
 * options that you omit are as under `like`. Relative paths start in the working directory. You may reuse an id once
 * the source has ended or was removed; epochs (mr_identity) then continue from the last one. MR_ERROR_USAGE: a source
 * with that id exists, or the pipeline takes no new sources. Returns the status of the first error, as
 * mr_pipeline_open. */
MR_API int mr_pipeline_add_source(mr_pipeline *pipeline, const char *id, size_t option_count,
                                  const mr_override *options, mr_diagnostics *diagnostics);
/* Removes a source. It gives no more frames; frames in flight are delivered, or dropped with a reason. Then the
 * source's threads, files and memory are released. Waits for that for up to timeout_ns (0: not at all, -1: without
 * limit). MR_ERROR_AGAIN: frames are still in flight, or the program holds some; the removal completes without the
 * caller. MR_ERROR_USAGE: there is no source with that id. */
MR_API int mr_pipeline_remove_source(mr_pipeline *pipeline, const char *id, int64_t timeout_ns);
/* Changes some options of a source and keeps the others. The new source is checked, then replaces the old one, as if
 * you removed the source and added it again. It begins in a new epoch once the last frame of the old source is settled;
 * the call does not wait for that. If no option changes, nothing happens and `diagnostics` gets a warning without a
 * place; but a source that has ended begins again. */
MR_API int mr_pipeline_set_source(mr_pipeline *pipeline, const char *id, size_t option_count,
                                  const mr_override *options, mr_diagnostics *diagnostics);

/* Reads the list of sources (`sources_from`) again, as if one of the files had changed. New sources are added, sources
 * with other options restart, missing ones are removed, and all others are unchanged. The call does not wait for that.
 * Errors go to the log (log.h), each with a place. If the list's text has an error, nothing has changed.
 * MR_ERROR_USAGE: the pipeline has no list, or does not run. */
MR_API int mr_pipeline_reload_sources(mr_pipeline *pipeline);

/* Asks sinks to reopen their files, so that they stop writing to a file that was moved (logrotate). Each sink does so
 * before its next record and creates the file if it is missing. Any thread. */
MR_API void mr_pipeline_reopen(mr_pipeline *pipeline);

/* ---- summary of the run so far --------------------------------------------------------------------------------- */

typedef enum mr_outcome { MR_OUTCOME_DELIVERED, MR_OUTCOME_DROPPED, MR_OUTCOME_ABSORBED } mr_outcome;

/* Source frames, or objects, that were dropped or absorbed. `stage` and `reason` live as long as the pipeline. */
typedef struct mr_ledger_line {
    mr_outcome outcome; /* DROPPED or ABSORBED */
    const char *stage, *reason;
    uint64_t frames;
} mr_ledger_line;

/* Objects for which a stage of this process made a frame (crop). All 0: there were none. */
typedef struct mr_object_summary {
    uint64_t in, delivered, dropped, absorbed, in_flight, unaccounted;
    size_t line_count;
    mr_ledger_line *lines;
} mr_object_summary;

typedef struct mr_class_count {
    int32_t index;
    const char *label;
    uint64_t frames;    /* frames with this class first */
    double mean_score;  /* mean over those frames */
} mr_class_count;

/* Delivered frames that belong to one class of a labelled folder. */
typedef struct mr_truth_count {
    int32_t index;            /* index of the folder */
    const char *label;
    uint64_t frames, right;   /* frames with this label; those with this class first */
    uint64_t listed;          /* frames with this class anywhere in the list */
} mr_truth_count;

/* The most unaccounted frames that mr_source_summary.unsettled lists. */
enum { MR_UNSETTLED_FRAMES = 16 };

/* When a source was in the pipeline. */
typedef struct mr_source_stay {
    bool changes;             /* sources can be added and removed; else the other fields are 0 */
    uint32_t first_epoch, last_epoch; /* of the frames so far */
    bool leaving;             /* removed, but frames are still in flight */
    bool removed;             /* The source is gone. If very many were removed, the earliest ones share one row with
                                 an empty id. */
} mr_source_stay;

typedef struct mr_source_summary {
    const char *id;
    bool elsewhere;           /* Another node reads it; the counts are of frames that came over cuts. */
    uint64_t in, delivered, dropped, absorbed, in_flight, unaccounted;
    int64_t expected;         /* frames that the container announces; 0: not known */
    uint64_t unread;          /* announced frames that were not read because the stream ended early */
    uint64_t seams;           /* interruptions of the stream: joined recordings, or missing parts */
    int64_t last_frame_ns;    /* When a summary first had the last frame, in nanoseconds since 1970; 0: there was no
                                 frame. As exact as summaries are frequent. */
    bool ended;
    int status;               /* MR_OK, or the status of the source's failure */
    const char *message;      /* the failure's message; "" if there is none */
    uint64_t classified;      /* delivered frames with classes */
    size_t class_count;       /* the most frequent classes, at most 5, most frequent first */
    mr_class_count classes[5];
    uint64_t labelled;        /* delivered frames with both classes and a label (media: labels) */
    uint64_t right, listed;   /* labelled frames with the label as first class; those with the label among the
                                 classes */
    size_t longest;           /* most classes of one frame: `right` is top-1, `listed` is top-`longest` */
    size_t truth_count;
    mr_truth_count *truths;   /* by class, in folder order */
    size_t line_count;
    mr_ledger_line *lines;
    size_t unsettled_count;   /* unaccounted frames, then frames in flight, oldest first; none must remain after the
                                 run */
    mr_identity unsettled[MR_UNSETTLED_FRAMES];
    mr_source_report report;  /* for a source that connects to a camera or server; else UNREPORTED */
    bool hangs;               /* a call into its driver or library does not return; the report is then STALLED */
    mr_object_summary objects; /* counted beside its frames */
    const char *note;         /* Optional. The plan's remark (mr_negotiation.remark), such as "reads 2 pictures and
                                 leaves out 1 video". */
    mr_source_stay stay;
} mr_source_summary;

typedef enum mr_device_state {
    MR_DEVICE_WORKS,
    MR_DEVICE_RESERVED,       /* gets no frames until another device fails or is disabled */
    MR_DEVICE_DISABLED,       /* disabled by mr_pipeline_enable_device */
    MR_DEVICE_FAILED
} mr_device_state;
/* "works", "in reserve", "disabled", "failed". */
MR_API const char *mr_device_state_name(mr_device_state state);

/* A stage's work on one of its devices. */
typedef struct mr_share_summary {
    const char *device;
    mr_device_state state;
    uint64_t frames;          /* frames that the device processed */
    int64_t busy_ns;          /* time during which calls were in progress; 0 on the host's processors */
    int64_t cost_ns;          /* time per frame, from the last calls; 0: not known */
} mr_share_summary;

/* A histogram of durations. Bucket i counts durations below mr_duration_bound_ns(i) that no earlier bucket counts; the
 * last bucket has no bound. Counts and sums only rise while a pipeline runs. */
enum { MR_DURATION_BUCKETS = 22 };
typedef struct mr_durations {
    uint64_t count, sum_ns;
    uint64_t bucket[MR_DURATION_BUCKETS];
} mr_durations;

/* The upper bound of a bucket, in nanoseconds: from 16 microseconds, doubling, to 17 seconds. */
static inline int64_t mr_duration_bound_ns(int bucket) {
    return INT64_C(1) << (14 + bucket);
}

typedef struct mr_stage_summary {
    const char *id, *type, *device; /* with several devices: "sim:0, sim:1" */
    bool is_source;
    int instances;
    uint64_t in, out;         /* frames */
    uint64_t calls;           /* Calls into the stage type, including `flush` and calls that gave or took no frames. */
    int64_t busy_ns;          /* time inside the stage, summed over instances and entries */
    int64_t cpu_ns;           /* CPU time of the engine's threads inside the stage; 0 unless profiled */
    uint64_t queued;          /* frames that wait for an instance now */
    int queue_peak;           /* most frames of one source that waited for an instance; at most the planned queue */
    int batch_peak;           /* most frames in one call; at most the planned batch and the frames that
                                 pass with it, or `gathers` */
    int64_t p50_ns, p99_ns;   /* from entering the stage's queue to leaving the stage */
    mr_durations latency;     /* the same duration, for all frames */
    mr_service_report service; /* for a sink that delivers to a service; else UNREPORTED */
    uint64_t untaken;         /* for a sink that sends to programs: frames that none has taken yet */
    size_t share_count;       /* one per device; none for copies and for stages that can only run on processors */
    mr_share_summary *shares;
} mr_stage_summary;

/* Counters for one end of a cut, the producer's or the consumer's. */
typedef struct mr_cut_summary {
    const char *id;           /* the stage's id: "decode->worker", or "decode->worker:in" */
    uint64_t frames;          /* frames sent or received, each counted once */
    uint64_t again;           /* producer: frames sent again after a consumer was lost; consumer: frames received
                                 again and ignored */
    uint64_t set_aside;       /* producer: frames that consumers refused, or that may have crashed them */
    uint64_t sessions;        /* sessions that began; lost sessions make it exceed the number of processes at the
                                 other end */
    uint64_t peers;           /* processes at the other end that have a session now */
    bool absent;              /* none has one, and this end still needs one */
    uint64_t stale;           /* messages from ended sessions, ignored */
    uint64_t malformed;       /* messages that violated the protocol; each ends its session */
    uint64_t rejected;        /* producer: greetings it rejected; consumer: rejections received */
    uint64_t refused;         /* connections refused for wrong keys, for too many connections or for silence */
} mr_cut_summary;

/* A device's memory, except the host's. */
typedef struct mr_device_summary {
    const char *name;
    uint64_t bytes;           /* peak bytes in pool buffers */
    uint64_t held_bytes;      /* bytes in pool buffers now */
} mr_device_summary;

/* A difference that the author overruled (mr_negotiation.forced). Results may be worse than they look. */
typedef struct mr_forced_summary {
    const char *stage, *why;
} mr_forced_summary;

/* Spans of frames that are followed (spans.h). */
typedef struct mr_span_counts {
    uint64_t ended, lost;     /* lost: they found no room, or were not kept anywhere */
} mr_span_counts;

typedef struct mr_summary {
    const char *pipeline;     /* the pipeline's name */
    const char *digest;       /* SHA-256 of the content, in hexadecimal. Layout and comments do not change it;
                                 overrides and variables do. */
    double wall_s, cpu_s;     /* seconds since the start; CPU time of the whole process */
    double threads_cpu_s;     /* CPU time of the engine's threads: workers and blocking stages. The rest of cpu_s
                                 belongs to libraries, devices and the program. 0 unless profiled. */
    double first_s;           /* from the start to the first delivered frame; 0: none was delivered */
    uint64_t peak_bytes;      /* peak resident memory of the process */
    uint64_t host_bytes, pinned_bytes, shared_bytes; /* peak bytes in pool buffers */
    uint64_t in, delivered, dropped, absorbed, in_flight;
    bool balanced;            /* true if in = delivered + dropped + absorbed + in_flight for every source, and for the
                                 objects of every source */
    size_t line_count;        /* dropped and absorbed frames, over all sources */
    mr_ledger_line *lines;
    mr_object_summary objects; /* over all sources */
    size_t source_count;
    mr_source_summary *sources; /* sources with frames in this process */
    size_t stage_count;
    mr_stage_summary *stages; /* Stages of this process, sources first, in plan order. A cut has the link's name,
                                 "decode->worker"; the consumer's end is "decode->worker:in". */
    size_t cut_count;
    mr_cut_summary *cuts;     /* ends in this process */
    size_t device_count;
    mr_device_summary *devices; /* all devices except the host's processors */
    int64_t latency_p50_ns, latency_p99_ns; /* from source to sink */
    mr_durations latency;     /* The same duration for all frames. A frame that reaches several sinks counts once per
                                 sink. */
    uint64_t allocations;     /* blocks that millrace allocated since the start, without those of libraries */
    int64_t draining_ns;      /* Time since the run was asked to end, while frames in flight are still delivered. 0:
                                 not asked, frames are being dropped, or the run is over. */
    size_t most_sources;      /* N of `sources: {max: N}`; 0: sources cannot be added or removed */
    size_t forced_count;
    mr_forced_summary *forced;
    mr_span_counts spans;
} mr_summary;

/* Makes a summary of the run so far. While the pipeline runs, numbers may come from slightly different moments; after
 * the end they are exact. The summary refers to strings of the pipeline: the caller must destroy it before the
 * pipeline. */
MR_API int mr_pipeline_summarize(mr_pipeline *pipeline, mr_summary **summary);
/* Returns a summary that many readers can share. It was made at most `age_ns` ago, and after the last stop and the last
 * change to a source, source list or device; `age_ns` 0 makes a new one. After the end of the run all readers get the
 * final one. MR_SNAPSHOT_NS is the usual age. No delivered frame waits for it. Readers must not change it, and each
 * must destroy it once, before the pipeline. Any thread. */
#define MR_SNAPSHOT_NS INT64_C(500000000)
MR_API int mr_pipeline_snapshot(mr_pipeline *pipeline, int64_t age_ns, mr_summary **summary);
MR_API void mr_summary_destroy(mr_summary **summary);

#ifdef __cplusplus
}
#endif
#endif

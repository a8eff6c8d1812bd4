/* The interface of a stage.
 *
 * A stage type is one const struct, listed in stages/list.c. It never sees links, threads or sockets: `process` takes
 * inputs, acquires outputs and emits them through `io`, and the engine does the rest: queues, back-pressure, batching,
 * order, joins, counting, devices. The simplest stage with one output for one input writes only `map`.
 *
 * Threads: `negotiate` runs while planning, on one thread. `open` and `close` run once for each instance, `open` on the
 * thread that starts the pipeline or on the instance's own, while other open instances already work. `process`, `map`
 * and `flush` of one instance never overlap, except for MR_ENTRY_STATELESS, which several workers may be in at once
 * with different inputs (mr_io_entry tells them apart), and for those whose negotiation allows it
 * (mr_negotiation.overlap). None of them may block unless the type says `blocking`; the instance then has a thread of
 * its own.
 *
 * Errors: a negative mr_status with its message from mr_fail. In `negotiate` it refuses the pipeline, in `open` it
 * stops the start, in a source it ends that source, elsewhere it drops the inputs of that call. */
#ifndef MILLRACE_STAGE_H
#define MILLRACE_STAGE_H

#include <stdint.h>

#include "millrace/export.h"
#include "millrace/format_set.h"
#include "millrace/frame.h"
#include "millrace/option.h"
#include "millrace/status.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_stage mr_stage;
typedef struct mr_io mr_io;
typedef struct mr_stream mr_stream;
typedef struct mr_negotiation mr_negotiation;

typedef enum mr_entry {
    MR_ENTRY_STATELESS,  /* one instance, several workers at once (a source: one) */
    MR_ENTRY_PER_SOURCE, /* one instance for each source */
    MR_ENTRY_SHARED      /* one instance, one worker at a time */
} mr_entry;

/* Return values of process and flush, beside negative statuses. */
typedef enum mr_answer {
    MR_DONE = 0, /* the inputs of this call are consumed (a source: something was emitted, call again) */
    MR_MORE = 1, /* call again with the same inputs */
    MR_WAIT = 2, /* nothing now; call again with the same inputs at the time given to mr_io_wake_at */
    MR_END = 3   /* sources: no more frames */
} mr_answer;

/* One input or output. `accepts` is a list of format sets, ended by MR_PAYLOAD_ANY unless that is its first. */
typedef struct mr_port {
    const char *name;
    const char *help;
    const mr_format_set *accepts; /* NULL: anything */
    bool many;                /* inputs: any number of ports, named by the author (`join:`) */
    bool optional;            /* outputs: may have no consumer; inputs that are `many`: one may have no name */
} mr_port;

typedef struct mr_stage_type {
    const char *name;
    const char *summary;         /* one line */
    const char *help;            /* a paragraph; may be NULL */
    const mr_port *inputs;       /* ended by a NULL name; NULL: this is a source */
    const mr_port *outputs;      /* ended by a NULL name; NULL: this is a sink */
    const mr_option *options;    /* ended by a NULL name; may be NULL */
    const mr_result_kind *const *kinds; /* kinds of results of its own that it adds, ended by NULL; may be NULL */
    size_t options_bytes;        /* sizeof the options struct */
    size_t state_bytes;          /* zeroed memory that each instance gets as self->state */
    mr_entry entry;
    bool blocking;               /* process may block: the instance gets a thread */
    bool batches;                /* process can take several inputs at once (`batch:` allowed) */
    int gathers;                 /* more than 1, with `batches`: on the processors, and without `batch:`, a call takes
                                    up to so many of the frames that wait, if all workers are busy; it waits for none,
                                    and gives each the bits that it gives it alone */
    bool streams;                /* process works through mr_io_stream, as map always does: it may be put on a device */
    bool cuda;                   /* all work that it enqueues has a CUDA variant */
    bool urgent;                 /* its work on a device has priority over that of other types, if the device has
                                    priorities: for the stage that takes most of the time, which should never be idle */
    bool converts;               /* converts a frame into another format: if formats do not fit, a stage of this type is
                                    proposed */
    bool external;               /* sources: frames are pushed by the program (mr_pipeline_push) */
    bool repeats;                /* sources: the same options give the same frames, with the same numbers, in every run:
                                    it can be continued after a crash */
    bool implied;                /* sources: the type of a source that names none */
    bool resumes;                /* sinks: the output can be continued, or is not harmed if frames come again */
    const char *paced_by;        /* sources: the options that make them keep to a clock, for hints; NULL: there are
                                    none */
    /* Sources with an option `uri`: if it names several streams, such as a folder of videos, `add` is called for each,
     * in order, with the name of that stream alone, and each becomes a source of its own. Nothing is added for one
     * stream, or if something is wrong with it. MR_OK, or the result of `add`. May be NULL. */
    int (*spread)(const char *uri, int (*add)(void *context, const char *uri), void *context);
    int (*negotiate)(mr_negotiation *negotiation); /* NULL: outputs are formats of input 0 */
    /* Checks if its work can be done with those options on the device of that name ("cpu", "cuda:0"), which is there:
     * MR_OK, or the status of mr_fail with the missing part, the places where it was looked for and the fix. Not called
     * if a plan opens no file, nor for devices that are only assumed. NULL: any device that its kernels have. */
    int (*check_device)(const void *options, const char *device);
    /* Checks if it can process `input` on that device, which has passed check_device: MR_OK, or the status of mr_fail
     * with the reason. *otherwise set: it does that work in another way then, which the message tells and the plan
     * prints. Called for each incoming link; NULL: it can process any input it accepts. */
    int (*check_input)(const void *options, const mr_format_set *input, const char *device, bool *otherwise);
    /* Writes the options to change so that output 0 gives `wanted`, as YAML ("size: 224x224"); false if none would. For
     * the hint if formats do not fit. May be NULL. */
    bool (*suggest)(const void *options, const mr_format_set *wanted, char *text, size_t bytes);
    /* Returns the number of pixels of such a picture, on each axis, that a pixel of output 0 (planned as `output`;
     * NULL: of a sink) at least averages; 1: it depends on single pixels. A stage type with this accepts pictures that
     * were decoded at a reduced size (mr_format.reduced). NULL: it needs them whole. */
    double (*shrinks)(const void *options, const mr_format *output, const mr_format *picture);
    int (*open)(mr_stage *self);
    int (*process)(mr_stage *self, mr_io *io);
    int (*shape)(mr_stage *self, const mr_frame *input, mr_format *output); /* with map; NULL: the planned output */
    int (*map)(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output);
    int (*flush)(mr_stage *self, mr_io *io, uint32_t source); /* that source has ended; MR_MORE or MR_WAIT to be called
                                                                 again */
    /* Sinks that tell repeated frames apart by themselves (resumes): writes accepted frames to the disk. Any thread,
     * beside all but open and close. MR_ERROR_AGAIN before it is known if the run goes on. */
    int (*sync)(mr_stage *self);
    void (*close)(mr_stage *self); /* accepts a half-opened instance */
    void (*stop)(mr_stage *self);  /* the run is being stopped: wakes a call that blocks in a library, which then checks
                                      mr_stage_cancelled. Any thread, while it is open, more than once; may be NULL */
    const mr_media_codec *media_codec; /* sources of packets: passes mr_media.codec between processes; NULL: it cannot
                                          be passed */
    int (*trigger)(mr_stage *self); /* a person, or the program, wants it to act now (mr_pipeline_trigger). Any thread,
                                       while it is open, beside all others: it only notes that. May be NULL */
    const struct mr_synonym *synonyms;  /* millrace's own types: words of other programs, for hints; one table for all
                                           types of a list. NULL for all others */
    const struct mr_stage_hooks *hooks; /* the engine's own types (copies, ends of cuts); NULL for all others */
} mr_stage_type;

/* Checks if it is well formed: names, ports, functions, options within their struct, defaults that their own table
 * accepts. MR_OK, or MR_ERROR_DATA with the fault. Plugins and types of mr_main are checked with it; useful in a
 * stage's own tests. */
MR_API int mr_stage_type_check(const mr_stage_type *type);

/* ---- planning ------------------------------------------------------------------------------------------------ */

/* The classes that a classifier may find. */
typedef struct mr_planned_classes {
    const char *from;          /* id of the stage that finds them */
    size_t count;
    const char *const *labels; /* of each; NULL: it gives no labels */
    double most_score;         /* no score is higher; INFINITY: not known */
} mr_planned_classes;

/* A result that frames carry: known while planning, so that a stage that reads it can be checked. */
typedef struct mr_planned_result {
    const mr_result_kind *kind;
    const char *name;          /* of an array; NULL of elements */
    mr_format_set set;         /* of an array */
    const struct mr_planned_result *next; /* the next older one */
    const char *operation;     /* of a tensor: the operator of the network that computed it, such as "Softmax"; NULL:
                                  none, or not known */
    const mr_planned_classes *classes; /* of classes; NULL: not known */
} mr_planned_result;

typedef struct mr_planned_input {
    const char *port;          /* name; for `many` ports the author's name */
    const char *from;          /* id of the stage it comes from */
    mr_format_set set;         /* all formats that may come */
    mr_format format;          /* the values that all of them have in common; zero if they differ */
    bool settled;              /* while planning: false if a choice upstream may still narrow it */
    bool unseen;               /* a stage that it comes from runs on another machine, and so are its files */
    const mr_planned_result *results; /* results that all frames carry, newest first */
    bool more_results;         /* frames may carry other results that are not known */
    int64_t mean_pixels;       /* of its pictures, or those that its packets decode to, on average; 0: not known */
    int references;            /* packets: most pictures that their decoder keeps as references; 0: not known */
    bool stills;               /* packets: each is a still picture, which depends on no other packet */
    const char *operation;     /* tensors: as of a result */
} mr_planned_input;

/* One output port, filled in by the stage type. */
typedef struct mr_planned_output {
    mr_format_set set;         /* all formats that may come out */
    bool chosen;               /* the stage can give any one member of `set`: the planner chooses one that suits all
                                  consumers, and puts it into mr_stage.outputs. Else any member of it may come out */
    const mr_format_set *wanted; /* NULL at the first call; with `chosen` in the second call, the formats that all
                                    consumers accept. The stage may fix more than the planner can (a value that follows
                                    from another) */
    int follows;               /* the input whose frames pass to this output in their own format; -1: none. The
                                  consumers' needs are then asked of that input: a stage that only looks at pictures, or
                                  adds results, sets 0, and negotiation passes through it */
    const char *unfixed;       /* with `chosen`: options to write if no consumer narrows the format; may be NULL */
    const mr_planned_result *results; /* those of input 0 unless the stage adds some (mr_promise_result) */
    bool more_results;         /* frames may carry other results that are not known */
    int64_t mean_pixels;       /* as of an input */
    int references;            /* as of an input */
    bool stills;               /* as of an input */
    const char *operation;     /* as of an input; NULL unless the stage sets it, or `follows` an input that has one */
    size_t buffer_bytes;       /* of one buffer, if the stage needs more than `set` tells (padding); else 0 */
    size_t buffer_mean_bytes;  /* of one buffer on average, if they differ: then a pool of the stage's own takes no more
                                  than mr_stage.output_most_bytes; else 0 */
    bool own_pool;             /* on the processors its frames lie in a pool that the stage creates itself, as
                                  mr_stage.output_* say */
    bool external;             /* external memory: its frames may lie in host memory of a library or the program, not of
                                  a pool: a device copies from it only through pinned memory */
} mr_planned_output;

#define MR_BYTES_UNKNOWN INT64_MAX

/* The work of a stage on a GPU, beside reading its inputs and writing its outputs, whose sizes are planned: for `plan
 * --assume cuda:1xH100`, which estimates frame rates from it. If all are 0 the work has not been counted, and the plan
 * says so. */
typedef struct mr_planned_work {
    double launches;       /* of a call with any batch: kernels, and copies within the GPU's memory, in sequence */
    double read_bytes;     /* of a frame's inputs, as many as are read; 0: all of them */
    double more_bytes;     /* of a frame, read and written beside inputs, outputs and scratch */
    double call_bytes;     /* of a call: weights */
    double f32_operations, f16_operations; /* of a frame, by networks: a multiplication and an addition are
                                              two */
    const char *codec;     /* hardware decoders: "h264", "hevc", "hevc10", "vp9", "vp9_10", "av1", ...; else NULL */
    double decoded_pixels; /* of a frame; 0: not known */
    const char *unknown;   /* the part of it that is not known, as a text that lives on: "its operators are not
                              counted" */
} mr_planned_work;

/* Planning calls each stage in the order of the graph, with the formats that can come in; the stage fills in those that
 * can come out and those that it accepts. It is called a second time, and never a third, if a choice has narrowed its
 * inputs or outputs; not if they were narrowed to exactly its own `takes`. */
struct mr_negotiation {
    const char *id;            /* of the stage */
    const void *options;
    bool offline;              /* true: open no file, use the options alone */
    bool connect;              /* true: connect to streams, for what they tell (mr_pipeline_params.connect) */
    bool returns;              /* this is one process of several nodes: it may be started again in a run that goes on
                                  (mr_stage_run_state), so output of an earlier process is not an error */
    size_t input_count;
    const mr_planned_input *inputs;
    int batch;                 /* frames a process call may get; 1 without `batch:`, but see `gathers` */
    const char *device;        /* as the author names it, the first of a list; "auto": not yet chosen */
    int sources;               /* how many sources reach this stage */
    int workers;               /* that the executor will have */
    const char *whole_for;     /* the first consumer that needs the pictures of output 0 whole (mr_stage_type.shrinks);
                                  NULL: all of them shrink them */
    /* the stage type's answer; filled with defaults before the call */
    mr_format_set *takes;      /* one for each input: what its port accepts; may be narrowed (a model's input) */
    mr_planned_output *outputs; /* one for each output port */
    double rate;               /* sources: frames a second that it offers; 0: as fast as they are taken, or not known */
    bool paced;                /* sources: it keeps to that rate, even if frames are not taken */
    int64_t frames;            /* sources: number of frames; 0: not known, or without end */
    bool endless;              /* sources: it has no end: it begins anew, or waits for more, for ever */
    bool repeats;              /* sources: the type's (mr_stage_type.repeats); may be cleared */
    mr_entry entry;            /* the type's; may be narrowed */
    int overlap;               /* MR_ENTRY_PER_SOURCE: so many calls of one instance may overlap, if there are as many
                                  workers. They do the part of their work that needs the order of the frames after
                                  mr_io_await_turn; default 0: no calls overlap */
    int gathers;               /* the type's, 1 where it does not hold; may be lessened */
    bool blocking;             /* the type's; may be changed */
    int threads;               /* threads that libraries start for one instance beside the engine's; default 0 */
    size_t scratch_bytes;      /* taken by one call with mr_io_scratch, all together; 0: none */
    size_t pinned_bytes;       /* of one buffer that mr_io_pinned gives, on devices; 0: none */
    size_t result_bytes;       /* taken by one call with mr_io_results, all together, on devices; 0: none */
    size_t constant_bytes;     /* kept by one instance on a CUDA device beside all buffers, at most: weights, tables */
    size_t stream_bytes[2];    /* working memory of kernels and libraries on a CUDA device beside all buffers, for each
                                  call that may run at once: below compute capability 9.0, and from there on */
    int64_t library_bytes;     /* memory of libraries on a CUDA device for one instance, beside all buffers, at most; 0:
                                  none, MR_BYTES_UNKNOWN: not known */
    int retained;              /* output buffers that one instance keeps for itself (a decoder's references) */
    const char *remark;        /* a behaviour that may not be expected, with its reason, for `plan`: a text that lives
                                  on, or that of mr_remark; NULL: none */
    bool unread;               /* offline: a file that was not opened would narrow its formats, so formats that are open
                                  only for this reason are not an error */
    mr_planned_work work;      /* on a GPU */
    void *planner;             /* private */
    bool forced; /* the remark is of a difference that the author has overruled: each summary repeats it */
    bool force;  /* given: all that may be overruled is (mr_pipeline_params.force), without an option of the stage */
};

/* Refuses the pipeline (printf style, one sentence) at the place of `option` in the YAML, or of the stage if that is
 * NULL; returns MR_ERROR_CONFIG, or the status given by the _status variant (a missing file: MR_ERROR_NO_INPUT). */
MR_API int mr_refuse(mr_negotiation *negotiation, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
MR_API int mr_refuse_status(mr_negotiation *negotiation, int status, const char *option, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Warns at that place of what works, but hardly as its author means it. `hint`: what to write, copied; may be NULL. A
 * warning that comes again is left out. */
MR_API void mr_warn(mr_negotiation *negotiation, const char *option, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* True if the YAML has that option of the stage, be it with its default as value. */
MR_API bool mr_is_given(const mr_negotiation *negotiation, const char *option);
/* The stages that make what comes in at an input, and all their options that its numbers depend on: not devices,
 * batches, queues and sources. `stages` has a line for each stage and each option, a file being its SHA-256; `digest`
 * is the SHA-256 of that text. Two pipelines of the same lineage make the same vectors of the same pictures, on devices
 * of one kind. */
typedef struct mr_lineage {
    const char *digest; /* 64 hexadecimal digits */
    const char *stages;
} mr_lineage;
/* Both texts live as long as the plan. Reads the files that the stages read, so it is not cheap. MR_ERROR_MEMORY, or
 * those of reading a file. */
MR_API int mr_planned_lineage(mr_negotiation *negotiation, size_t input, mr_lineage *lineage);
/* The vector that mr_frame_find_vector (frame.h) will find in frames of that input, as far as planning knows it: none,
 * one of which little is known, or one of *vector, whose length is known. */
typedef enum mr_planned_finding { MR_PLANNED_NONE, MR_PLANNED_UNKNOWN, MR_PLANNED_FOUND } mr_planned_finding;
MR_API mr_planned_finding mr_planned_find_vector(const mr_planned_input *input, const char *tensor, mr_format *vector);
/* The operator that computed that vector; NULL: none, or not known. */
MR_API const char *mr_planned_operation(const mr_planned_input *input, const char *tensor);
/* The classes of frames that come in at an input, also if they come from several stages: the list of one classifier,
 * from index 0 on; NULL behind the last. *known: there are no others. */
MR_API const mr_planned_classes *mr_planned_classes_at(const mr_negotiation *negotiation, size_t input, size_t index,
                                                       bool *known);
/* Describes the formats that an input accepts, and the reason, in a few words (printf style) for messages: the input
 * "images" of a.onnx. */
MR_API void mr_take(mr_negotiation *negotiation, size_t input, const mr_format_set *set, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* Names the part of n->work that is not known, in a few words (printf style) that are copied. */
MR_API void mr_leave_uncounted(mr_negotiation *negotiation, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* Fills n->remark (printf style); the text is copied. */
MR_API void mr_remark(mr_negotiation *negotiation, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Declares one more result of the frames on that output; `name` is copied. `set`: the formats of an array; NULL of
 * elements. MR_ERROR_MEMORY. */
MR_API int mr_promise_result(mr_negotiation *negotiation, size_t port, const mr_result_kind *kind,
                             const char *name, const mr_format_set *set);
/* The same of a tensor of a network; `operation` is copied, and may be NULL. */
MR_API int mr_promise_tensor(mr_negotiation *negotiation, size_t port, const char *name, const mr_format_set *set,
                             const char *operation);
/* Names the operator of a network that computed the payload of that output; copied. */
MR_API void mr_name_operation(mr_negotiation *negotiation, size_t port, const char *operation);
/* The same of classes; the labels are copied. `from` is the negotiating stage, whatever is given. */
MR_API int mr_promise_classes(mr_negotiation *negotiation, size_t port, const mr_planned_classes *classes);
/* The same of a result that an input's frames carry. */
MR_API int mr_promise_again(mr_negotiation *negotiation, size_t port, const mr_planned_result *result);

/* ---- running ------------------------------------------------------------------------------------------------- */

#define MR_SOURCE_NONE UINT32_MAX

/* A running instance, as its stage type sees it. All of it is the engine's; the stage type writes only *state. */
struct mr_stage {
    const char *id;
    const mr_stage_type *type;
    const void *options;
    void *state;
    const char *place;           /* "file:line:column" of the stage, for messages */
    size_t input_count;
    const mr_planned_input *inputs;
    const mr_format *outputs;    /* as planned: the values that all frames of a port have in common */
    uint32_t source;             /* sources and per-source instances; else MR_SOURCE_NONE */
    const char *source_id;       /* of that source; else NULL */
    int entries;                 /* mr_io_entry is below this */
    int threads;                 /* as negotiated */
    int batch;
    mr_device *device;
    int output_buffers;          /* buffers planned for output 0 of this instance, `retained` included */
    int output_least;            /* of them: as many as the consumers need to get on; without those `retained` */
    size_t output_largest;       /* bytes of one of them at most, as planned; 0: not known */
    uint64_t output_most_bytes;  /* of all of them together at most, as planned */
    mr_memory output_memory;     /* the memory of output 0's buffers, and its device: for a stage with pools of its
                                    own */
    mr_device *output_device;
    size_t output_bytes;         /* of one of them, if all are allocated when the stage is opened (mr_pool_fill); else
                                    0 */
    void *flow;                  /* private */
};

/* True once the run is being stopped at once: a blocking call should give up (interrupt callbacks check this). */
MR_API bool mr_stage_cancelled(const mr_stage *self);
/* For a blocking stage that waits for something outside that may never come (a peer, room on a disk), called at every
 * turn of its wait: true once the run is being stopped at once, which also happens if this wait still lasts three
 * seconds after the run was asked to end. A source need not wait at all then: true. */
MR_API bool mr_stage_gives_up(const mr_stage *self);
/* True if its frames come over a reliable cut, directly or through other stages: the producing node keeps them until
 * they are settled, so waiting loses nothing. */
MR_API bool mr_stage_reliable(const mr_stage *self);
/* True if this run can be continued (mr_pipeline_params.resume); true if it continues an earlier run itself. Then: true
 * if the earlier run has settled a source frame, which comes again only for stages that remember; and the epoch in
 * which a source goes on: earlier frames need not come again. */
MR_API bool mr_stage_checkpoints(const mr_stage *self);
MR_API bool mr_stage_continues(const mr_stage *self);
MR_API bool mr_stage_settled(const mr_stage *self, const mr_identity *frame);
/* True if the frame comes again: this process reads its source, and the earlier run had not settled it. */
MR_API bool mr_stage_comes_again(const mr_stage *self, const mr_identity *frame);
MR_API uint32_t mr_stage_resume_epoch(const mr_stage *self, uint32_t source);
/* Tells if the run begins with this process, or goes on: after a crash with a checkpoint, or since a node before this
 * one reports that frames which it sent to an earlier process of this node were delivered. A sink keeps existing output
 * only in a run that goes on. Not known until every node before this one has reported it, or, if it need not be waited
 * for, has been silent for three heartbeats; sinks get their first frame only then. Changes once. */
typedef enum mr_run_state { MR_RUN_UNKNOWN, MR_RUN_BEGINS, MR_RUN_GOES_ON } mr_run_state;
MR_API mr_run_state mr_stage_run_state(const mr_stage *self);
/* The first epoch of a source that cannot give its frames again (not `repeats`): its frames must not be taken for those
 * that an earlier process gave under the same numbers. 0 in a first run; later one for each start, set by the
 * supervisor ($MILLRACE_EPOCH); without a supervisor, tenths of a second since 2026, which fit until 2039. */
MR_API uint32_t mr_stage_first_epoch(const mr_stage *self);
/* The factor, on each axis, by which all consumers of output 0 at least shrink such a picture (mr_stage_type.shrinks);
 * 1 if one of them needs it whole. Walks the plan: not for every frame. */
MR_API double mr_stage_shrink(const mr_stage *self, const mr_format *picture);
/* The name of a source by its position, and the position of a name; MR_SOURCE_NONE if there is none. */
MR_API uint32_t mr_stage_find_source(const mr_stage *self, const char *id);
MR_API const char *mr_stage_source_id(const mr_stage *self, uint32_t source);
/* For walks over all sources of the pipeline, also while some are added and removed: an id that lasts as long as the
 * run, "" for a position that no source has now, NULL past the last. */
MR_API const char *mr_stage_source_at(const mr_stage *self, uint32_t source);
/* Changes each time that the program asks for files to be opened anew (mr_pipeline_reopen): a sink whose file was moved
 * compares it with the last one before it writes. */
MR_API uint64_t mr_stage_reopenings(const mr_stage *self);
/* The name of the pipeline. */
MR_API const char *mr_stage_pipeline(const mr_stage *self);
/* For a source whose stream ended before the frames that it announces: the number of missing frames. They never came
 * in, so the ledger does not have them, but they are lost (mr_source_summary.unread). */
MR_API void mr_stage_miss_frames(const mr_stage *self, uint64_t frames);
/* For a source that connects to a camera or server: its state, and the counts of all its connections so far. At each
 * change, and now and then between changes. Copied. */
typedef enum mr_link_state {
    MR_LINK_UNREPORTED,     /* of sources that do not connect */
    MR_LINK_CONNECTING,
    MR_LINK_LIVE,
    MR_LINK_STALLED,        /* connected, but nothing came for too long: it connects anew */
    MR_LINK_AWAY,           /* it waits until its next try */
    MR_LINK_FAILED,
    MR_LINK_ENDED
} mr_link_state;
enum { MR_REPORT_WHY = 256 };
typedef struct mr_source_report {
    mr_link_state phase;
    int64_t since_ns;         /* of this phase: ns since 1970 */
    int64_t next_ns;          /* of the next try, while STALLED or AWAY; else 0 */
    uint64_t tries, connections; /* so many were opened of those that were tried */
    uint64_t packets, bytes;  /* as the network brought them */
    uint64_t lost, late;      /* of these packets: they did not come in time; of those: they came later */
    uint64_t stills;          /* frames that said that it was away, in place of its own */
    double jitter_ns;         /* of their arrival (RFC 3550, 6.4.1); 0: not known */
    char why[MR_REPORT_WHY];  /* why it is not live; "": it is, or no reason is known */
} mr_source_report;
/* "connecting", "live", "stalled", "away", "failed", "ended"; "" of UNREPORTED. */
MR_API const char *mr_link_state_name(mr_link_state phase);
MR_API void mr_stage_report(const mr_stage *self, const mr_source_report *report);
/* Writes a line to the log, with the stage's id before it. Lines that repeat are counted: see mr_log_repeating. */
MR_API void mr_stage_warn(const mr_stage *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
MR_API void mr_stage_info(const mr_stage *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Passes a result to the callback that the program has set for this stage, if any (mr_pipeline_subscribe). */
MR_API void mr_stage_deliver(const mr_stage *self, const mr_frame *frame);

/* The inputs of this call. Frames are borrowed until the call returns MR_DONE or an error; if there are several ports
 * each has one frame, stages with a batch, or that gather, have mr_io_count frames on port 0. mr_io_input(io) is frame
 * 0 of port 0. */
MR_API mr_frame *mr_io_input(const mr_io *io);
MR_API mr_frame *mr_io_input_at(const mr_io *io, size_t port, size_t index);
MR_API size_t mr_io_count(const mr_io *io);
/* The index of this call's entry, below self->entries; for scratch memory of stateless stages. */
MR_API int mr_io_entry(const mr_io *io);
/* The device's queue of work for this call. Kernels are enqueued on it (kernels/); never waited for. */
MR_API mr_stream *mr_io_stream(const mr_io *io);
/* Nanoseconds on the pipeline's clock (monotonic; simulated in tests). */
MR_API int64_t mr_io_now_ns(const mr_io *io);

/* A new frame without payload: identity, times, media, results and receipt of `from`. */
MR_API int mr_io_derive(mr_io *io, const mr_frame *from, mr_frame **frame);
/* As mr_io_derive, with the payload of `from`, by reference: for stages that only add results to their frames. Such a
 * stage sets mr_planned_output.follows. */
MR_API int mr_io_share(mr_io *io, const mr_frame *from, mr_frame **frame);
/* As mr_io_derive, with planes for `format` from the pool of that output port. MR_ERROR_AGAIN if all of its buffers are
 * in use: return that from process; the same inputs are offered again when one is free. */
MR_API int mr_io_acquire(mr_io *io, size_t port, const mr_format *format, const mr_frame *from, mr_frame **frame);
/* A buffer of at least `bytes` from the pool of that output port, for a result or a batch; as mr_io_acquire. The
 * reference is the caller's; the engine keeps one more until the device has done the call's work. A call takes all its
 * buffers before it submits any work: if one request returns MR_ERROR_AGAIN, the engine releases those it took. A stage
 * that calls this, or whose frames need more than their format tells, plans mr_planned_output.buffer_bytes. */
MR_API int mr_io_buffer(mr_io *io, size_t port, size_t bytes, mr_buffer **buffer);
/* The same for memory that only this call works in; once a call. Planned as mr_negotiation.scratch_bytes. */
MR_API int mr_io_scratch(mr_io *io, size_t bytes, mr_buffer **buffer);
/* The same in host memory, for results that this call computes about its frames: one copy brings them from the device
 * for all frames, and one function on the host turns them into results. Only on devices: on the processors results are
 * there at once. Planned as mr_negotiation.result_bytes. */
MR_API int mr_io_results(mr_io *io, size_t bytes, mr_buffer **buffer);
/* A buffer of pinned host memory, which a device copies from while the host goes on: data in other memory is copied
 * into it first. The caller keeps its reference until the device has done with it, and has two at most. Planned as
 * mr_negotiation.pinned_bytes. */
MR_API int mr_io_pinned(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Sources: a new frame with a new receipt, numbered by `identity` (its source is filled in). */
MR_API int mr_io_originate(mr_io *io, const mr_identity *identity, mr_frame **frame);
/* Sources that keep to a clock: the frame was due at `due_ns`, and its deadline counts from then; unless called, from
 * now. */
MR_API void mr_io_set_due(mr_io *io, mr_frame *frame, int64_t due_ns);
/* Adds an empty result to a frame that is not yet emitted. Its own memory, at `data`, has room for `capacity` elements,
 * or of an array for so many bytes: 0 if the array lies in a buffer. Never NULL-valued on MR_OK. */
MR_API int mr_io_add_result(mr_io *io, mr_frame *frame, const mr_result_kind *kind, size_t capacity,
                            mr_result **result);

/* The same with kind, stage, name and format of `from`. Contents that lie outside of `from` itself are shared: `data`
 * is that of `from`. Else there is room for them: the caller copies mr_result_bytes(from) to `data`, and `count`. */
MR_API int mr_io_add_like(mr_io *io, mr_frame *frame, const mr_result *from, mr_result **result);

/* Adds a named tensor to a frame that is not yet emitted, with room for `format`: *data is filled in by this call's
 * work, in host memory. The memory is the result's own, not a pool's buffer, so it is not planned and lives as long as
 * the frame: for a few kilobytes at most. Promised while planning with mr_promise_result. `name` lives as long as the
 * pipeline. MR_ERROR_MEMORY. */
MR_API int mr_io_add_tensor(mr_io *io, mr_frame *frame, const char *name, const mr_format *format, void **data);

/* Emits a frame on an output port and takes the reference, also on failure. */
MR_API int mr_io_emit(mr_io *io, size_t port, mr_frame *frame);
/* Emits input `index` of port 0 unchanged. */
MR_API int mr_io_forward(mr_io *io, size_t index);
/* Records the outcome of a frame that goes no further: `reason` is a string literal of one or two words. A frame that
 * is neither emitted, dropped nor absorbed makes the ledger unbalanced. Dropped: lost against the author's wish.
 * Absorbed: as the author asked (a gate, every: N, a window). Sinks: an input that is neither is delivered. */
MR_API void mr_io_drop(mr_io *io, const mr_frame *frame, const char *reason);
MR_API void mr_io_absorb(mr_io *io, const mr_frame *frame, const char *reason);
/* The run cannot go on here, and no frame is at fault: for example, output of an earlier process is missing. Stops the
 * run at once with that status and mr_message(). Nothing of it is settled, so nodes before this one keep their frames
 * and wait for a process that can go on. Returns the value for the call to return. */
MR_API int mr_io_refuse(mr_io *io, int status);
/* For stages that number new frames: no frame with that number will come of the frames taken from the call's source, so
 * that no consumer waits for it; with `rest`, none after it in that epoch either. */
MR_API void mr_io_skip(mr_io *io, uint32_t epoch, uint64_t seq, bool rest);
/* In `flush`: the source was asked to end, and might have given more. A value that depends on those frames, such as a
 * number, is not to be guessed: a frame that is dropped as MR_REASON_STOPPED is not settled, and a run that goes on
 * from there brings it again. */
MR_API bool mr_io_cut_short(const mr_io *io);
/* Sinks whose output leaves after the call that took the frame, because a library queues it: the frame stays in flight
 * until the stage calls mr_stage_release. NULL if nothing counts the frame. */
MR_API mr_receipt *mr_io_hold(mr_io *io, const mr_frame *frame);
/* Ends that, once, and sets *held to NULL; NULL is allowed. `dropped`: NULL if the output left, so that the outcome of
 * the call counts; else the reason why it is lost, a string literal of one or two words. Any thread, until `close`
 * returns. */
MR_API void mr_stage_release(const mr_stage *self, mr_receipt **held, const char *dropped);
/* In `flush`, for such sinks: which frames that are held must be released before it returns MR_DONE. */
typedef enum mr_release {
    MR_RELEASE_NONE,   /* other sources still give frames */
    MR_RELEASE_SOURCE, /* those of this source: another takes its place */
    MR_RELEASE_ALL,    /* nothing comes after this */
} mr_release;
MR_API mr_release mr_io_must_release(const mr_io *io);

/* If calls of the instance overlap (mr_negotiation.overlap): MR_OK once all calls with earlier inputs have returned
 * MR_DONE or an error, and until this one does. Before that MR_ERROR_AGAIN: return it from process, or from flush,
 * which is called again then. If no calls overlap, always MR_OK. */
MR_API int mr_io_await_turn(mr_io *io);
/* With the return value MR_WAIT: the time of the next call. */
MR_API void mr_io_wake_at(mr_io *io, int64_t time_ns);
/* Parks the stage until `pool` has `count` free buffers: return its result (MR_ERROR_AGAIN, or MR_ERROR_CANCELLED if
 * the run is stopped at once) from process. */
MR_API int mr_io_await_pool(mr_io *io, mr_pool *pool, int count);
/* Records that a source has failed, with the message of mr_fail; the run's exit code is the first such status. */
MR_API void mr_io_fail_source(mr_io *io, uint32_t source, int status);

#ifdef __cplusplus
}
#endif
#endif

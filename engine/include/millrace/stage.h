/* The interface of a stage.
 *
 * A stage type is one const struct, listed in stages/list.c. Its functions never see links, threads or sockets.
 * `process` takes inputs, acquires outputs and emits them through `io`. The engine does the rest: queues,
 * back-pressure, batching, order, joins, counting and devices. A stage with one output per input can write only `map`.
 *
 * Threads: `negotiate` runs while planning, on one thread. `open` and `close` run once per instance. `open` runs on the
 * thread that starts the pipeline or on the instance's thread, while other open instances may already work. Calls of
 * `process`, `map` and `flush` for one instance never overlap, with two exceptions. With MR_ENTRY_STATELESS several
 * workers may be in these calls at once with different inputs (mr_io_entry tells them apart). With
 * mr_negotiation.overlap calls may overlap as stated there. These calls must not block, unless the type is `blocking`;
 * each instance then has a thread.
 *
 * Errors: functions return a negative mr_status and set its message with mr_fail. An error in `negotiate` refuses the
 * pipeline; in `open` it stops the start; in a source it ends that source; elsewhere it drops the inputs of the
 * call. */
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

/* Return values of process and flush, besides negative statuses. */
typedef enum mr_answer {
    MR_DONE = 0, /* The inputs of this call are consumed. A source emitted something and must be called again. */
    MR_MORE = 1, /* call again with the same inputs */
    MR_WAIT = 2, /* nothing to do now; call again with the same inputs at the time given to mr_io_wake_at */
    MR_END = 3   /* sources: no more frames */
} mr_answer;

/* An input or output. `accepts` lists format sets. It ends with MR_PAYLOAD_ANY, unless that is the first entry. */
typedef struct mr_port {
    const char *name;
    const char *help;
    const mr_format_set *accepts; /* NULL: anything */
    bool many;                /* inputs: any number of ports, which the author names (`join:`) */
    bool optional;            /* outputs: may have no consumer; inputs with `many`: one may have no name */
} mr_port;

/* What a type does with frames' objects. SPLIT: it makes a frame for each object (mr_io_set_object), and ends each
 * input with mr_io_end_objects. GATHER: it puts results for objects onto their frames. It has two inputs, the frames
 * and the frames of their objects, and is MR_ENTRY_PER_SOURCE. Each call has one input: first the objects of a frame,
 * in order, whose identity has a `sub`; then the frame. Objects that were lost do not come. An object counts as settled
 * with its frame; the stage neither emits, drops nor absorbs it. It may read the payload of objects only. */
typedef enum mr_cascade { MR_CASCADE_NONE, MR_CASCADE_SPLIT, MR_CASCADE_GATHER } mr_cascade;

typedef struct mr_stage_type {
    const char *name;
    const char *summary;         /* one line */
    const char *help;            /* Optional. A paragraph. */
    const mr_port *inputs;       /* ended by a NULL name; NULL: the type is a source */
    const mr_port *outputs;      /* ended by a NULL name; NULL: the type is a sink */
    const mr_option *options;    /* Optional. Ended by a NULL name. */
    const mr_result_kind *const *kinds; /* Optional. The result kinds that this type declares, ended by NULL. */
    size_t options_bytes;        /* sizeof the options struct */
    size_t state_bytes;          /* zeroed memory that each instance gets as self->state */
    mr_entry entry;
    bool blocking;               /* process may block: the instance gets a thread */
    bool batches;                /* process can take several inputs at once (`batch:` allowed) */
    int gathers;                 /* More than 1, with `batches`: on processors without `batch:`, a call may get up to
                                    this number of waiting frames while all workers are busy. It never waits for
                                    frames, and must give each frame the same bits as alone. Where an output takes
                                    buffers, also for results or to change pictures, a call gets one frame: there
                                    are no buffers for more. */
    bool passes;                 /* With `batches`: `process` works on one of several frames (mr_negotiation.every) and
                                    passes the others (mr_io_passes). These do not count in a batch, and do not wait for
                                    one unless they come after a frame that does. */
    bool spares;                 /* With `batches`: if only one stage takes the frames of output 0, and it passes some,
                                    `process` does no work for these (mr_io_passes) */
    bool blind;                  /* reads results and metadata of its inputs, but not their payload */
    bool streams;                /* `process` works through mr_io_stream, as `map` always does. The stage may then
                                    run on a device. */
    bool cuda;                   /* all enqueued work has a CUDA variant */
    bool urgent;                 /* A device with priorities runs this work before that of other types. For the stage
                                    that takes most of the time and should never be idle. */
    bool converts;               /* Converts frames into another format. If formats do not fit, hints propose such a
                                    stage. */
    mr_cascade cascade;
    bool whole;                  /* Compares frames with those before: the plan refuses frames of objects, of which
                                    there are several at a time. */
    bool external;               /* sources: frames are pushed by the program (mr_pipeline_push) */
    bool awaits;                 /* Sources: frames come when another program sends them, which may take any time. The
                                    plan warns about batches that would wait for them. */
    bool repeats;                /* Sources: the same options give the same frames with the same numbers in every
                                    run. The source can then continue after a crash. */
    bool implied;                /* sources: the default type */
    bool resumes;                /* sinks: the output can be continued, or repeated frames do no harm */
    const char *paced_by;        /* sources: the options that make the source keep to a clock, for hints; NULL: there
                                    are none */
    /* Optional. For sources with an option `uri`. If `uri` names several streams, such as a folder of videos, calls
     * `add` for each stream in order, and each becomes a source. Adds nothing for a single stream, or if the stream has
     * an error. Returns MR_OK or the result of `add`. */
    int (*spread)(const char *uri, int (*add)(void *context, const char *uri), void *context);
    int (*negotiate)(mr_negotiation *negotiation); /* NULL: outputs have the formats of input 0 and, without `map`,
                                                      share its buffers */
    /* Optional. Checks whether the stage can run with these options on `device` ("cpu", "cuda:0"), which must exist.
     * Returns MR_OK or the status of mr_fail. The message must name the missing part, where it was looked for and the
     * fix. Not called for an offline plan or an assumed device. NULL: the stage can run on all devices that the kernels
     * support. */
    int (*check_device)(const void *options, const char *device);
    /* Optional. Checks whether the stage can process `input` on `device`, which passed check_device. Called for each
     * incoming link. Returns MR_OK or the status of mr_fail with the reason. If it sets *otherwise, the stage can do
     * the work only in another way; the message describes it and the plan prints it. NULL: any input that the port
     * accepts. */
    int (*check_input)(const void *options, const mr_format_set *input, const char *device, bool *otherwise);
    /* Optional. Makes the hint for formats that do not fit. Writes the options to change so that output 0 gives
     * `wanted`, as YAML ("size: 224x224"). Returns false if no options would. */
    bool (*suggest)(const void *options, const mr_format_set *wanted, char *text, size_t bytes);
    /* Optional. Returns the least number of pixels of `picture`, on each axis, that one pixel of output 0 averages; 1:
     * the output depends on single pixels. `output` is the planned output, or NULL for a sink. A type with this
     * function must accept pictures that were decoded at a reduced size (mr_format.reduced). NULL: the type needs whole
     * pictures. */
    double (*shrinks)(const void *options, const mr_format *output, const mr_format *picture);
    int (*open)(mr_stage *self);
    int (*process)(mr_stage *self, mr_io *io);
    int (*shape)(mr_stage *self, const mr_frame *input, mr_format *output); /* Optional, with map. NULL: the planned
                                                                               output. */
    int (*map)(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output);
    int (*flush)(mr_stage *self, mr_io *io, uint32_t source); /* The source has ended. Returns MR_MORE or MR_WAIT to
                                                                 be called again. */
    /* For sinks that detect repeated frames (resumes). Writes accepted frames to the disk. Called from any thread, at
     * any time between open and close. Returns MR_ERROR_AGAIN until mr_stage_run_state is known. */
    int (*sync)(mr_stage *self);
    void (*close)(mr_stage *self); /* must accept a half-opened instance */
    void (*stop)(mr_stage *self);  /* Optional. Wakes a call that blocks in a library; the call then checks
                                      mr_stage_cancelled. May be called from any thread, any number of times, while
                                      the stage is open. */
    const mr_media_codec *media_codec; /* Optional. For sources of packets: passes mr_media.codec between processes.
                                          NULL: it cannot be passed. */
    const char *ensures; /* Optional. One word for what the stage does to all pictures that it gives: "blurred". The
                            pipeline's key `require` can then demand it. */
    int (*trigger)(mr_stage *self); /* Optional. The user or the program asks the stage to act now
                                       (mr_pipeline_trigger). Should only record the request. May be called from any
                                       thread, while the stage is open, at the same time as all other functions. */
    const struct mr_synonym *synonyms;  /* For millrace's types: terms of other programs, for hints. One table for
                                           all types in a list; NULL elsewhere. */
    const struct mr_stage_hooks *hooks; /* for the engine's types (copies, ends of cuts); NULL elsewhere */
} mr_stage_type;

/* Checks a type's names, ports, functions, options (inside the struct) and defaults (accepted by the table).
 * MR_ERROR_DATA: the message gives the fault. The library checks plugins and types of mr_main with it; you can use it
 * in a stage's tests. */
MR_API int mr_stage_type_check(const mr_stage_type *type);

/* ---- planning ------------------------------------------------------------------------------------------------ */

/* The classes that a classifier or a detector can find. */
typedef struct mr_planned_classes {
    const char *from;          /* id of the stage that finds them */
    size_t count;
    const char *const *labels; /* one per class; NULL: no labels */
    double most_score;         /* upper bound of scores; INFINITY: not known */
} mr_planned_classes;

/* Areas and lines in a picture, as a stage's options have them (zones). The shapes live as long as the pipeline. */
typedef struct mr_planned_zones {
    mr_shapes areas, lines;
    bool pixels;      /* coordinates are pixels of the source's displayed picture; else 0 to 1 of it */
    bool crossings;   /* the events include "cross" */
    const char *from; /* id of the stage that watches them */
} mr_planned_zones;

/* A result that frames carry. Planning knows it, so that stages that read it can be checked. */
typedef struct mr_planned_result {
    const mr_result_kind *kind;
    const char *name;          /* name of an array; NULL for elements */
    mr_format_set set;         /* formats of an array */
    const struct mr_planned_result *next; /* the next older one */
    const char *operation;     /* tensors: the network's operator that computed it, such as "Softmax"; NULL: none, or
                                  not known */
    const mr_planned_classes *classes; /* for the kinds `classes` and `objects`; NULL: not known */
    bool tracked;              /* for the kind `objects`: they have tracks */
    const char *limited;       /* for the kind `objects`: id of the stage that found them and gives at most... */
    size_t most;               /* ...this many. If its result has so many, it may lack others. 0: no limit is known */
    const mr_planned_zones *zones; /* for the kind `events`: where they happen; NULL: not known */
    size_t elements;           /* for the kind `objects`: it has at most so many; 0: not known */
    uint64_t items_bytes;      /* the most bytes that its items, or its own array, take (mr_promise_items) */
    const char *maker;         /* id of the stage that makes it */
} mr_planned_result;

typedef struct mr_planned_input {
    const char *port;          /* name; for `many` ports the author's name */
    const char *from;          /* id of the producing stage */
    mr_format_set set;         /* all formats that may arrive */
    mr_format format;          /* the values that all these formats share; zero if they differ */
    bool settled;              /* while planning: false if a choice upstream may still narrow it */
    bool unseen;               /* a stage before this one runs on another machine; files for it may be missing here */
    const mr_planned_result *results; /* results that all frames carry, newest first */
    bool more_results;         /* frames may carry other results that are not known */
    int64_t mean_pixels;       /* average size of pictures, or of the pictures that packets decode to; 0: not known */
    int references;            /* packets: most reference pictures that the decoder keeps; 0: not known */
    bool stills;               /* packets: each is a still picture and depends on no other packet */
    const char *operation;     /* tensors: as mr_planned_result.operation */
} mr_planned_input;

/* An output port. The stage type fills it in. */
typedef struct mr_planned_output {
    mr_format_set set;         /* all formats that may come out */
    bool chosen;               /* The stage can give any member of `set`. The planner chooses one that suits all
                                  consumers and puts it into mr_stage.outputs. If false, frames may have any format
                                  in `set`. */
    bool ranges;               /* With `chosen`: sizes in `set` that are ranges stay so; frames have different ones. */
    const mr_format_set *wanted; /* NULL in the first call. With `chosen`, in the second call: the formats that all
                                    consumers accept. The stage may then fix more than the planner can, such as a
                                    value that follows from another. */
    int follows;               /* The input whose frames have the same format as those of this output; -1: none. The
                                  planner then asks that input for what consumers need. */
    int shares;                /* The input in whose buffers the frames of this output lie (mr_io_share,
                                  mr_io_forward); -1: none. The planner then plans no buffers for this output, unless
                                  buffer_bytes is set, and counts its frames against the stage that made them. A stage
                                  that only looks at frames or adds results sets `follows` and `shares`. */
    const char *unfixed;       /* Optional, with `chosen`: the options to write if no consumer narrows the format. */
    const mr_planned_result *results; /* the results of input 0; mr_promise_result adds more */
    bool more_results;         /* frames may carry other results that are not known */
    int64_t mean_pixels;       /* as in mr_planned_input */
    int references;            /* as in mr_planned_input */
    bool stills;               /* as in mr_planned_input */
    const char *operation;     /* as in mr_planned_input; NULL unless the stage sets it, or `shares` the buffers of an
                                  input that has one */
    size_t buffer_bytes;       /* bytes per buffer if the stage needs more than `set` implies (padding); else 0 */
    size_t buffer_mean_bytes;  /* Average bytes per buffer, if buffers differ; else 0. A pool that the stage creates
                                  then takes no more than mr_stage.output_most_bytes. */
    bool own_pool;             /* On processors, frames lie in a pool that the stage must create, as mr_stage.output_*
                                  specify. */
    bool external;             /* Frames may lie in host memory of a library or the program, not of a pool. A device
                                  copies from such memory only through pinned memory. */
} mr_planned_output;

#define MR_BYTES_UNKNOWN INT64_MAX

/* A stage's work on a GPU, without reading inputs and writing outputs, whose sizes are planned. `plan --assume
 * cuda:1xH100` estimates frame rates from it. If all fields are 0, the work has not been counted, and the plan reports
 * that. */
typedef struct mr_planned_work {
    double launches;       /* per call, with any batch: kernels, and copies within GPU memory, in sequence */
    double read_bytes;     /* bytes of inputs read per frame; 0: all of them */
    double more_bytes;     /* bytes read and written per frame, besides inputs, outputs and scratch */
    double call_bytes;     /* bytes per call: weights */
    double f32_operations, f16_operations; /* operations of networks per frame; a multiplication and an addition are
                                              two */
    const char *codec;     /* hardware decoders: "h264", "hevc", "hevc10", "vp9", "vp9_10", "av1", ...; else NULL */
    double decoded_pixels; /* pixels per frame; 0: not known */
    const char *unknown;   /* The part that is not known, such as "its operators are not counted". The text must
                              outlive the plan. */
} mr_planned_work;

/* Planning calls each stage in graph order with the formats that may arrive. The stage must fill in the formats that it
 * may give and those that it accepts. Planning calls a stage again if a choice narrowed the inputs or outputs, but not
 * if it narrowed them to exactly `takes`. There is never a third call. */
struct mr_negotiation {
    const char *id;            /* the stage's id */
    const mr_stage_type *type; /* the one that is asked: types that a program makes may share a function */
    const void *options;
    bool offline;              /* must open no file and use only the options */
    bool connect;              /* may connect to streams to learn their formats (mr_pipeline_params.connect) */
    bool returns;              /* The run may continue (mr_stage_run_state): it has a checkpoint, or several nodes; or
                                  it is under way, and a source is added. So output from before is not an
                                  error. */
    size_t input_count;
    const mr_planned_input *inputs;
    int batch;                 /* most frames in a process call; 1 without `batch:`, but see `gathers` */
    const char *device;        /* the author's name for it, the first in a list; "auto": not yet chosen */
    int sources;               /* number of sources whose frames reach this stage */
    int workers;               /* number of workers in the executor */
    const char *whole_for;     /* The first consumer that needs whole pictures from output 0 (mr_stage_type.shrinks).
                                  NULL: all consumers shrink them. */
    /* The stage type's answer. The planner fills in defaults before the call. */
    mr_format_set *takes;      /* One per input: what the port accepts. You may narrow it (a model's input). */
    mr_planned_output *outputs; /* one per output port */
    double rate;               /* sources: offered frames per second; 0: as fast as they are taken, or not known */
    bool paced;                /* sources: keeps to that rate even if frames are not taken */
    int64_t frames;            /* sources: number of frames; 0: not known, or endless */
    bool endless;              /* sources: never ends; starts again or waits for more */
    bool repeats;              /* sources: mr_stage_type.repeats; may be cleared */
    mr_entry entry;            /* the type's value; may be narrowed */
    int overlap;               /* MR_ENTRY_PER_SOURCE: the number of calls of one instance that may overlap, if there
                                  are as many workers. Work that needs the frames in order must come after
                                  mr_io_await_turn. Default 0: calls do not overlap. */
    int gathers;               /* the type's value, or 1 where it does not apply; may be reduced */
    mr_every every;            /* Types that pass frames: the frames of each source on which they work. `frames`: those
                                  whose seq is a multiple. `time_ns`: the first of an epoch, then the first at or after
                                  each multiple of that time later. Default: all. A call with a batch also takes the
                                  frames between. */
    bool blocking;             /* the type's value; may be changed */
    bool blind;                /* the same: a sink may read payloads only if an option says so */
    int threads;               /* threads that libraries start per instance, besides the engine's; default 0 */
    size_t scratch_bytes;      /* bytes that one call takes with mr_io_scratch, in all; 0: none */
    size_t pinned_bytes;       /* bytes per buffer from mr_io_pinned, on devices; 0: none */
    size_t result_bytes;       /* bytes that one call takes with mr_io_results, in all, on devices; 0: none */
    size_t waiting_bytes;      /* Sinks that deliver later: the most bytes of records that one instance keeps in host
                                  memory until they are acknowledged. */
    size_t constant_bytes;     /* Upper bound of what one instance keeps on a CUDA device besides buffers: weights,
                                  tables. */
    size_t stream_bytes[2];    /* Working memory of kernels and libraries on a CUDA device, besides buffers, for each
                                  concurrent call. [0]: below compute capability 9.0; [1]: from 9.0. */
    int64_t library_bytes;     /* Upper bound of library memory on a CUDA device per instance, besides buffers. 0:
                                  none. MR_BYTES_UNKNOWN: not known. */
    int retained;              /* output buffers that one instance keeps (a decoder's references) */
    const char *remark;        /* Optional. A behaviour that users may not expect, with the reason, for `plan`. The
                                  text must outlive the plan, or come from mr_remark. */
    uint32_t shows;            /* The payloads that may leave the pipeline here, into a file or to a program:
                                  MR_IN_SET of mr_payload. Results do not count. Default: all for a sink, none for
                                  other stages. A stage may read others: see `blind`. */
    bool unread;               /* Offline: a file that was not opened would narrow the formats. Formats that are open
                                  only for this reason are not an error. */
    mr_planned_work work;      /* the work on a GPU */
    void *planner;             /* private */
    bool forced; /* The remark is about a difference that the author overruled. Each summary repeats it. */
    bool force;  /* input: overrules all that may be overruled (mr_pipeline_params.force), without an option of the
                    stage */
};

/* Refuses the pipeline (printf style, one sentence). The place is that of `option` in the YAML, or the stage's if it is
 * NULL. Returns MR_ERROR_CONFIG, or the status passed to the _status variant (a missing file: MR_ERROR_NO_INPUT). */
MR_API int mr_refuse(mr_negotiation *negotiation, const char *option, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
MR_API int mr_refuse_status(mr_negotiation *negotiation, int status, const char *option, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Warns at such a place about something that works, but probably not as the author expects. `hint` is optional: what to
 * write; it is copied. A repeated warning is left out. */
MR_API void mr_warn(mr_negotiation *negotiation, const char *option, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* True if the YAML sets this stage's option, even to the default value. */
MR_API bool mr_is_given(const mr_negotiation *negotiation, const char *option);
/* Identifies the stages before an input, with all options that can affect the numbers there. Devices, batches, queues
 * and sources are left out. `stages` has a line per stage and per option, with the SHA-256 in place of a file. `digest`
 * is the SHA-256 of that text. Two pipelines with the same lineage make the same vectors from the same pictures, on
 * devices of one kind. */
typedef struct mr_lineage {
    const char *digest; /* 64 hexadecimal digits */
    const char *stages;
} mr_lineage;
/* Both texts live as long as the plan. The call is slow: it reads the files that the stages read. MR_ERROR_MEMORY, or
 * the status of a file that cannot be read. */
MR_API int mr_planned_lineage(mr_negotiation *negotiation, size_t input, mr_lineage *lineage);
/* Looks for the vector that mr_frame_find_vector (frame.h) will find in frames at this input, as far as planning knows.
 * NONE: there is none. UNKNOWN: there may be one, with unknown length. FOUND: *vector is set, with known length. */
typedef enum mr_planned_finding { MR_PLANNED_NONE, MR_PLANNED_UNKNOWN, MR_PLANNED_FOUND } mr_planned_finding;
MR_API mr_planned_finding mr_planned_find_vector(const mr_planned_input *input, const char *tensor, mr_format *vector);
/* The operator that computed that vector. NULL: none, or not known. */
MR_API const char *mr_planned_operation(const mr_planned_input *input, const char *tensor);
/* The classes in frames at an input, and of objects in them. They may come from several stages: `index` counts these
 * from 0. NULL past the last. *known: there are no other classes. */
MR_API const mr_planned_classes *mr_planned_classes_at(const mr_negotiation *negotiation, size_t input, size_t index,
                                                       bool *known);
/* The areas and lines of events at an input, which several stages may watch, as in mr_planned_classes_at. */
MR_API const mr_planned_zones *mr_planned_zones_at(const mr_negotiation *negotiation, size_t input, size_t index,
                                                   bool *known);
/* Whether frames at an input may have results of a kind. False only if planning knows that none do. */
MR_API bool mr_planned_may_have(const mr_negotiation *negotiation, size_t input, const mr_result_kind *kind);
/* The id of a source whose frames reach this stage. NULL past the last one that is in the pipeline. */
MR_API const char *mr_planned_source(const mr_negotiation *negotiation, size_t index);
/* Sets the formats that an input accepts. `why` is the reason in a few words for messages (printf style): the input
 * "images" of a.onnx. */
MR_API void mr_take(mr_negotiation *negotiation, size_t input, const mr_format_set *set, const char *why, ...)
    __attribute__((format(printf, 4, 5)));
/* Names the part of n->work that is not known, in a few words (printf style). The text is copied. */
MR_API void mr_leave_uncounted(mr_negotiation *negotiation, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* Sets n->remark (printf style). The text is copied. */
MR_API void mr_remark(mr_negotiation *negotiation, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Declares a result that frames on this output carry. `name` is copied. `set` has the formats of an array; NULL for
 * elements. MR_ERROR_MEMORY. */
MR_API int mr_promise_result(mr_negotiation *negotiation, size_t port, const mr_result_kind *kind,
                             const char *name, const mr_format_set *set);
/* Declares a network's tensor, as mr_promise_result. `operation` is optional and copied. */
MR_API int mr_promise_tensor(mr_negotiation *negotiation, size_t port, const char *name, const mr_format_set *set,
                             const char *operation);
/* Names the network's operator that computed the payload on this output. The text is copied. */
MR_API void mr_name_operation(mr_negotiation *negotiation, size_t port, const char *operation);
/* Declares classes, as mr_promise_result. The labels are copied. `from` is ignored and becomes the negotiating
 * stage. */
MR_API int mr_promise_classes(mr_negotiation *negotiation, size_t port, const mr_planned_classes *classes);
/* Declares which classes the objects have that this stage has promised on this output. As mr_promise_classes. */
MR_API int mr_promise_labels(mr_negotiation *negotiation, size_t port, const mr_planned_classes *classes);
/* Declares that this stage gives at most `most` objects a frame, the best ones, in the result that it has promised last
 * on this output. */
MR_API void mr_promise_limit(mr_negotiation *negotiation, size_t port, size_t most);
/* Declares the most bytes that the items of the result take that this stage has promised last on this output, or an
 * array that the result holds itself (mr_io_add_tensor). mr_result_add_items rounds each array up to 8 bytes, with one
 * more. Default for kinds with items: MR_MOST_ITEMS_BYTES, or for tracks as many as those of the objects before. */
MR_API void mr_promise_items(mr_negotiation *negotiation, size_t port, uint64_t most);
/* Declares that the result that this stage has promised last on this output has at most so many objects. */
MR_API void mr_promise_elements(mr_negotiation *negotiation, size_t port, size_t most);
/* Declares that the objects of the output's newest result have tracks now, as mr_promise_result. */
MR_API int mr_promise_tracks(mr_negotiation *negotiation, size_t port);
/* Declares events of areas and lines, as mr_promise_result. `from` is ignored and becomes the negotiating stage. */
MR_API int mr_promise_zones(mr_negotiation *negotiation, size_t port, const mr_planned_zones *zones);
/* Declares an output with the pictures of an input, which the stage changes (mr_io_change). They lie in the input's
 * buffers or in those of this output. */
MR_API void mr_promise_changes(mr_negotiation *negotiation, size_t port, size_t input);
/* Declares again a result that an input's frames carry. */
MR_API int mr_promise_again(mr_negotiation *negotiation, size_t port, const mr_planned_result *result);

/* ---- running ------------------------------------------------------------------------------------------------- */

#define MR_SOURCE_NONE UINT32_MAX

/* A running instance, as the stage type sees it. The engine owns it; the stage type may write only *state. */
struct mr_stage {
    const char *id;
    const mr_stage_type *type;
    const void *options;
    void *state;
    const char *place;           /* "file:line:column" of the stage, for messages */
    size_t input_count;
    const mr_planned_input *inputs;
    const mr_format *outputs;    /* planned formats: the values that all frames of a port share */
    uint32_t source;             /* for sources and per-source instances; else MR_SOURCE_NONE */
    const char *source_id;       /* that source's id; else NULL */
    int entries;                 /* upper bound: mr_io_entry is below this */
    int threads;                 /* as negotiated */
    int batch;
    mr_device *device;
    int output_buffers;          /* planned buffers for output 0 of this instance, with `retained` */
    int output_least;            /* buffers that consumers need to make progress, without `retained` */
    size_t output_largest;       /* planned upper bound of the bytes in one buffer; 0: not known */
    uint64_t output_most_bytes;  /* planned upper bound of the bytes in all buffers together */
    mr_memory output_memory;     /* memory and device of output 0's buffers, for a stage that creates its pools */
    mr_device *output_device;
    size_t output_bytes;         /* bytes per buffer if the stage allocates all buffers in `open` (mr_pool_fill);
                                    else 0 */
    void *flow;                  /* private */
};

/* True once the run is being stopped at once. For a source also true once the run was asked to end, or the source is
 * being removed. A blocking call must then give up; interrupt callbacks check this. */
MR_API bool mr_stage_cancelled(const mr_stage *self);
/* For a blocking stage that waits for something outside, such as a peer or disk space, that may never come. The stage
 * must call it on each turn of the wait and give up if it returns true. True whenever mr_stage_cancelled is. A stage
 * may wait for three tenths of the grace time (mr_pipeline_params.grace_ns) after the run was asked to end. If it still
 * waits then, the call stops the run at once and returns true. */
MR_API bool mr_stage_gives_up(const mr_stage *self);
/* True if the stage's frames come over a reliable cut, directly or through other stages. The producing node keeps
 * frames until they are settled, so waiting loses nothing. */
MR_API bool mr_stage_reliable(const mr_stage *self);
/* mr_stage_checkpoints: true if this run can be continued (mr_pipeline_params.resume). mr_stage_continues: true if this
 * run continues an earlier one. mr_stage_settled: true if the earlier run settled this source frame; such a frame comes
 * again only for stages that remember. mr_stage_resume_epoch, below: the epoch in which a source must continue; earlier
 * frames need not come again. */
MR_API bool mr_stage_checkpoints(const mr_stage *self);
MR_API bool mr_stage_continues(const mr_stage *self);
MR_API bool mr_stage_settled(const mr_stage *self, const mr_identity *frame);
/* True if the frame comes again: this process reads the source, and the earlier run had not settled the frame. */
MR_API bool mr_stage_comes_again(const mr_stage *self, const mr_identity *frame);
MR_API uint32_t mr_stage_resume_epoch(const mr_stage *self, uint32_t source);
/* Tells whether the run begins with this process or continues. It continues after a crash with a checkpoint, or if a
 * node before this one reports that an earlier process of this node delivered frames. A sink may keep existing output
 * only in a run that continues. The state is UNKNOWN until every node before this one has reported. A node that need
 * not be waited for is ignored after three silent heartbeats. Sinks get no frame before the state is known. It changes
 * once. */
typedef enum mr_run_state { MR_RUN_UNKNOWN, MR_RUN_BEGINS, MR_RUN_GOES_ON } mr_run_state;
MR_API mr_run_state mr_stage_run_state(const mr_stage *self);
/* The run's id, 16 hexadecimal digits: the same for all its processes, and kept in the checkpoint. A sink can store it
 * with its records, to find them again when the run continues. NULL: the process is one of several nodes, or continues
 * an earlier run, but neither a checkpoint nor $MILLRACE_RUN says which run. Call it once mr_stage_run_state is
 * known. */
MR_API const char *mr_stage_run(const mr_stage *self);
/* The first epoch for a source that cannot repeat frames (not `repeats`). New frames must not be mistaken for frames
 * that an earlier process gave under the same numbers. A run that continues, and a node without $MILLRACE_EPOCH, use
 * tenths of a second since 2026, which fit until 2039. Else it is $MILLRACE_EPOCH, which the supervisor sets for each
 * start, or 0. */
MR_API uint32_t mr_stage_first_epoch(const mr_stage *self);
/* The factor, on each axis, by which all consumers of output 0 shrink such a picture at least (mr_stage_type.shrinks).
 * 1: a consumer needs it whole. The call walks the plan; do not call it for every frame. */
MR_API double mr_stage_shrink(const mr_stage *self, const mr_format *picture);
/* Converts between a source's name and its position. MR_SOURCE_NONE or NULL: there is none. */
MR_API uint32_t mr_stage_find_source(const mr_stage *self, const char *id);
MR_API const char *mr_stage_source_id(const mr_stage *self, uint32_t source);
/* For loops over all sources, also while sources are added and removed. Returns the id, which lives as long as the run;
 * "" for a position without a source; NULL past the last one. */
MR_API const char *mr_stage_source_at(const mr_stage *self, uint32_t source);
/* Whether that source still has that position: false once it was removed. Any thread. */
MR_API bool mr_stage_has_source(const mr_stage *self, uint32_t source, const char *id);
/* Changes whenever the program asks for files to be reopened (mr_pipeline_reopen). A sink whose file may be moved must
 * compare it with the last value before it writes. */
MR_API uint64_t mr_stage_reopenings(const mr_stage *self);
/* The pipeline's name. */
MR_API const char *mr_stage_pipeline(const mr_stage *self);
/* For a source whose stream ended before the announced number of frames. `frames` is the number of missing frames. The
 * ledger does not count them, but they are lost (mr_source_summary.unread). */
MR_API void mr_stage_miss_frames(const mr_stage *self, uint64_t frames);
/* The state of a source that connects to a camera or server, with counts over all connections. The source reports it
 * (mr_stage_report) at each change, and now and then between changes. The report is copied. */
typedef enum mr_link_state {
    MR_LINK_UNREPORTED,     /* for sources that do not connect */
    MR_LINK_CONNECTING,
    MR_LINK_LIVE,
    MR_LINK_STALLED,        /* connected, but received nothing for too long; will reconnect. Or a call hangs */
    MR_LINK_AWAY,           /* waiting for the next try */
    MR_LINK_FAILED,
    MR_LINK_ENDED
} mr_link_state;
enum { MR_REPORT_WHY = 256 };
typedef struct mr_source_report {
    mr_link_state phase;
    int64_t since_ns;         /* start of this state: ns since 1970 */
    int64_t next_ns;          /* time of the next try, while STALLED or AWAY; else 0 */
    uint64_t tries, connections; /* attempts, and those that succeeded */
    uint64_t packets, bytes;  /* received from the network */
    uint64_t lost, late;      /* packets that did not arrive in time; those that arrived later */
    uint64_t stills;          /* frames that replaced missing ones and show that the source is away */
    double jitter_ns;         /* of packet arrival (RFC 3550, 6.4.1); 0: not known */
    int64_t within_ns;        /* A call of the source returns or reports again within this time. If it does not, its
                                 driver or library hangs: the source then counts as STALLED until the call returns or
                                 reports. 0: not known */
    char why[MR_REPORT_WHY];  /* why the source is not live; "": it is live, or the reason is not known */
} mr_source_report;
/* "connecting", "live", "stalled", "away", "failed", "ended"; "" for UNREPORTED. */
MR_API const char *mr_link_state_name(mr_link_state phase);
MR_API void mr_stage_report(const mr_stage *self, const mr_source_report *report);
/* The state of a service that a sink delivers to: a database, a broker. The sink reports it (mr_stage_report_service)
 * at each change, after each batch, and now and then between. `phase`: CONNECTING, LIVE, AWAY (waiting for the next
 * try), FAILED or ENDED; UNREPORTED for stages without a service. Counts are over all connections. The report is
 * copied. */
typedef struct mr_service_report {
    mr_link_state phase;
    int64_t since_ns;         /* start of this state: ns since 1970 */
    int64_t next_ns;          /* time of the next try, while AWAY; else 0 */
    int64_t last_ns;          /* when the service acknowledged the last batch: ns since 1970; 0: never */
    uint64_t tries, connections; /* attempts, and those that succeeded */
    uint64_t batches, frames, bytes; /* acknowledged */
    uint64_t again;           /* batches that were sent again */
    uint64_t dropped;         /* frames that were dropped: the queue was full, or the service refused them */
    uint64_t waiting, waiting_bytes; /* frames that are not acknowledged, and their memory */
    char why[MR_REPORT_WHY];  /* why the service is away, or has refused frames of the last batch; "": neither */
} mr_service_report;
/* Any thread, until `close` returns. */
MR_API void mr_stage_report_service(const mr_stage *self, const mr_service_report *report);
/* For a sink without such a report, whose frames wait until another program takes them. Adds to their number
 * (mr_stage_summary.untaken); a negative number takes away. While there are some, a run in which nothing moves does not
 * count as stalled. Any thread, until `close` returns. */
MR_API void mr_stage_count_untaken(const mr_stage *self, int64_t change);
/* Writes a line to the log, prefixed with the stage's id. Repeated lines are counted; see mr_log_repeating. */
MR_API void mr_stage_warn(const mr_stage *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
MR_API void mr_stage_info(const mr_stage *self, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Passes a frame to the callback that the program set for this stage, if any (mr_pipeline_subscribe). */
MR_API void mr_stage_deliver(const mr_stage *self, const mr_frame *frame);

/* The inputs of this call. Frames are borrowed until the call returns MR_DONE or an error. With several ports, each
 * port has one frame. A stage with a batch, or that gathers, has mr_io_count frames on port 0. mr_io_input(io) is frame
 * 0 of port 0. */
MR_API mr_frame *mr_io_input(const mr_io *io);
MR_API mr_frame *mr_io_input_at(const mr_io *io, size_t port, size_t index);
MR_API size_t mr_io_count(const mr_io *io);
/* The index of this call's entry, below self->entries. Stateless stages can use it to select scratch memory. */
MR_API int mr_io_entry(const mr_io *io);
/* The device's work queue for this call. The stage may enqueue kernels on it (kernels/) but must not wait for it. */
MR_API mr_stream *mr_io_stream(const mr_io *io);
/* Nanoseconds on the pipeline's clock: monotonic, or simulated in tests. */
MR_API int64_t mr_io_now_ns(const mr_io *io);

/* Makes a frame without payload. It has the identity, times, media, results, geometry and receipt of `from`. A stage
 * that makes pixels on another grid must set the frame's geometry (mr_geometry_chain). If it does not, pictures of
 * another size have none. */
MR_API int mr_io_derive(mr_io *io, const mr_frame *from, mr_frame **frame);
/* As mr_io_derive, but shares the payload of `from`. For stages that only add results to frames. Such a stage must set
 * mr_planned_output.shares; otherwise the engine stops the run (mr_io_refuse). */
MR_API int mr_io_share(mr_io *io, const mr_frame *from, mr_frame **frame);
/* As mr_io_share, but the stage may change the picture. If no other frame holds the buffers of `from`, the new frame
 * has them. Else the picture is copied into a buffer from that output port's pool, on mr_io_stream. The stage must take
 * all other buffers before, must emit the frame, and must have called mr_promise_changes. Errors: as mr_io_acquire. */
MR_API int mr_io_change(mr_io *io, size_t port, const mr_frame *from, mr_frame **frame);
/* For types that promise changes, if a picture needs none: emits the input on port 0 in its own buffer, or, if that may
 * not leave, as a copy. Errors: as mr_io_acquire. */
MR_API int mr_io_pass_unchanged(mr_io *io);
/* As mr_io_derive, with planes for `format` from that output port's pool. MR_ERROR_AGAIN: all buffers are in use. The
 * stage must return it from process; it gets the same inputs again once a buffer is free. If the plan has no buffers
 * for that output, the engine stops the run (mr_io_refuse); the message names what the stage must declare. The same
 * holds for the four calls below. */
MR_API int mr_io_acquire(mr_io *io, size_t port, const mr_format *format, const mr_frame *from, mr_frame **frame);
/* Takes a buffer with at least `bytes` from that output port's pool, for a result or a batch; see mr_io_acquire. The
 * caller owns the reference. The engine keeps another one until the device has finished the call's work. A call must
 * take all buffers before it submits work: if a request returns MR_ERROR_AGAIN, the engine releases those taken. A
 * stage that calls this must plan mr_planned_output.buffer_bytes. So must a stage whose frames need more bytes than the
 * format implies. */
MR_API int mr_io_buffer(mr_io *io, size_t port, size_t bytes, mr_buffer **buffer);
/* As mr_io_buffer, for memory that only this call uses. May be called once per call. Planned as
 * mr_negotiation.scratch_bytes. */
MR_API int mr_io_scratch(mr_io *io, size_t bytes, mr_buffer **buffer);
/* As mr_io_buffer, in host memory, for results that this call computes. One copy brings all frames' numbers from the
 * device; then one host function must make results from them. Only for devices: on processors, results are ready at
 * once. Planned as mr_negotiation.result_bytes. */
MR_API int mr_io_results(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Takes a buffer in pinned host memory, from which a device can copy while the host continues. Data in other memory
 * must be copied into it first. The caller must keep the reference until the device has finished, and may hold two at
 * most. Planned as mr_negotiation.pinned_bytes. */
MR_API int mr_io_pinned(mr_io *io, size_t bytes, mr_buffer **buffer);
/* Sources: makes a frame with a new receipt, numbered by `identity`. The call sets the identity's source. A picture
 * gets the geometry of a source's picture when it is emitted. */
MR_API int mr_io_originate(mr_io *io, const mr_identity *identity, mr_frame **frame);
/* Sources that keep to a clock: the frame was due at `due_ns`, and the deadline counts from then. Without this call,
 * the deadline counts from now. */
MR_API void mr_io_set_due(mr_io *io, mr_frame *frame, int64_t due_ns);
/* Adds an empty result to a frame that is not yet emitted. `data` points to room for `capacity` elements, or for
 * `capacity` bytes of an array; use 0 if the array lies in a buffer. On MR_OK *result is never NULL. */
MR_API int mr_io_add_result(mr_io *io, mr_frame *frame, const mr_result_kind *kind, size_t capacity,
                            mr_result **result);

/* As mr_io_add_result, with kind, stage, name and format of `from`. If the contents lie outside `from`, they are
 * shared, and `data` equals that of `from`. The caller must copy what is in `from` once it is complete
 * (mr_result_copy). */
MR_API int mr_io_add_like(mr_io *io, mr_frame *frame, const mr_result *from, mr_result **result);

/* Adds a named tensor with room for `format` to a frame that is not yet emitted. This call's work must fill *data,
 * which is in host memory. The memory belongs to the result and not to a pool. It lives as long as the frame, and is
 * planned only with mr_promise_items: do that for more than a few kilobytes. Promise it with mr_promise_result. `name`
 * must live as long as the pipeline. MR_ERROR_MEMORY. */
MR_API int mr_io_add_tensor(mr_io *io, mr_frame *frame, const char *name, const mr_format *format, void **data);

/* Types that split: makes a frame that the call has derived from its input the frame of an object. `number` counts an
 * input's objects from 1, in the order in which they are emitted. The frame loses the input's results, and is accounted
 * for apart from it: if it is not emitted, it must be dropped. MR_ERROR_MEMORY: the frame is as before. */
MR_API int mr_io_set_object(mr_io *io, mr_frame *frame, uint32_t number);
/* Types that split: the call has emitted frames for `count` objects of this input, and the input goes no further. If no
 * object and nothing else delivers it, it counts as absorbed for `reason`. */
MR_API void mr_io_end_objects(mr_io *io, const mr_frame *input, uint32_t count, const char *reason);
/* Types that gather, when the frame comes: whether an object of it was dropped or failed on the way, or came over a cut
 * that absorbed one; or the frame itself was lost before the split. Objects that a stage absorbs are not lost. */
MR_API bool mr_io_lost_objects(const mr_io *io);
/* The most objects of one frame. */
#define MR_MOST_OBJECTS 100000

/* Emits a frame on an output port. Takes the reference, also on failure. The plan makes the queues of joins long enough
 * for one frame of each input on each port, or for objects (mr_io_set_object). If a type emits more, a join of these
 * with frames that gather in a batch may stall: the author of such a pipeline must write a longer `queue` there. */
MR_API int mr_io_emit(mr_io *io, size_t port, mr_frame *frame);
/* The end of work on a frame: emits it if `status` is MR_OK; else releases it (it may be NULL) and returns `status`. */
MR_API int mr_io_finish(mr_io *io, size_t port, mr_frame *frame, int status);
/* Emits input `index` of port 0 unchanged. The stage must set mr_planned_output.shares for output 0. */
MR_API int mr_io_forward(mr_io *io, size_t index);
/* Whether the stage passes input `index` of port 0 (mr_stage_type.passes, spares): it must call mr_io_pass for it. */
MR_API bool mr_io_passes(const mr_io *io, size_t index);
/* Emits input `index` on output 0 without work: unchanged if the output shares its buffers, else without a payload
 * (MR_PAYLOAD_RESULTS). */
MR_API int mr_io_pass(mr_io *io, size_t index);
/* Records the outcome of a frame that is not emitted. `reason` is a string literal of one or two words. Dropped: lost
 * against the author's wish. Absorbed: as the author asked (a gate, every: N, a window). A frame that is neither
 * emitted, dropped nor absorbed makes the ledger unbalanced. In a sink such a frame is delivered. */
MR_API void mr_io_drop(mr_io *io, const mr_frame *frame, const char *reason);
MR_API void mr_io_absorb(mr_io *io, const mr_frame *frame, const char *reason);
/* Stops the run at once because it cannot continue here, although no frame is at fault: for example, output of an
 * earlier process is missing. The run ends with `status` and mr_message(). No frame is settled, so nodes before this
 * one keep them and wait for a process that can continue. Returns the value that the call must return. */
MR_API int mr_io_refuse(mr_io *io, int status);
/* For stages that number new frames: no frame with this number will follow from the call's source, so no consumer
 * should wait for it. With `rest`, no later frame in that epoch will follow either. */
MR_API void mr_io_skip(mr_io *io, uint32_t epoch, uint64_t seq, bool rest);
/* In `flush`: true if the source was asked to end and might have given more frames. The stage must not guess a value
 * that depends on those frames, such as a number. It can drop the frame as MR_REASON_STOPPED: it is then not settled,
 * and a run that continues brings it again. */
MR_API bool mr_io_cut_short(const mr_io *io);
/* For sinks whose output leaves later, because a library queues it. The frame stays in flight until the stage calls
 * mr_stage_release. NULL if nothing counts the frame. */
MR_API mr_receipt *mr_io_hold(mr_io *io, const mr_frame *frame);
/* Releases a held frame, once, and sets *held to NULL; NULL is allowed. `dropped` must be NULL if the output left: the
 * outcome of the call then counts. Otherwise it is the reason for the loss, a string literal of one or two words. Any
 * thread, until `close` returns. */
MR_API void mr_stage_release(const mr_stage *self, mr_receipt **held, const char *dropped);
/* In `flush`, for such sinks: which held frames must be released before it returns MR_DONE. */
typedef enum mr_release {
    MR_RELEASE_NONE,   /* other sources still give frames */
    MR_RELEASE_SOURCE, /* frames of this source: another source takes the slot */
    MR_RELEASE_ALL,    /* nothing comes after this */
} mr_release;
MR_API mr_release mr_io_must_release(const mr_io *io);

/* For calls that overlap (mr_negotiation.overlap). MR_OK once all calls with earlier inputs have returned MR_DONE or an
 * error; it stays so until this call does. MR_ERROR_AGAIN: return it from process or flush, which is called again then.
 * If calls do not overlap, always MR_OK. */
MR_API int mr_io_await_turn(mr_io *io);
/* Sets the time of the next call, for the return value MR_WAIT. */
MR_API void mr_io_wake_at(mr_io *io, int64_t time_ns);
/* Parks the stage until `pool` has `count` free buffers. Return the result from process: MR_ERROR_AGAIN, or
 * MR_ERROR_CANCELLED if the run is stopped at once. */
MR_API int mr_io_await_pool(mr_io *io, mr_pool *pool, int count);
/* Records that a source has failed, with the message of mr_fail. The run's exit code follows from the first such
 * status. */
MR_API void mr_io_fail_source(mr_io *io, uint32_t source, int status);

#ifdef __cplusplus
}
#endif
#endif

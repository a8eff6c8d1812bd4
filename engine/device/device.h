/* Devices: where stages compute. One table of functions for each kind; this header is all the engine and the kernels
 * know of any of them.
 *
 * A device owns streams; a stream does its work in order; an event is a point in a stream that carries a status.
 * Nothing here ever waits: completion is polled or told through a callback. Devices outlive all that is made on them.
 *
 * Threads: a stream is used by one thread at a time; all else may be called from any thread.
 * Errors: MR_ERROR_MEMORY, MR_ERROR_DEVICE (the device failed; its later work fails too), MR_ERROR_UNAVAILABLE (there
 * is no such device). */
#ifndef MILLRACE_DEVICE_H
#define MILLRACE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/waiter.h"
#include "engine/device/sim/card.h"
#include "millrace/frame.h"
#include "millrace/stage.h"

typedef enum mr_device_kind { MR_DEVICE_CPU, MR_DEVICE_SIM, MR_DEVICE_CUDA } mr_device_kind;

/* Work of a stream that runs on the host: the stream calls function(arguments) where `arguments` is its own copy. */
typedef int mr_work_function(void *arguments);

typedef struct mr_device_type {
    mr_device_kind kind;
    int (*allocate)(mr_device *device, mr_memory memory, size_t bytes, void **data);
    void (*free)(mr_device *device, mr_memory memory, void *data);
    int (*stream_create)(mr_device *device, mr_stream **stream);
    int (*stream_create_urgent)(mr_device *device, mr_stream **stream); /* NULL where streams have no priorities */
    void (*stream_destroy)(mr_stream *stream);
    int (*submit)(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
    /* `from` NULL: zeros. NULL where the memory of the device is the host's: copies are work like any other then. */
    int (*copy_rows)(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                     size_t bytes, size_t rows);
    int (*record)(mr_stream *stream, mr_event *event);
    int (*wait)(mr_stream *stream, mr_event *event);
    /* NULL where work that is handed on begins as soon as any other does. */
    int (*hand_on)(mr_stream *stream, mr_event *event);
    int (*settle)(mr_stream *stream);
    /* Whether host memory that is not known to be pinned is; NULL where that cannot be asked. */
    bool (*is_pinned)(mr_device *device, const void *data);
    /* Where misuse is looked for; NULL elsewhere. */
    void (*reuse)(mr_device *device, void *data);
    int (*host_reads)(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame);
    /* Around what the calling thread does in a stage of that name, for profilers; NULL where there are none. */
    void (*range_begin)(const char *name);
    void (*range_end)(void);
    void (*destroy)(mr_device *device);
} mr_device_type;

/* What works side by side on a device. Copies within a device's memory are computing. */
typedef enum mr_engine { MR_ENGINE_UPLOAD, MR_ENGINE_COMPUTE, MR_ENGINE_DOWNLOAD, MR_ENGINES } mr_engine;
const char *mr_engine_name(mr_engine engine);

/* A piece of work that is done. */
typedef struct mr_work_note {
    mr_engine engine;
    const mr_stage *stage;     /* whose stream it was on; NULL: nobody's */
    mr_identity frame;         /* that it was for; of a batch the first */
    size_t bytes;              /* copied; 0 of other work */
    int64_t begin_ns, end_ns;  /* on the device's clock: monotonic, or simulated */
} mr_work_note;
typedef void mr_work_trace(void *context, const mr_device *device, const mr_work_note *note);

struct mr_device {
    const mr_device_type *type;
    char name[32]; /* "cpu", "sim:0", "cuda:1" */
    int index;
    mr_work_trace *trace; /* called for each piece of work that is done, by the thread that does it; NULL: nobody
                             looks */
    void *trace_context;
    _Atomic int64_t done_ns; /* when the last call of a stage was done here, which the flow notes */
    atomic_int references; /* beside that of who has opened it */
    /* Of pools, by kind of memory. */
    _Atomic uint64_t held_bytes[MR_MEMORY_KINDS], most_bytes[MR_MEMORY_KINDS];
};
/* Who gives it work, and for which frame, is set by who calls: for messages and traces. */
struct mr_stream {
    mr_device *device;
    const mr_stage *stage;
    mr_identity frame;
    bool joined;         /* the next piece of work is part of the launch of the one before it: a GPU would do both at once */
    uint64_t unrecorded; /* pieces of work since the last event was recorded; who gives it work past this table counts
                            too */
};

/* The device of the host's processors. It always exists and is never destroyed. Work is done before submit
 * returns. */
mr_device *mr_device_cpu(void);
/* Another one, so that memory is counted apart. */
int mr_cpu_create(mr_device **device);

/* Opens a device by name: "cpu", "sim", "sim:N", "cuda", "cuda:N" (without a number: 0), "cuda:GPU-<uuid>". What
 * stands behind a `?` in the name of a simulated device sets its parameters (below). With `manual` it works in
 * simulated time. MR_ERROR_CONFIG: no such kind of device, or no such parameter. */
enum { MR_DEVICE_NAME = 256 };
int mr_device_open(mr_device **device, const char *name, uint64_t seed, bool manual);
/* Whether a name is well formed; whether there is such a device shows when it is opened. */
int mr_device_check_name(const char *name);
/* A GPU has two names. Writes that with its number where `name` gives its UUID and there is such a GPU here, else the
 * name as it is (well formed, and shorter than MR_DEVICE_NAME); returns `text`. */
const char *mr_device_number(const char *name, char text[MR_DEVICE_NAME]);
/* Whether there is such a device on this machine, and how many bytes of memory it has (0: not told). The
 * name is well formed. MR_ERROR_UNAVAILABLE, MR_ERROR_DEVICE. */
int mr_device_probe(const char *name, uint64_t *memory_bytes);
/* The compute capability of a CUDA device of that name, which is well formed: 90 is 9.0. 0: it is none, or is not there. */
int mr_device_capability(const char *name);
/* Whether a device of that name, which is well formed, is a simulated one that is like a card, and which. */
bool mr_device_card(const char *name, mr_card *card);
/* Pools, whose buffers a program may keep for longer than the pipeline, hold references: the last one destroys. */
mr_device *mr_device_ref(mr_device *device);
/* Drops the reference of who has opened it, or one of mr_device_ref, and sets it to NULL. Of mr_device_cpu nothing
 * else is done. */
void mr_device_destroy(mr_device **device);
int mr_device_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data);
void mr_device_free(mr_device *device, mr_memory memory, void *data);
/* Whether the device copies from there while the host goes on. The device that pinned it tells, and CUDA devices of
 * memory that the program has pinned too. */
bool mr_device_is_pinned(mr_device *device, const void *data);
/* Pools say that nobody uses a block any more and that it is about to be given to others. */
void mr_device_reuse(mr_device *device, void *data);
/* The host is about to read there. MR_ERROR_INTERNAL where work that writes it is not done, on devices that look. */
int mr_device_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame);
/* Pools say what they have allocated (or freed: negative), so that the most there ever was is known. */
void mr_device_count_bytes(mr_device *device, mr_memory memory, int64_t bytes);
uint64_t mr_device_most_bytes(const mr_device *device, mr_memory memory);

int mr_stream_create(mr_device *device, mr_stream **stream);
/* The same, where `urgent`, for work that goes before that of other streams, as far as the device knows priorities:
 * what begins next is chosen by them, and what has begun is not interrupted. */
int mr_stream_create_for(mr_device *device, bool urgent, mr_stream **stream);
/* Work already submitted is finished first. */
void mr_stream_destroy(mr_stream **stream);
/* Adds work; at most MR_WORK_BYTES of arguments, which are copied. A failing function fails the next event recorded
 * after it, and only that one; on the cpu, which has done the work by then, it is the answer of submit instead. */
enum { MR_WORK_BYTES = 1024 };
int mr_stream_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
/* Adds a copy, from and to memory of the host or of the stream's device; `from` NULL: zeros. Both must stay until it
 * is done. */
int mr_stream_copy(mr_stream *stream, void *to, const void *from, size_t bytes);
/* Adds a copy of `rows` rows of `bytes` bytes each, that begin every so many bytes; strides may be negative. */
int mr_stream_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                        size_t bytes, size_t rows);
/* Makes a fresh `event` done, with the stream's status, when all work submitted so far is done. */
int mr_stream_record(mr_stream *stream, mr_event *event);
/* Work submitted after this runs after `event`, which may be of another device; a failed event fails the next event
 * recorded on this stream. The cpu cannot put work off: MR_ERROR_INTERNAL where the event is not done. */
int mr_stream_wait(mr_stream *stream, mr_event *event);
/* Records the event at the end of a call whose work needs nothing but what it has waited for, nor does what comes after
 * it on this stream need that work; and one stream of the same device is about to wait for the event. The work may then
 * begin only together with that of the other stream, or a little later where none comes. Such a wait answers
 * MR_ERROR_AGAIN where the work was taken over already, and is not yet recorded: try again when the event is done. */
int mr_stream_hand_on(mr_stream *stream, mr_event *event);
/* What the stream has taken over goes on without what was to come behind it. */
int mr_stream_settle(mr_stream *stream);

/* ---- events: reference-counted, used once ---------------------------------------------------------------------- */

/* `stage` is kept for messages: who records it. */
int mr_event_create(mr_event **event, mr_device *device, const mr_stage *stage);
mr_event *mr_event_ref(mr_event *event);
void mr_event_unref(mr_event **event);
bool mr_event_done(const mr_event *event);
/* 0 or the failure; only once it is done. */
int mr_event_status(const mr_event *event);
mr_device *mr_event_device(const mr_event *event);
const mr_stage *mr_event_stage(const mr_event *event);
/* A place among those who wait for an event, embedded in its owner; zero: it waits for none. Used by one thread at a
 * time. */
typedef struct mr_event_wait {
    mr_waiter waiter;
    mr_event *event; /* one reference, until mr_event_forget or the next event */
} mr_event_wait;
/* Calls function(context) once when the event is done, from the thread that completes it, at once where it is done
 * already. Any number may wait, each in a place of its own; a place that waits for this event already goes on as
 * it does, and one that waits for another waits for this one instead. The function must not block, destroy streams or
 * call CUDA. */
void mr_event_notify(mr_event *event, mr_event_wait *wait, mr_waiter_function *function, void *context);
/* It waits no more, and the place may go. The context stays until the event is done, or what would complete it is gone:
 * the function may be on the point of being called. */
void mr_event_forget(mr_event_wait *wait);
/* For device implementations: the event is done. */
void mr_event_complete(mr_event *event, int status);
/* For device implementations, and guarded by them: what stands for the event there; NULL at first. */
void mr_event_set_point(mr_event *event, void *point);
void *mr_event_point(const mr_event *event);

/* ---- the simulated accelerator --------------------------------------------------------------------------------- */

/* Work runs later, on the device's own thread, or, with `manual`, when mr_sim_advance is called (simulated time:
 * tests).
 *
 * How long it takes: without rates, any number of streams work at once, and each piece of work takes a time drawn
 * from `seed`, uniform in [min_delay_ns, max_delay_ns]. With a rate or a time for each call the device has three
 * engines, upload, compute and download, that work side by side and each in order: a copy takes its bytes at the rate
 * of its engine (from another device: that of the upload engine), and other work takes `call_ns` and the bytes of all
 * buffers that it is given addresses in at `compute_rate`; delays are added where there are any. With `copies` 1 both
 * copy engines are one. With `kernels` above 1 so many pieces of such work pass their `call_ns` side by side, and only
 * their bytes, which share one memory, one after the other. What is joined to the piece before it (mr_stream.joined)
 * takes no `call_ns`, and buffers that both are given count once.
 *
 * Misuse fails the call, or the event behind work that is done in the meantime, with MR_ERROR_INTERNAL; the message
 * names stage and frame, it is logged as an error, and mr_sim_misuses counts it: memory of another device, addresses
 * beyond a buffer, work that was not made to wait for what writes its memory, memory that was freed or given to
 * others before the work on it was done.
 *
 * Behind the name ("sim:0?copy=12GB/s&call=50us&memory=64MiB") each field has a name; times are "20us", bytes
 * "64MiB", rates "12GB/s"; bare times are nanoseconds. `copy` sets the rates of both directions. `like` is a card
 * (engine/device/sim/card.h), which sets all rates, call, copies, kernels and memory; what is written beside it holds,
 * wherever it stands. 0: none of that. */
typedef struct mr_sim_params {
    int index;
    uint64_t seed;
    bool manual;
    int64_t min_delay_ns, max_delay_ns;  /* min_delay, max_delay; 1us and 200us where nothing is said of time */
    int64_t upload_rate, download_rate;  /* upload, download: bytes a second */
    int64_t compute_rate;                /* compute: bytes a second */
    int64_t call_ns;                     /* call: for each piece of work that is no copy */
    int64_t copies, kernels;             /* how many engines copy, and how many kernels run side by side */
    int64_t memory_bytes;                /* memory: device memory beyond this is refused (MR_ERROR_MEMORY) */
    int64_t fail_after;                  /* every piece of work from this one on fails (MR_ERROR_DEVICE) */
    int64_t fail_every;                  /* each so-manieth piece of work fails */
    int64_t fail_allocation;             /* the so-manieth allocation fails (MR_ERROR_MEMORY) */
    int64_t fail_call;                   /* the so-manieth call fails: allocate, create, submit, copy, record or
                                            wait */
    int64_t lose_after, lose_call;       /* from this piece of work, or call, on all fails: the device is lost */
    int64_t slow_after, slow;            /* work from this one on takes so many times as long */
    int64_t corrupt;                     /* once, in what work that is no copy leaves in device memory for the so-manieth
                                            frame of a source, one bit is wrong: 0x40 of the third byte of a word, which is
                                            64 in an 8-bit value and 2^22 units in the last place of a float */
    mr_card card;                        /* like: with what else was written; no name: none */
} mr_sim_params;
int mr_sim_create(mr_device **device, const mr_sim_params *params);
/* Manual devices: does all work due by now_ns; returns when the next is due, or INT64_MAX. Called by the executor. */
int64_t mr_sim_advance(mr_device *device, int64_t now_ns);
/* Calls of a simulated device so far, as fail_call counts them. */
int64_t mr_sim_calls(mr_device *device);
/* How often simulated devices of this process were misused. */
uint64_t mr_sim_misuses(void);

/* ---- CUDA ------------------------------------------------------------------------------------------------------ */

/* MR_ERROR_UNAVAILABLE, with what is wrong, where this build or this machine has no such device. */
int mr_cuda_create(mr_device **device, int index);
/* The same, without opening it: only how much memory it has. */
int mr_cuda_probe(int index, uint64_t *memory_bytes);
int mr_cuda_capability(int index);

#endif

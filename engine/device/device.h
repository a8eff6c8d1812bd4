/* Devices: where stages compute. Each kind has a function table; the engine and the kernels know only this header about
 * any device.
 *
 * A device owns streams. A stream runs work in order. An event is a point in a stream; it carries a status. No function
 * here waits: completion is polled, or a callback reports it. A device must outlive everything that is made on it.
 *
 * Threads: only one thread at a time may use a stream; any thread may call all other functions. Errors:
 * MR_ERROR_MEMORY, MR_ERROR_DEVICE (the device failed; later work fails too), MR_ERROR_UNAVAILABLE (there is no such
 * device). */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/base/waiter.h"
#include "millrace/frame.h"
#include "millrace/stage.h"

typedef enum mr_device_kind { MR_DEVICE_CPU, MR_DEVICE_SIM, MR_DEVICE_CUDA } mr_device_kind;

/* Stream work that runs on the host: the stream copies the arguments and calls function(arguments) with the copy. */
typedef int mr_work_function(void *arguments);

typedef struct mr_device_type {
    mr_device_kind kind;
    int (*allocate)(mr_device *device, mr_memory memory, size_t bytes, void **data);
    void (*free)(mr_device *device, mr_memory memory, void *data);
    int (*stream_create)(mr_device *device, mr_stream **stream);
    int (*stream_create_urgent)(mr_device *device, mr_stream **stream); /* NULL if streams have no priorities */
    void (*stream_destroy)(mr_stream *stream);
    int (*submit)(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
    /* If `from` is NULL, writes zeros. NULL if the memory of the device is the host's: copies are then submitted as
     * work. */
    int (*copy_rows)(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                     size_t bytes, size_t rows);
    int (*record)(mr_stream *stream, mr_event *event);
    int (*wait)(mr_stream *stream, mr_event *event);
    /* NULL if the device has no work to combine: mr_stream_hand_on then records. */
    int (*hand_on)(mr_stream *stream, mr_event *event);
    int (*settle)(mr_stream *stream);
    /* True if host memory that is not known to be pinned is pinned; NULL if the device cannot tell. */
    bool (*is_pinned)(mr_device *device, const void *data);
    /* The next two check for misuse; NULL if the device does not. */
    void (*reuse)(mr_device *device, void *data);
    int (*host_reads)(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame);
    /* Brackets the calling thread's work in a stage of that name, for profilers; NULL if there are none. */
    void (*range_begin)(const char *name);
    void (*range_end)(void);
    /* See mr_device_advance; NULL if the device does not work in simulated time. */
    int64_t (*advance)(mr_device *device, int64_t now_ns);
    void (*destroy)(mr_device *device);
} mr_device_type;

/* The engines of a device, which work side by side. Copies within a device's memory count as compute. */
typedef enum mr_engine { MR_ENGINE_UPLOAD, MR_ENGINE_COMPUTE, MR_ENGINE_DOWNLOAD, MR_ENGINES } mr_engine;
const char *mr_engine_name(mr_engine engine);

/* A piece of work that is done. */
typedef struct mr_work_note {
    mr_engine engine;
    const mr_stage *stage;     /* the stream's; NULL: none */
    mr_identity frame;         /* that it was for; the first in a batch */
    size_t bytes;              /* copied; 0 for other work */
    int64_t begin_ns, end_ns;  /* on the device's clock: monotonic, or simulated */
} mr_work_note;
typedef void mr_work_trace(void *context, const mr_device *device, const mr_work_note *note);

struct mr_device {
    const mr_device_type *type;
    char name[32]; /* "cpu", "sim:0", "cuda:1" */
    int index;
    mr_work_trace *trace; /* called for each finished piece of work, by the thread that runs it; NULL: not traced */
    void *trace_context;
    _Atomic int64_t done_ns; /* when the last call of a stage was done here, which the flow notes */
    atomic_int references; /* beside the one that mr_device_open gave */
    /* Pool bytes, by memory kind. */
    _Atomic uint64_t held_bytes[MR_MEMORY_KINDS], most_bytes[MR_MEMORY_KINDS];
};
/* `stage` and `frame` are set by the user of the stream, for messages and traces. */
struct mr_stream {
    mr_device *device;
    const mr_stage *stage;
    mr_identity frame;
    bool joined;         /* the next piece is part of the previous piece's launch, as a GPU does both */
    uint64_t unrecorded; /* pieces since the last event was recorded; a user that bypasses this table must count its
                            pieces */
};

/* The device of the host's processors. It always exists and is never destroyed. Work is done before submit
 * returns. */
mr_device *mr_device_cpu(void);
/* Another one, so that memory is counted apart. */
int mr_cpu_create(mr_device **device);

/* Pools, whose buffers a program may keep for longer than the pipeline, hold references: the last one destroys. */
mr_device *mr_device_ref(mr_device *device);
/* Drops the reference from mr_device_open or mr_device_ref, and NULLs it. mr_device_cpu itself is never destroyed. */
void mr_device_destroy(mr_device **device);
/* Does all work that is due by now_ns on a device that works in simulated time. Returns the time at which the next work
 * is due, or INT64_MAX if there is none. */
int64_t mr_device_advance(mr_device *device, int64_t now_ns);
int mr_device_allocate(mr_device *device, mr_memory memory, size_t bytes, void **data);
void mr_device_free(mr_device *device, mr_memory memory, void *data);
/* Whether the device can copy from there while the host continues. The device that pinned the memory knows; CUDA
 * devices also know memory that the program has pinned. */
bool mr_device_is_pinned(mr_device *device, const void *data);
/* Called by pools: a block is no longer used and is about to be handed to another user. */
void mr_device_reuse(mr_device *device, void *data);
/* The host is about to read there. MR_ERROR_INTERNAL if the device checks for misuse, and work that writes it is not
 * done. */
int mr_device_host_reads(mr_device *device, const void *data, const mr_stage *stage, const mr_identity *frame);
/* Called by pools: adds allocated bytes (negative: freed), from which the device keeps the maximum. */
void mr_device_count_bytes(mr_device *device, mr_memory memory, int64_t bytes);
uint64_t mr_device_most_bytes(const mr_device *device, mr_memory memory);
/* The bytes that are allocated now. */
uint64_t mr_device_held_bytes(const mr_device *device, mr_memory memory);

int mr_stream_create(mr_device *device, mr_stream **stream);
/* The same; if `urgent`, for work that precedes that of other streams, if the device has priorities. They decide which
 * work begins next; running work is not interrupted. */
int mr_stream_create_for(mr_device *device, bool urgent, mr_stream **stream);
/* Work already submitted is finished first. */
void mr_stream_destroy(mr_stream **stream);
/* Adds work; at most MR_WORK_BYTES argument bytes, which are copied. A failing function fails only the next event
 * recorded after it. The cpu has done the work by then, so submit returns the failure instead. */
enum { MR_WORK_BYTES = 1024 };
int mr_stream_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
/* Adds a copy, from and to memory on the host or the stream's device; `from` NULL: zeros. Both must stay until it is
 * done. */
int mr_stream_copy(mr_stream *stream, void *to, const void *from, size_t bytes);
/* Adds a copy of `rows` rows with `bytes` bytes each. A stride is the distance between row starts; it may be
 * negative. */
int mr_stream_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                        size_t bytes, size_t rows);
/* The same as the arguments of work that the host does; without `from`, zeros. For device implementations. */
typedef struct mr_rows_copy {
    uint8_t *to;
    const uint8_t *from;
    ptrdiff_t to_stride, from_stride;
    size_t bytes, rows;
} mr_rows_copy;
int mr_rows_copy_run(void *copy);
/* Makes a fresh `event` done, with the stream's status, when all work submitted so far is done. */
int mr_stream_record(mr_stream *stream, mr_event *event);
/* Work submitted after this runs after `event`, which may belong to another device. A failed event fails the next event
 * recorded on this stream. The cpu cannot put work off: MR_ERROR_INTERNAL if the event is not done. */
int mr_stream_wait(mr_stream *stream, mr_event *event);
/* Records the event at a call's end, if (1) the call's work needs nothing but the events that it waits for, (2) later
 * work on this stream does not need it, and (3) one stream on the same device is about to wait for the event. The
 * device may then run the work only together with that stream's, or a little later if no stream waits. mr_stream_wait
 * returns MR_ERROR_AGAIN if the work was taken over already and is not yet recorded: try again when the event is
 * done. */
int mr_stream_hand_on(mr_stream *stream, mr_event *event);
/* Submits the work that the stream has taken over, without waiting for more. */
int mr_stream_settle(mr_stream *stream);

/* ---- events: reference-counted, used once ---------------------------------------------------------------------- */

/* `stage`, which records the event, is kept for messages. */
int mr_event_create(mr_event **event, mr_device *device, const mr_stage *stage);
mr_event *mr_event_ref(mr_event *event);
void mr_event_unref(mr_event **event);
bool mr_event_done(const mr_event *event);
/* 0 or the failure; only once it is done. */
int mr_event_status(const mr_event *event);
mr_device *mr_event_device(const mr_event *event);
const mr_stage *mr_event_stage(const mr_event *event);
/* Waits for an event, embedded in the object that waits; zero: waits for none. Only one thread at a time may use it. */
typedef struct mr_event_wait {
    mr_waiter waiter;
    mr_event *event; /* one reference, until mr_event_forget or the next event */
} mr_event_wait;
/* Calls function(context) once when the event is done: on the thread that completes it, or at once if it is done
 * already. Any number can wait. A waiter that waits for this event already keeps its first function; one that waits for
 * another event waits for this one instead. The function must not block, destroy streams or call CUDA. */
void mr_event_notify(mr_event *event, mr_event_wait *wait, mr_waiter_function *function, void *context);
/* Stops waiting; the waiter can then be freed. The context must stay until the event is done, or until whatever
 * completes it is gone, since the function can be about to be called. */
void mr_event_forget(mr_event_wait *wait);
/* For device implementations: the event is done. */
void mr_event_complete(mr_event *event, int status);
/* For device implementations, which guard it: a record for the event; NULL at first. */
void mr_event_set_point(mr_event *event, void *point);
void *mr_event_point(const mr_event *event);

/* Shared by the files for CUDA devices: cuda.c (the device and memory), cuda_stream.c (a stream's work) and
 * cuda_record.c (events, the device's thread, which completes them, and work that one stream takes over from another).
 *
 * A millrace event is a CUDA event that the device's thread polls, so that a failed device still completes the events
 * recorded on it (CUDA stops calling host functions once a context has failed). Host work is a host function on the
 * stream. That work and the waits belong to the next record, and decide its status.
 *
 * Threads: only one thread at a time may use a stream. A device's lock guards all changing state, except the state of
 * the device's thread. That thread polls the runtime without the lock, and only each stream's oldest record: a stream
 * reaches records in order. */
#pragma once

#include <cuda_runtime_api.h>
#include <pthread.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/cuda/cuda_graph.h"
#include "engine/device/cuda/cuda_trace.h"

typedef struct cuda_work {
    mr_work_function *function;
    void (*after)(void *context); /* instead of `function`: called when the work is recycled */
    void *context;
    atomic_int status;
    struct cuda_work *next;
    _Alignas(16) unsigned char arguments[MR_WORK_BYTES];
} cuda_work;

/* One reference each. */
typedef struct cuda_events {
    mr_event **event;
    size_t count, capacity;
} cuda_events;

typedef struct cuda_stream {
    mr_stream stream;
    cudaStream_t handle;
    cuda_work *work;    /* since the last record, the newest first */
    cuda_events waited; /* events to wait for, since the last record */
    size_t waits;       /* how many of these the handle waits for already; the others wait until it gets work */
    cuda_events taken;  /* events for calls on other streams whose work it has taken over, since the last record */
    int status;         /* known failure since the last record */
    bool given;         /* the call has given work to the handle, or works in the handle's memory */
    atomic_int plain;   /* how many of the next calls must not be handed on */
    void *scratch;
    size_t scratch_bytes;
    mr_cuda_launches launches;
    mr_cuda_piece *piece; /* the current one; NULL if not traced */
    int pending;          /* records that are not done; under the device's lock */
    /* The device's thread only: the records that it must poll, the oldest first, and other streams that have some. */
    struct cuda_record *first, *last;
    struct cuda_stream *next_busy;
    bool asked; /* in this round, and not reached */
} cuda_stream;

/* MR_CUDA_LATE: the work is handed on, but no stream took it over, so the device's thread is about to submit it. */
typedef enum cuda_state { MR_CUDA_RECORDED, MR_CUDA_HELD, MR_CUDA_LATE, MR_CUDA_TAKEN } cuda_state;

/* A point in a stream that is not known to be reached yet, or an unused record. Or the end of a call that is handed on,
 * with all work that it would have submitted. The point's events refer to it. */
typedef struct cuda_record {
    cuda_state state;   /* under the device's lock */
    cudaEvent_t point;
    cuda_stream *stream;
    cuda_events events; /* that are done with it, the oldest first */
    cuda_work *work;    /* on the host, since the record before */
    cuda_events waited; /* since the record before */
    int status;         /* known failure so far */
    mr_cuda_launches launches; /* handed on */
    int64_t held_ns;    /* since when */
    struct cuda_record *next;
} cuda_record;

typedef struct cuda_device {
    mr_device device;
    mr_cuda_facts facts;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    bool has_thread, ending;
    bool asleep; /* the thread is, until `changed`; under the lock */
    bool graphs; /* streams record recurring launches as CUDA graphs */
    int queues;  /* hardware queues, which streams share; 0: the program chose, or was informed */
    int streams; /* that there are; under the lock */
    atomic_bool refused; /* to record a graph; this was logged */
    bool reported;   /* it has failed, so everything later fails; device's thread only */
    cuda_record *arrived, **arrived_end; /* in recording order: those that the device's thread has not seen */
    cuda_record *held; /* handed on, and not taken over yet */
    cudaStream_t late; /* for work that no stream takes over; device's thread only */
    cuda_stream *busy; /* streams whose records it has seen; device's thread only */
    cuda_record *unused_records;
    cuda_work *unused_work;
    mr_cuda_timeline timeline;
} cuda_device;

/* ---- cuda.c ----------------------------------------------------------------------------------------------------- */

/* Fails with the runtime's message, and resets the runtime's error. */
int mr_cuda_failed(const mr_device *device, cudaError_t error, const char *what);
/* Every call of the runtime is about the thread's current device: from now on this one. */
int mr_cuda_use(const mr_device *device);
/* Whether more than one was ever opened in this process. */
bool mr_cuda_has_several(void);

/* ---- cuda_stream.c ---------------------------------------------------------------------------------------------- */

/* As in mr_device_type. */
int mr_cuda_stream_create(mr_device *device, mr_stream **stream);
int mr_cuda_stream_create_urgent(mr_device *device, mr_stream **stream);
void mr_cuda_stream_destroy(mr_stream *stream);
int mr_cuda_submit(mr_stream *stream, mr_work_function *function, const void *arguments, size_t bytes);
int mr_cuda_copy_rows(mr_stream *stream, void *to, ptrdiff_t to_stride, const void *from, ptrdiff_t from_stride,
                      size_t bytes, size_t rows);

/* All work in a list is done: calls the functions that want to know, in order. Returns the status of the last piece
 * that failed, or MR_OK. Must be called without the lock. */
int mr_cuda_finish_work(cuda_work **list);
/* Empties the list into the free list. With the lock. */
void mr_cuda_recycle_work(cuda_device *device, cuda_work **list);

/* Makes the device the thread's current one and submits deferred launches; before any other call on the stream. */
int mr_cuda_flush(cuda_stream *stream);

/* ---- cuda_record.c ---------------------------------------------------------------------------------------------- */

int mr_cuda_record(mr_stream *stream, mr_event *event);
int mr_cuda_wait(mr_stream *stream, mr_event *event);
/* Gives the handle the waits that were put off. */
int mr_cuda_give_waits(cuda_stream *stream);
/* Makes room for `more` events, so that adding them cannot fail. MR_ERROR_MEMORY. */
int mr_cuda_widen_events(cuda_events *list, size_t more);
/* Appends everything in `from` to `to`, which must have room. */
void mr_cuda_move_events(cuda_events *to, cuda_events *from);
void mr_cuda_forget_events(cuda_events *list);
/* A record for a call's end. Filling it moves the stream's work, waits and events into it. */
int mr_cuda_take_record(cuda_device *device, cuda_record **record);
void mr_cuda_fill_record(cuda_record *record, cuda_stream *stream);
/* With the lock. */
void mr_cuda_recycle_record(cuda_device *device, cuda_record *record);
/* Wakes the device's thread for a record, or for something handed on. With the lock. */
void mr_cuda_wake(cuda_device *device);
/* Makes all events of a record refer to it, or to another record. With the lock. */
void mr_cuda_point_events(const cuda_events *events, cuda_record *record);
/* Makes the handle wait for an event if it is not done; else returns the status. */
int mr_cuda_wait_for_point(mr_device *device, cudaStream_t handle, mr_event *event);
/* Makes `count` records for later. The thread's current device must be this one. MR_ERROR_MEMORY, MR_ERROR_DEVICE. */
int mr_cuda_reserve_records(cuda_device *device, int count);
/* As in mr_device_type. */
int mr_cuda_hand_on(mr_stream *stream, mr_event *event);
int mr_cuda_settle(mr_stream *stream);
/* A stream takes over an event's record instead of waiting for it. The caller must hold the lock of the device that
 * both are on. MR_ERROR_MEMORY. */
int mr_cuda_take_over(cuda_stream *stream, cuda_record *held);
/* Device's thread, with the lock: records that were held for too long, which are late now. */
cuda_record *mr_cuda_find_late(cuda_device *device);
/* The same without the lock: gives them to the device. They are then recorded one after the other. */
void mr_cuda_give_late(cuda_device *device, cuda_record *late);
/* How long a call is held; for tests. */
extern _Atomic int64_t mr_cuda_patience_ns;

/* The device's thread: completes events for reached records, until `ending`. */
void *mr_cuda_ask(void *device);

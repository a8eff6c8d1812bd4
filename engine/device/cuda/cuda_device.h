/* A CUDA device, its streams, their work and records. Shared by cuda.c (the device and memory), cuda_stream.c,
 * cuda_work.c (host work) and cuda_record.c (events, the device's thread, which completes them, and work that one
 * stream takes over from another).
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

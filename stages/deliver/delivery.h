/* Delivery of records to a service: a database, a broker, a web server. Shared by the sinks that deliver to one.
 *
 * A stage makes a frame's record in `process` and puts it into a queue (mr_delivery_put). A thread sends the records in
 * batches. A frame stays in flight until the service has acknowledged its batch, and then counts as delivered. If the
 * service is away, the thread connects again and sends the batch again; pauses double, with jitter, up to 30 seconds.
 * Meanwhile records wait, up to `backlog` bytes; then `on_full` decides. Nothing else in the pipeline waits
 * for the service.
 *
 * A new sink is one file: it makes records, and has the three functions of mr_service_type that are not optional. A
 * stage's options must begin with mr_delivery_options.
 *
 * At the run's end, flush waits until everything is acknowledged. If the run was asked to end, it waits as long as
 * mr_stage_gives_up allows. It drops the rest as MR_REASON_STOPPED, which comes again when the run continues.
 *
 * The state is reported to the engine (mr_stage_report_service), at each change and after each batch.
 *
 * Threads: open, put, flush and close are for the stage's calls. The functions of mr_service_type are called by the
 * delivery's thread alone. */
#pragma once

#include <stdbool.h>

#include "millrace/stage.h"

enum { MR_DELIVERY_WAIT, MR_DELIVERY_FAIL, MR_DELIVERY_DROP_OLDEST, MR_DELIVERY_DROP_NEWEST };
extern const char *const mr_delivery_on_full[];

typedef struct mr_delivery_options {
    int64_t send_frames, send_bytes, send_after, backlog, retry, give_up;
    int on_full;
} mr_delivery_options;

#define MR_DELIVERY_FIELD(name) offsetof(mr_delivery_options, name)
#define MR_DELIVERY_OPTIONS(frames, after)                                                                             \
    {.name = "send_frames", .kind = MR_OPTION_INT, .offset = MR_DELIVERY_FIELD(send_frames), .fallback = frames,       \
     .min = 1, .max = 1000000, .unit = "frames", .neutral = true, .help = "the most frames in one batch"},             \
    {.name = "send_bytes", .kind = MR_OPTION_BYTES, .offset = MR_DELIVERY_FIELD(send_bytes), .fallback = "4MiB",       \
     .min = 1024, .max = 1 << 30, .neutral = true, .help = "the most bytes of records in one batch"},                  \
    {.name = "send_after", .kind = MR_OPTION_DURATION, .offset = MR_DELIVERY_FIELD(send_after), .fallback = after,     \
     .max = 3600e9, .neutral = true, .help = "how long a batch may wait for more frames before it is sent"},           \
    {.name = "backlog", .kind = MR_OPTION_BYTES, .offset = MR_DELIVERY_FIELD(backlog), .fallback = "32MiB",            \
     .min = 4096, .max = 1099511627776.0, .neutral = true,                                                            \
     .help = "the most memory for records that wait until they are acknowledged; a larger record is dropped"},         \
    {.name = "on_full", .kind = MR_OPTION_ENUM, .offset = MR_DELIVERY_FIELD(on_full), .fallback = "wait",              \
     .choices = mr_delivery_on_full, .neutral = true,                                                                  \
     .help = "what happens to a frame if the backlog is full: it waits, and with it the pipeline; the run fails; the " \
             "oldest batch is dropped; or this frame is dropped"},                                                     \
    {.name = "retry", .kind = MR_OPTION_DURATION, .offset = MR_DELIVERY_FIELD(retry), .fallback = "500ms",             \
     .min = 1e6, .max = 30e9, .neutral = true,                                                                         \
     .help = "the first pause before another try; each later one is twice as long, up to 30 seconds"},                 \
    {.name = "give_up", .kind = MR_OPTION_DURATION, .offset = MR_DELIVERY_FIELD(give_up), .fallback = "0s",            \
     .max = 1e18, .neutral = true,                                                                                     \
     .help = "how long the service may be away until the run fails; 0: it may be away for any time"}

typedef struct mr_delivered {
    mr_receipt *held;
    uint32_t source;
    bool refused;     /* send may set it: the service refuses this record for good, so its frame is dropped */
    size_t at, bytes; /* the record's place in the batch */
} mr_delivered;

typedef struct mr_batch {
    size_t count;
    mr_delivered *items;
    const char *data;
    size_t bytes;
    bool again; /* an earlier try has failed: the service may have these records */
} mr_batch;

typedef struct mr_delivery mr_delivery;

/* A kind of service. `service` is the pointer that the stage passed to mr_delivery_open. Statuses: MR_ERROR_AGAIN, with
 * the reason in mr_message: the service is away, and another try may help. MR_ERROR_CANCELLED: mr_delivery_stops was
 * true. MR_ERROR_PROTOCOL: the service refuses this batch for good, so its frames are dropped ("refused"). Any other
 * failure ends the run. */
typedef struct mr_service_type {
    int (*connect)(void *service, const mr_delivery *delivery);
    /* Sends a batch and returns once it is acknowledged. After a failure the connection is closed. If it has set
     * `refused` in records, mr_message has the reason. */
    int (*send)(void *service, const mr_delivery *delivery, const mr_batch *batch);
    /* Must also accept a service that is not connected. */
    void (*disconnect)(void *service);
    /* `connect` reaches nobody: the service is connected once it has acknowledged or refused a batch, and a refusal
     * does not close the connection. */
    bool connects_late;
    /* Optional. Called ten times a second while it is connected and no batch is due. Failures: as of `send`. */
    int (*idle)(void *service, const mr_delivery *delivery);
    /* Optional. The last call with a connection, if the run ends while there is one. It must return within a second:
     * mr_delivery_stops is already true. */
    void (*end)(void *service, const mr_delivery *delivery);
    /* Optional. Frees the service, which is not connected. */
    void (*destroy)(void *service);
    /* Optional. After MR_ERROR_AGAIN: the pause that the service has asked for, in ns; 0: none. */
    int64_t (*pause)(void *service);
} mr_service_type;

/* Plans the memory and the thread, and refuses options that contradict each other. */
int mr_delivery_negotiate(mr_negotiation *negotiation);
/* Starts the thread, which connects. Takes the service, also on failure; close destroys it. MR_ERROR_MEMORY: also, no
 * thread. MR_ERROR_UNAVAILABLE: too many files are open. */
int mr_delivery_open(mr_delivery **delivery, const mr_stage *self, const mr_service_type *type, void *service);
/* The end of process: puts a frame's record into the queue, and returns the value for process. A frame whose record has
 * more bytes than the backlog is dropped ("too large"); then `record` is not read. */
int mr_delivery_put(mr_delivery *delivery, mr_io *io, const mr_frame *frame, const void *record, size_t bytes);
/* The stage's flush. */
int mr_delivery_flush(mr_delivery *delivery, mr_io *io, uint32_t source);
/* Stops the thread, and drops the rest. NULL is allowed. */
void mr_delivery_close(mr_delivery **delivery);

/* For the functions of a service that wait: whether they must give up and return MR_ERROR_CANCELLED. Check it at least
 * ten times a second. */
bool mr_delivery_stops(const mr_delivery *delivery);
/* A descriptor that is readable once mr_delivery_stops is true. */
int mr_delivery_wake(const mr_delivery *delivery);
/* The run's id, for keys of records (mr_stage_run). NULL if it is not known; the message says what to do. */
const char *mr_delivery_run(const mr_stage *self);
/* What it has done so far. */
mr_service_report mr_delivery_report(const mr_delivery *delivery);
/* The stage. */
const mr_stage *mr_delivery_stage(const mr_delivery *delivery);

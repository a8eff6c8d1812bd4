/* Messages that libzmq has accepted from a sink but not sent yet. Their frames stay in flight until libzmq has written
 * the whole message to a connection, which it signals by freeing it, or until they are dropped here.
 *
 * libzmq also frees a message when its connection breaks: such a message counts as sent. Nobody can know how much sent
 * data is still in the buffers of the operating system and the peer.
 *
 * Threads: libzmq frees messages on its threads; the stage makes all other calls. The lock is held while receipts are
 * released, and must not be taken under another lock. */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <zmq.h>

#include "millrace/stage.h"

typedef struct mr_zmq_entry mr_zmq_entry;

typedef struct mr_zmq_unsent {
    const mr_stage *self;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    mr_zmq_entry *first;
    uint64_t sent; /* messages, ever */
} mr_zmq_unsent;

void mr_zmq_unsent_init(mr_zmq_unsent *unsent, const mr_stage *self);
/* After the socket was closed. */
void mr_zmq_unsent_fini(mr_zmq_unsent *unsent);
/* Makes a message's last part, with room for `bytes` bytes. Takes *held, which may be NULL. MR_ERROR_MEMORY. */
int mr_zmq_unsent_make(mr_zmq_unsent *unsent, zmq_msg_t *part, size_t bytes, mr_receipt **held, uint32_t source);

/* How many messages were sent so far. */
uint64_t mr_zmq_unsent_sent(mr_zmq_unsent *unsent);
/* Waits until that source's messages (MR_SOURCE_NONE: all) are sent: MR_OK. MR_ERROR_AGAIN: no message was sent for
 * `patience_ns`. MR_ERROR_CANCELLED: the run is being stopped. */
int mr_zmq_unsent_await(mr_zmq_unsent *unsent, uint32_t source, int64_t patience_ns);
/* Drops the frames whose messages were not sent, and returns how many. libzmq can still send them until the socket is
 * closed. */
size_t mr_zmq_unsent_drop(mr_zmq_unsent *unsent, uint32_t source, const char *reason);

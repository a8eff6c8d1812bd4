/* The guard of a ZeroMQ socket that binds: a thread that answers libzmq's questions who may connect (ZAP) and hears of
 * handshakes that failed before that. Each answer goes to the audit log; of many refusals not every one does, but all
 * are counted, and entries tell how many they are. Internal to engine/transport. */
#ifndef MILLRACE_TRANSPORT_ZMQ_GUARD_H
#define MILLRACE_TRANSPORT_ZMQ_GUARD_H

#include <stdint.h>

#include "engine/transport/keys.h"

typedef struct mr_zmq_guard mr_zmq_guard;

/* Begins to guard `socket` of `context`, before it is bound. Takes the list over on success. `allow` empty: everybody
 * who speaks no CURVE; else whoever has one of the keys. `most`: connections at once, 0: no limit. */
int mr_zmq_guard_begin(mr_zmq_guard **guard, void *context, void *socket, const char *id, int most,
                       mr_allow_list *allow);
uint64_t mr_zmq_guard_refused(const mr_zmq_guard *guard);
/* After zmq_ctx_shutdown. Sets *guard to NULL; NULL is allowed. */
void mr_zmq_guard_end(mr_zmq_guard **guard);

#endif

/* Messages to one receiver over ZeroMQ, in one direction: what runs report to `millrace hub`.
 *
 *     mr_channel *channel = NULL;
 *     if (!mr_channel_connect(&channel, "tcp://hub.example:9200", "camera.key", "hub.pub"))
 *         mr_channel_send(channel, data, bytes);
 *     mr_channel_close(&channel, 500);
 *
 * An endpoint is tcp://HOST:PORT or ipc://FOLDER/NAME. An endpoint that other machines reach needs CURVE keys
 * (millrace/keys.h). The receiver then has a key pair and a list of the public keys that may connect. A sender has a
 * key pair and the receiver's public key. A sender connects again by itself for as long as it is open, also if the
 * receiver comes later. If the receiver has refused its key, it tries again within a minute. Few messages wait at
 * either end.
 *
 * Threads: one at a time for a channel. Ownership: texts are copied or read before a call returns. Errors:
 * MR_ERROR_CONFIG (the endpoint, or keys that must be there), MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION, MR_ERROR_DATA
 * (files with keys), MR_ERROR_UNAVAILABLE (the address is taken, or there are too few descriptors), MR_ERROR_IO,
 * MR_ERROR_MEMORY.
 *
 * Unstable: made for the command; it may change with any version (version.h). */
#ifndef MILLRACE_CHANNEL_H
#define MILLRACE_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_channel mr_channel;

/* `key`: a file with the own key pair; `server`: the receiver's public key, or a file with it. NULL: none. */
MR_API int mr_channel_connect(mr_channel **channel, const char *endpoint, const char *key, const char *server);
/* `allow`: a file with the public keys that may connect; NULL: none. A sender whose message is longer than most_bytes
 * is disconnected, and so is one more than most_peers. */
MR_API int mr_channel_listen(mr_channel **channel, const char *endpoint, const char *key, const char *allow,
                             size_t most_bytes, int most_peers);
/* For a channel that listens with keys: from now on senders need one of the public keys in that file. Those that are
 * connected stay. On failure the earlier keys remain. */
MR_API int mr_channel_allow(mr_channel *channel, const char *allow);
/* The endpoint, with the port that the system chose for "tcp://127.0.0.1:*". Valid as long as the channel. */
MR_API const char *mr_channel_endpoint(const mr_channel *channel);

/* Sends a message. Never waits. MR_ERROR_AGAIN: the message is lost, since no receiver is connected, or it has not
 * taken those before. */
MR_API int mr_channel_send(mr_channel *channel, const void *data, size_t bytes);
/* Waits for a message for up to timeout_ns. The data are valid until the next call. Messages of several ZeroMQ parts
 * are dropped. MR_ERROR_AGAIN: none has come. */
MR_API int mr_channel_receive(mr_channel *channel, const void **data, size_t *bytes, int64_t timeout_ns);

/* How many senders are connected, and how many were refused so far. */
MR_API int mr_channel_peers(const mr_channel *channel);
MR_API uint64_t mr_channel_refused(const mr_channel *channel);
/* Closes it and sets it to NULL; NULL is allowed. Waits up to linger_ms for the last message to be sent, if a receiver
 * is connected, and hardly longer, even if the receiver's name is still being looked up. */
MR_API void mr_channel_close(mr_channel **channel, int linger_ms);

#ifdef __cplusplus
}
#endif
#endif

/* Messages between the two ends of shared memory over a unix socket (shm.h), some with descriptors. No call blocks.
 * Errors: MR_ERROR_AGAIN, without a message: nothing to read, or no room; MR_ERROR_UNAVAILABLE: the other end closed,
 * or the system refuses; MR_ERROR_PERMISSION: the other end belongs to another user; MR_ERROR_PROTOCOL. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "engine/base/temp_folder.h"

enum { MR_SHM_VERSION = 5, MR_SHM_FDS = 2, MR_SHM_TOKEN_BYTES = 16 };

typedef enum mr_shm_kind {
    MR_SHM_HELLO = 1, /* consumer, once: a = MR_SHM_VERSION; the consumer's doorbell; data: the token */
    MR_SHM_RINGS,     /* producer, first: the rings' memfd (shm_area.h), and the producer's doorbell */
    MR_SHM_POOL,      /* producer: a slab's memfd; number, a = slots, b = bytes in a slot */
    MR_SHM_GONE       /* producer: pool `number` is withdrawn; an empty record follows */
} mr_shm_kind;

/* Both ends are on one machine: fields are as the processor has them. */
typedef struct mr_shm_message {
    uint32_t kind, number;
    uint64_t a, b;
} mr_shm_message;

/* A socket in a folder made for it. */
typedef struct mr_shm_listener {
    mr_temp_folder temp;
    char path[108]; /* the socket's */
    int fd;         /* -1: it does not listen */
    int spare;      /* a spare descriptor, to accept and close connections when no other is free; -1: none */
} mr_shm_listener;

/* Listens below a new folder in `parent` that only this user may enter. MR_ERROR_UNAVAILABLE, and nothing is left. */
int mr_shm_listen(mr_shm_listener *listener, const char *parent);
/* Closes the socket and removes it and the folder. The listener need not listen. */
void mr_shm_unlisten(mr_shm_listener *listener);
/* The next connection from this user's process. Others are closed with MR_ERROR_PERMISSION, and those without a free
 * descriptor with MR_ERROR_UNAVAILABLE: otherwise the socket would stay readable. */
int mr_shm_accept(mr_shm_listener *listener, int *fd);
int mr_shm_connect(const char *path, int *fd);

/* MR_ERROR_AGAIN: there is no room; MR_ERROR_CLOSED: the peer has left; MR_ERROR_UNAVAILABLE. */
int mr_shm_send(int fd, const mr_shm_message *message, const void *data, size_t bytes, const int *fds, size_t count);

/* A received message; the data is in the caller's buffer. */
typedef struct mr_shm_received {
    mr_shm_message message;
    size_t bytes;        /* of data */
    int fds[MR_SHM_FDS]; /* the caller's; -1: none */
} mr_shm_received;
int mr_shm_receive(int fd, mr_shm_received *received, void *data, size_t room);
/* Closes the descriptors that the caller did not take (set to -1). */
void mr_shm_close_received(mr_shm_received *received);

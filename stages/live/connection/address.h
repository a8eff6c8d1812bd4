/* Host addresses, and waiting for sockets. Any thread. */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

typedef struct mr_address {
    struct sockaddr_storage at;
    socklen_t bytes;
} mr_address;

enum { MR_MOST_ADDRESSES = 8 };

/* Waits for the descriptors until that time: MR_OK, MR_ERROR_AGAIN (none is ready), or MR_ERROR_CANCELLED as soon as
 * `wake` is readable; -1 means never. Negative descriptors are ignored. At most 7. */
int mr_live_wait(struct pollfd *fds, int count, int wake, int64_t until_ns);

/* Resolves a host. Another thread resolves a name. If that takes too long, the call returns and the thread ends later;
 * there can be 256 such threads. MR_ERROR_IO (also if the name does not exist: the name server may be down),
 * MR_ERROR_CANCELLED, MR_ERROR_MEMORY. */
int mr_resolve(mr_address addresses[MR_MOST_ADDRESSES], int *count, const char *host, const char *port, int wake,
               int64_t until_ns);
/* True if two addresses have the same host; the ports may differ. */
bool mr_address_same_host(const mr_address *a, const mr_address *b);

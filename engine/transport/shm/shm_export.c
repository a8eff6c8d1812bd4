/* The producer's end: peers, leases, and the records both ways. Callers must hold the export's lock for functions named
 * peer_*. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/pool.h"
#include "engine/data/slab.h"
#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_area.h"
#include "engine/transport/shm/shm_socket.h"
#include "millrace/log.h"
#include "millrace/status.h"

enum { STRANGERS = 16 };

/* A pool as one peer knows it. The number is the slot's index, plus a count above it which distinguishes the pool from
 * earlier ones in this slot. */
typedef struct passed_pool {
    mr_slab *slab; /* NULL: the place is free */
    uint32_t number;
} passed_pool;

/* Invited, then attached, then closed; the caller holds it until it is dropped. */
struct mr_shm_peer {
    mr_shm_peer *next;
    uint8_t token[MR_SHM_TOKEN_BYTES];
    int fd, doorbell; /* -1: not attached */
    bool gone;
    bool watched;       /* records of this peer ring the export's doorbell */
    bool armed;        /* and for leases */
    bool reported;         /* mr_shm_export_poll has reported returned leases since then */
    mr_shm_area *area; /* stays for the last records of a closed peer */
    uint64_t taken;    /* leases, from their ring */
    uint32_t free_count;
    uint32_t free[MR_SHM_LEASES]; /* lease numbers that are free */
    mr_buffer *leased[MR_SHM_LEASES];
    uint32_t passed_count; /* pools so far */
    passed_pool pools[MR_SHM_POOLS];
};

struct mr_shm_export {
    pthread_mutex_t lock; /* guards all below */
    mr_shm_listener listener;
    int poll, doorbell;
    mr_shm_offer offer;
    mr_shm_peer *peers;
    int strangers[STRANGERS]; /* connected, and have not shown a token; -1: free */
    size_t next_stranger;     /* the place that the next one takes */
    uint64_t closings;        /* slab closings, when last looked */
};

/* ---- leases ------------------------------------------------------------------------------------------------------ */

static void take_back(mr_shm_peer *peer, uint32_t lease) {
    mr_buffer_unref(&peer->leased[lease]);
    peer->free[peer->free_count++] = lease;
}

static void take_all_back(mr_shm_peer *peer) {
    for (uint32_t i = 0; i < MR_SHM_LEASES; i++)
        if (peer->leased[i])
            take_back(peer, i);
}

/* Ends the attachment. The peer's last records can still be fetched. */
static void peer_detach(mr_shm_export *self, mr_shm_peer *peer) {
    if (peer->fd >= 0) {
        epoll_ctl(self->poll, EPOLL_CTL_DEL, peer->fd, NULL);
        close(peer->fd);
        close(peer->doorbell);
        mr_shm_records_close(&peer->area->up);
    }
    peer->fd = peer->doorbell = -1;
    peer->gone = true;
    take_all_back(peer);
    for (size_t i = 0; i < MR_SHM_POOLS; i++)
        mr_slab_unref(&peer->pools[i].slab);
}

/* Detaches a peer that breaks the rules and logs the mr_fail message. The peer's last records are not read either. */
static void peer_banish(mr_shm_export *self, mr_shm_peer *peer) {
    mr_log_repeating(MR_LOG_WARNING, "shm", "%s; it gets copies from now on", mr_message());
    peer_detach(self, peer);
    mr_shm_area_unmap(&peer->area);
}

/* Takes returned leases back. */
static void peer_collect(mr_shm_export *self, mr_shm_peer *peer) {
    uint32_t lease;
    int status = MR_ERROR_AGAIN;
    while (peer->fd >= 0 && !(status = mr_shm_ring_take(&peer->area->head->leases, peer->taken, &lease))) {
        peer->taken++;
        if (lease >= MR_SHM_LEASES || !peer->leased[lease]) {
            status = mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer returns a lease that it does not hold");
            break;
        }
        take_back(peer, lease);
    }
    if (status != MR_ERROR_AGAIN)
        peer_banish(self, peer);
}

static uint32_t leased_count(const mr_shm_peer *peer) {
    return MR_SHM_LEASES - peer->free_count;
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

static void post(mr_shm_peer *peer, size_t bytes) {
    if (mr_shm_records_post(&peer->area->down, bytes))
        mr_shm_ring_doorbell(peer->doorbell);
}

/* The peer is attached. */
static size_t room_for(mr_shm_export *self, mr_shm_peer *peer, uint8_t **place) {
    size_t bytes = 0;
    if (mr_shm_records_room(&peer->area->down, place, &bytes))
        peer_banish(self, peer);
    return bytes;
}

/* Arms the doorbell; rings it at once if something has already arrived. */
static void peer_arm(mr_shm_export *self, mr_shm_peer *peer) {
    peer->reported = false;
    while ((peer->armed = peer->fd >= 0 && leased_count(peer)) &&
           !mr_shm_ring_arm(&peer->area->head->leases, peer->taken))
        peer_collect(self, peer);
    if (peer->area && peer->watched && !mr_shm_records_rest(&peer->area->up))
        mr_shm_ring_doorbell(self->doorbell);
}

static bool look_for_leases(mr_shm_peer *peer, bool last) {
    if (!peer->armed || peer->fd < 0 || (peer->reported && !last))
        return false;
    const bool news = mr_shm_ring_poll(&peer->area->head->leases, peer->taken, last) && !peer->reported;
    peer->reported |= news;
    return news;
}

static bool look_at(mr_shm_peer *peer, bool last) {
    bool leases = look_for_leases(peer, last);
    bool records = peer->area && peer->watched && mr_shm_records_look(&peer->area->up, last);
    return leases || records;
}

bool mr_shm_export_poll(mr_shm_export *export, bool last) {
    bool found = false;
    MR_LOCKED(&export->lock);
    for (mr_shm_peer *peer = export->peers; peer; peer = peer->next)
        found = look_at(peer, last) || found;
    return found;
}

size_t mr_shm_export_room(mr_shm_export *export, mr_shm_peer *peer, uint8_t **place) {
    MR_LOCKED(&export->lock);
    return peer->fd < 0 ? 0 : room_for(export, peer, place);
}

void mr_shm_export_post(mr_shm_export *export, mr_shm_peer *peer, size_t bytes) {
    MR_LOCKED(&export->lock);
    post(peer, bytes);
}

/* The records of a closed peer are complete once none is left; consumers do not send empty records. */
static int fetch(mr_shm_export *self, mr_shm_peer *peer, void *data, size_t room, size_t *bytes) {
    if (!peer->area)
        return peer->gone ? mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end has closed the connection")
                          : MR_ERROR_AGAIN;
    int status = mr_shm_records_fetch(&peer->area->up, data, room, bytes);
    if (!status && !*bytes)
        status = mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer sends an empty record");
    if (status == MR_ERROR_AGAIN && peer->gone)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end has closed the connection");
    if (status && status != MR_ERROR_AGAIN) {
        peer_detach(self, peer);
        mr_shm_area_unmap(&peer->area);
    }
    return status;
}

int mr_shm_export_fetch(mr_shm_export *export, mr_shm_peer *peer, void *data, size_t room, size_t *bytes) {
    MR_LOCKED(&export->lock);
    return fetch(export, peer, data, room, bytes);
}

void mr_shm_export_watch(mr_shm_export *export, mr_shm_peer *peer, bool watch) {
    MR_LOCKED(&export->lock);
    peer->watched = watch;
}

/* ---- pools ------------------------------------------------------------------------------------------------------- */

/* Sends a peer the withdrawal of a pool, and announces that message by an empty record. If there is no room it is tried
 * again later. */
static bool withdraw(mr_shm_export *self, mr_shm_peer *peer, passed_pool *pool) {
    const mr_shm_message gone = {.kind = MR_SHM_GONE, .number = pool->number};
    uint8_t *place;
    if (room_for(self, peer, &place) == 0)
        return peer->fd < 0;
    int status = mr_shm_send(peer->fd, &gone, NULL, 0, NULL, 0);
    if (status == MR_ERROR_AGAIN)
        return false;
    if (!status)
        post(peer, 0);
    mr_slab_unref(&pool->slab);
    return true;
}

static int pass_pool(mr_shm_peer *peer, mr_slab *slab, size_t place) {
    const mr_shm_message message = {
        .kind = MR_SHM_POOL,
        .number = peer->passed_count * MR_SHM_POOLS + (uint32_t)place,
        .a = mr_slab_slots(slab),
        .b = mr_slab_slot_bytes(slab),
    };
    int fd = mr_slab_fd(slab);
    int status = mr_shm_send(peer->fd, &message, NULL, 0, &fd, 1);
    if (status)
        return status;
    peer->passed_count++;
    peer->pools[place] = (passed_pool){mr_slab_ref(slab), message.number};
    return MR_OK;
}

/* The pool's number for that peer, to which it is passed first if it is new. The search starts at the place that the
 * pool's address hashes to. */
static int number_of(mr_shm_peer *peer, mr_slab *slab, uint32_t *number) {
    size_t begin = ((uintptr_t)slab >> 6) % MR_SHM_POOLS, free_place = MR_SHM_POOLS;
    for (size_t i = 0; i < MR_SHM_POOLS; i++) {
        size_t place = (begin + i) % MR_SHM_POOLS;
        if (peer->pools[place].slab == slab) {
            *number = peer->pools[place].number;
            return MR_OK;
        }
        if (!peer->pools[place].slab && free_place == MR_SHM_POOLS)
            free_place = place;
    }
    if (free_place == MR_SHM_POOLS)
        return MR_ERROR_AGAIN;
    int status = pass_pool(peer, slab, free_place);
    *number = peer->pools[free_place].number;
    return status ? MR_ERROR_AGAIN : MR_OK;
}

/* Withdraws pools that were closed. False: some are left, because there is no room. */
static bool peer_withdraw(mr_shm_export *self, mr_shm_peer *peer) {
    bool all = true;
    for (size_t i = 0; peer->fd >= 0 && i < MR_SHM_POOLS; i++)
        if (peer->pools[i].slab && mr_slab_closed(peer->pools[i].slab))
            all = withdraw(self, peer, &peer->pools[i]) && all;
    return all;
}

/* ---- lending ----------------------------------------------------------------------------------------------------- */

static int lend(mr_shm_export *self, mr_shm_peer *peer, mr_buffer *buffer, mr_shm_reference *reference) {
    if (peer->fd < 0)
        return MR_ERROR_AGAIN;
    mr_slab *slab = mr_pool_slab(buffer->pool);
    int status = number_of(peer, slab, &reference->pool);
    if (!status && peer->free_count == 0)
        peer_collect(self, peer);
    if (status || peer->free_count == 0 || peer->fd < 0)
        return MR_ERROR_AGAIN;
    reference->slot = mr_slab_slot_of(slab, buffer->data, &reference->generation);
    reference->lease = peer->free[--peer->free_count];
    peer->leased[reference->lease] = mr_buffer_ref(buffer);
    return MR_OK;
}

int mr_shm_export_lend(mr_shm_export *export, mr_shm_peer *peer, mr_buffer *buffer, size_t offset, size_t bytes,
                       mr_shm_reference *reference) {
    /* A buffer that came from another process has no pool here. */
    if (buffer->memory != MR_MEMORY_SHARED || !buffer->pool)
        return MR_ERROR_AGAIN;
    reference->offset = offset;
    reference->bytes = bytes;
    MR_LOCKED(&export->lock);
    return lend(export, peer, buffer, reference);
}

size_t mr_shm_export_leased(mr_shm_export *export, mr_shm_peer *peer) {
    MR_LOCKED(&export->lock);
    return leased_count(peer);
}

enum { EVENTS = 16 };

/* ---- peers ------------------------------------------------------------------------------------------------------- */

static int watch(mr_shm_export *self, int fd) {
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(self->poll, EPOLL_CTL_ADD, fd, &event))
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: epoll_ctl: %s", strerror(errno));
    return MR_OK;
}

static mr_shm_peer *peer_of_token(const mr_shm_export *self, const uint8_t *token) {
    for (mr_shm_peer *peer = self->peers; peer; peer = peer->next)
        if (peer->fd < 0 && !peer->gone && memcmp(peer->token, token, MR_SHM_TOKEN_BYTES) == 0)
            return peer;
    return NULL;
}

static mr_shm_peer *peer_of_fd(const mr_shm_export *self, int fd) {
    mr_shm_peer *peer = self->peers;
    while (peer && peer->fd != fd)
        peer = peer->next;
    return peer;
}

/* Both descriptors become the peer's on success. */
static int attach(mr_shm_export *self, mr_shm_peer *peer, int fd, int doorbell) {
    int file = -1;
    int status = mr_shm_area_create(&peer->area, &file);
    if (status)
        return status;
    status = mr_shm_send(fd, &(mr_shm_message){.kind = MR_SHM_RINGS}, NULL, 0, (const int[]){file, self->doorbell}, 2);
    close(file);
    if (status) {
        mr_shm_area_unmap(&peer->area);
    } else {
        peer->fd = fd;
        peer->doorbell = doorbell;
    }
    return status;
}

static int admit(mr_shm_export *self, int fd, mr_shm_received *hello, const uint8_t *token) {
    if (hello->message.kind != MR_SHM_HELLO || hello->message.a != MR_SHM_VERSION || hello->bytes != MR_SHM_TOKEN_BYTES)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: an unexpected process, or one of another version");
    mr_shm_peer *peer = peer_of_token(self, token);
    if (!peer)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer has no valid token");
    int status = mr_shm_check_doorbell(hello->fds[0]);
    if (!status)
        status = attach(self, peer, fd, hello->fds[0]);
    if (!status)
        hello->fds[0] = -1;
    return status;
}

static int greet(mr_shm_export *self, int fd) {
    mr_shm_received hello;
    uint8_t token[MR_SHM_TOKEN_BYTES];
    int status = mr_shm_receive(fd, &hello, token, sizeof token);
    if (!status)
        status = admit(self, fd, &hello, token);
    mr_shm_close_received(&hello);
    return status;
}

static void forget_stranger(mr_shm_export *self, size_t place) {
    if (self->strangers[place] >= 0) {
        epoll_ctl(self->poll, EPOLL_CTL_DEL, self->strangers[place], NULL);
        close(self->strangers[place]);
    }
    self->strangers[place] = -1;
}

/* If too many connections have shown no token, the one that has waited longest is closed. */
static void accept_all(mr_shm_export *self) {
    int fd, status;
    while ((status = mr_shm_accept(&self->listener, &fd)) == MR_OK || status == MR_ERROR_PERMISSION) {
        if (status) {
            mr_log_repeating(MR_LOG_WARNING, "shm", "%s; it is refused", mr_message());
            continue;
        }
        size_t place = self->next_stranger++ % STRANGERS;
        forget_stranger(self, place);
        if (watch(self, fd))
            close(fd);
        else
            self->strangers[place] = fd;
    }
}

static void receive_stranger(mr_shm_export *self, int fd) {
    size_t place = 0;
    while (place < STRANGERS && self->strangers[place] != fd)
        place++;
    if (place == STRANGERS)
        return;
    int status = greet(self, fd);
    if (status == MR_ERROR_AGAIN)
        return;
    if (!status)
        self->strangers[place] = -1; /* It is a peer's now. */
    else if (status != MR_ERROR_CLOSED) /* it ended while it was greeted */
        mr_log_repeating(MR_LOG_WARNING, "shm", "%s; it gets copies", mr_message());
    forget_stranger(self, place);
}

/* A peer must send nothing more on the socket: readable means closed, or hostile. */
static void receive_peer(mr_shm_export *self, mr_shm_peer *peer) {
    mr_shm_received got;
    int status = mr_shm_receive(peer->fd, &got, NULL, 0);
    mr_shm_close_received(&got);
    if (status == MR_ERROR_UNAVAILABLE) {
        peer_detach(self, peer);
    } else if (status != MR_ERROR_AGAIN) {
        mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer sends an unknown message");
        peer_banish(self, peer);
    }
}

static void receive_from(mr_shm_export *self, int fd) {
    if (fd == self->listener.fd) {
        accept_all(self);
    } else if (fd == self->doorbell) {
        uint64_t rings;
        if (read(fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
            mr_log_repeating(MR_LOG_WARNING, "shm", "shared memory: the doorbell: %s", strerror(errno));
    } else {
        mr_shm_peer *peer = peer_of_fd(self, fd);
        if (peer)
            receive_peer(self, peer);
        else
            receive_stranger(self, fd);
    }
}

/* ---- the export -------------------------------------------------------------------------------------------------- */

static const char *default_folder(void) {
    const char *folder = getenv("XDG_RUNTIME_DIR");
    return folder && *folder && access(folder, W_OK | X_OK) == 0 ? folder : "/tmp";
}

static int open_export(mr_shm_export *self, const char *folder) {
    mr_shm_host(self->offer.host);
    self->poll = epoll_create1(EPOLL_CLOEXEC);
    if (self->poll < 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: epoll_create1: %s", strerror(errno));
    int status = mr_shm_doorbell(&self->doorbell);
    if (!status)
        status = mr_shm_listen(&self->listener, folder ? folder : default_folder());
    memcpy(self->offer.path, self->listener.path, sizeof self->offer.path);
    if (!status)
        status = watch(self, self->listener.fd);
    return status ? status : watch(self, self->doorbell);
}

int mr_shm_doorbell(int *fd) {
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *fd < 0 ? mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: eventfd: %s", strerror(errno)) : MR_OK;
}

int mr_shm_export_create(mr_shm_export **export, const char *folder) {
    mr_shm_export *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for sharing");
    mr_lock_init(&made->lock);
    made->poll = made->listener.fd = made->listener.spare = made->doorbell = -1;
    for (size_t i = 0; i < STRANGERS; i++)
        made->strangers[i] = -1;
    int status = open_export(made, folder);
    if (status)
        mr_shm_export_destroy(&made);
    *export = made;
    return status;
}

void mr_shm_export_destroy(mr_shm_export **export) {
    mr_shm_export *gone = *export;
    *export = NULL;
    if (!gone)
        return;
    for (mr_shm_peer *peer; (peer = gone->peers);)
        mr_shm_export_drop(gone, &peer);
    for (size_t i = 0; i < STRANGERS; i++)
        forget_stranger(gone, i);
    mr_shm_unlisten(&gone->listener);
    const int fds[] = {gone->doorbell, gone->poll};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

int mr_shm_export_fd(const mr_shm_export *export) {
    return export->poll;
}

/* Further events are handled next time, since the descriptors stay readable. */
static void receive_all(mr_shm_export *self) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(self->poll, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        receive_from(self, events[i].data.fd);
}

static void withdraw_closed(mr_shm_export *self) {
    uint64_t closings = mr_slab_closings();
    if (closings == self->closings)
        return;
    bool all = true;
    for (mr_shm_peer *peer = self->peers; peer; peer = peer->next)
        all = peer_withdraw(self, peer) && all;
    self->closings = all ? closings : self->closings;
}

void mr_shm_export_drive(mr_shm_export *export, bool sleeps) {
    MR_LOCKED(&export->lock);
    receive_all(export);
    for (mr_shm_peer *peer = export->peers; peer; peer = peer->next) {
        peer_collect(export, peer);
        if (sleeps)
            peer_arm(export, peer);
    }
    withdraw_closed(export);
}

void mr_shm_export_offer(const mr_shm_export *export, mr_shm_offer *offer) {
    *offer = export->offer;
}

int mr_shm_export_invite(mr_shm_export *export, const mr_shm_guest *guest, mr_shm_peer **peer) {
    if (strncmp(guest->host, export->offer.host, sizeof guest->host) != 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end is on another host");
    mr_shm_peer *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a peer");
    memcpy(made->token, guest->token, sizeof made->token);
    made->fd = made->doorbell = -1;
    made->watched = true;
    while (made->free_count < MR_SHM_LEASES) {
        made->free[made->free_count] = MR_SHM_LEASES - 1 - made->free_count;
        made->free_count++;
    }
    pthread_mutex_lock(&export->lock);
    made->next = export->peers;
    export->peers = made;
    pthread_mutex_unlock(&export->lock);
    *peer = made;
    return MR_OK;
}

bool mr_shm_export_attached(mr_shm_export *export, mr_shm_peer *peer) {
    MR_LOCKED(&export->lock);
    return peer->fd >= 0 && !mr_shm_records_closed(&peer->area->down);
}

void mr_shm_export_drop(mr_shm_export *export, mr_shm_peer **peer) {
    mr_shm_peer *gone = *peer;
    *peer = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&export->lock);
    mr_shm_peer **place = &export->peers;
    while (*place != gone)
        place = &(*place)->next;
    *place = gone->next;
    peer_detach(export, gone);
    mr_shm_area_unmap(&gone->area);
    pthread_mutex_unlock(&export->lock);
    mr_free(gone);
}

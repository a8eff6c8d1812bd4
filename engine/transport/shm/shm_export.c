/* The producer's end: which peers there are, what they hold, and what has come back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/transport/shm/shm_export_parts.h"
#include "millrace/status.h"

enum { EVENTS = 16 };

/* ---- peers ----------------------------------------------------------------------------------------------------- */

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
static int attach(mr_shm_export *self, mr_shm_peer *peer, int fd, int bell) {
    int file = -1;
    int status = mr_shm_area_create(&peer->area, &file);
    if (status)
        return status;
    status = mr_shm_send(fd, &(mr_shm_message){.kind = MR_SHM_RINGS}, NULL, 0, (const int[]){file, self->bell}, 2);
    close(file);
    if (status) {
        mr_shm_area_unmap(&peer->area);
    } else {
        peer->fd = fd;
        peer->bell = bell;
    }
    return status;
}

static int admit(mr_shm_export *self, int fd, mr_shm_received *hello, const uint8_t *token) {
    if (hello->message.kind != MR_SHM_HELLO || hello->message.a != MR_SHM_VERSION || hello->bytes != MR_SHM_TOKEN_BYTES)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a process that was not invited, or of another version");
    mr_shm_peer *peer = peer_of_token(self, token);
    if (!peer)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer shows no valid token");
    int status = mr_shm_check_bell(hello->fds[0]);
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

/* Where too many have come and said nothing, the one that has waited longest has to go. */
static void accept_all(mr_shm_export *self) {
    int fd, status;
    while ((status = mr_shm_accept(&self->listener, &fd)) == MR_OK || status == MR_ERROR_PERMISSION) {
        if (status) {
            mr_log(MR_LOG_WARNING, "%s; it is refused", mr_message());
            continue;
        }
        size_t place = self->next_stranger++ % MR_SHM_STRANGERS;
        forget_stranger(self, place);
        if (watch(self, fd))
            close(fd);
        else
            self->strangers[place] = fd;
    }
}

static void hear_stranger(mr_shm_export *self, int fd) {
    size_t place = 0;
    while (place < MR_SHM_STRANGERS && self->strangers[place] != fd)
        place++;
    if (place == MR_SHM_STRANGERS)
        return;
    int status = greet(self, fd);
    if (status == MR_ERROR_AGAIN)
        return;
    if (status)
        mr_log(MR_LOG_WARNING, "%s; it gets copies", mr_message());
    else
        self->strangers[place] = -1; /* It is a peer's now. */
    forget_stranger(self, place);
}

/* A peer says nothing more there: it is gone, or hostile. */
static void hear_peer(mr_shm_export *self, mr_shm_peer *peer) {
    mr_shm_received got;
    int status = mr_shm_receive(peer->fd, &got, NULL, 0);
    mr_shm_close_received(&got);
    if (status == MR_ERROR_UNAVAILABLE) {
        mr_shm_peer_detach(self, peer);
    } else if (status != MR_ERROR_AGAIN) {
        mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer says what this version does not know");
        mr_shm_peer_banish(self, peer);
    }
}

static void hear(mr_shm_export *self, int fd) {
    if (fd == self->listener.fd) {
        accept_all(self);
    } else if (fd == self->bell) {
        uint64_t rings;
        if (read(fd, &rings, sizeof rings) < 0 && errno != EAGAIN)
            mr_log(MR_LOG_WARNING, "shared memory: the bell: %s", strerror(errno));
    } else {
        mr_shm_peer *peer = peer_of_fd(self, fd);
        if (peer)
            hear_peer(self, peer);
        else
            hear_stranger(self, fd);
    }
}

/* ---- the export ------------------------------------------------------------------------------------------------ */

static const char *default_folder(void) {
    const char *folder = getenv("XDG_RUNTIME_DIR");
    return folder && *folder && access(folder, W_OK | X_OK) == 0 ? folder : "/tmp";
}

static int open_export(mr_shm_export *self, const char *folder) {
    mr_shm_host(self->offer.host);
    self->poll = epoll_create1(EPOLL_CLOEXEC);
    if (self->poll < 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: epoll_create1: %s", strerror(errno));
    int status = mr_shm_bell(&self->bell);
    if (!status)
        status = mr_shm_listen(&self->listener, folder ? folder : default_folder());
    memcpy(self->offer.path, self->listener.path, sizeof self->offer.path);
    if (!status)
        status = watch(self, self->listener.fd);
    return status ? status : watch(self, self->bell);
}

int mr_shm_bell(int *fd) {
    *fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return *fd < 0 ? mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: eventfd: %s", strerror(errno)) : MR_OK;
}

int mr_shm_export_create(mr_shm_export **export, const char *folder) {
    mr_shm_export *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for sharing");
    mr_lock_init(&made->lock);
    made->poll = made->listener.fd = made->listener.spare = made->bell = -1;
    for (size_t i = 0; i < MR_SHM_STRANGERS; i++)
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
    for (size_t i = 0; i < MR_SHM_STRANGERS; i++)
        forget_stranger(gone, i);
    mr_shm_unlisten(&gone->listener);
    const int fds[] = {gone->bell, gone->poll};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

int mr_shm_export_fd(const mr_shm_export *export) {
    return export->poll;
}

/* Of more than there is room for here the others are heard next time, since their descriptors stay readable. */
static void hear_all(mr_shm_export *self) {
    struct epoll_event events[EVENTS];
    int count = epoll_wait(self->poll, events, EVENTS, 0);
    for (int i = 0; i < count; i++)
        hear(self, events[i].data.fd);
}

static void withdraw_closed(mr_shm_export *self) {
    uint64_t closings = mr_slab_closings();
    if (closings == self->closings)
        return;
    bool all = true;
    for (mr_shm_peer *peer = self->peers; peer; peer = peer->next)
        all = mr_shm_peer_withdraw(self, peer) && all;
    self->closings = all ? closings : self->closings;
}

void mr_shm_export_drive(mr_shm_export *export, bool sleeps) {
    pthread_mutex_lock(&export->lock);
    hear_all(export);
    for (mr_shm_peer *peer = export->peers; peer; peer = peer->next) {
        mr_shm_peer_collect(export, peer);
        if (sleeps)
            mr_shm_peer_arm(export, peer);
    }
    withdraw_closed(export);
    pthread_mutex_unlock(&export->lock);
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
    made->fd = made->bell = -1;
    made->heeded = true;
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
    pthread_mutex_lock(&export->lock);
    bool attached = peer->fd >= 0 && !mr_shm_notes_closed(&peer->area->down);
    pthread_mutex_unlock(&export->lock);
    return attached;
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
    mr_shm_peer_detach(export, gone);
    mr_shm_area_unmap(&gone->area);
    pthread_mutex_unlock(&export->lock);
    mr_free(gone);
}

/* What one peer of the producer's end is lent and told, and what it says. */
#include <sys/epoll.h>
#include <unistd.h>

#include "engine/base/log.h"
#include "engine/data/pool.h"
#include "engine/transport/shm/shm_export_parts.h"
#include "millrace/status.h"

/* ---- leases ---------------------------------------------------------------------------------------------------- */

static void take_back(mr_shm_peer *peer, uint32_t lease) {
    mr_buffer_unref(&peer->lent[lease]);
    peer->free[peer->free_count++] = lease;
}

static void take_all_back(mr_shm_peer *peer) {
    for (uint32_t i = 0; i < MR_SHM_LEASES; i++)
        if (peer->lent[i])
            take_back(peer, i);
}

void mr_shm_peer_detach(mr_shm_export *self, mr_shm_peer *peer) {
    if (peer->fd >= 0) {
        epoll_ctl(self->poll, EPOLL_CTL_DEL, peer->fd, NULL);
        close(peer->fd);
        close(peer->bell);
        mr_shm_notes_close(&peer->area->up);
    }
    peer->fd = peer->bell = -1;
    peer->gone = true;
    take_all_back(peer);
    for (size_t i = 0; i < MR_SHM_POOLS; i++)
        mr_slab_unref(&peer->pools[i].slab);
}

void mr_shm_peer_banish(mr_shm_export *self, mr_shm_peer *peer) {
    mr_log(MR_LOG_WARNING, "%s; it gets copies from now on", mr_message());
    mr_shm_peer_detach(self, peer);
    mr_shm_area_unmap(&peer->area);
}

void mr_shm_peer_collect(mr_shm_export *self, mr_shm_peer *peer) {
    uint32_t lease;
    int status = MR_ERROR_AGAIN;
    while (peer->fd >= 0 && !(status = mr_shm_ring_take(&peer->area->head->leases, peer->taken, &lease))) {
        peer->taken++;
        if (lease >= MR_SHM_LEASES || !peer->lent[lease]) {
            status = mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer gives back what it was not lent");
            break;
        }
        take_back(peer, lease);
    }
    if (status != MR_ERROR_AGAIN)
        mr_shm_peer_banish(self, peer);
}

static uint32_t lent_count(const mr_shm_peer *peer) {
    return MR_SHM_LEASES - peer->free_count;
}

/* ---- notes ----------------------------------------------------------------------------------------------------- */

static void post(mr_shm_peer *peer, size_t bytes) {
    if (mr_shm_notes_post(&peer->area->down, bytes))
        mr_shm_ring_bell(peer->bell);
}

/* The peer is one that has not gone. */
static size_t room_for(mr_shm_export *self, mr_shm_peer *peer, uint8_t **place) {
    size_t bytes = 0;
    if (mr_shm_notes_room(&peer->area->down, place, &bytes))
        mr_shm_peer_banish(self, peer);
    return bytes;
}

void mr_shm_peer_arm(mr_shm_export *self, mr_shm_peer *peer) {
    peer->told = false;
    while ((peer->armed = peer->fd >= 0 && lent_count(peer)) &&
           !mr_shm_ring_arm(&peer->area->head->leases, peer->taken))
        mr_shm_peer_collect(self, peer);
    if (peer->area && peer->heeded && !mr_shm_notes_rest(&peer->area->up))
        mr_shm_ring_bell(self->bell);
}

static bool look_for_leases(mr_shm_peer *peer, bool last) {
    if (!peer->armed || peer->fd < 0 || (peer->told && !last))
        return false;
    const bool news = mr_shm_ring_look(&peer->area->head->leases, peer->taken, last) && !peer->told;
    peer->told |= news;
    return news;
}

static bool look_at(mr_shm_peer *peer, bool last) {
    bool leases = look_for_leases(peer, last);
    bool notes = peer->area && peer->heeded && mr_shm_notes_look(&peer->area->up, last);
    return leases || notes;
}

bool mr_shm_export_look(mr_shm_export *export, bool last) {
    bool found = false;
    pthread_mutex_lock(&export->lock);
    for (mr_shm_peer *peer = export->peers; peer; peer = peer->next)
        found = look_at(peer, last) || found;
    pthread_mutex_unlock(&export->lock);
    return found;
}

size_t mr_shm_export_room(mr_shm_export *export, mr_shm_peer *peer, uint8_t **place) {
    pthread_mutex_lock(&export->lock);
    size_t bytes = peer->fd < 0 ? 0 : room_for(export, peer, place);
    pthread_mutex_unlock(&export->lock);
    return bytes;
}

void mr_shm_export_post(mr_shm_export *export, mr_shm_peer *peer, size_t bytes) {
    pthread_mutex_lock(&export->lock);
    post(peer, bytes);
    pthread_mutex_unlock(&export->lock);
}

/* A peer that is gone has said all once nothing is left; an empty note is none of a consumer's. */
static int fetch(mr_shm_export *self, mr_shm_peer *peer, void *data, size_t room, size_t *bytes) {
    if (!peer->area)
        return peer->gone ? mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end is gone") : MR_ERROR_AGAIN;
    int status = mr_shm_notes_fetch(&peer->area->up, data, room, bytes);
    if (!status && !*bytes)
        status = mr_fail(MR_ERROR_PROTOCOL, "shared memory: a peer sends an empty note");
    if (status == MR_ERROR_AGAIN && peer->gone)
        status = mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end is gone");
    if (status && status != MR_ERROR_AGAIN) {
        mr_shm_peer_detach(self, peer);
        mr_shm_area_unmap(&peer->area);
    }
    return status;
}

int mr_shm_export_fetch(mr_shm_export *export, mr_shm_peer *peer, void *data, size_t room, size_t *bytes) {
    pthread_mutex_lock(&export->lock);
    int status = fetch(export, peer, data, room, bytes);
    pthread_mutex_unlock(&export->lock);
    return status;
}

void mr_shm_export_heed(mr_shm_export *export, mr_shm_peer *peer, bool heed) {
    pthread_mutex_lock(&export->lock);
    peer->heeded = heed;
    pthread_mutex_unlock(&export->lock);
}

/* ---- pools ----------------------------------------------------------------------------------------------------- */

/* Tells a peer that a pool is no more, and by an empty note that it was told something. Where there is no room for that
 * now, another time will do. */
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

/* The pool's number for that peer, which is told of it first where it does not know it. A pool is found near the
 * place that its address stands for. */
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

bool mr_shm_peer_withdraw(mr_shm_export *self, mr_shm_peer *peer) {
    bool all = true;
    for (size_t i = 0; peer->fd >= 0 && i < MR_SHM_POOLS; i++)
        if (peer->pools[i].slab && mr_slab_closed(peer->pools[i].slab))
            all = withdraw(self, peer, &peer->pools[i]) && all;
    return all;
}

/* ---- lending --------------------------------------------------------------------------------------------------- */

static int lend(mr_shm_export *self, mr_shm_peer *peer, mr_buffer *buffer, mr_shm_reference *reference) {
    if (peer->fd < 0)
        return MR_ERROR_AGAIN;
    mr_slab *slab = mr_pool_slab(buffer->pool);
    int status = number_of(peer, slab, &reference->pool);
    if (!status && peer->free_count == 0)
        mr_shm_peer_collect(self, peer);
    if (status || peer->free_count == 0 || peer->fd < 0)
        return MR_ERROR_AGAIN;
    reference->slot = mr_slab_slot_of(slab, buffer->data, &reference->generation);
    reference->lease = peer->free[--peer->free_count];
    peer->lent[reference->lease] = mr_buffer_ref(buffer);
    return MR_OK;
}

int mr_shm_export_lend(mr_shm_export *export, mr_shm_peer *peer, mr_buffer *buffer, size_t offset, size_t bytes,
                       mr_shm_reference *reference) {
    /* What has come from another process has no pool here. */
    if (buffer->memory != MR_MEMORY_SHARED || !buffer->pool)
        return MR_ERROR_AGAIN;
    reference->offset = offset;
    reference->bytes = bytes;
    pthread_mutex_lock(&export->lock);
    int status = lend(export, peer, buffer, reference);
    pthread_mutex_unlock(&export->lock);
    return status;
}

size_t mr_shm_export_lent(mr_shm_export *export, mr_shm_peer *peer) {
    pthread_mutex_lock(&export->lock);
    size_t count = lent_count(peer);
    pthread_mutex_unlock(&export->lock);
    return count;
}

/* The consumer's end: mapped pools, held leases, and how they return. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/slab.h"
#include "engine/transport/shm/shm.h"
#include "engine/transport/shm/shm_area.h"
#include "engine/transport/shm/shm_socket.h"
#include "millrace/status.h"

/* A slab of the producer. The import refers to it until the producer withdraws it; so does each buffer. */
typedef struct mapping {
    int references; /* guarded by the import's lock */
    uint32_t number, slots;
    size_t slot_bytes;
    mr_slab_layout layout;
    const uint8_t *base;
} mapping;

/* A lease that is held here: the argument for its buffer's release. */
typedef struct holding {
    mr_shm_import *owner;
    mapping *from; /* NULL: not held */
} holding;

struct mr_shm_import {
    pthread_mutex_t lock; /* guards all below */
    int references;       /* the opener's and one for each holding */
    int fd, doorbell;         /* `doorbell` is the producer's */
    mr_shm_area *area;    /* NULL: the producer has not confirmed the attachment yet */
    size_t withdrawn;     /* withdrawn pools whose empty records have not arrived yet */
    mapping *mapped[MR_SHM_POOLS];
    holding held[MR_SHM_LEASES];
};

/* ---- ends -------------------------------------------------------------------------------------------------------- */

/* With the lock held. */
static void unmap(mapping **from) {
    mapping *gone = *from;
    *from = NULL;
    if (!gone || --gone->references > 0)
        return;
    munmap((void *)(uintptr_t)gone->base, gone->layout.total);
    mr_free(gone);
}

/* With the lock held, which it releases. */
static void drop(mr_shm_import *self) {
    bool last = --self->references == 0;
    pthread_mutex_unlock(&self->lock);
    if (!last)
        return;
    mr_shm_area_unmap(&self->area);
    if (self->doorbell >= 0)
        close(self->doorbell);
    pthread_mutex_destroy(&self->lock);
    mr_free(self);
}

static void put_back(mr_shm_import *self, uint32_t lease) {
    if (mr_shm_ring_put(&self->area->head->leases, lease))
        mr_shm_ring_doorbell(self->doorbell);
}

static void release(void *context) {
    holding *held = context;
    mr_shm_import *self = held->owner;
    pthread_mutex_lock(&self->lock);
    unmap(&held->from);
    put_back(self, (uint32_t)(held - self->held));
    drop(self);
}

/* ---- messages of the producer ------------------------------------------------------------------------------------ */

static int map_slab(const mr_shm_received *got, mapping *made) {
    int seals = F_SEAL_SHRINK | F_SEAL_GROW;
    if (got->fds[0] < 0 || got->message.a > MR_SLAB_SLOTS || got->message.b > SIZE_MAX / 2 ||
        !mr_slab_lay_out((size_t)got->message.b, got->message.a, &made->layout))
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer passes an impossible pool");
    int status = mr_shm_check_file(got->fds[0], seals, made->layout.total);
    if (status)
        return status;
    void *base = mmap(NULL, made->layout.total, PROT_READ, MAP_SHARED, got->fds[0], 0);
    if (base == MAP_FAILED)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: cannot map %zu bytes: %s", made->layout.total,
                       strerror(errno));
    made->base = base;
    made->references = 1;
    made->number = got->message.number;
    made->slots = (uint32_t)got->message.a;
    made->slot_bytes = (size_t)got->message.b;
    return MR_OK;
}

static int add_pool(mr_shm_import *self, const mr_shm_received *got) {
    mapping **place = &self->mapped[got->message.number % MR_SHM_POOLS];
    if (*place)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer passes a pool under a number that is in use");
    mapping *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a pool");
    int status = map_slab(got, made);
    if (status)
        mr_free(made);
    else
        *place = made;
    return status;
}

static int remove_pool(mr_shm_import *self, uint32_t number) {
    mapping **place = &self->mapped[number % MR_SHM_POOLS];
    if (!*place || (*place)->number != number)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer withdraws an unknown pool");
    unmap(place);
    self->withdrawn++;
    return MR_OK;
}

static int take_rings(mr_shm_import *self, mr_shm_received *got) {
    if (self->area || got->fds[0] < 0 || got->fds[1] < 0)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer passes no rings, or twice");
    int status = mr_shm_check_doorbell(got->fds[1]);
    if (!status)
        status = mr_shm_area_map(&self->area, got->fds[0]);
    if (!status) {
        self->doorbell = got->fds[1];
        got->fds[1] = -1;
    }
    return status;
}

static int watch(mr_shm_import *self, mr_shm_received *got) {
    switch (got->message.kind) {
    case MR_SHM_RINGS:
        return take_rings(self, got);
    case MR_SHM_POOL:
        return add_pool(self, got);
    case MR_SHM_GONE:
        return remove_pool(self, got->message.number);
    default:
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer sends an unknown message");
    }
}

/* On a message that this end cannot follow it disconnects, so that the producer sends copies from then on. */
static int hang_up(mr_shm_import *self, int status) {
    if (status && status != MR_ERROR_AGAIN)
        shutdown(self->fd, SHUT_RDWR);
    return status;
}

/* Takes in one message. */
static int receive_from(mr_shm_import *self) {
    mr_shm_received got;
    int status = mr_shm_receive(self->fd, &got, NULL, 0);
    if (!status)
        status = watch(self, &got);
    mr_shm_close_received(&got);
    return hang_up(self, status);
}

/* ---- opening ----------------------------------------------------------------------------------------------------- */

static int greet(const mr_shm_offer *offer, const mr_shm_guest *guest, int doorbell, int *fd) {
    if (!memchr(offer->path, 0, sizeof offer->path) || strncmp(guest->host, offer->host, sizeof offer->host) != 0)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: the other end is on another host");
    int status = mr_shm_connect(offer->path, fd);
    if (status)
        return status;
    const mr_shm_message hello = {.kind = MR_SHM_HELLO, .a = MR_SHM_VERSION};
    status = mr_shm_send(*fd, &hello, guest->token, sizeof guest->token, &doorbell, 1);
    if (status)
        close(*fd);
    if (status == MR_ERROR_AGAIN)
        return mr_fail(MR_ERROR_UNAVAILABLE, "shared memory: no room to send the token");
    return status == MR_ERROR_CLOSED ? MR_ERROR_UNAVAILABLE : status;
}

int mr_shm_import_open(mr_shm_import **import, const mr_shm_offer *offer, const mr_shm_guest *guest, int doorbell) {
    int fd = -1;
    *import = NULL;
    int status = greet(offer, guest, doorbell, &fd);
    if (status)
        return status;
    mr_shm_import *made = mr_calloc(1, sizeof *made);
    if (!made) {
        close(fd);
        return mr_fail(MR_ERROR_MEMORY, "no memory for sharing");
    }
    mr_lock_init(&made->lock);
    made->references = 1;
    made->fd = fd;
    made->doorbell = -1;
    for (size_t i = 0; i < MR_SHM_LEASES; i++)
        made->held[i].owner = made;
    *import = made;
    return MR_OK;
}

void mr_shm_import_close(mr_shm_import **import) {
    mr_shm_import *gone = *import;
    *import = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    close(gone->fd);
    gone->fd = -1;
    if (gone->area)
        mr_shm_records_close(&gone->area->down);
    for (size_t i = 0; i < MR_SHM_POOLS; i++)
        unmap(&gone->mapped[i]);
    drop(gone);
}

/* ---- references -------------------------------------------------------------------------------------------------- */

/* The pool with that number. Reads the producer's messages if it is not known yet. */
static int find_pool(mr_shm_import *self, uint32_t number, mapping **found) {
    int status = MR_OK;
    do {
        *found = self->mapped[number % MR_SHM_POOLS];
    } while ((!*found || (*found)->number != number) && !(status = receive_from(self)));
    return status == MR_ERROR_AGAIN ? mr_fail(MR_ERROR_PROTOCOL, "shared memory: a reference to an unknown pool")
                                    : status;
}

static int check(const mr_shm_import *self, const mapping *pool, const mr_shm_reference *reference) {
    if (!self->area || reference->lease >= MR_SHM_LEASES || self->held[reference->lease].from)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a reference with an invalid lease");
    if (reference->slot >= pool->slots || reference->offset > pool->slot_bytes ||
        reference->bytes > pool->slot_bytes - reference->offset)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a reference beyond its pool");
    const _Atomic uint64_t *generations = (const void *)pool->base;
    if (atomic_load_explicit(&generations[reference->slot], memory_order_acquire) != reference->generation)
        return mr_fail(MR_ERROR_PROTOCOL, "shared memory: a stale reference");
    return MR_OK;
}

/* With the lock held. */
static int find(mr_shm_import *self, const mr_shm_reference *reference, mapping **pool) {
    int status = find_pool(self, reference->pool, pool);
    return status ? status : check(self, *pool, reference);
}

static int hold(mr_shm_import *self, const mr_shm_reference *reference, mr_buffer **buffer) {
    mapping *pool = NULL;
    int status = find(self, reference, &pool);
    if (status)
        return status;
    holding *held = &self->held[reference->lease];
    size_t offset = pool->layout.first + reference->slot * pool->layout.stride + (size_t)reference->offset;
    mr_buffer *made =
        mr_buffer_wrap((void *)(uintptr_t)(pool->base + offset), (size_t)reference->bytes, release, held);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a buffer");
    made->memory = MR_MEMORY_SHARED;
    held->from = pool;
    pool->references++;
    self->references++;
    *buffer = made;
    return MR_OK;
}

int mr_shm_import_take(mr_shm_import *import, const mr_shm_reference *reference, mr_buffer **buffer) {
    MR_LOCKED(&import->lock);
    return hold(import, reference, buffer);
}

/* ---- notes ------------------------------------------------------------------------------------------------------- */

/* The rings are the producer's first message, once the token is accepted. */
static int await_rings(mr_shm_import *self) {
    int status = MR_OK;
    while (!status && !self->area)
        status = receive_from(self);
    return status;
}

/* An empty record announces a withdrawn pool, which the socket reports: that message may already have been read. */
static int receive_withdrawal(mr_shm_import *self) {
    int status = MR_OK;
    while (!status && self->withdrawn == 0)
        status = receive_from(self);
    if (status == MR_ERROR_AGAIN)
        return hang_up(self,
                       mr_fail(MR_ERROR_PROTOCOL, "shared memory: the producer withdraws a pool without a message"));
    self->withdrawn -= !status;
    return status;
}

static int fetch(mr_shm_import *self, void *data, size_t room, size_t *bytes) {
    int status = await_rings(self);
    *bytes = 0;
    while (!status && *bytes == 0) {
        status = hang_up(self, mr_shm_records_fetch(&self->area->down, data, room, bytes));
        if (!status && *bytes == 0)
            status = receive_withdrawal(self);
    }
    return status;
}

int mr_shm_import_fetch(mr_shm_import *import, void *data, size_t room, size_t *bytes) {
    MR_LOCKED(&import->lock);
    return fetch(import, data, room, bytes);
}

bool mr_shm_import_is_closed(const mr_shm_import *import) {
    struct pollfd socket = {.fd = import->fd};
    return poll(&socket, 1, 0) > 0 && socket.revents & POLLHUP;
}

/* If the rings arrived since they were polled, the doorbell may have been rung for a record in them. */
static bool may_have_rings(const mr_shm_import *self) {
    return poll(&(struct pollfd){.fd = self->fd, .events = POLLIN}, 1, 0) != 0;
}

bool mr_shm_import_arm(mr_shm_import *import) {
    MR_LOCKED(&import->lock);
    return import->area ? mr_shm_records_rest(&import->area->down) : !may_have_rings(import);
}

bool mr_shm_import_poll(mr_shm_import *import, bool last) {
    MR_LOCKED(&import->lock);
    return import->area && mr_shm_records_look(&import->area->down, last);
}

size_t mr_shm_import_room(mr_shm_import *import, uint8_t **place) {
    size_t bytes = 0;
    MR_LOCKED(&import->lock);
    if (import->area)
        hang_up(import, mr_shm_records_room(&import->area->up, place, &bytes));
    return bytes;
}

void mr_shm_import_post(mr_shm_import *import, size_t bytes) {
    MR_LOCKED(&import->lock);
    if (mr_shm_records_post(&import->area->up, bytes))
        mr_shm_ring_doorbell(import->doorbell);
}

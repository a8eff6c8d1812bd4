#include "stages/preview/preview_store.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "stages/media/still/jpeg.h"
#include "stages/preview/shrink.h"
#include "stages/sink/record_json.h"

enum { ID_BYTES = 65 };
static const int64_t SECOND_NS = 1000000000;
/* How often a picture is kept without viewers; how long a still waits for a newer picture; when a stream gets the same
 * picture again. */
static const int64_t IDLE_NS = SECOND_NS, PATIENCE_NS = SECOND_NS / 2, AGAIN_NS = 5 * SECOND_NS;

typedef struct slot {
    uint32_t source;
    char id[ID_BYTES];  /* "": the slot is free */
    bool ended;
    /* the stage's thread alone */
    mr_shrinker shrinker;
    AVFrame *spare;
    int64_t due_ns;    /* when to take the next picture, if there are viewers */
    /* under the lock */
    AVFrame *newest;
    mr_upright upright;
    uint64_t number;   /* number for `newest`; 0: none */
    int64_t taken_ns;  /* when it came */
    char *record;
    mr_jpeg *jpeg;     /* last encoded picture; NULL: none */
    uint64_t tried;    /* last picture that should have been encoded; that may have failed */
    int64_t jpeg_ns;   /* when that picture came */
    int viewers, streams;
    bool asked;        /* a still waits for it */
    int64_t asked_ns;  /* when a viewer last asked */
} slot;

struct mr_preview_store {
    mr_preview_store_params params;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a picture to encode, or a viewer to wake */
    pthread_t thread;
    bool threaded, closed;
    int streams, turn;      /* turn: next slot to encode */
    uint64_t pictures;
    mr_viewer *viewers;
    slot *slots;
    mr_record record;       /* the stage's thread alone */
    mr_jpeg_encoder encoder; /* the encoder's thread alone */
    AVFrame *taken;
};

/* ---- JPEGs ----------------------------------------------------------------------------------------------------- */

static void unref(mr_jpeg **jpeg) {
    if (*jpeg && --(*jpeg)->references == 0)
        mr_free(*jpeg);
    *jpeg = NULL;
}

void mr_jpeg_drop(mr_jpeg **jpeg) {
    mr_preview_store *store = (*jpeg)->store;
    MR_LOCKED(&store->lock);
    unref(jpeg);
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static slot *find_slot(mr_preview_store *store, const char *id) {
    for (int i = 0; i < store->params.most_sources; i++)
        if (strcmp(store->slots[i].id, id) == 0)
            return &store->slots[i];
    return NULL;
}

static void empty_slot(slot *at) {
    AVFrame *newest = at->newest, *spare = at->spare;
    mr_shrinker_close(&at->shrinker);
    mr_free(at->record);
    unref(&at->jpeg);
    if (newest)
        av_frame_unref(newest);
    if (spare)
        av_frame_unref(spare);
    *at = (slot){.newest = newest, .spare = spare};
}

/* Returns a free slot, or the one whose newest picture is oldest; NULL if all have viewers. */
static slot *make_slot(mr_preview_store *store) {
    slot *oldest = NULL;
    for (int i = 0; i < store->params.most_sources; i++) {
        slot *at = &store->slots[i];
        if (!*at->id)
            return at;
        if (!at->viewers && (!oldest || at->taken_ns < oldest->taken_ns))
            oldest = at;
    }
    if (oldest)
        empty_slot(oldest);
    return oldest;
}

/* The source's slot, created if needed. */
static slot *slot_of(mr_preview_store *store, uint32_t source) {
    const char *id = mr_stage_source_id(store->params.stage, source);
    slot *at = find_slot(store, id);
    if (at)
        at->source = source; /* a source that returns may have another number */
    if (at || strlen(id) >= ID_BYTES || !(at = make_slot(store)))
        return at;
    memcpy(at->id, id, strlen(id) + 1);
    at->source = source;
    if (!at->newest)
        at->newest = av_frame_alloc();
    if (!at->spare)
        at->spare = av_frame_alloc();
    if (at->newest && at->spare)
        return at;
    *at->id = '\0';
    return NULL;
}

/* ---- showing --------------------------------------------------------------------------------------------------- */

/* Whether to keep the picture; if so, counts it. The next one is due one interval after this one was due, not after it
 * came: 25 pictures a second with a limit of 10 must give 10, not 8. */
static bool is_wanted(const mr_preview_store *store, slot *at, const mr_frame *frame, int64_t now) {
    const int64_t interval = store->params.interval_ns;
    if (at->streams && now >= at->due_ns) {
        at->due_ns = now - at->due_ns > interval ? now + interval : at->due_ns + interval;
        return true;
    }
    return !at->number || (at->asked && at->taken_ns < at->asked_ns) || now - at->taken_ns >= IDLE_NS ||
           (frame->media && frame->media->still);
}

static char *copy_record(mr_preview_store *store, const mr_frame *frame) {
    size_t bytes = 0;
    const mr_recorded recorded = {
        .frame = frame, .source = mr_stage_source_id(store->params.stage, frame->identity.source)};
    const char *text = mr_record_make(&store->record, &recorded, &bytes);
    char *copy = mr_alloc(bytes + 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* The spare picture becomes the newest one. */
static void put(mr_preview_store *store, slot *at, const mr_frame *frame, char *record, int64_t now) {
    AVFrame *before = at->newest;
    at->newest = at->spare;
    at->spare = before;
    at->upright = (mr_upright){frame->format.rotation, frame->format.flip};
    at->number = ++store->pictures;
    at->taken_ns = now;
    mr_free(at->record);
    at->record = record;
}

static int shrink(mr_preview_store *store, slot *at, const mr_frame *frame) {
    int status = mr_shrink(&at->shrinker, frame, store->params.width, at->spare);
    if (status)
        mr_stage_warn(store->params.stage, "%s is not shown: %s", at->id, mr_message());
    return status;
}

void mr_preview_store_show(mr_preview_store *store, const mr_frame *frame) {
    const int64_t now = mr_now_ns();
    pthread_mutex_lock(&store->lock);
    slot *at = slot_of(store, frame->identity.source);
    bool wanted = at && is_wanted(store, at, frame, now);
    if (at)
        at->ended = false;
    pthread_mutex_unlock(&store->lock);
    /* Only this thread reassigns slots, so the slot stays the source's. */
    if (!wanted || shrink(store, at, frame))
        return;
    char *record = copy_record(store, frame);
    pthread_mutex_lock(&store->lock);
    put(store, at, frame, record, now);
    if (at->viewers)
        pthread_cond_signal(&store->changed);
    pthread_mutex_unlock(&store->lock);
}

void mr_preview_store_end(mr_preview_store *store, uint32_t source) {
    MR_LOCKED(&store->lock);
    slot *at = find_slot(store, mr_stage_source_id(store->params.stage, source));
    if (at) {
        at->ended = true;
        pthread_cond_signal(&store->changed);
    }
}

/* ---- waking ---------------------------------------------------------------------------------------------------- */

static void wake(mr_viewer *viewer) {
    viewer->waiting = false;
    viewer->resume(viewer);
}

/* Whether a still can be answered: the newest picture came after the request, or none has come for a while. */
static bool is_fresh(const slot *at, const mr_viewer *viewer, int64_t now) {
    return at->ended || at->taken_ns >= viewer->since_ns || now - viewer->since_ns >= PATIENCE_NS;
}

static bool is_encoded(const slot *at) {
    return at->tried == at->number;
}

/* Whether the last encoded picture came after the still was requested. If pictures come faster than they are encoded,
 * the encoded one is never the newest. */
static bool answers(const slot *at, const mr_viewer *viewer) {
    return at->jpeg && at->jpeg_ns >= viewer->since_ns;
}

static bool can_go_on(const mr_preview_store *store, const mr_viewer *viewer, int64_t now) {
    const slot *at = &store->slots[viewer->slot];
    if (store->closed)
        return true;
    if (!viewer->stream)
        return answers(at, viewer) || (is_encoded(at) && is_fresh(at, viewer, now));
    return (at->jpeg && at->jpeg->number != viewer->sent) || (at->ended && is_encoded(at)) ||
           now - viewer->since_ns >= AGAIN_NS;
}

/* Wakes all viewers that can continue. *until: when the next one can. */
static void wake_lookers(mr_preview_store *store, int64_t now, int64_t *until) {
    for (mr_viewer *viewer = store->viewers; viewer; viewer = viewer->next) {
        if (!viewer->waiting)
            continue;
        int64_t next = viewer->since_ns + (viewer->stream ? AGAIN_NS : PATIENCE_NS);
        if (can_go_on(store, viewer, now)) {
            viewer->again = viewer->stream && now >= next;
            wake(viewer);
        } else if (next > now && next < *until) {
            *until = next;
        }
    }
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

/* Whether a waiting still can be answered with the newest picture. */
static bool is_asked(const mr_preview_store *store, const slot *at, int64_t now) {
    bool asked = false;
    for (const mr_viewer *one = store->viewers; one && at->asked && !asked; one = one->next)
        asked = !one->stream && &store->slots[one->slot] == at && is_fresh(at, one, now);
    return asked;
}

/* The next slot, in turn, whose newest picture must be encoded; NULL: none. */
static slot *next_slot(mr_preview_store *store, int64_t now) {
    const int count = store->params.most_sources;
    for (int i = 0; i < count; i++) {
        slot *at = &store->slots[(store->turn + i) % count];
        if (at->viewers && at->number && !is_encoded(at) && (at->streams || is_asked(store, at, now))) {
            store->turn = (store->turn + i + 1) % count;
            return at;
        }
    }
    return NULL;
}

static mr_jpeg *make_jpeg(mr_preview_store *store, AVFrame *picture, mr_upright upright, uint64_t number) {
    static_assert(sizeof(mr_jpeg) == offsetof(mr_jpeg, data), "the data begins behind the head");
    size_t bytes = 0;
    uint8_t *block;
    if (mr_jpeg_encode(&store->encoder, picture, upright, sizeof(mr_jpeg), &block, &bytes))
        return NULL;
    mr_jpeg *jpeg = (mr_jpeg *)(void *)block;
    *jpeg = (mr_jpeg){.store = store, .number = number, .bytes = bytes, .references = 1};
    return jpeg;
}

/* The encoder counts as a viewer, so that the slot cannot be given away. */
static void encode(mr_preview_store *store, slot *at) {
    const uint64_t number = at->tried = at->number;
    const int64_t taken_ns = at->taken_ns;
    const mr_upright upright = at->upright;
    mr_jpeg *jpeg = NULL;
    at->viewers++;
    if (av_frame_ref(store->taken, at->newest) >= 0) {
        pthread_mutex_unlock(&store->lock);
        jpeg = make_jpeg(store, store->taken, upright, number);
        if (!jpeg)
            mr_stage_warn(store->params.stage, "%s", mr_message());
        av_frame_unref(store->taken);
        pthread_mutex_lock(&store->lock);
    }
    at->viewers--;
    if (jpeg) {
        unref(&at->jpeg);
        at->jpeg = jpeg;
        at->jpeg_ns = taken_ns;
    }
}

static void wait_until(mr_preview_store *store, int64_t until) {
    if (until == INT64_MAX) {
        pthread_cond_wait(&store->changed, &store->lock);
        return;
    }
    struct timespec at = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    pthread_cond_timedwait(&store->changed, &store->lock, &at);
}

static void *run_encoder(void *context) {
    mr_preview_store *store = context;
    MR_LOCKED(&store->lock);
    while (!store->closed) {
        int64_t until = INT64_MAX, now = mr_now_ns();
        wake_lookers(store, now, &until);
        slot *at = next_slot(store, now);
        if (at)
            encode(store, at);
        else
            wait_until(store, until);
    }
    return NULL;
}

/* ---- viewers ---------------------------------------------------------------------------------------------------- */

static mr_preview_status find_shown(mr_preview_store *store, const char *id, slot **found) {
    *found = *id ? find_slot(store, id) : NULL;
    return *found && (*found)->number ? MR_PREVIEW_PICTURE : MR_PREVIEW_UNKNOWN;
}

static void add_looker(mr_preview_store *store, slot *at, mr_viewer *viewer) {
    viewer->slot = (int)(at - store->slots);
    viewer->waiting = viewer->again = false;
    viewer->sent = 0;
    viewer->since_ns = mr_now_ns();
    viewer->next = store->viewers;
    viewer->link = &store->viewers;
    if (viewer->next)
        viewer->next->link = &viewer->next;
    store->viewers = viewer;
    at->viewers++;
    at->streams += viewer->stream;
    store->streams += viewer->stream;
}

mr_preview_status mr_preview_store_watch(mr_preview_store *store, const char *id, mr_viewer *viewer) {
    slot *at = NULL;
    MR_LOCKED(&store->lock);
    mr_preview_status status = store->closed ? MR_PREVIEW_END : find_shown(store, id, &at);
    if (status == MR_PREVIEW_PICTURE && viewer->stream && store->streams >= store->params.most_streams)
        status = MR_PREVIEW_FULL;
    if (status == MR_PREVIEW_PICTURE) {
        add_looker(store, at, viewer);
        status = MR_PREVIEW_WAIT;
    }
    return status;
}

/* A still may be a picture that came shortly before the request. */
static bool can_have(const mr_preview_store *store, const slot *at, const mr_viewer *viewer, int64_t now) {
    if (!at->jpeg)
        return false;
    if (viewer->stream)
        return at->jpeg->number != viewer->sent || viewer->again;
    return answers(at, viewer) || now - at->jpeg_ns <= store->params.interval_ns ||
           (at->jpeg->number == at->number && is_fresh(at, viewer, now));
}

static void await_picture(mr_preview_store *store, slot *at, mr_viewer *viewer) {
    viewer->waiting = true;
    if (!viewer->stream) {
        at->asked = true;
        at->asked_ns = viewer->since_ns;
    }
    pthread_cond_signal(&store->changed);
}

mr_preview_status mr_preview_store_next(mr_preview_store *store, mr_viewer *viewer, mr_jpeg **jpeg) {
    mr_preview_status status = MR_PREVIEW_WAIT;
    MR_LOCKED(&store->lock);
    slot *at = &store->slots[viewer->slot];
    const int64_t now = mr_now_ns();
    if (store->closed) {
        status = MR_PREVIEW_END;
    } else if (can_have(store, at, viewer, now)) {
        status = MR_PREVIEW_PICTURE;
        *jpeg = at->jpeg;
        (*jpeg)->references++;
        viewer->sent = (*jpeg)->number;
        viewer->since_ns = now;
        viewer->again = false;
    } else if (is_encoded(at) && (viewer->stream ? at->ended : is_fresh(at, viewer, now))) {
        status = MR_PREVIEW_END;
    } else {
        await_picture(store, at, viewer);
    }
    return status;
}

static bool is_still_asked(const mr_preview_store *store, int slot_index) {
    bool asked = false;
    for (const mr_viewer *one = store->viewers; one && !asked; one = one->next)
        asked = !one->stream && one->slot == slot_index;
    return asked;
}

void mr_preview_store_leave(mr_preview_store *store, mr_viewer *viewer) {
    MR_LOCKED(&store->lock);
    slot *at = &store->slots[viewer->slot];
    *viewer->link = viewer->next;
    if (viewer->next)
        viewer->next->link = viewer->link;
    at->viewers--;
    at->streams -= viewer->stream;
    store->streams -= viewer->stream;
    at->asked = at->asked && is_still_asked(store, viewer->slot);
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

char *mr_preview_store_record(mr_preview_store *store, const char *id, mr_preview_status *status) {
    slot *at;
    char *copy = NULL;
    MR_LOCKED(&store->lock);
    *status = find_shown(store, id, &at);
    if (*status == MR_PREVIEW_PICTURE && !(at->record && (copy = mr_strdup(at->record))))
        *status = MR_PREVIEW_END;
    return copy;
}

static void put_slot(yajl_gen json, const slot *at, int64_t now) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "source", at->id);
        mr_json_number(json, "age", (double)((now - at->taken_ns) / 1000000) / 1000);
        mr_json_integer(json, "viewers", at->streams);
        mr_json_bool(json, "ended", at->ended);
    }
}

static int by_source(const void *a, const void *b) {
    const slot *const *left = a, *const *right = b;
    return ((*left)->source > (*right)->source) - ((*left)->source < (*right)->source);
}

void mr_preview_store_list(mr_preview_store *store, yajl_gen json) {
    const int64_t now = mr_now_ns();
    size_t count = 0;
    const slot **shown = mr_calloc((size_t)store->params.most_sources, sizeof *shown);
    if (!shown)
        return;
    pthread_mutex_lock(&store->lock);
    for (int i = 0; i < store->params.most_sources; i++)
        if (store->slots[i].number)
            shown[count++] = &store->slots[i];
    qsort(shown, count, sizeof *shown, by_source);
    for (size_t i = 0; i < count; i++)
        put_slot(json, shown[i], now);
    pthread_mutex_unlock(&store->lock);
    mr_free(shown);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

int mr_preview_store_create(mr_preview_store **result, const mr_preview_store_params *params) {
    mr_preview_store *store = mr_calloc(1, sizeof *store);
    if (!store)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    store->params = *params;
    store->encoder.quality = params->quality;
    pthread_mutex_init(&store->lock, NULL);
    mr_condition_init(&store->changed);
    store->slots = mr_calloc((size_t)params->most_sources, sizeof *store->slots);
    store->taken = av_frame_alloc();
    int status = store->slots && store->taken ? mr_record_open(&store->record)
                                                  : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status) {
        const int error = mr_thread_create(&store->thread, run_encoder, store);
        store->threaded = error == 0;
        if (error)
            status = mr_thread_fail(error, "a thread for pictures");
    }
    if (status)
        mr_preview_store_destroy(&store);
    else
        *result = store;
    return status;
}

void mr_preview_store_close(mr_preview_store *store) {
    int64_t until = INT64_MAX;
    MR_LOCKED(&store->lock);
    store->closed = true;
    wake_lookers(store, mr_now_ns(), &until);
    pthread_cond_signal(&store->changed);
}

void mr_preview_store_destroy(mr_preview_store **result) {
    mr_preview_store *store = *result;
    if (!store)
        return;
    if (store->threaded) {
        mr_preview_store_close(store);
        pthread_join(store->thread, NULL);
    }
    for (int i = 0; store->slots && i < store->params.most_sources; i++) {
        empty_slot(&store->slots[i]);
        av_frame_free(&store->slots[i].newest);
        av_frame_free(&store->slots[i].spare);
    }
    mr_free(store->slots);
    av_frame_free(&store->taken);
    mr_jpeg_encoder_close(&store->encoder);
    mr_record_close(&store->record);
    pthread_cond_destroy(&store->changed);
    pthread_mutex_destroy(&store->lock);
    mr_free(store);
    *result = NULL;
}

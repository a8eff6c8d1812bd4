#include "stages/preview/gallery.h"

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
/* How often a picture is kept without lookers; how long a still waits for a newer picture; when a stream gets the same
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
    int lookers, viewers;
    bool asked;        /* a still waits for it */
    int64_t asked_ns;  /* when a looker last asked */
} slot;

struct mr_gallery {
    mr_gallery_params params;
    pthread_mutex_t lock;
    pthread_cond_t changed; /* there is a picture to encode, or a looker to wake */
    pthread_t thread;
    bool threaded, closed;
    int viewers, turn;      /* turn: next slot to encode */
    uint64_t pictures;
    mr_looker *lookers;
    slot *slots;
    mr_record record;       /* the stage's thread alone */
    mr_jpeg_encoder encoder; /* the encoder's thread alone */
    AVFrame *taken;
};

static int64_t now_ns(void) {
    return mr_clock_now_ns(mr_clock_real());
}

/* ---- JPEGs ----------------------------------------------------------------------------------------------------- */

static void unref(mr_jpeg **jpeg) {
    if (*jpeg && --(*jpeg)->references == 0)
        mr_free(*jpeg);
    *jpeg = NULL;
}

void mr_jpeg_drop(mr_jpeg **jpeg) {
    mr_gallery *gallery = (*jpeg)->gallery;
    pthread_mutex_lock(&gallery->lock);
    unref(jpeg);
    pthread_mutex_unlock(&gallery->lock);
}

/* ---- slots ------------------------------------------------------------------------------------------------------ */

static slot *find_slot(mr_gallery *gallery, const char *id) {
    for (int i = 0; i < gallery->params.most_sources; i++)
        if (strcmp(gallery->slots[i].id, id) == 0)
            return &gallery->slots[i];
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

/* Returns a free slot, or the one whose newest picture is oldest; NULL if all have lookers. */
static slot *make_slot(mr_gallery *gallery) {
    slot *oldest = NULL;
    for (int i = 0; i < gallery->params.most_sources; i++) {
        slot *at = &gallery->slots[i];
        if (!*at->id)
            return at;
        if (!at->lookers && (!oldest || at->taken_ns < oldest->taken_ns))
            oldest = at;
    }
    if (oldest)
        empty_slot(oldest);
    return oldest;
}

/* The source's slot, created if needed. */
static slot *slot_of(mr_gallery *gallery, uint32_t source) {
    const char *id = mr_stage_source_id(gallery->params.stage, source);
    slot *at = find_slot(gallery, id);
    if (at)
        at->source = source; /* a source that returns may have another number */
    if (at || strlen(id) >= ID_BYTES || !(at = make_slot(gallery)))
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
static bool is_wanted(const mr_gallery *gallery, slot *at, const mr_frame *frame, int64_t now) {
    const int64_t interval = gallery->params.interval_ns;
    if (at->viewers && now >= at->due_ns) {
        at->due_ns = now - at->due_ns > interval ? now + interval : at->due_ns + interval;
        return true;
    }
    return !at->number || (at->asked && at->taken_ns < at->asked_ns) || now - at->taken_ns >= IDLE_NS ||
           (frame->media && frame->media->still);
}

static char *copy_record(mr_gallery *gallery, const mr_frame *frame) {
    size_t bytes = 0;
    const mr_recorded recorded = {
        .frame = frame, .source = mr_stage_source_id(gallery->params.stage, frame->identity.source)};
    const char *text = mr_record_make(&gallery->record, &recorded, &bytes);
    char *copy = mr_alloc(bytes + 1);
    if (copy) {
        memcpy(copy, text, bytes);
        copy[bytes] = '\0';
    }
    return copy;
}

/* The spare picture becomes the newest one. */
static void put(mr_gallery *gallery, slot *at, const mr_frame *frame, char *record, int64_t now) {
    AVFrame *before = at->newest;
    at->newest = at->spare;
    at->spare = before;
    at->upright = (mr_upright){frame->format.rotation, frame->format.flip};
    at->number = ++gallery->pictures;
    at->taken_ns = now;
    mr_free(at->record);
    at->record = record;
}

static int shrink(mr_gallery *gallery, slot *at, const mr_frame *frame) {
    int status = mr_shrink(&at->shrinker, frame, gallery->params.width, at->spare);
    if (status)
        mr_stage_warn(gallery->params.stage, "%s is not shown: %s", at->id, mr_message());
    return status;
}

void mr_gallery_show(mr_gallery *gallery, const mr_frame *frame) {
    const int64_t now = now_ns();
    pthread_mutex_lock(&gallery->lock);
    slot *at = slot_of(gallery, frame->identity.source);
    bool wanted = at && is_wanted(gallery, at, frame, now);
    if (at)
        at->ended = false;
    pthread_mutex_unlock(&gallery->lock);
    /* Only this thread reassigns slots, so the slot stays the source's. */
    if (!wanted || shrink(gallery, at, frame))
        return;
    char *record = copy_record(gallery, frame);
    pthread_mutex_lock(&gallery->lock);
    put(gallery, at, frame, record, now);
    if (at->lookers)
        pthread_cond_signal(&gallery->changed);
    pthread_mutex_unlock(&gallery->lock);
}

void mr_gallery_end(mr_gallery *gallery, uint32_t source) {
    pthread_mutex_lock(&gallery->lock);
    slot *at = find_slot(gallery, mr_stage_source_id(gallery->params.stage, source));
    if (at) {
        at->ended = true;
        pthread_cond_signal(&gallery->changed);
    }
    pthread_mutex_unlock(&gallery->lock);
}

/* ---- waking ---------------------------------------------------------------------------------------------------- */

static void wake(mr_looker *looker) {
    looker->waiting = false;
    looker->resume(looker);
}

/* Whether a still can be answered: the newest picture came after the request, or none has come for a while. */
static bool is_fresh(const slot *at, const mr_looker *looker, int64_t now) {
    return at->ended || at->taken_ns >= looker->since_ns || now - looker->since_ns >= PATIENCE_NS;
}

static bool is_encoded(const slot *at) {
    return at->tried == at->number;
}

/* Whether the last encoded picture came after the still was requested. If pictures come faster than they are encoded,
 * the encoded one is never the newest. */
static bool answers(const slot *at, const mr_looker *looker) {
    return at->jpeg && at->jpeg_ns >= looker->since_ns;
}

static bool can_go_on(const mr_gallery *gallery, const mr_looker *looker, int64_t now) {
    const slot *at = &gallery->slots[looker->slot];
    if (gallery->closed)
        return true;
    if (!looker->stream)
        return answers(at, looker) || (is_encoded(at) && is_fresh(at, looker, now));
    return (at->jpeg && at->jpeg->number != looker->sent) || (at->ended && is_encoded(at)) ||
           now - looker->since_ns >= AGAIN_NS;
}

/* Wakes all lookers that can continue. *until: when the next one can. */
static void wake_lookers(mr_gallery *gallery, int64_t now, int64_t *until) {
    for (mr_looker *looker = gallery->lookers; looker; looker = looker->next) {
        if (!looker->waiting)
            continue;
        int64_t next = looker->since_ns + (looker->stream ? AGAIN_NS : PATIENCE_NS);
        if (can_go_on(gallery, looker, now)) {
            looker->again = looker->stream && now >= next;
            wake(looker);
        } else if (next > now && next < *until) {
            *until = next;
        }
    }
}

/* ---- encoding --------------------------------------------------------------------------------------------------- */

/* Whether a waiting still can be answered with the newest picture. */
static bool is_asked(const mr_gallery *gallery, const slot *at, int64_t now) {
    bool asked = false;
    for (const mr_looker *one = gallery->lookers; one && at->asked && !asked; one = one->next)
        asked = !one->stream && &gallery->slots[one->slot] == at && is_fresh(at, one, now);
    return asked;
}

/* The next slot, in turn, whose newest picture must be encoded; NULL: none. */
static slot *next_slot(mr_gallery *gallery, int64_t now) {
    const int count = gallery->params.most_sources;
    for (int i = 0; i < count; i++) {
        slot *at = &gallery->slots[(gallery->turn + i) % count];
        if (at->lookers && at->number && !is_encoded(at) && (at->viewers || is_asked(gallery, at, now))) {
            gallery->turn = (gallery->turn + i + 1) % count;
            return at;
        }
    }
    return NULL;
}

static mr_jpeg *make_jpeg(mr_gallery *gallery, AVFrame *picture, mr_upright upright, uint64_t number) {
    static_assert(sizeof(mr_jpeg) == offsetof(mr_jpeg, data), "the data begins behind the head");
    size_t bytes = 0;
    uint8_t *block;
    if (mr_jpeg_encode(&gallery->encoder, picture, upright, sizeof(mr_jpeg), &block, &bytes))
        return NULL;
    mr_jpeg *jpeg = (mr_jpeg *)(void *)block;
    *jpeg = (mr_jpeg){.gallery = gallery, .number = number, .bytes = bytes, .references = 1};
    return jpeg;
}

/* The encoder counts as a looker, so that the slot cannot be given away. */
static void encode(mr_gallery *gallery, slot *at) {
    const uint64_t number = at->tried = at->number;
    const int64_t taken_ns = at->taken_ns;
    const mr_upright upright = at->upright;
    mr_jpeg *jpeg = NULL;
    at->lookers++;
    if (av_frame_ref(gallery->taken, at->newest) >= 0) {
        pthread_mutex_unlock(&gallery->lock);
        jpeg = make_jpeg(gallery, gallery->taken, upright, number);
        if (!jpeg)
            mr_stage_warn(gallery->params.stage, "%s", mr_message());
        av_frame_unref(gallery->taken);
        pthread_mutex_lock(&gallery->lock);
    }
    at->lookers--;
    if (jpeg) {
        unref(&at->jpeg);
        at->jpeg = jpeg;
        at->jpeg_ns = taken_ns;
    }
}

static void wait_until(mr_gallery *gallery, int64_t until) {
    if (until == INT64_MAX) {
        pthread_cond_wait(&gallery->changed, &gallery->lock);
        return;
    }
    struct timespec at = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
    pthread_cond_timedwait(&gallery->changed, &gallery->lock, &at);
}

static void *run_encoder(void *context) {
    mr_gallery *gallery = context;
    pthread_mutex_lock(&gallery->lock);
    while (!gallery->closed) {
        int64_t until = INT64_MAX, now = now_ns();
        wake_lookers(gallery, now, &until);
        slot *at = next_slot(gallery, now);
        if (at)
            encode(gallery, at);
        else
            wait_until(gallery, until);
    }
    pthread_mutex_unlock(&gallery->lock);
    return NULL;
}

/* ---- lookers ---------------------------------------------------------------------------------------------------- */

static mr_look find_shown(mr_gallery *gallery, const char *id, slot **found) {
    *found = *id ? find_slot(gallery, id) : NULL;
    return *found && (*found)->number ? MR_LOOK_PICTURE : MR_LOOK_UNKNOWN;
}

static void add_looker(mr_gallery *gallery, slot *at, mr_looker *looker) {
    looker->slot = (int)(at - gallery->slots);
    looker->waiting = looker->again = false;
    looker->sent = 0;
    looker->since_ns = now_ns();
    looker->next = gallery->lookers;
    looker->link = &gallery->lookers;
    if (looker->next)
        looker->next->link = &looker->next;
    gallery->lookers = looker;
    at->lookers++;
    at->viewers += looker->stream;
    gallery->viewers += looker->stream;
}

mr_look mr_gallery_look(mr_gallery *gallery, const char *id, mr_looker *looker) {
    slot *at = NULL;
    pthread_mutex_lock(&gallery->lock);
    mr_look look = gallery->closed ? MR_LOOK_END : find_shown(gallery, id, &at);
    if (look == MR_LOOK_PICTURE && looker->stream && gallery->viewers >= gallery->params.most_viewers)
        look = MR_LOOK_FULL;
    if (look == MR_LOOK_PICTURE) {
        add_looker(gallery, at, looker);
        look = MR_LOOK_WAIT;
    }
    pthread_mutex_unlock(&gallery->lock);
    return look;
}

/* A still may be a picture that came shortly before the request. */
static bool can_have(const mr_gallery *gallery, const slot *at, const mr_looker *looker, int64_t now) {
    if (!at->jpeg)
        return false;
    if (looker->stream)
        return at->jpeg->number != looker->sent || looker->again;
    return answers(at, looker) || now - at->jpeg_ns <= gallery->params.interval_ns ||
           (at->jpeg->number == at->number && is_fresh(at, looker, now));
}

static void await_picture(mr_gallery *gallery, slot *at, mr_looker *looker) {
    looker->waiting = true;
    if (!looker->stream) {
        at->asked = true;
        at->asked_ns = looker->since_ns;
    }
    pthread_cond_signal(&gallery->changed);
}

mr_look mr_gallery_next(mr_gallery *gallery, mr_looker *looker, mr_jpeg **jpeg) {
    mr_look look = MR_LOOK_WAIT;
    pthread_mutex_lock(&gallery->lock);
    slot *at = &gallery->slots[looker->slot];
    const int64_t now = now_ns();
    if (gallery->closed) {
        look = MR_LOOK_END;
    } else if (can_have(gallery, at, looker, now)) {
        look = MR_LOOK_PICTURE;
        *jpeg = at->jpeg;
        (*jpeg)->references++;
        looker->sent = (*jpeg)->number;
        looker->since_ns = now;
        looker->again = false;
    } else if (is_encoded(at) && (looker->stream ? at->ended : is_fresh(at, looker, now))) {
        look = MR_LOOK_END;
    } else {
        await_picture(gallery, at, looker);
    }
    pthread_mutex_unlock(&gallery->lock);
    return look;
}

static bool is_still_asked(const mr_gallery *gallery, int slot_index) {
    bool asked = false;
    for (const mr_looker *one = gallery->lookers; one && !asked; one = one->next)
        asked = !one->stream && one->slot == slot_index;
    return asked;
}

void mr_gallery_leave(mr_gallery *gallery, mr_looker *looker) {
    pthread_mutex_lock(&gallery->lock);
    slot *at = &gallery->slots[looker->slot];
    *looker->link = looker->next;
    if (looker->next)
        looker->next->link = looker->link;
    at->lookers--;
    at->viewers -= looker->stream;
    gallery->viewers -= looker->stream;
    at->asked = at->asked && is_still_asked(gallery, looker->slot);
    pthread_mutex_unlock(&gallery->lock);
}

/* ---- words ------------------------------------------------------------------------------------------------------ */

char *mr_gallery_record(mr_gallery *gallery, const char *id, mr_look *look) {
    slot *at;
    char *copy = NULL;
    pthread_mutex_lock(&gallery->lock);
    *look = find_shown(gallery, id, &at);
    if (*look == MR_LOOK_PICTURE && !(at->record && (copy = mr_strdup(at->record))))
        *look = MR_LOOK_END;
    pthread_mutex_unlock(&gallery->lock);
    return copy;
}

static void put_slot(yajl_gen json, const slot *at, int64_t now) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "source", at->id);
    mr_json_number(json, "age", (double)((now - at->taken_ns) / 1000000) / 1000);
    mr_json_integer(json, "viewers", at->viewers);
    mr_json_bool(json, "ended", at->ended);
    yajl_gen_map_close(json);
}

static int by_source(const void *a, const void *b) {
    const slot *const *left = a, *const *right = b;
    return ((*left)->source > (*right)->source) - ((*left)->source < (*right)->source);
}

void mr_gallery_list(mr_gallery *gallery, yajl_gen json) {
    const int64_t now = now_ns();
    size_t count = 0;
    const slot **shown = mr_calloc((size_t)gallery->params.most_sources, sizeof *shown);
    if (!shown)
        return;
    pthread_mutex_lock(&gallery->lock);
    for (int i = 0; i < gallery->params.most_sources; i++)
        if (gallery->slots[i].number)
            shown[count++] = &gallery->slots[i];
    qsort(shown, count, sizeof *shown, by_source);
    for (size_t i = 0; i < count; i++)
        put_slot(json, shown[i], now);
    pthread_mutex_unlock(&gallery->lock);
    mr_free(shown);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------ */

int mr_gallery_create(mr_gallery **result, const mr_gallery_params *params) {
    mr_gallery *gallery = mr_calloc(1, sizeof *gallery);
    if (!gallery)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    gallery->params = *params;
    gallery->encoder.quality = params->quality;
    pthread_mutex_init(&gallery->lock, NULL);
    mr_condition_init(&gallery->changed);
    gallery->slots = mr_calloc((size_t)params->most_sources, sizeof *gallery->slots);
    gallery->taken = av_frame_alloc();
    int status = gallery->slots && gallery->taken ? mr_record_open(&gallery->record)
                                                  : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (!status) {
        gallery->threaded = mr_thread_create(&gallery->thread, run_encoder, gallery) == 0;
        if (!gallery->threaded)
            status = mr_fail(MR_ERROR_UNAVAILABLE, "cannot start a thread for pictures");
    }
    if (status)
        mr_gallery_destroy(&gallery);
    else
        *result = gallery;
    return status;
}

void mr_gallery_close(mr_gallery *gallery) {
    int64_t until = INT64_MAX;
    pthread_mutex_lock(&gallery->lock);
    gallery->closed = true;
    wake_lookers(gallery, now_ns(), &until);
    pthread_cond_signal(&gallery->changed);
    pthread_mutex_unlock(&gallery->lock);
}

void mr_gallery_destroy(mr_gallery **result) {
    mr_gallery *gallery = *result;
    if (!gallery)
        return;
    if (gallery->threaded) {
        mr_gallery_close(gallery);
        pthread_join(gallery->thread, NULL);
    }
    for (int i = 0; gallery->slots && i < gallery->params.most_sources; i++) {
        empty_slot(&gallery->slots[i]);
        av_frame_free(&gallery->slots[i].newest);
        av_frame_free(&gallery->slots[i].spare);
    }
    mr_free(gallery->slots);
    av_frame_free(&gallery->taken);
    mr_jpeg_encoder_close(&gallery->encoder);
    mr_record_close(&gallery->record);
    pthread_cond_destroy(&gallery->changed);
    pthread_mutex_destroy(&gallery->lock);
    mr_free(gallery);
    *result = NULL;
}

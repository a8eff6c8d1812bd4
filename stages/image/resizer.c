#include "stages/image/resizer.h"

#include <stdatomic.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/preprocess/preprocess_enqueue.h"

const mr_format_set mr_pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
const mr_port mr_picture_inputs[] = {
    {.name = "in", .help = "pictures of any size and layout", .accepts = mr_pictures}, {0}};

/* One picture format's plan, and how many unfinished works use it. */
struct mr_resizer_plan {
    mr_resizer_plan *next; /* least lately used last */
    mr_format format;
    mr_preprocess *plan;
    atomic_int pending;
};

/* Plans are made when a format is first seen and dropped, the oldest idle one first, beyond this many. */
enum { KEPT_PLANS = 16 };

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* Raises *read_bytes to what this picture needs. */
static size_t table_bytes(const mr_preprocess_params *params, mr_format source, int16_t rotation,
                          double *read_bytes) {
    mr_preprocess_params sized = *params;
    mr_preprocess *plan = NULL;
    source.rotation = rotation;
    if (sized.width == 0) {
        sized.width = source.width;
        sized.height = source.height;
    }
    size_t bytes = mr_preprocess_create(&plan, &sized, &source) ? 0 : mr_preprocess_table_bytes(plan);
    const double read = plan ? mr_preprocess_read_bytes(plan) : 0;
    *read_bytes = read > *read_bytes ? read : *read_bytes;
    mr_preprocess_destroy(&plan);
    return bytes;
}

/* The more a picture shrinks, the longer its tables: the largest picture needs most. If sizes are not known, the
 * bytes are unknown too, and the plan says so. */
void mr_resizer_promise(mr_negotiation *n, const mr_preprocess_params *params) {
    const mr_format_set *set = &n->inputs[0].set;
    mr_format source = mr_format_set_common(set);
    source.payload = MR_PAYLOAD_PICTURE;
    source.width = (int32_t)set->width.max;
    source.height = (int32_t)set->height.max;
    size_t most = 0;
    double read_bytes = 0;
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT && source.width && strcmp(n->device, "cpu") != 0; pixel++)
        for (int rotation = 0; rotation < 180 && (!set->pixels || set->pixels & MR_IN_SET(pixel)); rotation += 90) {
            source.pixel = (mr_pixel)pixel;
            size_t bytes = table_bytes(params, source, (int16_t)rotation, &read_bytes);
            most = bytes > most ? bytes : most;
        }
    n->constant_bytes = (KEPT_PLANS + 1) * most;
    n->work.launches = (n->batch + MR_PREPROCESS_LAUNCH - 1) / MR_PREPROCESS_LAUNCH;
    n->work.read_bytes = read_bytes;
    if (read_bytes == 0)
        n->work.unknown = "the size of its pictures is not known";
}

/* ---- plans ----------------------------------------------------------------------------------------------------- */

int mr_resizer_init(mr_resizer *resizer, const mr_preprocess_params *params) {
    resizer->params = *params;
    if (pthread_mutex_init(&resizer->lock, NULL) != 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a lock");
    resizer->has_lock = true;
    return MR_OK;
}

static void destroy_entry(mr_resizer_plan *entry) {
    mr_preprocess_destroy(&entry->plan);
    mr_free(entry);
}

void mr_resizer_fini(mr_resizer *resizer) {
    while (resizer->entries) {
        mr_resizer_plan *entry = resizer->entries;
        resizer->entries = entry->next;
        destroy_entry(entry);
    }
    if (resizer->has_lock)
        pthread_mutex_destroy(&resizer->lock);
    resizer->has_lock = false;
}

/* Finds a format's entry, moves it to the front and counts one more work. The lock must be held. */
static mr_resizer_plan *claim(mr_resizer *resizer, const mr_format *format) {
    for (mr_resizer_plan **at = &resizer->entries; *at; at = &(*at)->next) {
        mr_resizer_plan *found = *at;
        if (!mr_format_same_picture(&found->format, format))
            continue;
        *at = found->next;
        found->next = resizer->entries;
        resizer->entries = found;
        atomic_fetch_add_explicit(&found->pending, 1, memory_order_relaxed);
        return found;
    }
    return NULL;
}

/* If there are too many entries, removes the least recently used idle one from the list. The lock must be held. */
static mr_resizer_plan *take_oldest_idle(mr_resizer *resizer) {
    mr_resizer_plan **idle = NULL;
    for (mr_resizer_plan **at = &resizer->entries; *at; at = &(*at)->next)
        if (atomic_load_explicit(&(*at)->pending, memory_order_acquire) == 0)
            idle = at;
    if (resizer->count <= KEPT_PLANS || !idle)
        return NULL;
    mr_resizer_plan *taken = *idle;
    *idle = taken->next;
    resizer->count--;
    return taken;
}

static int add_entry(mr_resizer *resizer, const mr_format *format, mr_resizer_plan **result) {
    mr_preprocess_params params = resizer->params;
    if (params.width == 0) {
        params.width = format->width;
        params.height = format->height;
    }
    mr_resizer_plan *fresh = mr_calloc(1, sizeof *fresh);
    if (!fresh)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a preprocess plan");
    fresh->format = *format;
    atomic_init(&fresh->pending, 1);
    int status = mr_preprocess_create(&fresh->plan, &params, format);
    if (status < 0) {
        mr_free(fresh);
        return status;
    }
    pthread_mutex_lock(&resizer->lock);
    fresh->next = resizer->entries;
    resizer->entries = fresh;
    resizer->count++;
    mr_resizer_plan *old = take_oldest_idle(resizer);
    pthread_mutex_unlock(&resizer->lock);
    if (old)
        destroy_entry(old);
    *result = fresh;
    return MR_OK;
}

static int find_plan(mr_resizer *resizer, const mr_format *format, mr_resizer_plan **result) {
    pthread_mutex_lock(&resizer->lock);
    *result = claim(resizer, format);
    pthread_mutex_unlock(&resizer->lock);
    return *result ? MR_OK : add_entry(resizer, format, result);
}

static void finish_work(void *context) {
    mr_resizer_plan *entry = context;
    atomic_fetch_sub_explicit(&entry->pending, 1, memory_order_release);
}

static int describe_work(mr_resizer *resizer, const mr_resizer_item *item, mr_preprocess_work *work) {
    mr_resizer_plan *entry = NULL;
    const mr_frame *picture = item->picture;
    int status = find_plan(resizer, &picture->format, &entry);
    if (status < 0)
        return status;
    if (item->geometry)
        *item->geometry = mr_geometry_chain(mr_preprocess_geometry(entry->plan), &picture->geometry);
    *work = (mr_preprocess_work){.plan = entry->plan, .dst = item->dst, .bars = item->bars,
                                  .done = finish_work, .context = entry};
    for (int p = 0; p < MR_MAX_PLANES; p++) {
        work->source.data[p] = picture->plane[p].data;
        work->source.stride[p] = picture->plane[p].stride;
    }
    return MR_OK;
}

static int enqueue_piece(mr_resizer *resizer, mr_stream *stream, const mr_resizer_item *items, int count) {
    mr_preprocess_work works[MR_PREPROCESS_LAUNCH];
    int described = 0, status = MR_OK;
    while (described < count && !(status = describe_work(resizer, &items[described], &works[described])))
        described++;
    if (!status)
        return mr_preprocess_enqueue(stream, works, count);
    while (described-- > 0)
        finish_work(works[described].context);
    return status;
}

int mr_resizer_enqueue(mr_resizer *resizer, mr_stream *stream, const mr_resizer_item *items, size_t count) {
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i += MR_PREPROCESS_LAUNCH) {
        size_t left = count - i;
        status =
            enqueue_piece(resizer, stream, items + i, (int)(left < MR_PREPROCESS_LAUNCH ? left : MR_PREPROCESS_LAUNCH));
    }
    return status;
}

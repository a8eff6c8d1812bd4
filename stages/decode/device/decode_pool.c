#include "stages/decode/device/decode_pool.h"

#include <pthread.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/data/pool.h"
#include "stages/decode/device/picture_layout.h"
#include "stages/media/media_codec.h"
#include "stages/media/media_input.h"
#include "stages/media/picture_format.h"

/* A buffer that FFmpeg holds. FFmpeg stores this address: a buffer is ours if the address lies in the array of
 * leases. */
typedef struct lease {
    mr_picture_pool *owner;
    mr_buffer *buffer;
    int generation;
    struct lease *next;
} lease;

struct mr_picture_pool {
    mr_memory memory;
    mr_device *device;
    int buffers, least;
    size_t largest;       /* one buffer's size in bytes, as planned */
    uint64_t most;        /* bytes for all buffers together */
    const mr_stage *stage;
    bool patches;         /* concealed still pictures are used */
    mr_decode_log log;       /* locks separately */
    pthread_mutex_t lock; /* guards all below */
    mr_pool *pool;        /* NULL until the first picture */
    int generation;       /* the pool's generation */
    int held;             /* leases from this generation that FFmpeg holds */
    lease *idle;
    int lease_count;
    lease leases[];
};

static int create_pool(mr_picture_pool *pool, size_t bytes) {
    size_t largest = bytes > pool->largest ? bytes : pool->largest;
    uint64_t needed = (uint64_t)pool->least * largest;
    /* All slots in shared memory have one size, the size these pictures need. */
    if (pool->memory == MR_MEMORY_SHARED)
        return mr_pool_create(&pool->pool, pool->device, pool->memory, bytes, pool->buffers);
    return mr_pool_create_bounded(&pool->pool, pool->device, pool->memory, largest, pool->buffers,
                                  pool->most > needed ? pool->most : needed);
}

/* Creates the buffers that must exist in advance. */
static int fill(mr_picture_pool *pool, const mr_stage *stage) {
    if (stage->output_bytes == 0)
        return MR_OK;
    int status = create_pool(pool, stage->output_bytes);
    return status ? status : mr_pool_fill(pool->pool, NULL);
}

int mr_picture_pool_create(mr_picture_pool **result, const mr_stage *stage, bool patches) {
    int leases = 2 * stage->output_buffers;
    mr_picture_pool *pool = mr_calloc(1, sizeof *pool + (size_t)leases * sizeof *pool->leases);
    if (!pool)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    pool->memory = stage->output_memory;
    pool->device = stage->output_device;
    pool->buffers = stage->output_buffers;
    pool->least = stage->output_least;
    pool->largest = stage->output_largest;
    pool->most = stage->output_most_bytes ? stage->output_most_bytes : UINT64_MAX;
    pool->stage = stage;
    pool->patches = patches;
    pool->lease_count = leases;
    pthread_mutex_init(&pool->lock, NULL);
    mr_decode_log_init(&pool->log);
    for (int i = 0; i < leases; i++) {
        pool->leases[i] = (lease){.owner = pool, .next = pool->idle};
        pool->idle = &pool->leases[i];
    }
    int status = fill(pool, stage);
    if (status)
        mr_picture_pool_destroy(&pool);
    *result = pool;
    return status;
}

void mr_picture_pool_destroy(mr_picture_pool **pool) {
    if (!*pool)
        return;
    mr_pool_release(&(*pool)->pool);
    pthread_mutex_destroy(&(*pool)->lock);
    mr_decode_log_fini(&(*pool)->log);
    mr_free(*pool);
    *pool = NULL;
}

/* ---- callbacks of FFmpeg --------------------------------------------------------------------------------------- */

/* Pictures are larger than planned: the pool gets fewer buffers, or more memory if consumers need more buffers to
 * continue. */
static void widen(mr_picture_pool *pool, size_t bytes) {
    uint64_t needed = (uint64_t)pool->least * bytes;
    if (needed > pool->most) {
        mr_stage_warn(pool->stage, "pictures are larger than planned: buffers for them take up to %.1f MiB, not %.1f",
                      (double)needed / (1 << 20), (double)pool->most / (1 << 20));
        pool->most = needed;
    }
    mr_pool_widen(pool->pool, bytes, pool->most);
}

/* Call with the lock held. Shared memory slots have one size: opens a new pool if they are too small or much too
 * large. */
static int fit_pool(mr_picture_pool *pool, size_t bytes) {
    if (pool->pool) {
        size_t present = mr_pool_buffer_bytes(pool->pool);
        bool shared = pool->memory == MR_MEMORY_SHARED;
        if (bytes <= present && (!shared || bytes >= present / 4))
            return MR_OK;
        if (!shared) {
            widen(pool, bytes);
            return MR_OK;
        }
        mr_pool_release(&pool->pool);
    }
    pool->generation++;
    pool->held = 0;
    return create_pool(pool, bytes);
}

static lease *take(mr_picture_pool *pool, size_t bytes) {
    MR_LOCKED(&pool->lock);
    lease *taken = pool->idle;
    if (taken && (fit_pool(pool, bytes) || mr_pool_acquire_bytes(pool->pool, bytes, &taken->buffer)))
        taken = NULL;
    if (taken) {
        pool->idle = taken->next;
        taken->generation = pool->generation;
        pool->held++;
    }
    return taken;
}

static void give_back(void *opaque, uint8_t *data) {
    lease *self = opaque;
    mr_picture_pool *pool = self->owner;
    mr_buffer *buffer = self->buffer;
    pthread_mutex_lock(&pool->lock);
    if (self->generation == pool->generation)
        pool->held--;
    self->next = pool->idle;
    pool->idle = self;
    pthread_mutex_unlock(&pool->lock);
    mr_buffer_unref(&buffer);
}

/* A still picture decoder leaves missing parts unwritten. They must be 0, as in FFmpeg's new memory, and not show the
 * buffer's previous content. */
static int clear(const mr_picture_pool *pool, const AVCodecContext *codec, AVFrame *frame) {
    for (int i = 0; pool->patches && codec->codec_descriptor->mime_types && i < AV_NUM_DATA_POINTERS; i++)
        if (frame->buf[i])
            memset(frame->buf[i]->data, 0, frame->buf[i]->size);
    return 0;
}

static int get_default_buffer(const mr_picture_pool *pool, AVCodecContext *codec, AVFrame *frame, int flags) {
    int error = avcodec_default_get_buffer2(codec, frame, flags);
    return error < 0 ? error : clear(pool, codec, frame);
}

/* libavcodec also counts padding, so that larger pictures pass than intended. */
static bool is_too_large(const AVCodecContext *codec) {
    return mr_av_max_pixels((int64_t)codec->width * codec->height) > codec->max_pixels;
}

static int get_buffer(AVCodecContext *codec, AVFrame *frame, int flags) {
    mr_picture_pool *pool = codec->opaque;
    if (is_too_large(codec)) {
        av_log(codec, AV_LOG_ERROR, "Picture size %dx%d exceeds max_pixels\n", codec->width, codec->height);
        return AVERROR_INVALIDDATA;
    }
    int strides[4] = {0};
    size_t offsets[4] = {0};
    bool direct = codec->codec->capabilities & AV_CODEC_CAP_DR1 && mr_pixel_from_av(frame->format);
    size_t bytes = direct ? mr_picture_lay_out(codec, frame->format, frame->width, frame->height, strides, offsets) : 0;
    lease *taken = bytes ? take(pool, bytes) : NULL;
    if (!taken)
        return get_default_buffer(pool, codec, frame, flags);
    /* Marked read-only: a decoder that updates its last picture in place must copy it first. Emitted frames share the
     * buffer, and FFmpeg does not know that. */
    frame->buf[0] =
        av_buffer_create(taken->buffer->data, taken->buffer->bytes, give_back, taken, AV_BUFFER_FLAG_READONLY);
    if (!frame->buf[0]) {
        give_back(taken, NULL);
        return AVERROR(ENOMEM);
    }
    for (int i = 0; i < 4 && strides[i]; i++) {
        frame->data[i] = taken->buffer->data + offsets[i];
        frame->linesize[i] = strides[i];
    }
    frame->extended_data = frame->data;
    return clear(pool, codec, frame);
}

mr_decode_log *mr_picture_pool_log(mr_picture_pool *pool) {
    return &pool->log;
}

mr_decode_log *mr_picture_pool_log_of(const AVCodecContext *codec) {
    mr_picture_pool *pool = codec->get_buffer2 == get_buffer ? codec->opaque : NULL;
    return pool ? &pool->log : NULL;
}

void mr_picture_pool_attach(mr_picture_pool *pool, AVCodecContext *codec) {
    codec->opaque = pool;
    codec->get_buffer2 = get_buffer;
#if LIBAVCODEC_VERSION_MAJOR < 60
    /* Until FFmpeg 6, frame threads call get_buffer2 on the caller's thread, unless configured otherwise. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    codec->thread_safe_callbacks = 1;
#pragma GCC diagnostic pop
#endif
}

/* ---- giving pictures out --------------------------------------------------------------------------------------- */

static const lease *lease_of(const mr_picture_pool *pool, const AVFrame *picture) {
    const lease *found = picture->buf[0] ? av_buffer_get_opaque(picture->buf[0]) : NULL;
    return found >= pool->leases && found < pool->leases + pool->lease_count ? found : NULL;
}

static mr_buffer *wrap_plane(const AVFrame *picture, int plane) {
    AVBufferRef *reference = av_frame_get_plane_buffer((AVFrame *)picture, plane);
    reference = reference ? av_buffer_ref(reference) : NULL;
    mr_buffer *wrapped = reference ? mr_buffer_borrow(reference->data, reference->size, reference) : NULL;
    if (!wrapped)
        av_buffer_unref(&reference);
    return wrapped;
}

int mr_picture_pool_give(mr_picture_pool *pool, const AVFrame *picture, mr_frame *to) {
    const lease *ours = lease_of(pool, picture);
    for (int i = 0; i < mr_pixel_describe(to->format.pixel)->planes; i++) {
        mr_buffer *buffer = ours ? mr_buffer_ref(ours->buffer) : wrap_plane(picture, i);
        if (!buffer)
            return mr_fail(MR_ERROR_MEMORY, "out of memory");
        to->plane[i] = (mr_plane){.buffer = buffer, .data = picture->data[i], .stride = picture->linesize[i],
                                  .bytes = (size_t)(buffer->data + buffer->bytes - picture->data[i])};
    }
    return MR_OK;
}

mr_pool *mr_picture_pool_full(mr_picture_pool *pool) {
    MR_LOCKED(&pool->lock);
    /* If the decoder holds more than its share, consumers may have too few buffers to release any. */
    bool others = pool->pool && mr_pool_in_use(pool->pool) - pool->held >= pool->least;
    bool full = others && mr_pool_free_count(pool->pool) == 0;
    return full ? pool->pool : NULL;
}

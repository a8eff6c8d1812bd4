#include "kernels/fit/fit_device.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/device/cuda/cuda.h"
#include "engine/device/finish.h"
#include "kernels/vector/vector.h"
#include "millrace/status.h"

/* Memory that one thread works in, on one device; a device has as many as threads have needed at once. */
struct mr_fit_lane {
    mr_fit_devices *all;
    size_t device;
    mr_fit_lane *next; /* of those that are free */
    mr_stream *stream;
    void *features, *transposed;         /* of the device: a chunk that it does not keep */
    void *logits, *residuals, *gradient; /* of the device */
    void *host_features, *host_logits, *host_residuals, *host_gradient; /* pinned */
    const void *chunk_transposed;
};

typedef struct part {
    mr_device *device;
    mr_fit_lane *free; /* guarded */
    mr_stream *uploads; /* of weights */
    void *weights, *host_weights;
    size_t left;       /* bytes for chunks that are kept; guarded */
    pthread_mutex_t time;
    int64_t now_ns;    /* of a simulated device; guarded by `time` */
} part;

/* A chunk that its device keeps; set once, by the thread that works on the chunk. */
typedef struct kept {
    void *features, *transposed;
} kept;

struct mr_fit_devices {
    const mr_fit_rows *rows; /* of a linear fit */
    bool doubles;
    size_t outputs, count, chunks;
    size_t features_bytes, logits_bytes, weights_bytes; /* of a lane; logits: 0 if matrices are brought along, which
                                                          then stand in place of the features, and products in place of
                                                          the gradient */
    part parts[MR_FIT_DEVICES];
    kept *kept;
    pthread_mutex_t lock;
    int status;
    char message[256];
};

/* ---- failures ---------------------------------------------------------------------------------------------------- */

static void keep_failure(mr_fit_devices *all, int status) {
    pthread_mutex_lock(&all->lock);
    if (!all->status) {
        all->status = status;
        snprintf(all->message, sizeof all->message, "%s", mr_message());
    }
    pthread_mutex_unlock(&all->lock);
}

int mr_fit_devices_status(mr_fit_devices *all) {
    pthread_mutex_lock(&all->lock);
    const int status = all->status;
    pthread_mutex_unlock(&all->lock);
    return status ? mr_fail(status, "%s", all->message) : MR_OK;
}

/* ---- lanes ------------------------------------------------------------------------------------------------------- */

typedef struct piece {
    void **at;
    mr_memory memory;
    size_t bytes;
} piece;

enum { PIECES = 9 };

static void list_pieces(mr_fit_lane *lane, piece pieces[PIECES]) {
    const size_t features = lane->all->features_bytes, logits = lane->all->logits_bytes;
    const size_t weights = lane->all->weights_bytes;
    const piece all[PIECES] = {
        {&lane->logits, MR_MEMORY_DEVICE, logits},           {&lane->residuals, MR_MEMORY_DEVICE, logits},
        {&lane->gradient, MR_MEMORY_DEVICE, weights},        {&lane->features, MR_MEMORY_DEVICE, features},
        {&lane->transposed, MR_MEMORY_DEVICE, features},     {&lane->host_features, MR_MEMORY_PINNED, 2 * features},
        {&lane->host_logits, MR_MEMORY_PINNED, logits},      {&lane->host_residuals, MR_MEMORY_PINNED, logits},
        {&lane->host_gradient, MR_MEMORY_PINNED, weights},
    };
    memcpy(pieces, all, sizeof all);
}

static void destroy_lane(mr_fit_lane *lane) {
    piece pieces[PIECES];
    list_pieces(lane, pieces);
    if (lane->stream)
        mr_stream_destroy(&lane->stream);
    for (int i = 0; i < PIECES; i++)
        if (*pieces[i].at)
            mr_device_free(lane->all->parts[lane->device].device, pieces[i].memory, *pieces[i].at);
    mr_free(lane);
}

static int create_lane(mr_fit_devices *all, size_t device, mr_fit_lane **lane) {
    piece pieces[PIECES];
    mr_fit_lane *made = mr_calloc(1, sizeof *made);
    *lane = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a fit on a device");
    made->all = all;
    made->device = device;
    list_pieces(made, pieces);
    int status = mr_stream_create(all->parts[device].device, &made->stream);
    for (int i = 0; i < PIECES && !status; i++)
        if (pieces[i].bytes)
            status = mr_device_allocate(all->parts[device].device, pieces[i].memory, pieces[i].bytes, pieces[i].at);
    if (status)
        destroy_lane(made);
    else
        *lane = made;
    return status;
}

static int take_lane(mr_fit_devices *all, size_t device, mr_fit_lane **lane) {
    pthread_mutex_lock(&all->lock);
    const int status = all->status;
    *lane = status ? NULL : all->parts[device].free;
    if (*lane)
        all->parts[device].free = (*lane)->next;
    pthread_mutex_unlock(&all->lock);
    return status || *lane ? status : create_lane(all, device, lane);
}

void mr_fit_devices_leave(mr_fit_lane *lane) {
    if (!lane)
        return;
    mr_fit_devices *all = lane->all;
    pthread_mutex_lock(&all->lock);
    lane->next = all->parts[lane->device].free;
    all->parts[lane->device].free = lane;
    pthread_mutex_unlock(&all->lock);
}

/* Of a device in simulated time one thread at a time waits, since that moves its time on. */
static int finish(part *its, mr_stream *stream) {
    const bool simulated = its->device->type->advance != NULL;
    if (simulated)
        pthread_mutex_lock(&its->time);
    const int status = mr_stream_finish(stream, &its->now_ns);
    if (simulated)
        pthread_mutex_unlock(&its->time);
    return status;
}

/* ---- chunks ------------------------------------------------------------------------------------------------------ */

static size_t number_bytes(const mr_fit_devices *all) {
    return all->doubles ? sizeof(double) : sizeof(float);
}

#define TRANSPOSE(name, number)                                                                                        \
    static void name(number *to, const number *from, size_t rows, size_t columns) {                                    \
        enum { TILE = 16 };                                                                                            \
        for (size_t top = 0; top < rows; top += TILE)                                                                  \
            for (size_t left = 0; left < columns; left += TILE)                                                        \
                for (size_t row = top; row < top + TILE && row < rows; row++)                                          \
                    for (size_t column = left; column < left + TILE && column < columns; column++)                     \
                        to[column * rows + row] = from[row * columns + column];                                        \
    }
TRANSPOSE(transpose_floats, float)
TRANSPOSE(transpose_doubles, double)
#undef TRANSPOSE

static void transpose(const mr_fit_devices *all, void *to, const void *from, size_t rows, size_t columns) {
    if (all->doubles)
        transpose_doubles(to, from, rows, columns);
    else
        transpose_floats(to, from, rows, columns);
}

/* Memory for a chunk that is kept; none once half of the device's memory is taken, or the device has no more. */
static void find_room(mr_fit_devices *all, part *its, kept *chunk) {
    const size_t bytes = all->features_bytes;
    pthread_mutex_lock(&all->lock);
    const bool fits = its->left >= 2 * bytes;
    its->left -= fits ? 2 * bytes : 0;
    pthread_mutex_unlock(&all->lock);
    if (!fits)
        return;
    int status = mr_device_allocate(its->device, MR_MEMORY_DEVICE, bytes, &chunk->features);
    if (!status)
        status = mr_device_allocate(its->device, MR_MEMORY_DEVICE, bytes, &chunk->transposed);
    if (!status)
        return;
    if (chunk->features)
        mr_device_free(its->device, MR_MEMORY_DEVICE, chunk->features);
    *chunk = (kept){0};
    pthread_mutex_lock(&all->lock);
    its->left = 0;
    pthread_mutex_unlock(&all->lock);
}

static int upload(mr_fit_lane *lane, size_t chunk, void *features, void *transposed) {
    const mr_fit_rows *rows = lane->all->rows;
    const size_t bytes = lane->all->features_bytes;
    void *turned = (char *)lane->host_features + bytes;
    if (lane->all->doubles)
        mr_fit_take_doubles(rows, chunk, lane->host_features);
    else
        mr_fit_take_floats(rows, chunk, lane->host_features);
    transpose(lane->all, turned, lane->host_features, MR_FIT_CHUNK, rows->width);
    int status = mr_stream_copy(lane->stream, features, lane->host_features, bytes);
    return status ? status : mr_stream_copy(lane->stream, transposed, turned, bytes);
}

/* The chunk's features on the device; the lane remembers them transposed. */
static int bring(mr_fit_lane *lane, size_t chunk, const void **features) {
    mr_fit_devices *all = lane->all;
    kept *its = &all->kept[chunk];
    int status = MR_OK;
    const bool here = its->features != NULL;
    if (!here)
        find_room(all, &all->parts[lane->device], its);
    void *to = its->features ? its->features : lane->features;
    void *turned = its->features ? its->transposed : lane->transposed;
    if (!here)
        status = upload(lane, chunk, to, turned);
    *features = to;
    lane->chunk_transposed = turned;
    return status;
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* dst[n][o] = sum over i of weights[o][i] src[n][i], of dense matrices on the device. */
typedef struct factors {
    const void *weights, *src;
    size_t outputs, inputs, batch;
} factors;

static int enqueue(mr_fit_lane *lane, factors f, void *dst) {
    if (lane->all->doubles)
        return mr_linear_f64_enqueue(lane->stream,
                                     &(mr_linear_f64_work){.weights = f.weights, .weight_stride = f.inputs,
                                                           .outputs = (int)f.outputs, .inputs = (int)f.inputs,
                                                           .batch = (int)f.batch, .src = f.src,
                                                           .src_stride = f.inputs, .dst = dst,
                                                           .dst_stride = f.outputs});
    return mr_linear_enqueue(lane->stream,
                             &(mr_linear_work){.weights = f.weights, .weight_stride = f.inputs,
                                               .outputs = (int)f.outputs, .inputs = (int)f.inputs,
                                               .batch = (int)f.batch, .src = f.src, .src_stride = f.inputs,
                                               .dst = dst, .dst_stride = f.outputs});
}

static int multiply(mr_fit_lane *lane, size_t chunk) {
    mr_fit_devices *all = lane->all;
    const size_t width = all->rows->width, outputs = all->outputs;
    const void *features;
    int status = bring(lane, chunk, &features);
    const factors both = {all->parts[lane->device].weights, features, outputs, width, MR_FIT_CHUNK};
    if (!status)
        status = enqueue(lane, both, lane->logits);
    if (!status)
        status = mr_stream_copy(lane->stream, lane->host_logits, lane->logits, all->logits_bytes);
    const int finished = finish(&all->parts[lane->device], lane->stream);
    return status ? status : finished;
}

void *mr_fit_devices_multiply(mr_fit_devices *all, size_t chunk, mr_fit_lane **lane) {
    const size_t block = chunk / mr_fit_block_chunks(all->chunks);
    int status = take_lane(all, block % all->count, lane);
    if (!status)
        status = multiply(*lane, chunk);
    if (!status)
        return (*lane)->host_logits;
    keep_failure(all, status);
    mr_fit_devices_leave(*lane);
    *lane = NULL;
    return NULL;
}

static int multiply_back(mr_fit_lane *lane) {
    mr_fit_devices *all = lane->all;
    const size_t width = all->rows->width, outputs = all->outputs;
    const factors both = {lane->chunk_transposed, lane->residuals, width, MR_FIT_CHUNK, outputs};
    transpose(all, lane->host_residuals, lane->host_logits, MR_FIT_CHUNK, outputs);
    int status = mr_stream_copy(lane->stream, lane->residuals, lane->host_residuals, all->logits_bytes);
    if (!status)
        status = enqueue(lane, both, lane->gradient);
    if (!status)
        status = mr_stream_copy(lane->stream, lane->host_gradient, lane->gradient, all->weights_bytes);
    const int finished = finish(&all->parts[lane->device], lane->stream);
    return status ? status : finished;
}

const void *mr_fit_devices_multiply_back(mr_fit_lane *lane) {
    const int status = multiply_back(lane);
    if (status)
        keep_failure(lane->all, status);
    return status ? NULL : lane->host_gradient;
}

static int bring_weights(const mr_fit_devices *all, part *its, const void *weights) {
    const size_t bytes = all->weights_bytes;
    memcpy(its->host_weights, weights, bytes);
    const int status = mr_stream_copy(its->uploads, its->weights, its->host_weights, bytes);
    const int finished = finish(its, its->uploads);
    return status ? status : finished;
}

void mr_fit_devices_set(mr_fit_devices *all, const void *weights) {
    for (size_t i = 0; i < all->count; i++) {
        const int status = bring_weights(all, &all->parts[i], weights);
        if (status)
            keep_failure(all, status);
    }
}

/* ---- products of matrices that are brought along ----------------------------------------------------------------- */

/* rows x columns; `turned`: from columns x rows. */
static void copy_matrix(const mr_fit_devices *all, void *to, const void *from, size_t rows, size_t columns,
                        bool turned) {
    if (turned)
        transpose(all, to, from, columns, rows);
    else
        memcpy(to, from, rows * columns * number_bytes(all));
}

static int make_product(mr_fit_lane *lane, const mr_fit_product *p) {
    const mr_fit_devices *all = lane->all;
    const size_t number = number_bytes(all);
    const factors both = {lane->transposed, lane->features, p->columns, p->inner, p->rows};
    void *b = (char *)lane->host_features + all->features_bytes;
    copy_matrix(all, lane->host_features, p->a, p->rows, p->inner, p->turned_a);
    copy_matrix(all, b, p->b, p->columns, p->inner, !p->turned_b);
    int status = mr_stream_copy(lane->stream, lane->features, lane->host_features, p->rows * p->inner * number);
    if (!status)
        status = mr_stream_copy(lane->stream, lane->transposed, b, p->columns * p->inner * number);
    if (!status)
        status = enqueue(lane, both, lane->gradient);
    if (!status)
        status = mr_stream_copy(lane->stream, lane->host_gradient, lane->gradient, p->rows * p->columns * number);
    const int finished = finish(&lane->all->parts[lane->device], lane->stream);
    return status ? status : finished;
}

void mr_fit_devices_product(mr_fit_devices *all, size_t chunk, const mr_fit_product *product, void *to) {
    const size_t bytes = product->rows * product->columns * number_bytes(all);
    mr_fit_lane *lane;
    int status = take_lane(all, chunk % all->count, &lane);
    if (!status)
        status = make_product(lane, product);
    if (status) {
        keep_failure(all, status);
        memset(to, 0, bytes);
    } else {
        memcpy(to, lane->host_gradient, bytes);
    }
    mr_fit_devices_leave(lane);
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

/* What chunks may take of a device's memory: half of a card's; of others as much as there is. */
static size_t most_kept(const mr_device *device) {
    uint64_t bytes = 0;
    if (device->type->kind == MR_DEVICE_CUDA && !mr_cuda_probe(device->index, &bytes))
        return (size_t)(bytes / 2);
    return device->type->kind == MR_DEVICE_CUDA ? 0 : SIZE_MAX;
}

static int open_part(const mr_fit_devices *all, part *made, mr_device *device) {
    const size_t bytes = all->weights_bytes;
    *made = (part){.device = device, .left = most_kept(device)};
    pthread_mutex_init(&made->time, NULL);
    if (!all->rows)
        return MR_OK;
    int status = mr_stream_create(device, &made->uploads);
    if (!status)
        status = mr_device_allocate(device, MR_MEMORY_DEVICE, bytes, &made->weights);
    return status ? status : mr_device_allocate(device, MR_MEMORY_PINNED, bytes, &made->host_weights);
}

static void close_part(part *its) {
    for (mr_fit_lane *lane = its->free, *next; lane; lane = next) {
        next = lane->next;
        destroy_lane(lane);
    }
    if (its->uploads)
        mr_stream_destroy(&its->uploads);
    if (its->weights)
        mr_device_free(its->device, MR_MEMORY_DEVICE, its->weights);
    if (its->host_weights)
        mr_device_free(its->device, MR_MEMORY_PINNED, its->host_weights);
    pthread_mutex_destroy(&its->time);
}

/* `sizes`: all that does not follow from the devices. */
static int create(mr_fit_devices **devices, const mr_fit_devices *sizes, mr_device *const *list, size_t count) {
    mr_fit_devices *made = mr_calloc(1, sizeof *made);
    *devices = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a fit on devices");
    *made = *sizes;
    pthread_mutex_init(&made->lock, NULL);
    made->kept = mr_calloc(made->chunks + 1, sizeof *made->kept);
    int status = made->kept ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for %zu chunks", made->chunks);
    for (size_t i = 0; i < count && !status; i++) {
        made->count++;
        status = open_part(made, &made->parts[i], list[i]);
    }
    if (status)
        mr_fit_devices_destroy(&made);
    *devices = made;
    return status;
}

int mr_fit_devices_create(mr_fit_devices **devices, const mr_fit_rows *rows, size_t outputs, bool doubles,
                          mr_device *const *list, size_t count) {
    const size_t number = doubles ? sizeof(double) : sizeof(float);
    const mr_fit_devices sizes = {.rows = rows, .outputs = outputs, .doubles = doubles,
                                  .chunks = mr_fit_chunks(rows->count),
                                  .features_bytes = MR_FIT_CHUNK * rows->width * number,
                                  .logits_bytes = MR_FIT_CHUNK * outputs * number,
                                  .weights_bytes = outputs * rows->width * number};
    return create(devices, &sizes, list, count);
}

int mr_fit_devices_create_for(mr_fit_devices **devices, size_t factor, size_t product, bool doubles,
                              mr_device *const *list, size_t count) {
    const size_t number = doubles ? sizeof(double) : sizeof(float);
    const mr_fit_devices sizes = {.doubles = doubles, .features_bytes = mr_aligned_bytes(factor * number),
                                  .weights_bytes = product * number};
    return create(devices, &sizes, list, count);
}

static void free_chunk(const mr_fit_devices *all, size_t chunk) {
    mr_device *device = all->parts[chunk / mr_fit_block_chunks(all->chunks) % all->count].device;
    if (all->kept[chunk].features)
        mr_device_free(device, MR_MEMORY_DEVICE, all->kept[chunk].features);
    if (all->kept[chunk].transposed)
        mr_device_free(device, MR_MEMORY_DEVICE, all->kept[chunk].transposed);
}

void mr_fit_devices_destroy(mr_fit_devices **devices) {
    mr_fit_devices *gone = *devices;
    *devices = NULL;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++)
        close_part(&gone->parts[i]);
    for (size_t chunk = 0; gone->kept && gone->count && chunk < gone->chunks; chunk++)
        free_chunk(gone, chunk);
    mr_free(gone->kept);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone);
}

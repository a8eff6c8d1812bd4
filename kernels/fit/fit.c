#include "kernels/fit/fit.h"

#include <pthread.h>
#include <stdatomic.h>

#include "engine/base/memory.h"
#include "kernels/fit/fit_sum.h"
#include "millrace/status.h"

typedef struct worker {
    mr_fit *fit;
    mr_fit_scratch scratch;
    mr_fit_sum sum;
    pthread_t thread;
    bool runs;
} worker;

/* The blocks that are being made. */
typedef struct work {
    const double *parameters;
    size_t first, count;
    double *nodes;
    atomic_size_t taken;
} work;

struct mr_fit {
    const mr_fit_linear *linear;
    void *weights;
    work work;
    int threads;
    worker *workers;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    unsigned turn; /* of the work */
    int busy;      /* threads beside the caller's that are not done with it */
    bool over;
};

size_t mr_fit_block_chunks(size_t rows) {
    size_t chunks = 1;
    while ((mr_fit_chunks(rows) + chunks - 1) / chunks > MR_FIT_BLOCKS)
        chunks *= 2;
    return chunks;
}

size_t mr_fit_block_count(size_t rows) {
    size_t each = mr_fit_block_chunks(rows);
    return (mr_fit_chunks(rows) + each - 1) / each;
}

static void make_block(worker *w, size_t block, double *node) {
    const mr_fit *fit = w->fit;
    const size_t rows = fit->linear->rows->count, each = mr_fit_block_chunks(rows), all = mr_fit_chunks(rows);
    mr_fit_sum_clear(&w->sum);
    for (size_t chunk = block * each; chunk < (block + 1) * each && chunk < all; chunk++) {
        mr_fit_chunk(fit->linear, fit->work.parameters, fit->weights, chunk, &w->scratch, mr_fit_sum_next(&w->sum));
        mr_fit_sum_added(&w->sum);
    }
    mr_fit_sum_finish(&w->sum, node);
}

static void make_blocks(worker *w) {
    work *now = &w->fit->work;
    const size_t length = mr_fit_parameters(w->fit->linear) + 1;
    for (size_t at; (at = atomic_fetch_add(&now->taken, 1)) < now->count;)
        make_block(w, now->first + at, now->nodes + at * length);
}

static void *run_worker(void *context) {
    worker *w = context;
    mr_fit *fit = w->fit;
    unsigned seen = 0;
    pthread_mutex_lock(&fit->lock);
    for (;;) {
        while (!fit->over && fit->turn == seen)
            pthread_cond_wait(&fit->begun, &fit->lock);
        if (fit->over)
            break;
        seen = fit->turn;
        pthread_mutex_unlock(&fit->lock);
        make_blocks(w);
        pthread_mutex_lock(&fit->lock);
        if (--fit->busy == 0)
            pthread_cond_signal(&fit->done);
    }
    pthread_mutex_unlock(&fit->lock);
    return NULL;
}

static int start_workers(mr_fit *fit) {
    const size_t length = mr_fit_parameters(fit->linear) + 1, chunks = mr_fit_block_chunks(fit->linear->rows->count);
    for (int i = 0; i < fit->threads; i++) {
        worker *w = &fit->workers[i];
        w->fit = fit;
        int status = mr_fit_scratch_init(&w->scratch, fit->linear);
        if (!status)
            status = mr_fit_sum_init(&w->sum, length, chunks);
        if (status)
            return status;
        if (i > 0 && pthread_create(&w->thread, NULL, run_worker, w))
            return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start thread %d of %d", i + 1, fit->threads);
        w->runs = i > 0;
    }
    return MR_OK;
}

int mr_fit_create(mr_fit **fit, const mr_fit_linear *linear, int threads) {
    mr_fit *made = mr_calloc(1, sizeof *made);
    *fit = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory to fit a classifier");
    made->linear = linear;
    made->threads = threads;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->begun, NULL);
    pthread_cond_init(&made->done, NULL);
    made->workers = mr_calloc((size_t)threads, sizeof *made->workers);
    made->weights = mr_alloc_aligned(64, mr_aligned_bytes(mr_fit_parameters(linear) * sizeof(double)));
    int status = made->workers && made->weights ? start_workers(made)
                                                : mr_fail(MR_ERROR_MEMORY, "no memory to fit a classifier");
    if (status)
        mr_fit_destroy(&made);
    else
        *fit = made;
    return status;
}

void mr_fit_destroy(mr_fit **fit) {
    mr_fit *gone = *fit;
    *fit = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    gone->over = true;
    pthread_cond_broadcast(&gone->begun);
    pthread_mutex_unlock(&gone->lock);
    for (int i = 0; gone->workers && i < gone->threads; i++) {
        if (gone->workers[i].runs)
            pthread_join(gone->workers[i].thread, NULL);
        mr_fit_scratch_fini(&gone->workers[i].scratch);
        mr_fit_sum_fini(&gone->workers[i].sum);
    }
    pthread_cond_destroy(&gone->begun);
    pthread_cond_destroy(&gone->done);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->workers);
    mr_free(gone->weights);
    mr_free(gone);
}

void mr_fit_blocks(mr_fit *fit, const double *parameters, size_t first, size_t count, double *nodes) {
    mr_fit_weights(fit->linear, parameters, fit->weights);
    pthread_mutex_lock(&fit->lock);
    fit->work.parameters = parameters;
    fit->work.first = first;
    fit->work.count = count;
    fit->work.nodes = nodes;
    atomic_store(&fit->work.taken, 0);
    fit->busy = fit->threads - 1;
    fit->turn++;
    pthread_cond_broadcast(&fit->begun);
    pthread_mutex_unlock(&fit->lock);
    make_blocks(&fit->workers[0]);
    pthread_mutex_lock(&fit->lock);
    while (fit->busy > 0)
        pthread_cond_wait(&fit->done, &fit->lock);
    pthread_mutex_unlock(&fit->lock);
}

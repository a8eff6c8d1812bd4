#include "kernels/fit/fit_workers.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "kernels/fit/fit_sum.h"
#include "millrace/status.h"

typedef struct worker {
    mr_fit_workers *workers;
    void *scratch;
    mr_fit_sum sum;
    pthread_t thread;
    bool runs;
} worker;

/* The blocks being made. The thread that makes the later of two nodes must join them. `met` counts, by the first block
 * of each right child, how many of the two exist. */
typedef struct work {
    const mr_fit_task *task;
    size_t blocks;
    double *nodes;
    atomic_size_t taken;
    atomic_int met[MR_FIT_BLOCKS];
} work;

struct mr_fit_workers {
    work work;
    int threads;
    worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t begun, done;
    unsigned turn; /* the work's */
    int busy;      /* threads other than the caller's that are not done */
    bool over;
};

size_t mr_fit_block_chunks(size_t chunks) {
    size_t each = 1;
    while ((chunks + each - 1) / each > MR_FIT_BLOCKS)
        each *= 2;
    return each;
}

size_t mr_fit_block_count(size_t chunks) {
    size_t each = mr_fit_block_chunks(chunks);
    return (chunks + each - 1) / each;
}

static void make_block(worker *w, const mr_fit_task *task, size_t block, double *node) {
    const size_t each = mr_fit_block_chunks(task->chunks);
    if (each == 1) {
        task->make(task->context, block, w->scratch, node);
        return;
    }
    w->sum.length = task->length;
    mr_fit_sum_clear(&w->sum);
    for (size_t chunk = block * each; chunk < (block + 1) * each && chunk < task->chunks; chunk++) {
        task->make(task->context, chunk, w->scratch, mr_fit_sum_next(&w->sum));
        mr_fit_sum_added(&w->sum);
    }
    mr_fit_sum_finish(&w->sum, node);
}

/* Joins a finished block with its neighbour if that exists, then the two with the next two, and so on. */
static void join_upwards(work *now, size_t block) {
    const size_t length = now->task->length;
    for (size_t width = 1; width < now->blocks; width *= 2) {
        const size_t left = block / (2 * width) * (2 * width), right = left + width;
        if (right >= now->blocks)
            continue; /* a node without a right child equals the left one */
        if (atomic_fetch_add(&now->met[right], 1) == 0)
            return;
        mr_fit_sum_add(now->nodes + left * length, now->nodes + right * length, length);
    }
}

static void make_blocks(worker *w) {
    work *now = &w->workers->work;
    for (size_t block; (block = atomic_fetch_add(&now->taken, 1)) < now->blocks;) {
        make_block(w, now->task, block, now->nodes + block * now->task->length);
        join_upwards(now, block);
    }
}

static void *run_worker(void *context) {
    worker *w = context;
    mr_fit_workers *workers = w->workers;
    unsigned seen = 0;
    pthread_mutex_lock(&workers->lock);
    for (;;) {
        while (!workers->over && workers->turn == seen)
            pthread_cond_wait(&workers->begun, &workers->lock);
        if (workers->over)
            break;
        seen = workers->turn;
        pthread_mutex_unlock(&workers->lock);
        make_blocks(w);
        pthread_mutex_lock(&workers->lock);
        if (--workers->busy == 0)
            pthread_cond_signal(&workers->done);
    }
    pthread_mutex_unlock(&workers->lock);
    return NULL;
}

static int start_workers(mr_fit_workers *workers, const mr_fit_task *most) {
    for (int i = 0; i < workers->threads; i++) {
        worker *w = &workers->worker[i];
        w->workers = workers;
        w->scratch = mr_alloc_aligned(64, mr_aligned_bytes(most->scratch_bytes + 1));
        int status = w->scratch ? mr_fit_sum_init(&w->sum, most->length, mr_fit_block_chunks(most->chunks))
                                : mr_fail(MR_ERROR_MEMORY, "no memory for thread %d of %d", i + 1, workers->threads);
        if (status)
            return status;
        if (i > 0 && mr_thread_create(&w->thread, run_worker, w))
            return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start thread %d of %d", i + 1, workers->threads);
        w->runs = i > 0;
    }
    return MR_OK;
}

int mr_fit_workers_create(mr_fit_workers **workers, const mr_fit_task *most, int threads) {
    mr_fit_workers *made = mr_calloc(1, sizeof *made);
    *workers = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %d threads", threads);
    made->threads = threads;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->begun, NULL);
    pthread_cond_init(&made->done, NULL);
    made->worker = mr_calloc((size_t)threads, sizeof *made->worker);
    int status = made->worker ? start_workers(made, most)
                              : mr_fail(MR_ERROR_MEMORY, "no memory for %d threads", threads);
    if (status)
        mr_fit_workers_destroy(&made);
    else
        *workers = made;
    return status;
}

void mr_fit_workers_destroy(mr_fit_workers **workers) {
    mr_fit_workers *gone = *workers;
    *workers = NULL;
    if (!gone)
        return;
    pthread_mutex_lock(&gone->lock);
    gone->over = true;
    pthread_cond_broadcast(&gone->begun);
    pthread_mutex_unlock(&gone->lock);
    for (int i = 0; gone->worker && i < gone->threads; i++) {
        if (gone->worker[i].runs)
            pthread_join(gone->worker[i].thread, NULL);
        mr_free(gone->worker[i].scratch);
        mr_fit_sum_fini(&gone->worker[i].sum);
    }
    pthread_cond_destroy(&gone->begun);
    pthread_cond_destroy(&gone->done);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->worker);
    mr_free(gone);
}

void mr_fit_workers_sum(mr_fit_workers *workers, const mr_fit_task *task, double *nodes) {
    pthread_mutex_lock(&workers->lock);
    workers->work.task = task;
    workers->work.blocks = mr_fit_block_count(task->chunks);
    workers->work.nodes = nodes;
    atomic_store(&workers->work.taken, 0);
    for (size_t i = 0; i < MR_FIT_BLOCKS; i++)
        atomic_store(&workers->work.met[i], 0);
    workers->busy = workers->threads - 1;
    workers->turn++;
    pthread_cond_broadcast(&workers->begun);
    pthread_mutex_unlock(&workers->lock);
    make_blocks(&workers->worker[0]);
    pthread_mutex_lock(&workers->lock);
    while (workers->busy > 0)
        pthread_cond_wait(&workers->done, &workers->lock);
    pthread_mutex_unlock(&workers->lock);
}

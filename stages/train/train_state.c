#include "stages/train/train_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "millrace/version.h"

enum { MAGIC = 8, DIGEST = 32, TAIL = 8 };
static const char magic[] = "MRFIT 1\n";
static const int64_t every_ns = 10000000000;

/* Hashes everything that the result depends on, without struct padding. */
static void add_params(XXH3_state_t *sum, const mr_fitting *t) {
    const mr_fit_params *p = &t->params;
    const uint64_t whole[] = {p->kind, p->class_weights, p->scaling, p->doubles, p->penalty_count, (uint64_t)p->steps,
                              p->hidden_count, p->minibatch, (uint64_t)p->patience, p->seed, t->given.width,
                              t->given.class_count, t->train_count, t->validation_count};
    const double real[] = {p->gradient, p->rate};
    XXH3_128bits_update(sum, MILLRACE_VERSION, sizeof MILLRACE_VERSION);
    XXH3_128bits_update(sum, whole, sizeof whole);
    XXH3_128bits_update(sum, real, sizeof real);
    XXH3_128bits_update(sum, p->penalties, p->penalty_count * sizeof *p->penalties);
    if (p->hidden_count)
        XXH3_128bits_update(sum, p->hidden, p->hidden_count * sizeof *p->hidden);
}

static void add_rows(XXH3_state_t *sum, const mr_fitting *t, const uint32_t *rows, size_t count) {
    for (size_t i = 0; i < count; i++) {
        XXH3_128bits_update(sum, t->given.features + rows[i] * t->given.stride, t->given.width * sizeof(float));
        XXH3_128bits_update(sum, &t->given.classes[rows[i]], sizeof t->given.classes[0]);
    }
}

int mr_state_digest(mr_fitting *t) {
    XXH3_state_t *sum = XXH3_createState();
    if (!sum)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the state of a fit");
    XXH3_128bits_reset(sum);
    add_params(sum, t);
    add_rows(sum, t, t->train, t->train_count);
    add_rows(sum, t, t->validation, t->validation_count);
    const XXH128_hash_t hash = XXH3_128bits_digest(sum);
    const uint64_t halves[] = {hash.high64, hash.low64};
    XXH3_freeState(sum);
    for (int i = 0; i < DIGEST; i++)
        t->problem[i] = "0123456789abcdef"[halves[i / 16] >> (60 - i % 16 * 4) & 15];
    return MR_OK;
}

static size_t state_bytes(const mr_state_piece *pieces, size_t count) {
    size_t bytes = MAGIC + DIGEST + TAIL;
    for (size_t i = 0; i < count; i++)
        bytes += pieces[i].bytes;
    return bytes;
}

static int take_state(const mr_fitting *t, const mr_file_bytes *file, const mr_state_piece *pieces, size_t count) {
    const uint8_t *at = file->data + MAGIC + DIGEST;
    uint64_t sum = 0;
    if (file->bytes < MAGIC + DIGEST + TAIL || memcmp(file->data, magic, MAGIC) != 0)
        return mr_fail(MR_ERROR_DATA, "%s is not the state of a fit: remove it to begin anew", t->params.state);
    memcpy(&sum, file->data + file->bytes - TAIL, TAIL);
    if (sum != XXH3_64bits(file->data, file->bytes - TAIL))
        return mr_fail(MR_ERROR_DATA, "%s is damaged: remove it to begin anew", t->params.state);
    if (memcmp(file->data + MAGIC, t->problem, DIGEST) != 0 || file->bytes != state_bytes(pieces, count))
        return mr_fail(MR_ERROR_DATA,
                       "%s is the state of a fit to other rows, of other parameters or by another version "
                       "of millrace: remove it to begin anew",
                       t->params.state);
    for (size_t i = 0; i < count; i++) {
        memcpy(pieces[i].data, at, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    return MR_OK;
}

int mr_state_read(const mr_fitting *t, const mr_state_piece *pieces, size_t count, bool *found) {
    mr_file_bytes file;
    *found = false;
    if (!t->params.state || !t->params.resume || (access(t->params.state, F_OK) && errno == ENOENT))
        return MR_OK;
    int status = mr_file_read("the state of a fit", t->params.state, SIZE_MAX / 2, 0, &file);
    if (status)
        return status;
    status = take_state(t, &file, pieces, count);
    mr_free(file.data);
    *found = !status;
    return status;
}

bool mr_state_is_due(const mr_fitting *t) {
    return t->params.state && mr_now_ns() - t->written_ns >= every_ns;
}

int mr_state_write(mr_fitting *t, const mr_state_piece *pieces, size_t count) {
    const size_t bytes = state_bytes(pieces, count);
    if (!t->params.state)
        return MR_OK;
    uint8_t *all = mr_alloc(bytes);
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the state of a fit");
    memcpy(all, magic, MAGIC);
    memcpy(all + MAGIC, t->problem, DIGEST);
    uint8_t *at = all + MAGIC + DIGEST;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, pieces[i].data, pieces[i].bytes);
        at += pieces[i].bytes;
    }
    const uint64_t sum = XXH3_64bits(all, bytes - TAIL);
    memcpy(at, &sum, TAIL);
    int status = mr_file_replace(t->params.state, all, bytes);
    mr_free(all);
    t->written_ns = mr_now_ns();
    return status;
}

void mr_state_finish(mr_fitting *t, const mr_state_piece *pieces, size_t count) {
    char text[1024];
    if (!t->params.keep_state || !mr_state_write(t, pieces, count) || !t->params.warning)
        return;
    snprintf(text, sizeof text, "the fit is done, but it could not be kept for --resume: %s", mr_message());
    t->params.warning(t->params.user, text);
}

void mr_state_remove(const mr_fitting *t) {
    if (t->params.state && !t->params.keep_state)
        unlink(t->params.state);
}

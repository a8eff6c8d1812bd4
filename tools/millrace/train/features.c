#include "tools/millrace/train/features.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "tools/millrace/train/stop.h"

/* ---- the cache --------------------------------------------------------------------------------------------------- */

/* The key of a row's vectors: for a video, those of the range's pictures that are taken. */
static mr_content_key key_of(const mr_set *set, size_t row, const mr_picture_choice *choice) {
    const mr_listed_file *file = &set->list->files[row];
    const struct {
        int64_t start_ns, end_ns;
        mr_picture_choice choice;
    } part = {file->start_ns, file->end_ns, *choice};
    return file->video ? mr_content_key_join(&set->row[row].key, &part, sizeof part) : set->row[row].key;
}

/* The key of a record that a completed run adds for a video, with the number of pictures as seq. Without it the vectors
 * may be incomplete. Files that gave no vector also get one. */
static mr_content_key key_of_end(const mr_content_key *key) {
    return mr_content_key_join(key, "end", 3);
}

/* Finds a row's vectors, in order; 0: some are missing. */
static size_t find(mr_cache *cache, const mr_set *set, size_t row, const mr_picture_choice *choice,
                   const mr_cache_record *const **records) {
    const mr_content_key key = key_of(set, row, choice), end = key_of_end(&key);
    if (!set->list->files[row].video)
        return mr_cache_find(cache, &key, records) ? 1 : 0;
    const size_t ends = mr_cache_find(cache, &end, records);
    const uint64_t whole = ends ? (*records)[ends - 1]->seq : 0;
    const size_t count = mr_cache_find(cache, &key, records);
    return ends && count >= whole ? count : 0;
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Rows whose vectors are not in the cache. */
typedef struct wanted {
    const mr_set *set;
    mr_cache *cache;
    const mr_picture_choice *choice;
    size_t count;
    mr_content_key *key;
    const mr_listed_file **file;
    size_t made;
} wanted;

static int take(void *user, const mr_taken *from, const float *vector, size_t length) {
    const wanted *all = user;
    const bool video = all->file[from->file]->video;
    const mr_cache_record record = mr_extraction_record(&all->key[from->file], video, from);
    return mr_cache_put(all->cache, video ? MR_CACHE_NEXT : from->file, &record, vector, length);
}

static int allocate(wanted *all) {
    const size_t room = all->set->count + 1;
    all->file = calloc(room, sizeof *all->file);
    all->key = calloc(room, sizeof *all->key);
    return all->file && all->key ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the files");
}

static void find_wanted(wanted *all) {
    const mr_set *set = all->set;
    const mr_cache_record *const *records;
    all->count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN && !find(all->cache, set, i, all->choice, &records)) {
            all->key[all->count] = key_of(set, i, all->choice);
            all->file[all->count++] = &set->list->files[i];
        }
    all->cache->damaged = false;
}

/* Counts the new vectors. If the pipeline has run to the end, no others will come. */
static int end_files(wanted *all, bool whole) {
    mr_cache *cache = all->cache;
    const mr_cache_record *const *records;
    float *zeros = calloc(cache->width + 1, sizeof *zeros);
    int status = zeros ? mr_cache_begin(cache, 0) : mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    for (size_t i = 0; i < all->count && !status; i++) {
        const size_t count = mr_cache_find(cache, &all->key[i], &records);
        const bool video = all->file[i]->video;
        all->made += video ? count : count > 0;
        if (!whole || !cache->width || (!video && count))
            continue;
        const mr_cache_record end = {.key = key_of_end(&all->key[i]), .seq = count};
        status = mr_cache_put(cache, MR_CACHE_NEXT, &end, zeros, cache->width);
    }
    free(zeros);
    return status ? status : mr_cache_update(cache);
}

/* Nodes that have ended cannot make vectors. They have already seen damaged files. */
static int check_ended(const wanted *all) {
    const mr_cache_record *const *records;
    for (size_t i = 0; i < all->count; i++) {
        const mr_content_key end = key_of_end(&all->key[i]);
        if (!mr_cache_find(all->cache, &end, &records))
            return mr_fail(MR_ERROR_USAGE, "the nodes of this MILLRACE_RUN have ended, and there are other files: each "
                                           "training in nodes that others start takes another MILLRACE_RUN; "
                                           "`millrace deploy` writes one");
    }
    return MR_OK;
}

/* Waiting nodes only end after a run, so this runs one file if none is wanted. */
static void add_for_nodes(wanted *all) {
    size_t row = 0;
    while (row + 1 < all->set->count && all->set->row[row].fate != MR_FATE_TAKEN)
        row++;
    all->key[0] = key_of(all->set, row, all->choice);
    all->file[0] = &all->set->list->files[row];
    all->count = 1;
}

static int make(wanted *all, mr_extraction *extraction, bool *told) {
    int status = mr_cache_begin(all->cache, all->count);
    if (status)
        return status;
    const mr_extraction_job job = {
        .count = all->count, .files = all->file, .take_vector = take, .user = all, .keys = all->key};
    status = mr_extraction_run(extraction, &job, told);
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    if (status && status != MR_ERROR_CANCELLED)
        return status;
    int finished = mr_cache_update(all->cache);
    if (!finished)
        finished = end_files(all, !status);
    /* An error while writing takes precedence. */
    return finished ? finished : status ? mr_fail(status, "%s", message) : MR_OK;
}

/* If two programs compute the same vectors, one waits and then finds them. */
static int make_wanted(wanted *all, mr_extraction *extraction, bool *told) {
    const mr_nodes_state nodes = mr_extraction_nodes_state(extraction);
    find_wanted(all);
    if (nodes == MR_NODES_ENDED)
        return check_ended(all);
    if (!all->count && nodes == MR_NODES_NEW)
        return MR_OK;
    int status = mr_cache_lock(all->cache, mr_stop_asked);
    if (!status)
        find_wanted(all);
    if (!status && !all->count && nodes == MR_NODES_WAIT)
        add_for_nodes(all);
    if (!status && all->count)
        status = make(all, extraction, told);
    mr_cache_unlock(all->cache);
    return status;
}

static int make_missing(mr_features *features, const mr_set *set, mr_extraction *extraction, bool *told) {
    wanted all = {.set = set, .cache = &features->cache, .choice = &extraction->choice};
    int status = allocate(&all);
    const int64_t since_ns = mr_now_ns();
    if (!status)
        status = make_wanted(&all, extraction, told);
    features->made = all.made;
    features->seconds = (double)(mr_now_ns() - since_ns) / 1e9;
    free(all.key);
    free(all.file);
    return status;
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

/* Finds the vectors of rows that have some, in order. */
static void find_vectors(mr_features *features, const mr_set *set, const mr_picture_choice *choice,
                         const float **vector) {
    mr_cache *cache = &features->cache;
    for (size_t row = 0; row < set->count; row++) {
        const mr_cache_record *const *records;
        const size_t count = set->row[row].fate == MR_FATE_TAKEN ? find(cache, set, row, choice, &records) : 0;
        for (size_t i = 0; i < count; i++) {
            const size_t at = features->count++;
            vector[at] = mr_cache_vector(cache, records[i]);
            features->row[at] = row;
            features->at_ns[at] = records[i]->at_ns;
        }
    }
}

/* Marks rows without vectors as damaged; returns how many vectors the others have. */
static size_t count_all(mr_cache *cache, mr_set *set, const mr_picture_choice *choice) {
    const mr_cache_record *const *records;
    size_t sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const size_t count = set->row[i].fate == MR_FATE_TAKEN ? find(cache, set, i, choice, &records) : 0;
        if (!count && set->row[i].fate == MR_FATE_TAKEN)
            set->row[i].fate = MR_FATE_DAMAGED;
        sum += count;
    }
    return sum;
}

/* Memory backed by an unnamed file, so that more vectors than fit in memory can be used. */
static int take_room(mr_features *features) {
    char path[MR_CACHE_PATH + 16];
    snprintf(path, sizeof path, "%s/rows-XXXXXX", features->cache.folder);
    int fd = mkostemp(path, O_CLOEXEC), error = fd < 0 ? errno : 0;
    if (fd >= 0) {
        unlink(path);
        features->mapped_bytes = features->count * features->width * sizeof(float);
        error = posix_fallocate(fd, 0, (off_t)features->mapped_bytes);
    }
    if (!error) {
        void *mapped = mmap(NULL, features->mapped_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = mapped == MAP_FAILED ? errno : 0;
        features->mapped = error ? NULL : mapped;
    }
    if (fd >= 0)
        close(fd);
    return error ? mr_fail(MR_ERROR_IO, "cannot make room for the vectors in %s: %s", features->cache.folder,
                           strerror(error))
                 : MR_OK;
}

/* NULL: no memory. */
static const float **allocate_rows(mr_features *features, size_t most) {
    const float **vector = calloc(most + 1, sizeof *vector);
    features->row = calloc(most + 1, sizeof *features->row);
    features->at_ns = calloc(most + 1, sizeof *features->at_ns);
    if (vector && features->row && features->at_ns)
        return vector;
    free(vector);
    mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    return NULL;
}

/* Copies vectors that are not contiguous. Frees the list. */
static int bring_together(mr_features *features, const float **vector) {
    const size_t width = features->width;
    bool in_order = true;
    features->data = vector[0];
    for (size_t i = 0; i < features->count && in_order; i++)
        in_order = vector[i] == vector[0] + i * width;
    int status = in_order ? MR_OK : take_room(features);
    float *to = features->mapped;
    for (size_t i = 0; i < features->count && to; i++)
        memcpy(to + i * width, vector[i], width * sizeof *to);
    features->data = to ? to : features->data;
    free(vector);
    return status;
}

static int gather(mr_features *features, mr_set *set, const mr_picture_choice *choice) {
    mr_cache *cache = &features->cache;
    const size_t most = count_all(cache, set, choice);
    if (cache->damaged)
        return mr_fail(MR_ERROR_IO, "%s is not as it was just written: its disk may be failing", cache->vectors.path);
    if (!most)
        return mr_fail(MR_ERROR_NO_INPUT, "%s: the pipeline made no vector of any of the files", set->params.path);
    const float **vector = allocate_rows(features, most);
    features->width = cache->width;
    if (vector)
        find_vectors(features, set, choice, vector);
    return vector ? bring_together(features, vector) : MR_ERROR_MEMORY;
}

int mr_features_make(mr_features *features, mr_set *set, mr_extraction *extraction, const char *folder, bool *told) {
    *features = (mr_features){0};
    *told = false;
    int status = mr_cache_open(&features->cache, folder, extraction->cache_key);
    if (!status)
        status = make_missing(features, set, extraction, told);
    return status ? status : gather(features, set, &extraction->choice);
}

int mr_features_take(mr_features *features, const mr_set *set, const char *folder) {
    const mr_vector_file *vectors = set->params.vectors;
    *features = (mr_features){.width = vectors->width};
    snprintf(features->cache.folder, sizeof features->cache.folder, "%s", folder);
    const float **vector = allocate_rows(features, set->count);
    if (!vector)
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN) {
            vector[features->count] = vectors->data + i * vectors->width;
            features->row[features->count++] = i;
        }
    return bring_together(features, vector);
}

void mr_features_fini(mr_features *features) {
    if (features->mapped)
        munmap(features->mapped, features->mapped_bytes);
    mr_cache_close(&features->cache);
    free(features->row);
    free(features->at_ns);
    *features = (mr_features){0};
}

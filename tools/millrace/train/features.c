#include "tools/millrace/train/features.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "millrace/status.h"

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Rows whose vectors are not in the cache. */
typedef struct wanted {
    const mr_set *set;
    size_t count;
    size_t *row;
    const char **file;
    mr_cache_writer writer;
    size_t made;
} wanted;

static int take(void *user, size_t file, const float *vector, size_t length) {
    wanted *all = user;
    all->made += !all->writer.records[file].made;
    return mr_cache_put(&all->writer, file, &all->set->row[all->row[file]].key, vector, length);
}

static int find_wanted(wanted *all, const mr_cache *cache) {
    const mr_set *set = all->set;
    all->row = calloc(set->count + 1, sizeof *all->row);
    all->file = calloc(set->count + 1, sizeof *all->file);
    if (!all->row || !all->file)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the files");
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN && mr_cache_find(cache, &set->row[i].key) == SIZE_MAX) {
            all->row[all->count] = i;
            all->file[all->count++] = set->list->files[i].path;
        }
    return MR_OK;
}

static int make(wanted *all, mr_cache *cache, mr_extraction *extraction, bool *told) {
    int status = mr_cache_begin(&all->writer, cache, all->count);
    if (status)
        return status;
    const mr_extraction_job job = {.count = all->count, .files = all->file, .take_vector = take, .user = all};
    status = mr_extraction_run(extraction, &job, told);
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    if (status && status != MR_ERROR_CANCELLED) {
        mr_cache_abandon(&all->writer);
        return mr_fail(status, "%s", message);
    }
    int finished = mr_cache_finish(&all->writer);
    /* A message of the writing is the one that counts. */
    mr_cache_abandon(&all->writer);
    return finished ? finished : status;
}

static int make_missing(mr_features *features, const mr_set *set, mr_extraction *extraction, bool *told) {
    wanted all = {.set = set, .writer.fd = -1};
    const int64_t since_ns = mr_clock_now_ns(mr_clock_real());
    int status = find_wanted(&all, &features->cache);
    if (!status && all.count)
        status = make(&all, &features->cache, extraction, told);
    features->made = all.made;
    features->seconds = (double)(mr_clock_now_ns(mr_clock_real()) - since_ns) / 1e9;
    free(all.file);
    free(all.row);
    return status;
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

/* The slots of the rows that have one, in their order; true if one lies behind the other. */
static bool find_slots(mr_features *features, mr_set *set, size_t *slot) {
    bool in_order = true;
    for (size_t i = 0; i < set->count; i++) {
        if (set->row[i].fate != MR_FATE_TAKEN)
            continue;
        size_t found = mr_cache_find(&features->cache, &set->row[i].key);
        if (found == SIZE_MAX) {
            set->row[i].fate = MR_FATE_DAMAGED;
            continue;
        }
        slot[features->count] = found;
        in_order = in_order && found == slot[0] + features->count;
        features->row[features->count++] = i;
    }
    return in_order;
}

/* Memory of a file without a name, so that more of them than fit into memory can be used. */
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

static int gather(mr_features *features, mr_set *set) {
    const mr_cache *cache = &features->cache;
    size_t *slot = calloc(set->count + 1, sizeof *slot);
    features->row = calloc(set->count + 1, sizeof *features->row);
    features->width = cache->width;
    if (!slot || !features->row) {
        free(slot);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    }
    bool in_order = find_slots(features, set, slot);
    int status = features->count ? MR_OK
                                 : mr_fail(MR_ERROR_NO_INPUT, "%s: the pipeline made no vector of any of the files",
                                           set->params.path);
    if (!status && in_order) {
        features->data = cache->vectors + slot[0] * cache->width;
    } else if (!status && !(status = take_room(features))) {
        float *to = features->mapped;
        for (size_t i = 0; i < features->count; i++)
            memcpy(to + i * cache->width, cache->vectors + slot[i] * cache->width, cache->width * sizeof *to);
        features->data = to;
    }
    free(slot);
    return status;
}

int mr_features_make(mr_features *features, mr_set *set, mr_extraction *extraction, const char *folder, bool *told) {
    *features = (mr_features){0};
    *told = false;
    int status = mr_cache_open(&features->cache, folder, extraction->digest);
    if (!status)
        status = make_missing(features, set, extraction, told);
    return status ? status : gather(features, set);
}

void mr_features_fini(mr_features *features) {
    if (features->mapped)
        munmap(features->mapped, features->mapped_bytes);
    mr_cache_close(&features->cache);
    free(features->row);
    *features = (mr_features){0};
}

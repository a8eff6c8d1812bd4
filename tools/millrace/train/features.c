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

/* ---- keys of the cache ------------------------------------------------------------------------------------------- */

/* A range's pictures in a video are found by number among those taken from it. The number HOW_MANY, which no
 * picture has, holds how many there are. */
static const uint64_t HOW_MANY = UINT64_MAX;

static mr_content_key key_in(const mr_set *set, size_t row, const mr_picture_choice *choice, uint64_t number) {
    const mr_listed_file *file = &set->list->files[row];
    struct {
        int64_t start_ns, end_ns;
        mr_picture_choice choice;
        uint64_t number;
    } part = {file->start_ns, file->end_ns, *choice, number};
    return mr_content_key_join(&set->row[row].key, &part, sizeof part);
}

/* How many vectors the cache has for a row; 0: some are missing. */
static size_t count_in(mr_cache *cache, const mr_set *set, size_t row, const mr_picture_choice *choice) {
    if (!set->list->files[row].video)
        return mr_cache_find(cache, &set->row[row].key) != SIZE_MAX;
    mr_content_key key = key_in(set, row, choice, HOW_MANY);
    size_t slot = mr_cache_find(cache, &key);
    return slot == SIZE_MAX ? 0 : (size_t)cache->records[slot].made - 1;
}

static size_t slot_in(mr_cache *cache, const mr_set *set, size_t row, const mr_picture_choice *choice, size_t i) {
    if (!set->list->files[row].video)
        return mr_cache_find(cache, &set->row[row].key);
    mr_content_key key = key_in(set, row, choice, i);
    return mr_cache_find(cache, &key);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

/* Rows whose vectors are not in the cache. */
typedef struct wanted {
    const mr_set *set;
    const mr_picture_choice *choice;
    size_t count;
    size_t *row;
    uint64_t *taken; /* vectors received for each */
    mr_content_key *key; /* for each picture file; zeros for a video */
    const mr_listed_file **file;
    mr_cache_writer writer;
    size_t made, left; /* left: by nodes whose process was killed */
} wanted;

static int take(void *user, const mr_taken *from, const float *vector, size_t length) {
    wanted *all = user;
    const size_t row = all->row[from->file];
    mr_cache_record record = {.key = all->set->row[row].key, .made = 1 + (uint64_t)from->at_ns};
    const bool video = all->file[from->file]->video;
    all->made += video || !all->taken[from->file];
    if (video)
        record.key = key_in(all->set, row, all->choice, all->taken[from->file]);
    all->taken[from->file]++;
    return mr_cache_put(&all->writer, video ? MR_CACHE_NEXT : from->file, &record, vector, length);
}

static int allocate(wanted *all) {
    const size_t room = all->set->count + 1;
    all->row = calloc(room, sizeof *all->row);
    all->taken = calloc(room, sizeof *all->taken);
    all->file = calloc(room, sizeof *all->file);
    all->key = calloc(room, sizeof *all->key);
    return all->row && all->taken && all->file && all->key ? MR_OK
                                                           : mr_fail(MR_ERROR_MEMORY, "no memory for the files");
}

static void find_wanted(wanted *all, mr_cache *cache) {
    const mr_set *set = all->set;
    all->count = 0;
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN && !count_in(cache, set, i, all->choice)) {
            all->row[all->count] = i;
            all->key[all->count] = set->list->files[i].video ? (mr_content_key){0} : set->row[i].key;
            all->file[all->count++] = &set->list->files[i];
        }
}

/* Records how many pictures each video has. If the run was interrupted, videos may be incomplete: their vectors are
 * omitted. */
static int end_videos(wanted *all, bool whole) {
    mr_cache_writer *writer = &all->writer;
    for (size_t i = all->count; i < writer->more && !whole; i++)
        writer->records[i].made = 0;
    float *zeros = writer->width && whole ? calloc(writer->width, sizeof *zeros) : NULL;
    int status = MR_OK;
    for (size_t i = 0; i < all->count && zeros && !status; i++) {
        if (!all->file[i]->video || !all->taken[i])
            continue;
        const mr_cache_record record = {.key = key_in(all->set, all->row[i], all->choice, HOW_MANY),
                                        .made = 1 + all->taken[i]};
        status = mr_cache_put(writer, MR_CACHE_NEXT, &record, zeros, writer->width);
    }
    if (writer->width && whole && !zeros)
        status = mr_fail(MR_ERROR_MEMORY, "no memory for the cache");
    free(zeros);
    return status;
}

static int make(wanted *all, mr_extraction *extraction, bool *told) {
    int status = mr_cache_begin(&all->writer, all->count);
    if (status)
        return status;
    const mr_extraction_job job = {
        .count = all->count, .files = all->file, .take_vector = take, .user = all, .keys = all->key};
    status = mr_extraction_run(extraction, &job, told);
    char message[512];
    snprintf(message, sizeof message, "%s", mr_message());
    if (status && status != MR_ERROR_CANCELLED)
        return mr_fail(status, "%s", message);
    int finished = end_videos(all, !status);
    if (!finished)
        finished = mr_cache_finish(&all->writer);
    /* An error while writing takes precedence. */
    return finished ? finished : status;
}

static int keep_left(void *user, const mr_content_key *key, int64_t at_ns, const float *vector, size_t length) {
    wanted *all = user;
    const mr_cache_record record = {.key = *key, .made = 1 + (uint64_t)at_ns};
    if (mr_cache_find(all->writer.cache, key) != SIZE_MAX)
        return MR_OK;
    int status = all->left ? MR_OK : mr_cache_begin(&all->writer, 0);
    if (!status)
        status = mr_cache_put(&all->writer, MR_CACHE_NEXT, &record, vector, length);
    all->left += !status;
    return status;
}

/* Locks the cache and adds the vectors that had arrived home when a process that watched nodes was killed. Home's spool
 * counts by the wanted files' numbers, which must not change until it has been read. */
static int lock_cache(wanted *all, mr_cache *cache, const mr_extraction *extraction) {
    const bool is_home = extraction->role == MR_EXTRACTION_HOME;
    int status = mr_cache_lock(&all->writer, cache, is_home, mr_stop_asked);
    if (!status && !is_home)
        status = mr_extraction_take_left(extraction, cache->folder, keep_left, all);
    if (status || !all->left)
        return status;
    status = mr_cache_finish(&all->writer);
    if (status)
        return status;
    mr_log(MR_LOG_WARNING, "%s: a run with nodes was killed while they made vectors; kept of it: %zu", cache->path,
           all->left);
    return mr_cache_lock(&all->writer, cache, false, mr_stop_asked);
}

/* If two programs compute the same vectors, one waits and then finds them. */
static int make_wanted(wanted *all, mr_cache *cache, mr_extraction *extraction, bool *told) {
    find_wanted(all, cache);
    if (!all->count)
        return MR_OK;
    int status = lock_cache(all, cache, extraction);
    if (status) {
        mr_cache_abandon(&all->writer);
        return status;
    }
    find_wanted(all, cache);
    if (all->count)
        status = make(all, extraction, told);
    mr_cache_abandon(&all->writer);
    return status;
}

static int make_missing(mr_features *features, const mr_set *set, mr_extraction *extraction, bool *told) {
    wanted all = {.set = set, .choice = &extraction->choice, .writer = {.fd = -1, .list_fd = -1}};
    int status = allocate(&all);
    const int64_t since_ns = mr_clock_now_ns(mr_clock_real());
    if (!status)
        status = make_wanted(&all, &features->cache, extraction, told);
    features->made = all.made;
    features->seconds = (double)(mr_clock_now_ns(mr_clock_real()) - since_ns) / 1e9;
    free(all.key);
    free(all.file);
    free(all.taken);
    free(all.row);
    return status;
}

/* ---- gathering --------------------------------------------------------------------------------------------------- */

/* Pictures come almost in order: moves those in [first, last) to where their times belong. */
static void order_by_time(const mr_cache *cache, size_t *slot, size_t first, size_t last) {
    for (size_t i = first + 1; i < last; i++) {
        const size_t moved = slot[i];
        size_t at = i;
        for (; at > first && cache->records[slot[at - 1]].made > cache->records[moved].made; at--)
            slot[at] = slot[at - 1];
        slot[at] = moved;
    }
}

/* Finds the slots for rows with vectors, in order; true if they are contiguous. */
static bool find_slots(mr_features *features, const mr_set *set, const mr_picture_choice *choice, size_t *slot) {
    mr_cache *cache = &features->cache;
    bool in_order = true;
    for (size_t row = 0; row < set->count; row++) {
        const size_t first = features->count;
        const size_t count = set->row[row].fate == MR_FATE_TAKEN ? count_in(cache, set, row, choice) : 0;
        for (size_t i = 0; i < count; i++) {
            slot[features->count] = slot_in(cache, set, row, choice, i);
            features->count += slot[features->count] != SIZE_MAX;
        }
        order_by_time(cache, slot, first, features->count);
        for (size_t at = first; at < features->count; at++) {
            in_order = in_order && slot[at] == slot[0] + at;
            features->row[at] = row;
            features->at_ns[at] = (int64_t)(cache->records[slot[at]].made - 1);
        }
    }
    return in_order;
}

/* Marks rows without vectors as damaged; returns how many vectors the others have. */
static size_t count_all(mr_cache *cache, mr_set *set, const mr_picture_choice *choice) {
    size_t sum = 0;
    for (size_t i = 0; i < set->count; i++) {
        const size_t count = set->row[i].fate == MR_FATE_TAKEN ? count_in(cache, set, i, choice) : 1;
        if (!count)
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

/* Copies vectors that are not contiguous. */
static int bring_together(mr_features *features, const float *from, const size_t *slot, bool in_order) {
    const size_t width = features->width;
    if (in_order) {
        features->data = from + slot[0] * width;
        return MR_OK;
    }
    int status = take_room(features);
    if (status)
        return status;
    float *to = features->mapped;
    for (size_t i = 0; i < features->count; i++)
        memcpy(to + i * width, from + slot[i] * width, width * sizeof *to);
    features->data = to;
    return MR_OK;
}

static int gather(mr_features *features, mr_set *set, const mr_picture_choice *choice) {
    mr_cache *cache = &features->cache;
    const size_t most = count_all(cache, set, choice);
    size_t *slot = calloc(most + 1, sizeof *slot);
    features->row = calloc(most + 1, sizeof *features->row);
    features->at_ns = calloc(most + 1, sizeof *features->at_ns);
    features->width = cache->width;
    if (!slot || !features->row || !features->at_ns) {
        free(slot);
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    }
    bool in_order = find_slots(features, set, choice, slot);
    int status = features->count ? MR_OK
                                 : mr_fail(MR_ERROR_NO_INPUT, "%s: the pipeline made no vector of any of the files",
                                           set->params.path);
    if (!status)
        status = bring_together(features, cache->vectors, slot, in_order);
    free(slot);
    return status;
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
    features->row = calloc(set->count + 1, sizeof *features->row);
    features->at_ns = calloc(set->count + 1, sizeof *features->at_ns);
    if (!features->row || !features->at_ns)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN)
            features->row[features->count++] = i;
    return bring_together(features, vectors->data, features->row,
                          features->row[features->count - 1] == features->row[0] + features->count - 1);
}

void mr_features_fini(mr_features *features) {
    if (features->mapped)
        munmap(features->mapped, features->mapped_bytes);
    mr_cache_close(&features->cache);
    free(features->row);
    free(features->at_ns);
    *features = (mr_features){0};
}

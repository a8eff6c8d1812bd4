#include "millrace/dataset.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "millrace/log.h"
#include "stages/media/media_input.h"
#include "stages/media/media_list.h"

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static const char *const split_names[MR_SPLITS] = {"", "train", "validation", "test"};

const char *mr_split_name(mr_split split) {
    return (unsigned)split < MR_SPLITS ? split_names[split] : "";
}

mr_split mr_split_parse(const char *text) {
    for (int i = MR_SPLIT_TRAIN; i < MR_SPLITS; i++)
        if (strcmp(text, split_names[i]) == 0)
            return (mr_split)i;
    return MR_SPLIT_NONE;
}

mr_split mr_split_of(uint64_t seed, const void *group, size_t bytes, mr_split_shares shares) {
    double at = (double)(XXH3_64bits_withSeed(group, bytes, seed) >> 11) * 0x1p-53;
    return at < shares.test                       ? MR_SPLIT_TEST
           : at < shares.test + shares.validation ? MR_SPLIT_VALIDATION
                                                  : MR_SPLIT_TRAIN;
}

/* ---- content --------------------------------------------------------------------------------------------------- */

static int hash(const mr_input *input, const char *path, XXH3_state_t *state) {
    enum { PIECE_BYTES = 64 * 1024 };
    uint8_t piece[PIECE_BYTES];
    ssize_t bytes;
    XXH3_128bits_reset(state);
    while ((bytes = read(input->fd, piece, sizeof piece)) != 0) {
        if (bytes < 0 && errno != EINTR)
            return mr_fail(MR_ERROR_IO, "%s: %s", path, strerror(errno));
        if (bytes > 0)
            XXH3_128bits_update(state, piece, (size_t)bytes);
    }
    return MR_OK;
}

int mr_content_key_of(const char *path, mr_content_key *key) {
    mr_input input;
    int status = mr_input_open(&input, path, NULL);
    if (status)
        return status;
    XXH3_state_t *state = XXH3_createState();
    status = state ? hash(&input, path, state) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    mr_input_close(&input);
    if (!status) {
        const XXH128_hash_t digest = XXH3_128bits_digest(state);
        *key = (mr_content_key){.low = digest.low64, .high = digest.high64};
    }
    XXH3_freeState(state);
    return status;
}

mr_content_key mr_content_key_join(const mr_content_key *key, const void *part, size_t bytes) {
    XXH128_hash_t seed = XXH3_128bits_withSeed(part, bytes, key->low);
    const uint64_t both[] = {seed.low64, seed.high64, key->low, key->high};
    const XXH128_hash_t joined = XXH3_128bits(both, sizeof both);
    return (mr_content_key){.low = joined.low64, .high = joined.high64};
}

/* ---- lists ----------------------------------------------------------------------------------------------------- */

/* The public list, and the list that owns the texts. */
typedef struct shown_list {
    mr_file_list shown; /* first member: the caller has its address */
    mr_image_list list;
    mr_listed_file *files;
} shown_list;

static int show(shown_list *to) {
    const mr_image_list *from = &to->list;
    to->files = mr_calloc(from->count, sizeof *to->files);
    if (!to->files)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < from->count; i++)
        to->files[i] = (mr_listed_file){.path = from->file[i].path,
                                        .group = from->file[i].group,
                                        .label = from->file[i].label,
                                        .split = from->file[i].split,
                                        .line = from->file[i].line,
                                        .video = from->file[i].video,
                                        .start_ns = from->file[i].start_ns,
                                        .end_ns = from->file[i].end_ns};
    to->shown = (mr_file_list){.count = from->count,
                               .files = to->files,
                               .label_count = from->label_count,
                               .labels = (const char *const *)from->label};
    return MR_OK;
}

static int read_list(shown_list *to, const char *path, bool vectors) {
    mr_input_kind kind;
    int status = mr_input_look(path, &kind);
    if (status)
        return status;
    if (kind != MR_INPUT_FOLDER && kind != MR_INPUT_LIST)
        return mr_fail(MR_ERROR_DATA,
                       "%s: is neither a folder that holds a folder for each class, nor a list (*.csv, *.jsonl)", path);
    if (vectors && kind != MR_INPUT_LIST)
        return mr_fail(MR_ERROR_DATA, "%s: is not a list (*.csv, *.jsonl) with a row for each vector", path);
    status = vectors ? mr_image_list_make_rows(&to->list, path)
                     : mr_image_list_make(&to->list, path, kind, kind == MR_INPUT_FOLDER, 0);
    char text[MR_IMAGE_LIST_TEXT];
    if (!status && mr_image_list_says(&to->list, text))
        mr_log(MR_LOG_WARNING, "%s: %s; pictures lie in the folder of their class and have a picture's ending", path,
               text);
    if (!status && to->list.unused_column)
        mr_log(MR_LOG_WARNING, "%s: the column \"%s\" is not used: those that are have the names path, label, group, "
                               "split, start and end", path, to->list.unused_column);
    return status ? status : show(to);
}

static int open_list(mr_file_list **list, const char *path, bool vectors) {
    shown_list *made = mr_calloc(1, sizeof *made);
    int status = made ? read_list(made, path, vectors) : mr_fail(MR_ERROR_MEMORY, "out of memory");
    *list = made ? &made->shown : NULL;
    if (status)
        mr_file_list_close(list);
    return status;
}

int mr_file_list_open(mr_file_list **list, const char *path) {
    return open_list(list, path, false);
}

int mr_file_list_open_rows(mr_file_list **list, const char *path) {
    MR_PLAIN_NUMBERS;
    return open_list(list, path, true);
}

void mr_file_list_close(mr_file_list **list) {
    shown_list *gone = (shown_list *)(void *)*list;
    if (gone) {
        mr_image_list_fini(&gone->list);
        mr_free(gone->files);
        mr_free(gone);
    }
    *list = NULL;
}

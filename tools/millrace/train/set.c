#include "tools/millrace/train/set.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/arena.h"
#include "engine/base/print.h"
#include "engine/base/utf8.h"
#include "millrace/log.h"
#include "tools/millrace/train/mapped.h"

/* ---- words ------------------------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *one, *many;
} fates[MR_FATES] = {
    [MR_FATE_COPY] = {"copy", "is a copy of another", "are copies of others"},
    [MR_FATE_CONTRADICTS] = {"contradicts", "is the same as one of another class",
                             "are the same as ones of other classes"},
    [MR_FATE_OVERLAPS] = {"overlaps", "overlaps a range of the same class", "overlap ranges of the same class"},
    [MR_FATE_NAME] = {"name", "has a name that is not UTF-8, or a line break or the like in it",
                      "have names that are not UTF-8, or line breaks or the like in them"},
    [MR_FATE_UNREADABLE] = {"unreadable", "cannot be read", "cannot be read"},
    [MR_FATE_DAMAGED] = {"damaged", "gave no vector", "gave no vectors"},
    [MR_FATE_NOT_FINITE] = {"not finite", "gave a vector with a NaN or an infinity in it",
                            "gave vectors with a NaN or an infinity in them"},
};

static bool is_like_other(const mr_set_row *row) {
    return row->fate == MR_FATE_COPY || row->fate == MR_FATE_CONTRADICTS || row->fate == MR_FATE_OVERLAPS;
}

static const char *words_of(mr_row_fate fate, size_t count) {
    return count == 1 ? fates[fate].one : fates[fate].many;
}

/* Rows for vectors need not name files. */
static const char *noun(const mr_set *set) {
    return set->params.vectors ? "rows" : "files";
}

/* ---- refusals --------------------------------------------------------------------------------------------- */

size_t mr_set_print_row(const mr_set *set, size_t row, char *text, size_t room) {
    const mr_listed_file *file = &set->list->files[row];
    char end[32] = "the end", range[96] = "";
    if (file->end_ns)
        snprintf(end, sizeof end, "%.9g s", (double)file->end_ns / 1e9);
    if (file->start_ns || file->end_ns)
        snprintf(range, sizeof range, " from %.9g s to %s", (double)file->start_ns / 1e9, end);
    if (!file->line)
        return mr_print_into(text, room, "%s", file->path);
    if (!*file->path)
        return mr_print_into(text, room, "%s:%zu", set->params.path, file->line);
    return mr_print_into(text, room, "%s:%zu: %s%s", set->params.path, file->line, file->path, range);
}

size_t mr_set_print_picture(const mr_set *set, size_t row, int64_t at_ns, char *text, size_t room) {
    const mr_listed_file *file = &set->list->files[row];
    if (!file->video || set->params.vectors)
        return mr_set_print_row(set, row, text, room);
    return mr_print_into(text, room, "%s:%zu: %s at %.3f s", set->params.path, file->line, file->path,
                         (double)at_ns / 1e9);
}

void mr_set_put_picture(const mr_set *set, size_t row, int64_t at_ns, const char *file, const char *at, yajl_gen json) {
    const mr_listed_file *of = &set->list->files[row];
    mr_json_text(json, file, *of->path ? of->path : NULL);
    if (set->params.vectors)
        mr_json_integer(json, "line", (int64_t)of->line);
    if (of->video && !set->params.vectors)
        mr_json_exact(json, at, (double)at_ns / 1e9);
}

static int compare_case(const void *a, const void *b) {
    return mr_utf8_compare_case(*(const char *const *)a, *(const char *const *)b);
}

/* "Cat" and "cat" are nearly always the same class, written in two ways. */
static int check_case(const mr_set *set) {
    const mr_file_list *list = set->list;
    const char **sorted = calloc(list->label_count + 1, sizeof *sorted);
    if (!sorted)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the classes");
    memcpy(sorted, list->labels, list->label_count * sizeof *sorted);
    qsort(sorted, list->label_count, sizeof *sorted, compare_case);
    int status = MR_OK;
    for (size_t i = 1; i < list->label_count && !status; i++)
        if (mr_utf8_compare_case(sorted[i - 1], sorted[i]) == 0)
            status =
                mr_fail(MR_ERROR_DATA, "%s: the classes \"%s\" and \"%s\" differ by case alone: give them one name",
                        set->params.path, sorted[i - 1], sorted[i]);
    free(sorted);
    return status;
}

/* Reports all classes without pictures at once. */
static int refuse_empty(const mr_set *set, const bool *seen) {
    const mr_file_list *list = set->list;
    char names[512] = "";
    size_t empty = 0, at = 0;
    for (size_t i = 0; i < list->label_count; i++) {
        if (seen[i])
            continue;
        if (at < sizeof names - 1)
            at += mr_print_into(names + at, sizeof names - at, "%s\"%s\"", empty ? ", " : "", list->labels[i]);
        empty++;
    }
    if (!empty)
        return MR_OK;
    if (empty == 1)
        return mr_fail(MR_ERROR_DATA, "%s: the class %s has no pictures: remove its folder", set->params.path, names);
    return mr_fail(MR_ERROR_DATA, "%s: %zu classes have no pictures: %s: remove their folders", set->params.path, empty,
                   names);
}

static int check_classes(const mr_set *set, const bool *seen) {
    const mr_file_list *list = set->list;
    for (size_t i = 0; i < list->label_count; i++)
        if (mr_utf8_fit(list->labels[i], strlen(list->labels[i])) < strlen(list->labels[i]))
            return mr_fail(MR_ERROR_DATA, "%s: the name of the class \"%s\" is not UTF-8: rename its folder",
                           set->params.path, list->labels[i]);
    return refuse_empty(set, seen);
}

static int check_labels(const mr_set *set) {
    const mr_file_list *list = set->list;
    bool *seen = calloc(list->label_count + 1, sizeof *seen);
    if (!seen)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the classes");
    int status = MR_OK;
    for (size_t i = 0; i < list->count && !status; i++)
        if (list->files[i].label >= 0)
            seen[list->files[i].label] = true;
        else
            status = mr_fail(MR_ERROR_DATA, "%s:%zu: the row has no label", set->params.path, list->files[i].line);
    if (!status)
        status = check_classes(set, seen);
    free(seen);
    if (!status && list->label_count < 2 && !set->params.lonely)
        status = mr_fail(MR_ERROR_DATA, "%s: has one class, \"%s\"; a classifier tells at least two apart",
                         set->params.path, list->labels[0]);
    return status;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

/* Rows by text: the first row that has it, plus one. */
typedef struct known_rows {
    mr_arena arena;
    mr_index index;
} known_rows;

/* Nothing is known about files that were excluded before being read. */
static bool has_content(const mr_set_row *row) {
    return row->fate != MR_FATE_NAME && row->fate != MR_FATE_UNREADABLE;
}

/* A video with many ranges is read once. */
static int read_content(mr_set *set, size_t at, known_rows *videos) {
    const mr_listed_file *file = &set->list->files[at];
    const mr_vector_file *vectors = set->params.vectors;
    if (vectors) {
        const mr_content_key none = {0};
        set->row[at].key =
            mr_content_key_join(&none, vectors->data + at * vectors->width, vectors->width * sizeof *vectors->data);
        return MR_OK;
    }
    if (!mr_printable(file->path)) { /* the pipeline's list is text and cannot hold other names */
        set->row[at].fate = MR_FATE_NAME;
        return MR_OK;
    }
    size_t known = file->video ? (size_t)(uintptr_t)mr_index_get(&videos->index, file->path) : 0;
    if (known) {
        set->row[at].key = set->row[known - 1].key;
        set->row[at].fate = set->row[known - 1].fate;
        return MR_OK;
    }
    int status = mr_content_key_of(file->path, &set->row[at].key);
    if (status == MR_ERROR_MEMORY)
        return status;
    if (status) {
        set->row[at].fate = MR_FATE_UNREADABLE;
        mr_log(MR_LOG_WARNING, "%s", mr_message());
    }
    return file->video ? mr_index_put(&videos->index, &videos->arena, file->path, (void *)(uintptr_t)(at + 1)) : MR_OK;
}

static int read_contents(mr_set *set) {
    known_rows videos = {.index = {0}};
    int status = MR_OK;
    for (size_t i = 0; i < set->count && !status; i++)
        status = set->params.stopped && set->params.stopped() ? mr_fail(MR_ERROR_CANCELLED, "interrupted")
                                                              : read_content(set, i, &videos);
    mr_arena_fini(&videos.arena);
    return status;
}

/* A row with its content, for sorting. */
typedef struct content {
    mr_content_key key;
    size_t row;
} content;

static int compare_contents(const void *a, const void *b) {
    const content *x = a, *y = b;
    if (x->key.high != y->key.high)
        return x->key.high < y->key.high ? -1 : 1;
    if (x->key.low != y->key.low)
        return x->key.low < y->key.low ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static bool have_ranges(const mr_set *set, const content *sorted, size_t first, size_t last) {
    const mr_listed_file *files = set->list->files, *one = &files[sorted[first].row];
    for (size_t i = first + 1; i < last; i++)
        if (files[sorted[i].row].start_ns != one->start_ns || files[sorted[i].row].end_ns != one->end_ns)
            return true;
    return false;
}

static bool overlap(const mr_listed_file *a, const mr_listed_file *b) {
    return (!b->end_ns || a->start_ns < b->end_ns) && (!a->end_ns || b->start_ns < a->end_ns);
}

/* Compares two rows for the same video, `a` before `b`. */
static void settle_pair(mr_set *set, size_t a, size_t b, bool contradictions) {
    const mr_listed_file *x = &set->list->files[a], *y = &set->list->files[b];
    if (!overlap(x, y) || (x->label != y->label) != contradictions)
        return;
    mr_set_row *first = &set->row[a], *second = &set->row[b];
    if (contradictions) {
        first->fate = second->fate = MR_FATE_CONTRADICTS;
        first->like = b;
        second->like = a;
    } else if (first->fate == MR_FATE_TAKEN && second->fate == MR_FATE_TAKEN) {
        second->fate = x->start_ns == y->start_ns && x->end_ns == y->end_ns ? MR_FATE_COPY : MR_FATE_OVERLAPS;
        second->like = a;
    }
}

/* The sorted rows [first, last) are ranges in one video. A range that is already excluded cannot exclude others. */
static void settle_ranges(mr_set *set, const content *sorted, size_t first, size_t last) {
    for (int pass = 0; pass < 2; pass++)
        for (size_t j = first + 1; j < last; j++)
            for (size_t i = first; i < j; i++)
                settle_pair(set, sorted[i].row, sorted[j].row, pass == 0);
}

/* The sorted rows [first, last) have the same content. */
static void settle(mr_set *set, const content *sorted, size_t first, size_t last) {
    const mr_listed_file *files = set->list->files;
    bool contradicts = false;
    for (size_t i = first + 1; i < last; i++)
        contradicts = contradicts || files[sorted[i].row].label != files[sorted[first].row].label;
    for (size_t i = first; i < last; i++) {
        mr_set_row *row = &set->row[sorted[i].row];
        row->like = sorted[i == first ? last - 1 : first].row;
        if (contradicts)
            row->fate = MR_FATE_CONTRADICTS;
        else if (i > first)
            row->fate = MR_FATE_COPY;
    }
}

static int find_copies(mr_set *set) {
    content *sorted = calloc(set->count, sizeof *sorted);
    size_t count = 0;
    if (!sorted)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the data set");
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN)
            sorted[count++] = (content){.key = set->row[i].key, .row = i};
    qsort(sorted, count, sizeof *sorted, compare_contents);
    for (size_t first = 0, last; first < count; first = last) {
        for (last = first + 1; last < count && sorted[last].key.high == sorted[first].key.high &&
                               sorted[last].key.low == sorted[first].key.low;)
            last++;
        (have_ranges(set, sorted, first, last) ? settle_ranges : settle)(set, sorted, first, last);
    }
    free(sorted);
    return MR_OK;
}

/* ---- groups and parts -------------------------------------------------------------------------------------------- */

/* Adds the row to the group with that name. namer[group]: a row that names the group's part, plus one. */
static int join_group(mr_set *set, known_rows *known, const char *group, size_t at, size_t *namer) {
    const mr_listed_file *file = &set->list->files[at];
    size_t first = (size_t)(uintptr_t)mr_index_get(&known->index, group);
    if (!first) {
        first = at + 1;
        set->row[at].group = set->group_count++;
        if (mr_index_put(&known->index, &known->arena, group, (void *)(uintptr_t)first))
            return MR_ERROR_MEMORY;
    }
    set->row[at].group = set->row[first - 1].group;
    if (!file->split)
        return MR_OK;
    size_t *by = &namer[set->row[at].group];
    if (*by && set->list->files[*by - 1].split != file->split)
        return mr_fail(MR_ERROR_DATA,
                       "%s: the %s \"%s\" is for %s in line %zu, and for %s in line %zu: a %s",
                       set->params.path, file->group ? "group" : "video", file->group ? file->group : file->path,
                       mr_split_name(set->list->files[*by - 1].split),
                       set->list->files[*by - 1].line, mr_split_name(file->split), file->line,
                       file->group ? "group is in one part" : "video is in one part, unless its rows name groups");
    *by = at + 1;
    return MR_OK;
}

static mr_split draw(const mr_set *set, size_t row) {
    const mr_listed_file *file = &set->list->files[row];
    const mr_content_key *key = &set->row[row].key;
    const void *group = file->group ? (const void *)file->group : key;
    return mr_split_of(set->params.seed, group, file->group ? strlen(file->group) : sizeof *key, set->params.shares);
}

/* Makes one video's rows a group: no name in a list can begin so. */
static int join_video(mr_set *set, known_rows *known, size_t at, size_t *namer) {
    char group[64];
    const mr_content_key *key = &set->row[at].key;
    snprintf(group, sizeof group, "\001%016" PRIx64 "%016" PRIx64, key->high, key->low);
    return join_group(set, known, group, at, namer);
}

static int number_groups(mr_set *set, known_rows *known, size_t *namer) {
    int status = MR_OK;
    for (size_t i = 0; i < set->count && !status; i++) {
        const mr_listed_file *file = &set->list->files[i];
        set->named_parts += file->split != MR_SPLIT_NONE;
        set->named_groups = set->named_groups || file->group;
        if (file->group) {
            status = join_group(set, known, file->group, i, namer);
        } else if (file->video && !set->params.vectors && has_content(&set->row[i])) {
            status = join_video(set, known, i, namer);
        } else {
            set->row[i].group = set->group_count++;
            namer[set->row[i].group] = file->split ? i + 1 : 0;
        }
    }
    return status;
}

static int split(mr_set *set) {
    known_rows known = {.index = {0}};
    size_t *namer = calloc(set->count + 1, sizeof *namer); /* per group: a row that names its part, plus one */
    int status = namer ? number_groups(set, &known, namer) : mr_fail(MR_ERROR_MEMORY, "no memory for the groups");
    for (size_t i = 0; i < set->count && !status; i++) {
        size_t by = namer[set->row[i].group];
        set->row[i].part = by ? set->list->files[by - 1].split : draw(set, i);
    }
    free(namer);
    mr_arena_fini(&known.arena);
    return status;
}

static int open_list(mr_set *set) {
    const mr_set_params *params = &set->params;
    if (!params->vectors)
        return mr_file_list_open(&set->list, params->path);
    int status = mr_file_list_open_rows(&set->list, params->path);
    if (!status && set->list->count != params->vectors->rows)
        status =
            mr_fail(MR_ERROR_DATA, "%s: has %zu rows, and there are %zu vectors: each row is for one, in their order",
                    params->path, set->list->count, params->vectors->rows);
    return status;
}

/* If all rows are excluded, reports the most frequent reason. */
static int refuse_useless(const mr_set *set) {
    char row[512], like[512], all[1100];
    mr_row_fate most = MR_FATE_COPY;
    size_t first = 0;
    for (mr_row_fate fate = MR_FATE_COPY; fate < MR_FATES; fate++)
        if (mr_set_count(set, fate) > mr_set_count(set, most))
            most = fate;
    while (set->row[first].fate != most)
        first++;
    mr_set_print_row(set, first, row, sizeof row);
    mr_set_print_row(set, set->row[first].like, like, sizeof like);
    snprintf(all, sizeof all, is_like_other(&set->row[first]) ? "%s, as %s" : "%s", row, like);
    return mr_fail(most == MR_FATE_UNREADABLE ? MR_ERROR_NO_INPUT : MR_ERROR_DATA,
                   "%s: none of the %zu %s can be used: %zu %s, such as %s", set->params.path, set->count,
                   noun(set), mr_set_count(set, most), words_of(most, mr_set_count(set, most)), all);
}

int mr_set_open(mr_set *set, const mr_set_params *params) {
    *set = (mr_set){.params = *params};
    int status = open_list(set);
    if (!status) {
        set->count = set->list->count;
        set->row = calloc(set->count, sizeof *set->row);
        status = set->row ? check_labels(set) : mr_fail(MR_ERROR_MEMORY, "no memory for the data set");
    }
    if (!status)
        status = check_case(set);
    if (!status)
        status = read_contents(set);
    if (!status)
        status = find_copies(set);
    if (!status)
        status = split(set);
    if (!status && mr_set_count(set, MR_FATE_TAKEN) == 0)
        status = refuse_useless(set);
    if (status)
        mr_set_close(set);
    return status;
}

void mr_set_close(mr_set *set) {
    mr_file_list_close(&set->list);
    free(set->row);
    set->row = NULL;
}

int mr_set_open_vectors(mr_vector_file **vectors, const char *path) {
    int status = mr_vector_file_open(vectors, path);
    if (!status)
        mr_mapped_watch((*vectors)->data, (*vectors)->rows * (*vectors)->width * sizeof(float), path);
    return status;
}

void mr_set_close_vectors(mr_vector_file **vectors) {
    mr_mapped_forget(*vectors ? (*vectors)->data : NULL);
    mr_vector_file_close(vectors);
}

int mr_set_number_groups(const mr_set *set, const size_t *row, size_t count, int32_t **group, size_t *groups) {
    int32_t *number = calloc(set->group_count + 1, sizeof *number);
    *group = calloc(count + 1, sizeof **group);
    int status = number && *group ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the groups");
    for (size_t i = 0; i < count && !status; i++) {
        int32_t *at = &number[set->row[row[i]].group];
        if (!*at)
            *at = (int32_t)++*groups;
        (*group)[i] = *at - 1;
    }
    free(number);
    return status;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

size_t mr_set_count(const mr_set *set, mr_row_fate fate) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        count += set->row[i].fate == fate;
    return count;
}

static void tell_row(const mr_set *set, size_t row, FILE *stream) {
    char text[512], other[512];
    mr_set_print_row(set, row, text, sizeof text);
    mr_set_print_row(set, set->row[row].like, other, sizeof other);
    if (is_like_other(&set->row[row]))
        mr_print(stream, "             %s, as %s\n", text, other);
    else
        mr_print(stream, "             %s\n", text);
}

void mr_set_tell_left_out(const mr_set *set, FILE *stream) {
    enum { MOST = 5 };
    for (mr_row_fate fate = MR_FATE_COPY; fate < MR_FATES; fate++) {
        size_t count = mr_set_count(set, fate), told = 0;
        if (!count)
            continue;
        mr_print(stream, "  left out   %zu of the %s %s\n", count, noun(set), words_of(fate, count));
        for (size_t i = 0; i < set->count && told < MOST; i++)
            if (set->row[i].fate == fate) {
                tell_row(set, i, stream);
                told++;
            }
        if (count > told)
            mr_print(stream, "             and %zu more, which --json lists\n", count - told);
    }
}

void mr_set_put_range(const mr_listed_file *file, yajl_gen json) {
    if (file->start_ns)
        mr_json_exact(json, "start", (double)file->start_ns / 1e9);
    if (file->end_ns)
        mr_json_exact(json, "end", (double)file->end_ns / 1e9);
}

void mr_set_put_left_out(const mr_set *set, yajl_gen json) {
    MR_JSON_ARRAY(json, "left_out")
        for (size_t i = 0; i < set->count; i++) {
            const mr_set_row *row = &set->row[i];
            if (row->fate == MR_FATE_TAKEN)
                continue;
            MR_JSON_MAP(json, NULL) {
                const char *path = set->list->files[i].path;
                mr_json_text(json, "file", *path ? path : NULL);
                if (set->list->files[i].line)
                    mr_json_integer(json, "line", (int64_t)set->list->files[i].line);
                mr_json_text(json, "reason", fates[row->fate].name);
                mr_set_put_range(&set->list->files[i], json);
                if (is_like_other(row)) {
                    const mr_listed_file *like = &set->list->files[row->like];
                    mr_json_text(json, "as", *like->path ? like->path : NULL);
                    if (like->video || set->params.vectors)
                        mr_json_integer(json, "as_line", (int64_t)like->line);
                }
            }
        }
}

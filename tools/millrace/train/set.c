#include "tools/millrace/train/set.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "engine/base/arena.h"
#include "engine/base/print.h"
#include "millrace/log.h"

/* ---- refusals --------------------------------------------------------------------------------------------- */

size_t mr_set_print_row(const mr_set *set, size_t row, char *text, size_t room) {
    const mr_listed_file *file = &set->list->files[row];
    if (!file->line)
        return mr_print_into(text, room, "%s", file->path);
    return mr_print_into(text, room, "%s:%zu: %s", set->params.path, file->line, file->path);
}

static int compare_case(const void *a, const void *b) {
    return strcasecmp(*(const char *const *)a, *(const char *const *)b);
}

/* "Cat" and "cat" are nearly always one class that was written in two ways. */
static int check_case(const mr_set *set) {
    const mr_file_list *list = set->list;
    const char **sorted = calloc(list->label_count + 1, sizeof *sorted);
    if (!sorted)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the classes");
    memcpy(sorted, list->labels, list->label_count * sizeof *sorted);
    qsort(sorted, list->label_count, sizeof *sorted, compare_case);
    int status = MR_OK;
    for (size_t i = 1; i < list->label_count && !status; i++)
        if (strcasecmp(sorted[i - 1], sorted[i]) == 0)
            status =
                mr_fail(MR_ERROR_DATA, "%s: the classes \"%s\" and \"%s\" differ by case alone: give them one name",
                        set->params.path, sorted[i - 1], sorted[i]);
    free(sorted);
    return status;
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
    for (size_t i = 0; i < list->label_count && !status; i++)
        if (!seen[i])
            status = mr_fail(MR_ERROR_DATA, "%s: the class \"%s\" has no pictures: remove its folder", set->params.path,
                             list->labels[i]);
    free(seen);
    if (!status && list->label_count < 2 && !set->params.lonely)
        status = mr_fail(MR_ERROR_DATA, "%s: has one class, \"%s\"; a classifier tells at least two apart",
                         set->params.path, list->labels[0]);
    return status;
}

/* ---- contents ---------------------------------------------------------------------------------------------------- */

static int read_contents(mr_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        if (set->params.stopped && set->params.stopped())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        int status = mr_content_key_of(set->list->files[i].path, &set->row[i].key);
        if (status == MR_ERROR_MEMORY)
            return status;
        if (status) {
            set->row[i].fate = MR_FATE_UNREADABLE;
            mr_log(MR_LOG_WARNING, "%s", mr_message());
        }
    }
    return MR_OK;
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

/* Rows [first, last) of the sorted ones have one content. */
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
        settle(set, sorted, first, last);
    }
    free(sorted);
    return MR_OK;
}

/* ---- groups and parts -------------------------------------------------------------------------------------------- */

/* Named groups: the index of the first row of each, plus one, and the row that names its part. */
typedef struct groups {
    mr_arena arena;
    mr_index index;
} groups;

/* Puts the part that rows of the group name into its first row, whose `like` is then that row's index. */
static int join_group(mr_set *set, groups *known, size_t at, size_t *namer) {
    const mr_listed_file *file = &set->list->files[at];
    size_t first = (size_t)(uintptr_t)mr_index_get(&known->index, file->group);
    if (!first) {
        first = at + 1;
        set->row[at].group = set->group_count++;
        if (mr_index_put(&known->index, &known->arena, file->group, (void *)(uintptr_t)first))
            return MR_ERROR_MEMORY;
    }
    set->row[at].group = set->row[first - 1].group;
    if (!file->split)
        return MR_OK;
    size_t *by = &namer[set->row[at].group];
    if (*by && set->list->files[*by - 1].split != file->split)
        return mr_fail(MR_ERROR_DATA,
                       "%s: the group \"%s\" is for %s in line %zu, and for %s in line %zu: a group is in one part",
                       set->params.path, file->group, mr_split_name(set->list->files[*by - 1].split),
                       set->list->files[*by - 1].line, mr_split_name(file->split), file->line);
    *by = at + 1;
    return MR_OK;
}

static mr_split draw(const mr_set *set, size_t row) {
    const mr_listed_file *file = &set->list->files[row];
    const mr_content_key *key = &set->row[row].key;
    const void *group = file->group ? (const void *)file->group : key;
    return mr_split_of(set->params.seed, group, file->group ? strlen(file->group) : sizeof *key, set->params.shares);
}

static int number_groups(mr_set *set, groups *known, size_t *namer) {
    int status = MR_OK;
    for (size_t i = 0; i < set->count && !status; i++) {
        const mr_listed_file *file = &set->list->files[i];
        set->named_parts += file->split != MR_SPLIT_NONE;
        set->named_groups = set->named_groups || file->group;
        if (file->group) {
            status = join_group(set, known, i, namer);
        } else {
            set->row[i].group = set->group_count++;
            namer[set->row[i].group] = file->split ? i + 1 : 0;
        }
    }
    return status;
}

static int split(mr_set *set) {
    groups known = {.index = {0}};
    size_t *namer = calloc(set->count + 1, sizeof *namer); /* of each group: a row that names its part, plus one */
    int status = namer ? number_groups(set, &known, namer) : mr_fail(MR_ERROR_MEMORY, "no memory for the groups");
    for (size_t i = 0; i < set->count && !status; i++) {
        size_t by = namer[set->row[i].group];
        set->row[i].part = by ? set->list->files[by - 1].split : draw(set, i);
    }
    free(namer);
    mr_arena_fini(&known.arena);
    return status;
}

int mr_set_open(mr_set *set, const mr_set_params *params) {
    *set = (mr_set){.params = *params};
    int status = mr_file_list_open(&set->list, params->path);
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
        status = mr_fail(MR_ERROR_NO_INPUT, "%s: none of the %zu files can be used", params->path, set->count);
    if (status)
        mr_set_close(set);
    return status;
}

void mr_set_close(mr_set *set) {
    mr_file_list_close(&set->list);
    free(set->row);
    set->row = NULL;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

size_t mr_set_count(const mr_set *set, mr_row_fate fate) {
    size_t count = 0;
    for (size_t i = 0; i < set->count; i++)
        count += set->row[i].fate == fate;
    return count;
}

void mr_set_table(const mr_set *set, size_t *counts) {
    memset(counts, 0, set->list->label_count * MR_SPLITS * sizeof *counts);
    for (size_t i = 0; i < set->count; i++)
        if (set->row[i].fate == MR_FATE_TAKEN)
            counts[(size_t)set->list->files[i].label * MR_SPLITS + set->row[i].part]++;
}

static const struct {
    const char *name, *one, *many;
} fates[MR_FATES] = {
    [MR_FATE_COPY] = {"copy", "is a copy of another", "are copies of others"},
    [MR_FATE_CONTRADICTS] = {"contradicts", "is the same as one of another class",
                             "are the same as ones of other classes"},
    [MR_FATE_UNREADABLE] = {"unreadable", "cannot be read", "cannot be read"},
    [MR_FATE_DAMAGED] = {"damaged", "gave no vector", "gave no vectors"},
};

static void tell_row(const mr_set *set, size_t row, FILE *stream) {
    char text[512], other[512];
    mr_set_print_row(set, row, text, sizeof text);
    mr_set_print_row(set, set->row[row].like, other, sizeof other);
    if (set->row[row].fate == MR_FATE_COPY || set->row[row].fate == MR_FATE_CONTRADICTS)
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
        mr_print(stream, "  left out   %zu of the files %s\n", count, count == 1 ? fates[fate].one : fates[fate].many);
        for (size_t i = 0; i < set->count && told < MOST; i++)
            if (set->row[i].fate == fate) {
                tell_row(set, i, stream);
                told++;
            }
        if (count > told)
            mr_print(stream, "             and %zu more, which --json lists\n", count - told);
    }
}

void mr_set_put_left_out(const mr_set *set, yajl_gen json) {
    mr_json_open_array(json, "left_out");
    for (size_t i = 0; i < set->count; i++) {
        const mr_set_row *row = &set->row[i];
        if (row->fate == MR_FATE_TAKEN)
            continue;
        mr_json_open_map(json, NULL);
        mr_json_text(json, "file", set->list->files[i].path);
        if (set->list->files[i].line)
            mr_json_integer(json, "line", (int64_t)set->list->files[i].line);
        mr_json_text(json, "reason", fates[row->fate].name);
        if (row->fate == MR_FATE_COPY || row->fate == MR_FATE_CONTRADICTS)
            mr_json_text(json, "as", set->list->files[row->like].path);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

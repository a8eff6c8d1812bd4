/* Reads other processes' summaries from JSON, by the field table. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine/base/json.h"
#include "tools/millrace/summary/summary.h"

static int read_fields(yajl_val tree, const mr_summary_part *part, void *base);

static int64_t integer_of(yajl_val value) {
    return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : 0;
}

static double number_of(yajl_val value) {
    return YAJL_IS_DOUBLE(value) ? YAJL_GET_DOUBLE(value) : (double)integer_of(value);
}

/* As mr_date_text writes it. */
static int64_t date_of(yajl_val value) {
    struct tm at = {0};
    const char *text = YAJL_GET_STRING(value);
    const char *rest = text ? strptime(text, "%Y-%m-%dT%H:%M:%S", &at) : NULL;
    if (!rest)
        return 0;
    return (int64_t)timegm(&at) * INT64_C(1000000000) + (int64_t)(strtod(rest, NULL) * 1e9);
}

static int value_of(yajl_val value, const char *(*name_of)(int value)) {
    const char *text = YAJL_GET_STRING(value), *name;
    for (int i = 0; text && (name = name_of(i)); i++)
        if (strcmp(name, text) == 0)
            return i;
    return 0;
}

/* Several fields can share a list: each adds its elements. */
static int read_list(yajl_val value, const mr_summary_field *field, void *base) {
    size_t *count = (size_t *)(void *)((char *)base + field->count);
    char **list = (char **)(void *)((char *)base + field->offset);
    const size_t more = YAJL_IS_ARRAY(value) ? value->u.array.len : 0, bytes = field->part->bytes;
    char *wider = realloc(*list, (*count + more + 1) * bytes);
    if (!wider)
        return MR_ERROR_MEMORY;
    memset(wider + *count * bytes, 0, (more + 1) * bytes);
    *list = wider;
    for (size_t i = 0; i < more; i++) {
        void *element = wider + (*count)++ * bytes;
        int status = read_fields(value->u.array.values[i], field->part, element);
        if (status)
            return status;
        if (field->set)
            field->set(element);
    }
    return MR_OK;
}

static int read_array(yajl_val value, const mr_summary_field *field, void *base) {
    size_t *count = (size_t *)(void *)((char *)base + field->count), bytes = field->part->bytes;
    int status = MR_OK;
    for (size_t i = 0; YAJL_IS_ARRAY(value) && i < value->u.array.len && i < field->most && !status; i++)
        status = read_fields(value->u.array.values[i], field->part, (char *)base + field->offset + (*count)++ * bytes);
    return status;
}

static int read_value(yajl_val value, const mr_summary_field *field, void *base) {
    void *at = (char *)base + field->offset;
    switch (field->type) {
    case MR_SUMMARY_BOOL:
        *(bool *)at = YAJL_IS_TRUE(value);
        return MR_OK;
    case MR_SUMMARY_NONE:
        *(uint64_t *)at = !YAJL_IS_TRUE(value);
        return MR_OK;
    case MR_SUMMARY_STATUS: /* an exit code does not name one status */
        *(int *)at = integer_of(value) ? MR_ERROR_INTERNAL : MR_OK;
        return MR_OK;
    case MR_SUMMARY_INT:
        *(int *)at = (int)integer_of(value);
        return MR_OK;
    case MR_SUMMARY_U32:
        *(uint32_t *)at = (uint32_t)integer_of(value);
        return MR_OK;
    case MR_SUMMARY_U64:
        *(uint64_t *)at = (uint64_t)integer_of(value);
        return MR_OK;
    case MR_SUMMARY_F64:
        *(double *)at = number_of(value);
        return MR_OK;
    case MR_SUMMARY_NS:
        *(int64_t *)at = (int64_t)(number_of(value) / mr_summary_scale(field) + 0.5);
        return MR_OK;
    case MR_SUMMARY_NS_F64:
        *(double *)at = number_of(value) / mr_summary_scale(field);
        return MR_OK;
    case MR_SUMMARY_DATE:
        *(int64_t *)at = date_of(value);
        return MR_OK;
    case MR_SUMMARY_TEXT:
        *(const char **)at = YAJL_GET_STRING(value);
        return MR_OK;
    case MR_SUMMARY_CHARS:
        if (YAJL_GET_STRING(value))
            snprintf(at, field->most, "%s", YAJL_GET_STRING(value));
        return MR_OK;
    case MR_SUMMARY_NAME:
        *(int *)at = value_of(value, field->name_of);
        return MR_OK;
    case MR_SUMMARY_RATIO:
        return MR_OK; /* follows from others */
    case MR_SUMMARY_BUCKETS:
        for (size_t i = 0; YAJL_IS_ARRAY(value) && i < value->u.array.len && i < MR_DURATION_BUCKETS; i++)
            ((uint64_t *)at)[i] = (uint64_t)integer_of(value->u.array.values[i]);
        return MR_OK;
    case MR_SUMMARY_INLINE:
        if (field->set && mr_json_member(value, field->part->fields[0].name, yajl_t_any))
            field->set(base);
        return read_fields(value, field->part, at);
    case MR_SUMMARY_PART:
        return read_fields(value, field->part, at);
    case MR_SUMMARY_LIST:
        return read_list(value, field, base);
    case MR_SUMMARY_ARRAY:
        return read_array(value, field, base);
    }
    return MR_OK;
}

static int read_fields(yajl_val tree, const mr_summary_part *part, void *base) {
    int status = MR_OK;
    for (const mr_summary_field *field = part->fields; field->name && !status; field++) {
        yajl_val value = field->type == MR_SUMMARY_INLINE ? tree : mr_json_member(tree, field->name, yajl_t_any);
        if (value)
            status = read_value(value, field, base);
    }
    return status;
}

static void free_lists(const mr_summary_part *part, void *base) {
    for (const mr_summary_field *field = part->fields; field->name; field++) {
        char *list = field->type == MR_SUMMARY_LIST ? *(char **)(void *)((char *)base + field->offset) : NULL;
        for (size_t i = 0; list && i < mr_summary_count(field, base); i++)
            free_lists(field->part, list + i * field->part->bytes);
        free(list);
        if (list)
            *(char **)(void *)((char *)base + field->offset) = NULL;
        if (field->type == MR_SUMMARY_PART)
            free_lists(field->part, (char *)base + field->offset);
    }
}

/* The sums of the lines, which JSON does not have. */
#define SUM_LINES(of)                                                                                                 \
    ((of)->dropped = mr_lines_frames((of)->lines, (of)->line_count, MR_OUTCOME_DROPPED),                              \
     (of)->absorbed = mr_lines_frames((of)->lines, (of)->line_count, MR_OUTCOME_ABSORBED))

static void sum_lines(mr_summary *summary) {
    SUM_LINES(summary);
    SUM_LINES(&summary->objects);
    for (size_t i = 0; i < summary->source_count; i++) {
        SUM_LINES(&summary->sources[i]);
        SUM_LINES(&summary->sources[i].objects);
    }
}

int mr_summary_read(yajl_val tree, mr_summary *summary) {
    *summary = (mr_summary){0};
    int status = read_fields(tree, mr_summary_fields(), summary);
    if (status)
        mr_summary_read_fini(summary);
    else
        sum_lines(summary);
    return status;
}

void mr_summary_read_fini(mr_summary *summary) {
    free_lists(mr_summary_fields(), summary);
    *summary = (mr_summary){0};
}

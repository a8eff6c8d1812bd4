/* The summary in JSON, by its field table. */
#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "tools/millrace/summary/summary.h"

static void put_fields(yajl_gen json, const mr_summary_part *part, const void *base);

static void put_list(yajl_gen json, const mr_summary_field *field, const void *base) {
    const char *element = mr_summary_list(field, base);
    const size_t count = mr_summary_count(field, base);
    if (field->omitted && !count)
        return;
    MR_JSON_ARRAY(json, field->name)
        for (size_t i = 0; i < count; i++, element += field->part->bytes) {
            if (field->has && !field->has(element))
                continue;
            MR_JSON_MAP(json, NULL)
                put_fields(json, field->part, element);
        }
}

static void put_buckets(yajl_gen json, const char *name, const uint64_t *bucket) {
    MR_JSON_ARRAY(json, name)
        for (int i = 0; i < MR_DURATION_BUCKETS; i++)
            yajl_gen_integer(json, (long long)bucket[i]);
}

static void put_value(yajl_gen json, const mr_summary_field *field, const void *base) {
    const void *at = (const char *)base + field->offset, *of;
    char text[MR_DATE_TEXT];
    switch (field->type) {
    case MR_SUMMARY_BOOL:
        mr_json_bool(json, field->name, *(const bool *)at);
        break;
    case MR_SUMMARY_NONE:
        mr_json_bool(json, field->name, *(const uint64_t *)at == 0);
        break;
    case MR_SUMMARY_INT:
        mr_json_integer(json, field->name, *(const int *)at);
        break;
    case MR_SUMMARY_STATUS:
        mr_json_integer(json, field->name, mr_status_exit_code(*(const int *)at));
        break;
    case MR_SUMMARY_U32:
        mr_json_integer(json, field->name, *(const uint32_t *)at);
        break;
    case MR_SUMMARY_U64:
        mr_json_integer(json, field->name, (int64_t)*(const uint64_t *)at);
        break;
    case MR_SUMMARY_F64:
        mr_json_number(json, field->name, *(const double *)at);
        break;
    case MR_SUMMARY_NS:
        mr_json_number(json, field->name, (double)*(const int64_t *)at * mr_summary_scale(field));
        break;
    case MR_SUMMARY_NS_F64:
        mr_json_number(json, field->name, *(const double *)at * mr_summary_scale(field));
        break;
    case MR_SUMMARY_RATIO:
        of = (const char *)base + field->count;
        mr_json_number(json, field->name, (double)*(const uint64_t *)at / (double)*(const uint64_t *)of);
        break;
    case MR_SUMMARY_DATE:
        mr_json_text(json, field->name, *(const int64_t *)at ? mr_date_text(text, *(const int64_t *)at) : NULL);
        break;
    case MR_SUMMARY_TEXT:
        mr_json_text(json, field->name, *(const char *const *)at);
        break;
    case MR_SUMMARY_CHARS:
        mr_json_text(json, field->name, *(const char *)at ? at : NULL);
        break;
    case MR_SUMMARY_NAME:
        mr_json_text(json, field->name, field->name_of(*(const int *)at));
        break;
    case MR_SUMMARY_BUCKETS:
        put_buckets(json, field->name, at);
        break;
    case MR_SUMMARY_PART:
        MR_JSON_MAP(json, field->name)
            put_fields(json, field->part, at);
        break;
    case MR_SUMMARY_INLINE:
        put_fields(json, field->part, at);
        break;
    case MR_SUMMARY_LIST:
    case MR_SUMMARY_ARRAY:
        put_list(json, field, base);
        break;
    }
}

static void put_fields(yajl_gen json, const mr_summary_part *part, const void *base) {
    for (const mr_summary_field *field = part->fields; field->name; field++) {
        if (!field->has || mr_summary_is_list(field) || field->has(base))
            put_value(json, field, base);
        else if (!field->omitted)
            mr_json_text(json, field->name, NULL);
    }
}

void mr_summary_put_json(yajl_gen json, const mr_summary *summary) {
    put_fields(json, mr_summary_fields(), summary);
}

void mr_summary_put_list(yajl_gen json, const mr_summary *summary, const char *name, const char *key,
                         const char *value) {
    const mr_summary_field *field = mr_summary_field_find(mr_summary_fields(), name);
    const void *base = summary;
    if (!field) { /* the devices are a part of the buffers */
        const mr_summary_field *buffers = mr_summary_field_find(mr_summary_fields(), "buffers");
        field = mr_summary_field_find(buffers->part, name);
        base = (const char *)base + buffers->offset;
    }
    const char *element = mr_summary_list(field, base);
    for (size_t i = 0; i < mr_summary_count(field, base); i++, element += field->part->bytes)
        MR_JSON_MAP(json, NULL) {
            mr_json_text(json, key, value);
            put_fields(json, field->part, element);
        }
}

void mr_accuracy_put_json(yajl_gen json, const mr_source_summary *sums) {
    const mr_summary_field *sources = mr_summary_field_find(mr_summary_fields(), "sources");
    const mr_summary_field *accuracy = mr_summary_field_find(sources->part, "accuracy");
    if (accuracy->has(sums))
        put_value(json, accuracy, sums);
    else
        mr_json_text(json, accuracy->name, NULL);
}

int mr_summary_print_json(const mr_summary *summary, bool finished, int status, const char *error, FILE *stream) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        if (finished) {
            mr_json_integer(json, "exit_code", mr_status_exit_code(status));
            mr_json_text(json, "error", error ? error : status ? mr_status_words(status) : NULL);
        }
        mr_summary_put_json(json, summary);
    }
    return mr_json_finish(json, stream);
}

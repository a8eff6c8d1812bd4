#include "tools/millrace/plan/plan_values.h"

#include <string.h>

const char *mr_plan_format(const mr_format_set *set, char text[MR_FORMAT_SET_TEXT]) {
    mr_format_set_print(set, text, MR_FORMAT_SET_TEXT);
    const char *space = strchr(text, ' ');
    return space ? space + 1 : text;
}

const char *mr_plan_bytes(uint64_t bytes, char text[MR_WORDS]) {
    if (bytes == 0)
        snprintf(text, MR_WORDS, "-");
    else
        mr_words_bytes(bytes, text);
    return text;
}

const char *mr_plan_bound(const mr_view_bytes *bound, char text[MR_PLAN_BOUND]) {
    char bytes[MR_WORDS], likely[MR_WORDS];
    const char *unknown = bound->unknown ? "frames of a size that is not known" : "none";
    if (!bound->bytes)
        snprintf(text, MR_PLAN_BOUND, "%s", unknown);
    else
        snprintf(text, MR_PLAN_BOUND, "at most %s, likely %s%s%s", mr_words_bytes(bound->bytes, bytes),
                 mr_words_bytes(bound->likely, likely), bound->unknown ? ", and " : "", bound->unknown ? unknown : "");
    return text;
}

void mr_plan_put_bytes(yajl_gen json, const char *key, const mr_view_bytes *bound) {
    MR_JSON_MAP(json, key) {
        mr_json_integer(json, "bytes", (int64_t)bound->bytes);
        mr_json_integer(json, "likely", (int64_t)bound->likely);
        mr_json_bool(json, "unknown", bound->unknown);
    }
}

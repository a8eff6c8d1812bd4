/* The request `tap` of the control socket: its options, and its answer. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/run/control_tap.h"

enum { MOST_VALUES = 1000, MOST_WAIT_S = 10 };

int mr_control_choose_sample(mr_sample_choices *choices, size_t count, const mr_override *options) {
    *choices = (mr_sample_choices){.wait_ns = 1000000000, .values = 8};
    for (size_t i = 0; i < count; i++) {
        const char *key = options[i].key, *value = options[i].value;
        double seconds;
        long long values;
        if (strcmp(key, "wait") == 0 && mr_parse_number(value, 0, MOST_WAIT_S, &seconds))
            choices->wait_ns = (int64_t)(seconds * 1e9);
        else if (strcmp(key, "values") == 0 && mr_parse_integer(value, 0, MOST_VALUES, &values))
            choices->values = (int)values;
        else if (strcmp(key, "picture") == 0 && (strcmp(value, "true") == 0 || strcmp(value, "false") == 0))
            choices->picture = *value == 't';
        else
            return mr_fail(MR_ERROR_USAGE, "tap takes wait=SECONDS up to %d, values=N up to %d and picture=true, not "
                                           "%s=%s", MOST_WAIT_S, MOST_VALUES, key, value);
    }
    return MR_OK;
}

static void put_jpeg(yajl_gen json, const mr_sample *sample) {
    const size_t room = sodium_base64_encoded_len(sample->jpeg_bytes, sodium_base64_VARIANT_ORIGINAL);
    char *text = malloc(room);
    if (text)
        mr_json_text(json, "jpeg", sodium_bin2base64(text, room, sample->jpeg, sample->jpeg_bytes,
                                                     sodium_base64_VARIANT_ORIGINAL));
    free(text);
}

void mr_control_put_sample(yajl_gen json, const mr_sample *sample) {
    mr_json_text(json, "stage", sample->stage);
    mr_json_text(json, "format", sample->format);
    mr_json_key(json, "record");
    yajl_gen_number(json, sample->record, strlen(sample->record)); /* it is JSON already */
    if (sample->elsewhere)
        mr_json_text(json, "left_out", "the payload lies in a device's memory");
    if (sample->count)
        MR_JSON_MAP(json, "values") {
            mr_json_integer(json, "count", (int64_t)sample->count);
            mr_json_exact(json, "min", sample->least);
            mr_json_exact(json, "max", sample->most);
            mr_json_exact(json, "mean", sample->mean);
            MR_JSON_ARRAY(json, "first")
                for (size_t i = 0; i < sample->given; i++)
                    mr_json_exact(json, NULL, sample->first[i]);
        }
    if (sample->jpeg)
        put_jpeg(json, sample);
}

/* Measured figures of a card: one JSON object, as engine/device/sim/card.h has it. */
#include "engine/device/sim/card_file.h"

#include <stdio.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

enum { MOST_BYTES = 1 << 20, WHY_BYTES = 160 };
/* What no card reaches in the next decades: a unit was mistaken. */
static const double most_rate = 1e18, most_count = 1e15;

typedef enum kind { RATE, BYTES, COUNT } kind;
typedef struct figure {
    const char *key;
    kind kind;
    size_t offset;
} figure;

#define FIELD(name) offsetof(mr_card, name)
static const figure figures[] = {
    {"memory_bytes", BYTES, FIELD(memory_bytes)},       {"memory_bytes_s", RATE, FIELD(memory_rate)},
    {"upload_bytes_s", RATE, FIELD(upload_rate)},       {"download_bytes_s", RATE, FIELD(download_rate)},
    {"f32_s", RATE, FIELD(f32_rate)},                   {"f16_s", RATE, FIELD(f16_rate)},
    {"launch_ns", RATE, FIELD(launch_ns)},              {"copy_engines", COUNT, FIELD(copy_engines)},
    {"kernels", COUNT, FIELD(kernels)},                 {"decoders", COUNT, FIELD(decoders)},
};
enum { FIGURES = sizeof figures / sizeof figures[0] };

static bool read_number(yajl_val value, double *number) {
    if (!YAJL_IS_NUMBER(value))
        return false;
    *number = YAJL_IS_INTEGER(value) ? (double)YAJL_GET_INTEGER(value) : YAJL_GET_DOUBLE(value);
    return true;
}

static int wrong_number(const char *path, const char *key, double most) {
    return mr_fail(MR_ERROR_DATA, "%s: \"%s\" is not a number above 0, up to %g", path, key, most);
}

static int take_figure(const char *path, const figure *which, yajl_val value, mr_card *card) {
    char *field = (char *)card + which->offset;
    double most = which->kind == RATE ? most_rate : which->kind == BYTES ? most_count : 1024, number;
    if (!read_number(value, &number) || !(number > 0 && number <= most) || (which->kind == COUNT && number < 1))
        return wrong_number(path, which->key, most);
    if (which->kind == RATE)
        memcpy(field, &number, sizeof number);
    else if (which->kind == BYTES)
        memcpy(field, &(int64_t){(int64_t)number}, sizeof(int64_t));
    else
        memcpy(field, &(int){(int)number}, sizeof(int));
    return MR_OK;
}

static int take_rates(const char *path, yajl_val value, mr_card *card) {
    if (!YAJL_IS_OBJECT(value))
        return mr_fail(MR_ERROR_DATA, "%s: \"decode_fps\" is not an object such as {\"h264\": 640}", path);
    for (size_t i = 0; i < YAJL_GET_OBJECT(value)->len; i++) {
        const char *key = YAJL_GET_OBJECT(value)->keys[i];
        int codec = 0;
        double number;
        while (codec < MR_CARD_CODECS && strcmp(mr_card_codec_name((mr_card_codec)codec), key) != 0)
            codec++;
        if (codec == MR_CARD_CODECS)
            return mr_fail(MR_ERROR_DATA, "%s: \"decode_fps\" has no codec \"%s\"", path, key);
        if (!read_number(YAJL_GET_OBJECT(value)->values[i], &number) || !(number > 0 && number <= most_count))
            return wrong_number(path, key, most_count);
        card->decode_fps[codec] = number;
    }
    return MR_OK;
}

static int take_member(const char *path, const char *key, yajl_val value, mr_card *card) {
    if (strcmp(key, "like") == 0) /* taken before */
        return MR_OK;
    if (strcmp(key, "decode_fps") == 0)
        return take_rates(path, value, card);
    if (strcmp(key, "name") == 0) {
        if (!YAJL_IS_STRING(value))
            return mr_fail(MR_ERROR_DATA, "%s: \"name\" is not a text", path);
        snprintf(card->title, sizeof card->title, "%s", YAJL_GET_STRING(value));
        return MR_OK;
    }
    for (size_t i = 0; i < FIGURES; i++)
        if (strcmp(figures[i].key, key) == 0)
            return take_figure(path, &figures[i], value, card);
    return mr_fail(MR_ERROR_DATA, "%s: a card has no figure \"%s\"", path, key);
}

/* The card that gives what the file does not. */
static int take_base(const char *path, yajl_val tree, mr_card *card) {
    yajl_val like = mr_json_member(tree, "like", yajl_t_any);
    char names[256];
    *card = (mr_card){.copy_engines = 1, .kernels = 1};
    if (!like)
        return MR_OK;
    if (!YAJL_IS_STRING(like) || !mr_card_find(YAJL_GET_STRING(like), card))
        return mr_fail(MR_ERROR_DATA, "%s: \"like\" is not one of %s", path, mr_card_list(names, sizeof names));
    return MR_OK;
}

static int take_all(const char *path, yajl_val tree, mr_card *card) {
    if (!YAJL_IS_OBJECT(tree))
        return mr_fail(MR_ERROR_DATA, "%s is not a JSON object with figures of a card", path);
    int status = take_base(path, tree, card);
    char base[MR_CARD_TEXT];
    snprintf(base, sizeof base, "%s", card->source);
    snprintf(card->title, sizeof card->title, "%.*s", MR_CARD_TEXT - 1, path);
    for (size_t i = 0; i < YAJL_GET_OBJECT(tree)->len && !status; i++)
        status = take_member(path, YAJL_GET_OBJECT(tree)->keys[i], YAJL_GET_OBJECT(tree)->values[i], card);
    snprintf(card->name, sizeof card->name, "%s", path);
    snprintf(card->source, sizeof card->source, "%s%.*s", base[0] ? "measured, else " : "measured", 70, base);
    card->measured = true;
    return status;
}

int mr_card_read(const char *path, mr_card *card) {
    mr_file_bytes file;
    char why[WHY_BYTES] = "";
    int status = mr_file_read("the figures of a card", path, MOST_BYTES, 0, &file);
    if (status)
        return status;
    yajl_val tree = mr_json_parse((const char *)file.data, why, sizeof why);
    mr_free(file.data);
    if (!tree)
        return mr_fail(MR_ERROR_DATA, "%s is not JSON: %s", path, why);
    status = take_all(path, tree, card);
    yajl_tree_free(tree);
    return status;
}

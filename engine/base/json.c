#include "engine/base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "engine/base/utf8.h"
#include "millrace/status.h"

yajl_gen mr_json_create(bool pretty) {
    yajl_gen json = yajl_gen_alloc(NULL);
    if (!json) {
        mr_fail(MR_ERROR_MEMORY, "no memory for JSON");
        return NULL;
    }
    yajl_gen_config(json, yajl_gen_beautify, pretty ? 1 : 0);
    yajl_gen_config(json, yajl_gen_indent_string, "  ");
    yajl_gen_config(json, yajl_gen_validate_utf8, 1);
    return json;
}

int mr_json_finish(yajl_gen json, FILE *stream) {
    const unsigned char *text = NULL;
    size_t bytes = 0;
    yajl_gen_get_buf(json, &text, &bytes);
    size_t written = fwrite(text, 1, bytes, stream);
    /* A beautiful text ends in a newline already. */
    if (bytes && text[bytes - 1] != '\n')
        fputc('\n', stream);
    yajl_gen_free(json);
    if (written == bytes && fflush(stream) == 0)
        return MR_OK;
    const int status = errno == EPIPE && stream == stdout ? MR_ERROR_CLOSED : MR_ERROR_IO;
    return mr_fail(status, "the JSON could not be written: %s", strerror(errno));
}

char *mr_json_finish_text(yajl_gen json, size_t *bytes) {
    char *text = NULL;
    FILE *stream = open_memstream(&text, bytes);
    if (!stream) {
        yajl_gen_free(json);
        mr_fail(MR_ERROR_MEMORY, "no memory for JSON");
        return NULL;
    }
    const int status = mr_json_finish(json, stream);
    fclose(stream);
    if (!status)
        return text;
    free(text);
    return NULL;
}

void mr_json_key(yajl_gen json, const char *key) {
    if (key)
        yajl_gen_string(json, (const unsigned char *)key, strlen(key));
}

/* A text that is not UTF-8, such as a file name. */
static void put_mended(yajl_gen json, const char *text) {
    char *plain = strdup(text);
    if (plain)
        mr_utf8_mend(plain);
    if (!plain || yajl_gen_string(json, (const unsigned char *)plain, strlen(plain)))
        yajl_gen_null(json);
    free(plain);
}

/* yajl accepts overlong forms and surrogates as UTF-8, but JSON readers refuse them. */
void mr_json_text(yajl_gen json, const char *key, const char *text) {
    const size_t bytes = text ? strlen(text) : 0;
    mr_json_key(json, key);
    if (!text)
        yajl_gen_null(json);
    else if (mr_utf8_fit(text, bytes) < bytes)
        put_mended(json, text);
    else
        yajl_gen_string(json, (const unsigned char *)text, bytes);
}

void mr_json_integer(yajl_gen json, const char *key, int64_t value) {
    mr_json_key(json, key);
    yajl_gen_integer(json, value);
}

void mr_json_number(yajl_gen json, const char *key, double value) {
    char text[32];
    mr_json_key(json, key);
    if (!isfinite(value)) {
        yajl_gen_null(json);
        return;
    }
    bool whole = value == floor(value) && fabs(value) < 1e15;
    int length = snprintf(text, sizeof text, whole ? "%.0f" : "%.6g", value);
    yajl_gen_number(json, text, (size_t)length);
}

void mr_json_exact(yajl_gen json, const char *key, double value) {
    enum { ENOUGH = 17 };
    char text[40];
    int digits = 15;
    mr_json_key(json, key);
    if (!isfinite(value)) {
        yajl_gen_null(json);
        return;
    }
    do
        snprintf(text, sizeof text, "%.*g", digits, value);
    while (strtod(text, NULL) != value && digits++ < ENOUGH);
    yajl_gen_number(json, text, strlen(text));
}

void mr_json_known(yajl_gen json, const char *key, double value) {
    mr_json_number(json, key, value > 0 ? value : (double)NAN);
}

void mr_json_bool(yajl_gen json, const char *key, bool value) {
    mr_json_key(json, key);
    yajl_gen_bool(json, value);
}

void mr_json_open_map(yajl_gen json, const char *key) {
    mr_json_key(json, key);
    yajl_gen_map_open(json);
}

void mr_json_open_array(yajl_gen json, const char *key) {
    mr_json_key(json, key);
    yajl_gen_array_open(json);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* Counts levels; 0 ends the parser. */
static int deeper(void *depth) {
    return ++*(int *)depth <= MR_JSON_DEPTH;
}

static int higher(void *depth) {
    --*(int *)depth;
    return 1;
}

/* The parser keeps levels on the heap. Comments are accepted, as in yajl_tree_parse. */
static bool is_too_deep(const char *text) {
    static const yajl_callbacks count = {.yajl_start_map = deeper, .yajl_end_map = higher, .yajl_start_array = deeper,
                                         .yajl_end_array = higher};
    int depth = 0;
    yajl_handle parser = yajl_alloc(&count, NULL, &depth);
    if (!parser)
        return true;
    yajl_config(parser, yajl_allow_comments, 1);
    bool too_deep = yajl_parse(parser, (const unsigned char *)text, strlen(text)) == yajl_status_client_canceled;
    yajl_free(parser);
    return too_deep;
}

yajl_val mr_json_parse(const char *text, char *wrong, size_t bytes) {
    text += mr_utf8_mark(text, strlen(text));
    if (!is_too_deep(text)) {
        yajl_val tree = yajl_tree_parse(text, wrong, bytes);
        if (!tree && wrong) /* the lines after it show the place, under the text */
            wrong[strcspn(wrong, "\n")] = '\0';
        return tree;
    }
    if (wrong)
        snprintf(wrong, bytes, "its values are nested more than %d deep", MR_JSON_DEPTH);
    return NULL;
}

yajl_val mr_json_member(yajl_val object, const char *key, yajl_type type) {
    const char *way[] = {key, NULL};
    return yajl_tree_get(object, way, type);
}

/* Writes JSON with yajl's generator, an object's members on one line each. Reads text that others may have written,
 * with yajl's tree.
 *
 * One thread uses a generator at a time. Errors are reported by mr_json_finish. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <yajl/yajl_gen.h>
#include <yajl/yajl_tree.h>

/* NULL if memory is out, with mr_message set. `pretty`: over several lines. */
yajl_gen mr_json_create(bool pretty);
/* Writes the document with a newline and frees the generator, also on failure. MR_ERROR_IO; MR_ERROR_CLOSED if standard
 * output is a pipe without a reader. */
int mr_json_finish(yajl_gen json, FILE *stream);
/* The same as a text, which free() frees; *bytes counts the newline too. NULL: memory is out. */
char *mr_json_finish_text(yajl_gen json, size_t *bytes);

/* If `key` is NULL: an element of an array. A NULL text and a number that is not finite become null; in a text that is
 * not UTF-8, bytes that are not ASCII become "?". */
void mr_json_key(yajl_gen json, const char *key);
void mr_json_text(yajl_gen json, const char *key, const char *text);
void mr_json_integer(yajl_gen json, const char *key, int64_t value);
/* Whole numbers exactly, others with six significant digits. */
void mr_json_number(yajl_gen json, const char *key, double value);
/* null unless it is above 0: 0 means not known. */
void mr_json_known(yajl_gen json, const char *key, double value);
/* A number with as many digits as it takes to read back the same; null if it is not finite. */
void mr_json_exact(yajl_gen json, const char *key, double value);
void mr_json_bool(yajl_gen json, const char *key, bool value);
void mr_json_open_map(yajl_gen json, const char *key);
void mr_json_open_array(yajl_gen json, const char *key);

/* A map or array around the statement that follows, which must not be left by a jump. */
#define MR_JSON_MAP(json, key) MR_JSON_AROUND_(json, key, map, __LINE__)
#define MR_JSON_ARRAY(json, key) MR_JSON_AROUND_(json, key, array, __LINE__)
#define MR_JSON_AROUND_(json, key, what, line) MR_JSON_AROUND_AT_(json, key, what, line)
#define MR_JSON_AROUND_AT_(json, key, what, line)                                                                      \
    for (bool mr_in_##line = (mr_json_open_##what(json, key), true); mr_in_##line;                                     \
         mr_in_##line = (yajl_gen_##what##_close(json), false))

/* yajl_tree_parse for a text whose objects and arrays are nested at most MR_JSON_DEPTH deep. yajl_tree_free recurses
 * once per level, and would crash on a million levels. NULL: it is not JSON, or nested deeper; `wrong`, which may be
 * NULL, gets the reason in one line. */
enum { MR_JSON_DEPTH = 64 };
yajl_val mr_json_parse(const char *text, char *wrong, size_t bytes);
/* A member; NULL if there is none of that type, or `object` is none. */
yajl_val mr_json_member(yajl_val object, const char *key, yajl_type type);

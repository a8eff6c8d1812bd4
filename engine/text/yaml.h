/* YAML as a tree with the place of every key and value.
 *
 * Supports no more than configuration needs: one document of maps, lists and scalars. Anchors, aliases, tags, duplicate
 * keys and a second document are refused, as are texts over 1 MiB, nesting over 32, more than 200,000 keys and values,
 * and bytes that are not UTF-8. All nodes live in the caller's arena. Scalars keep their text; their readers decide its
 * meaning (option.h, value.h).
 *
 * Errors go to the diagnostics, as many at once as the text allows. A tree belongs to one thread at a time; once it no
 * longer changes, any thread may read it. */
#pragma once

#include <stdbool.h>

#include "engine/base/arena.h"
#include "millrace/diagnostics.h"

enum { MR_YAML_MAX_BYTES = 1024 * 1024, MR_YAML_MAX_DEPTH = 32, MR_YAML_MAX_NODES = 200000 };

typedef enum mr_yaml_kind { MR_YAML_SCALAR, MR_YAML_LIST, MR_YAML_MAP } mr_yaml_kind;

typedef struct mr_yaml {
    mr_yaml_kind kind;
    bool quoted;           /* scalars: written in quotes or as a block */
    bool expanded;         /* scalars: variables are replaced; `$` has no meaning any more */
    bool broken;           /* scalars: diagnosed already; readers ignore it */
    mr_place place;        /* of the value */
    const char *key;       /* of a map's child; else NULL */
    mr_place key_place;
    const char *text;      /* scalars; URLs without user and password, once variables are replaced */
    const char *user, *password; /* of such a URL; NULL: none */
    bool doubled;          /* maps: some key stands there twice, which was diagnosed */
    size_t count;          /* children of maps and lists, in the order of the text */
    struct mr_yaml *first, *last, *next;
    mr_index index;        /* maps: key to child */
} mr_yaml;

/* Reads `bytes` of `text`; `file` names it in places and is borrowed (it must live as long as the arena). With
 * `override` the places have line 0. *root is NULL if nothing usable came of it, which also holds for a text that
 * says nothing. MR_OK, MR_ERROR_CONFIG (diagnosed) or MR_ERROR_MEMORY. */
int mr_yaml_parse(mr_yaml **root, mr_arena *arena, const char *file, const char *text, size_t bytes, bool override,
                  mr_diagnostics *diagnostics);

/* Replaces ${VAR}, ${VAR:-default}, ${VAR:?message} and $$ in every scalar below `node` (not in keys) from the
 * process's environment. A default may contain variables. The value of a variable is never read as YAML nor expanded
 * again. Scalars whose variables are wrong are diagnosed and marked as broken. */
int mr_yaml_expand(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics);

/* Takes user and password out of a scalar that is a URL, into its `user` and `password`; done by mr_yaml_expand. */
int mr_yaml_take_credentials(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics);

/* A map's child; NULL if there is none or `map` is no map. */
mr_yaml *mr_yaml_get(const mr_yaml *map, const char *key);
/* The node at a dotted path below `node`, or the deepest on the way that there is. */
const mr_yaml *mr_yaml_nearest(const mr_yaml *node, const char *path);
/* The place of element `i` under `key`: in a list, or the only element, which needs no list. */
mr_place mr_yaml_item_place(const mr_yaml *map, const char *key, size_t i);
/* Nothing was written: `key:`, `key: ~` or `key: null`. */
bool mr_yaml_is_null(const mr_yaml *node);
/* For messages: "\"text\"" (shortened), "nothing", "a list" or "a map"; returns `text`. */
const char *mr_yaml_found(const mr_yaml *node, char *text, size_t bytes);

/* Building: a node of that kind, and adding a child under `key` (which is borrowed), in the place of one that is
 * there. */
mr_yaml *mr_yaml_new(mr_arena *arena, mr_yaml_kind kind, mr_place place);
/* A copy that refers to nothing of the tree it is from, except that its places name `file`. NULL without memory. */
mr_yaml *mr_yaml_copy(mr_arena *arena, const mr_yaml *node, const char *file);
int mr_yaml_put(mr_yaml *map, mr_arena *arena, const char *key, mr_place key_place, mr_yaml *value);

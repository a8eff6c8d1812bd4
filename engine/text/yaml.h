/* YAML as a tree that records where every key and value is.
 *
 * Supports only what configuration needs: one document with maps, lists and scalars. Refuses anchors, aliases, tags,
 * duplicate keys and a second document, texts over 1 MiB, nesting over 32, more than 200,000 keys and values, and bytes
 * that are not UTF-8. All nodes live in the caller's arena. Scalars keep their text; whoever reads them decides what it
 * means (option.h, value.h).
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
    mr_location place;        /* the value's */
    const char *key;       /* a map's child: the key; else NULL */
    mr_location key_place;
    const char *text;      /* scalars; URLs without user and password, once variables are replaced */
    const char *user, *password; /* from such a URL; NULL: none */
    const char *unset;     /* a variable that is not set, whose default stands there; NULL: none */
    bool doubled;          /* maps: some key stands there twice, which was diagnosed */
    size_t count;          /* a map's or list's children, in text order */
    struct mr_yaml *first, *last, *next;
    mr_index index;        /* maps: key to child */
} mr_yaml;

/* Reads `bytes` bytes from `text`. `file` names it in places and is borrowed: it must live as long as the arena. With
 * `override` places have line 0. *root is NULL if the text is empty or unusable. MR_OK, MR_ERROR_CONFIG (diagnosed) or
 * MR_ERROR_MEMORY. */
int mr_yaml_parse(mr_yaml **root, mr_arena *arena, const char *file, const char *text, size_t bytes, bool override,
                  mr_diagnostics *diagnostics);

/* Replaces ${VAR}, ${VAR:-default}, ${VAR:?message} and $$ in every scalar below `node` (not in keys) from the
 * process's environment. A default may contain variables. The value of a variable is never read as YAML nor expanded
 * again. Scalars whose variables are wrong are diagnosed and marked as broken. */
int mr_yaml_expand(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics);

/* Moves user and password from a scalar that is a URL into `user` and `password`. mr_yaml_expand does this. */
int mr_yaml_take_credentials(mr_yaml *node, mr_arena *arena, mr_diagnostics *diagnostics);

/* A map's child; NULL if there is none or `map` is no map. */
mr_yaml *mr_yaml_get(const mr_yaml *map, const char *key);
/* The node at a dotted path below `node`, or the deepest on the way that there is. */
const mr_yaml *mr_yaml_nearest(const mr_yaml *node, const char *path);
/* The place of element `i` under `key`: in a list, or the only element, which needs no list. */
mr_location mr_yaml_item_place(const mr_yaml *map, const char *key, size_t i);
/* Nothing was written: `key:`, `key: ~` or `key: null`. */
bool mr_yaml_is_null(const mr_yaml *node);
/* For messages: "\"text\"" (shortened), "nothing", "a list" or "a map"; returns `text`. */
const char *mr_yaml_found(const mr_yaml *node, char *text, size_t bytes);

/* Building: makes a node of that kind, and adds a child under `key` (borrowed), replacing one that is there. */
mr_yaml *mr_yaml_new(mr_arena *arena, mr_yaml_kind kind, mr_location place);
/* A copy that refers to nothing in the original tree, except that places name `file`. NULL if there is no memory. */
mr_yaml *mr_yaml_copy(mr_arena *arena, const mr_yaml *node, const char *file);
int mr_yaml_put(mr_yaml *map, mr_arena *arena, const char *key, mr_location key_place, mr_yaml *value);

/* Option tables at work: filling an options struct from a YAML map. millrace/describe.h describes options to people.
 *
 * Filling collects all errors of a map. Strings and lists that options point to live in the reader's arena. */
#pragma once

#include "engine/text/synonyms.h"
#include "engine/text/yaml.h"
#include "millrace/describe.h"
#include "millrace/option.h"
#include "millrace/stage.h"

/* What filling needs besides the table. */
typedef struct mr_option_reader {
    mr_arena *arena;
    mr_diagnostics *diagnostics;
    const char *directory; /* the YAML file's, "" or ending in "/"; relative paths in the file start there. Values from
                              the command line (place.line 0) start in the working directory */
    const char *where;     /* how messages name the map, such as "stages.preprocess"; "" for the whole file */
    const mr_stage_type *const *types; /* among whose options an unknown key may be; NULL: none */
    const mr_synonym *synonyms; /* for hints; NULL: none */
    bool partial;          /* required options may be missing */
    const char *more;      /* hint if a key is unknown and too many are known to list them; may be NULL */
} mr_option_reader;

/* Fills every field in `options` (`bytes` long) with the default, or zero. */
int mr_options_default(const mr_option_reader *reader, const mr_option *table, void *options, size_t bytes);

/* Reads `map`'s entries over the defaults in `options`. The caller must read entries that the table marks as read
 * elsewhere, and the keys in the table `known` (may be NULL). Unknown keys, wrong values and missing required options
 * are diagnosed. MR_OK, or MR_ERROR_CONFIG if anything was diagnosed. */
int mr_options_read(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                    const mr_yaml *map, void *options);

/* The misspelt entry for `name`: `name` is not among the keys of `map`, but a key that both tables lack comes near it.
 * That key is diagnosed as unknown, so the missing `name` need not be. NULL if there is none. */
const mr_yaml *mr_option_misspelt(const mr_synonym *synonyms, const char *name, const mr_option *table,
                                  const mr_option *known, const mr_yaml *map);

/* Whether "auto" stands for 0x0: a SIZE whose default it is. */
bool mr_option_takes_auto(const mr_option *option);
/* The words that a SIZE or DURATION takes in place of a value, ended by NULL; NULL if it takes none. */
const char *const *mr_option_words(const mr_option *option);

/* Whether `text`, a PATH or URI value, names a file and does not begin at the root. False for other kinds. */
bool mr_option_is_relative(const mr_option *option, const char *text);
/* Whether the value may be the name of a model's file (`named`). */
bool mr_option_is_name(const mr_option *option, const char *text);
/* A URI without "file:" and the slashes. */
const char *mr_option_without_scheme(const char *text);
/* The path of a PATH or URI; NULL if it has none, or the URI does not name a file. */
const char *mr_option_path(const mr_option *option, const void *options);

/* What a value in another form ("87.5%", "224 x 224", a time without a unit) or an unknown key ("input:cam",
 * "batch_size", an option that belongs to another type) probably means. Each writes into `text` and returns it, or
 * NULL. */
const char *mr_option_value_hint(const mr_option *option, const mr_yaml *found, char *text, size_t bytes);
/* "write version: 1" where that is the only value; else NULL. */
const char *mr_option_only_hint(const mr_option *option, char *text, size_t bytes);
const char *mr_option_key_hint(const mr_option_reader *reader, const mr_option *table, const mr_option *known,
                               const mr_yaml *entry, char *text, size_t bytes);

/* For messages: the value to write, with an example, such as "a duration such as 20ms". Returns `text`. */
const char *mr_option_expected_text(const mr_option *option, char *text, size_t bytes);

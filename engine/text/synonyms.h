/* Words of other programs and the words for them here, in a table that comes with the stage types. It only makes hints:
 * a pipeline may not use synonyms. Pure functions; a table may be NULL. Each returns `text`, or NULL if the table has
 * nothing. */
#pragma once

#include "engine/text/yaml.h"
#include "millrace/option.h"
#include "millrace/stage.h"

typedef enum mr_synonym_kind {
    MR_SYNONYM_SOURCE, /* a type under `sources` */
    MR_SYNONYM_STAGE,  /* a type under `stages` */
    MR_SYNONYM_KEY,    /* a key in any map */
    MR_SYNONYM_CHOICE, /* a value for the key `instead` */
    MR_SYNONYM_URI,    /* how a path or URI value begins */
    MR_SYNONYM_FILE    /* a top-level key, or the start of the text, in another program's file */
} mr_synonym_kind;

typedef struct mr_synonym {
    mr_synonym_kind kind;
    const char *words;   /* separated by blanks; case, "-", "_" and "." do not count */
    const char *value;   /* KEY: only with this value; NULL: with any */
    const char *instead; /* the type or key that is meant; NULL: there is none. FILE: the program */
    const char *write;   /* YAML that may be written: "std: 255", "{type: null, input: decode}"; NULL: take it away */
    const char *note;    /* further advice; NULL: none */
    bool carry;          /* KEY: the value can follow `instead` as it is */
} mr_synonym;

/* The table of the first type that has one (mr_stage_type.synonyms), or NULL. It ends with a row without words. */
const mr_synonym *mr_synonyms_of(const mr_stage_type *const *types);

/* For an unknown stage type. Only names among `types` are offered. */
const char *mr_synonym_type(const mr_stage_type *const *types, bool is_source, const char *word, char *text,
                            size_t bytes);
/* The sink among `types` that is meant by a word, such as the ending of a file's name. */
const char *mr_synonym_sink(const mr_stage_type *const *types, const char *word);
/* For a key in `map` that neither option table has (each may be NULL). */
const char *mr_synonym_key(const mr_synonym *table, const mr_option *options, const mr_option *known,
                           const mr_yaml *map, const mr_yaml *entry, char *text, size_t bytes);
/* For a value that is not among `key`'s choices; offers only those in `only` (NULL: any). */
const char *mr_synonym_choice(const mr_synonym *table, const char *key, const char *const *choices, const char *value,
                              char *text, size_t bytes);
/* For a path or URI value that could not be opened. */
const char *mr_synonym_uri(const mr_synonym *table, const char *value, char *text, size_t bytes);
/* Whether the unknown key is a synonym for `name`. */
bool mr_synonym_means(const mr_synonym *table, const mr_yaml *entry, const char *name);
/* The program that a file is for, by a top-level key or by how the text begins. NULL: not known. */
const mr_synonym *mr_synonym_file(const mr_synonym *table, const mr_yaml *root);
const mr_synonym *mr_synonym_text(const mr_synonym *table, const char *text);

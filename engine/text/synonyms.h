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
    MR_SYNONYM_KEY,    /* a key of any map */
    MR_SYNONYM_CHOICE, /* a value of the key `instead` */
    MR_SYNONYM_URI,    /* how the value of a path or URI begins */
    MR_SYNONYM_FILE    /* a key of the top level, or how the text begins, of a file that is another program's */
} mr_synonym_kind;

typedef struct mr_synonym {
    mr_synonym_kind kind;
    const char *words;   /* separated by blanks; case, "-", "_" and "." do not count */
    const char *value;   /* of a KEY: only with this value; NULL: with any */
    const char *instead; /* the type or key that is meant; NULL: there is none. Of a FILE: whose it is */
    const char *write;   /* YAML that may be written: "std: 255", "{type: null, input: decode}"; NULL: take it away */
    const char *note;    /* further advice; NULL: none */
    bool carry;          /* of a KEY: its value may stand behind `instead` as it is */
} mr_synonym;

/* The table of the first type that has one (mr_stage_type.synonyms), or NULL. It ends with a row without words. */
const mr_synonym *mr_synonyms_of(const mr_stage_type *const *types);

/* For an unknown stage type. Only names among `types` are offered. */
const char *mr_synonym_type(const mr_stage_type *const *types, bool is_source, const char *word, char *text,
                            size_t bytes);
/* The sink among `types` that is meant by a word, such as the ending of a file's name. */
const char *mr_synonym_sink(const mr_stage_type *const *types, const char *word);
/* For a key of `map` that is in neither table of options (each may be NULL). */
const char *mr_synonym_key(const mr_synonym *table, const mr_option *options, const mr_option *known,
                           const mr_yaml *map, const mr_yaml *entry, char *text, size_t bytes);
/* For a value of the option `key` that is none of its choices; of those only is offered (NULL: of any). */
const char *mr_synonym_choice(const mr_synonym *table, const char *key, const char *const *choices, const char *value,
                              char *text, size_t bytes);
/* For the value of a path or URI that could not be opened. */
const char *mr_synonym_uri(const mr_synonym *table, const char *value, char *text, size_t bytes);
/* True if the unknown key is a synonym of `name`. */
bool mr_synonym_means(const mr_synonym *table, const mr_yaml *entry, const char *name);
/* The program that a file is for: by a key of its top level, or by the beginning of its text. NULL: not known. */
const mr_synonym *mr_synonym_file(const mr_synonym *table, const mr_yaml *root);
const mr_synonym *mr_synonym_text(const mr_synonym *table, const char *text);

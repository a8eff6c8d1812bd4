/* Option tables: the options of a stage type in YAML.
 *
 * A table describes the fields of the stage type's options struct. It is the single source for parsing, `millrace
 * inspect`, the reference and the JSON Schema. Strings in a filled struct belong to the specification and live as long
 * as the pipeline. */
#ifndef MILLRACE_OPTION_H
#define MILLRACE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum mr_option_kind {
    MR_OPTION_BOOL,     /* bool */
    MR_OPTION_INT,      /* int64_t */
    MR_OPTION_DOUBLE,   /* double */
    MR_OPTION_STRING,   /* const char * */
    MR_OPTION_PATH,     /* const char *; relative paths are relative to the YAML file; "-" stays "-" */
    MR_OPTION_URI,      /* const char *; as PATH unless it has a scheme or is "lavfi:..."; "file:PATH" is PATH */
    MR_OPTION_ENUM,     /* int: index into `choices` */
    MR_OPTION_DURATION, /* int64_t nanoseconds; "20ms", "1.5s", "2m", "500us"; or one of `choices`, if there are any, as
                           MR_DURATION_WORD and its index */
    MR_OPTION_BYTES,    /* int64_t bytes; "64MiB", "1GB", "4096" */
    MR_OPTION_RATE,     /* double per second; "30fps", "29.97", "30000/1001" */
    MR_OPTION_SIZE,     /* mr_size; "224x224" (width x height), or one number for a square; if the fallback is "auto"
                           also that word, which is 0x0: the stage decides */
    MR_OPTION_DOUBLES,  /* mr_doubles; one number or a list of up to 4 */
    MR_OPTION_STRINGS,  /* mr_strings; one string or a list */
    MR_OPTION_PAIRS,    /* mr_pairs; a map of strings */
    MR_OPTION_FORMAT,   /* mr_format; "I420 1280x720", "RGB24 640x480", "f32 3x224x224", "u8 10" */
    MR_OPTION_MAP,      /* a nested struct described by `fields`, whose first member is a bool: true if it was given */
    MR_OPTION_MAPS      /* a map from names to maps described by `fields`; only with `elsewhere` */
} mr_option_kind;

/* The use of the file that a PATH or URI names; planning refuses two stages that write one file. */
typedef enum mr_option_file {
    MR_FILE_NONE,
    MR_FILE_READ,    /* a file, folder or glob that is read */
    MR_FILE_WRITTEN, /* a file that is written from its beginning; "-" is standard output */
    MR_FILE_FOLDER,  /* a folder that files are written into */
    MR_FILE_SENT,    /* no file: an address to send to, or NULL, which is nowhere: a run that is only measured sends
                        nothing */
    MR_FILE_NAME     /* a STRING: the names of those files; "{source}" stands for the id of the source, other words in
                        braces for numbers */
} mr_option_file;

#define MR_DURATION_WORD INT64_MIN

typedef struct mr_size {
    int32_t width, height;
} mr_size;
enum { MR_DOUBLES_MAX = 4 };
typedef struct mr_doubles {
    size_t count;
    double value[MR_DOUBLES_MAX];
} mr_doubles;
typedef struct mr_strings {
    size_t count;
    const char *const *item;
} mr_strings;
typedef struct mr_pairs {
    size_t count;
    const char *const *key;
    const char *const *value;
} mr_pairs;

/* Never shown: not in messages, plans, the log, or the digest of the pipeline. NULL: none. */
typedef struct mr_credentials {
    const char *user, *password;
} mr_credentials;

typedef struct mr_option {
    const char *name;
    mr_option_kind kind;
    size_t offset;              /* of the field in the options struct */
    const char *fallback;       /* default as YAML text; NULL: none (zero), "required" is said by `required` */
    bool required;
    mr_option_file file;
    bool searched;              /* with MR_FILE_READ: a name that is no file there may be found elsewhere, as a library
                                   is; else planning refuses a missing file */
    double min, max;            /* inclusive range of numbers, in the field's own unit; both 0: no limit. With
                                   `elsewhere`, of STRINGS, PAIRS and MAPS: of their count */
    const char *unit;           /* "px", "frames", ... for people; NULL if the kind implies it */
    const char *const *choices; /* of ENUM, and words in place of a DURATION; NULL-terminated */
    const struct mr_option *fields; /* of MAP and MAPS, ended by a NULL name */
    const char *help;           /* one sentence */
    const char *example;        /* as YAML text, if neither the default nor the kind shows the form */
    const char *brief;          /* of MAP: the field that a plain value sets if it stands in place of the map */
    const char *unless;         /* of a required one: the option that may be given in its place, never both */
    size_t credentials;         /* of URI: the offset of an mr_credentials, which gets user and password of the URL (or
                                   the `passphrase` of srt://); the URI is without them. 0: none are taken, and a URL
                                   that has some is refused */
    bool elsewhere;             /* not a field of the struct: other code reads the value, in its own syntax */
    bool neutral; /* it changes no number that the stage computes, only its speed or which frames there are;
                     so it is not part of mr_planned_lineage (stage.h) */
} mr_option;

/* A table ends with an element whose name is NULL. */
#ifdef __cplusplus
#define MR_OPTIONS_END {}
#else
#define MR_OPTIONS_END {0}
#endif

#ifdef __cplusplus
}
#endif

#endif

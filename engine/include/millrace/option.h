/* Option tables: a stage type's options in YAML.
 *
 * A table describes the fields of the stage type's options struct. The parser, `millrace inspect`, the reference and
 * the JSON Schema all use it. Strings in a filled struct belong to the specification and live as long as the
 * pipeline. */
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
    MR_OPTION_DURATION, /* int64_t nanoseconds; "20ms", "1.5s", "2m", "500us". A word from `choices`, if there are
                           any, is MR_DURATION_WORD plus its index. */
    MR_OPTION_BYTES,    /* int64_t bytes; "64MiB", "1GB", "4096" */
    MR_OPTION_RATE,     /* double per second; "30fps", "29.97", "30000/1001" */
    MR_OPTION_SIZE,     /* mr_size; "224x224" (width x height), or one number for a square. If the fallback is
                           "auto", that word is also allowed and gives 0x0: the stage decides. */
    MR_OPTION_DOUBLES,  /* mr_doubles; one number or a list of up to 4 */
    MR_OPTION_STRINGS,  /* mr_strings; one string or a list */
    MR_OPTION_PAIRS,    /* mr_pairs; a map of strings */
    MR_OPTION_POINTS,   /* mr_points; a list of points, each a list of two numbers: [[0, 0.5], [1, 0.5]] */
    MR_OPTION_SHAPES,   /* mr_shapes; a map from names to such lists */
    MR_OPTION_FORMAT,   /* mr_format; "I420 1280x720", "RGB24 640x480", "f32 3x224x224", "u8 10" */
    MR_OPTION_MAP,      /* A nested struct described by `fields`. Its first member is a bool: true if the map was
                           given. */
    MR_OPTION_MAPS,     /* a map from names to maps described by `fields`; only with `elsewhere` */
    MR_OPTION_EVERY     /* mr_every; "5" or "200ms". The range is for the number. */
} mr_option_kind;

/* How the stage uses the file that a PATH or URI names. Planning refuses two stages that write one file. The engine
 * makes the folder of a file that is WRITTEN, and a FOLDER, before it opens the stage; not the folders above. */
typedef enum mr_option_file {
    MR_FILE_NONE,
    MR_FILE_READ,    /* reads a file, folder or glob */
    MR_FILE_WRITTEN, /* writes a file from its beginning; "-" is standard output */
    MR_FILE_FOLDER,  /* writes files into a folder */
    MR_FILE_SENT,    /* No file: an address to send to. NULL sends nothing, as in a run that is only measured. */
    MR_FILE_NAME     /* A STRING: the names of files in a FOLDER. "{source}" stands for the source's id, other words
                        in braces for numbers. */
} mr_option_file;

#define MR_DURATION_WORD INT64_MIN

/* One of several frames: the first of each `frames`, or of each `time_ns`; the other is 0. */
typedef struct mr_every {
    int64_t frames, time_ns;
} mr_every;

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
typedef struct mr_points {
    size_t count;
    const double (*at)[2]; /* x, y; finite */
} mr_points;
typedef struct mr_shapes {
    size_t count;
    const char *const *name;
    const mr_points *points;
} mr_shapes;

/* Never shown in messages, plans, the log or the pipeline's digest. NULL: none. */
typedef struct mr_credentials {
    const char *user, *password;
} mr_credentials;

typedef struct mr_option {
    const char *name;
    mr_option_kind kind;
    size_t offset;              /* offset in the options struct */
    const char *fallback;       /* default as YAML text; NULL: none (zero); see `required` */
    bool required;
    mr_option_file file;
    bool searched;              /* With MR_FILE_READ: a file that is not there may be found elsewhere, like a
                                   library. If false, planning refuses a missing file. */
    double min, max;            /* Inclusive range for numbers, in the field's unit; both 0: no limit. With
                                   `elsewhere`, for STRINGS, PAIRS and MAPS: range of the count. For POINTS and
                                   SHAPES always: range of the number of points in a list. */
    const char *unit;           /* Optional. "px", "frames", ... for people. NULL if the kind implies it. */
    const char *const *choices; /* for ENUM, and words in place of a DURATION; ended by NULL */
    const struct mr_option *fields; /* for MAP and MAPS; ended by a NULL name */
    const char *help;           /* one sentence */
    const char *example;        /* Optional. YAML text, if neither the default nor the kind shows the form. */
    const char *brief;          /* Optional, for MAP: the field that a plain value in place of the map sets. */
    const char *unless;         /* Optional, with `required`: the option that you can give instead, but not as well. */
    size_t credentials;         /* For URI: the offset of an mr_credentials. It gets the URL's user and password (or
                                   the `passphrase` of srt://), and the URI loses them. 0: a URL with credentials is
                                   refused. */
    bool elsewhere;             /* not a field in the struct: other code reads the value in a syntax that it defines */
    const char *named; /* Optional, for a PATH that is read: an ending, such as ".onnx". A word without "/" and "."
                          that names no file is then the name of a file with that ending in the folders for models
                          (`millrace models`). */
    bool neutral; /* Does not change the numbers that the stage computes, only its speed or which frames there are.
                     mr_planned_lineage (stage.h) leaves it out. */
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

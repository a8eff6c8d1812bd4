/* Runs the user's pipeline over the files of a data set, as it is: its vectors and classes are those that it makes in
 * service.
 *
 * The source that leads to classify, or the first of several that do by the same way, is replaced by a list of the
 * files; the others read one of these, and what they give counts for nothing. No frame is dropped for being late, and
 * sinks take their frames and write nothing. For `train` the type `classify` is replaced by a tap, which finds the
 * vector as classify does, gives it away and absorbs the frame: so the head need not be there. For `evaluate` classify
 * works with all of its classes, and a callback behind it takes them.
 *
 * Where the pipeline has `nodes`, the vectors are made on them (extract_nodes.c). They are taken on the node that runs
 * classify, or, if that is several processes, on the nearest behind it that is one: that node is home, and classify and
 * all behind it are moved there. What the tap takes it writes into a spool (spool.h) before it settles the frame, so
 * each vector is there whatever is killed. All nodes find the list of files, and home its spool, in one folder. It is
 * named by the watching process (MILLRACE_TRAINING), or, where others start the nodes, by the number of the run in the
 * folder of the cache.
 *
 * Main thread; the functions that take vectors and classes are called on threads of the pipeline, one at a time. */
#pragma once

#include <pthread.h>

#include "engine/base/temp_folder.h"
#include "millrace/dataset.h"
#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/run/run_nodes.h"

enum { MR_DIGEST_TEXT = 65, MR_STAGES_TEXT = 512, MR_CACHE_KEY_TEXT = MR_DIGEST_TEXT + 33 };

/* A picture of a file: the time at which it is shown, from the start of its video; 0 of a file that is a picture. */
typedef struct mr_taken {
    size_t file; /* of the job */
    int64_t at_ns;
    mr_identity frame; /* in whose order the pictures of one file are */
} mr_taken;
/* Takes the vector, or the classes, of one picture. Another answer than MR_OK, with mr_message, ends the run. */
typedef int mr_take_vector(void *user, const mr_taken *from, const float *vector, size_t length);
typedef int mr_take_classes(void *user, const mr_taken *from, const mr_class *classes, size_t count);
/* Takes the frame of one picture that a stage is given, in memory of the host. */
typedef int mr_take_given(void *user, const mr_taken *from, const mr_frame *frame);

/* Which pictures of a video are taken: `every`, `fps` and `stream` of the pipeline's own source. */
typedef struct mr_picture_choice {
    int64_t every, stream;
    double fps;
} mr_picture_choice;

/* What this process does for a pipeline with nodes. */
typedef enum mr_extraction_role {
    MR_EXTRACTION_ALONE,   /* runs all stages: there are no nodes */
    MR_EXTRACTION_WATCHES, /* starts all nodes, watches over them, and trains */
    MR_EXTRACTION_HOME,    /* runs the node that is home, and trains; others start the other nodes */
    MR_EXTRACTION_NODE     /* runs a node for the process that trains */
} mr_extraction_role;

/* Of a pipeline with nodes: the command that runs each of them. */
typedef struct mr_extraction_nodes {
    mr_run_arguments run; /* its overrides are a copy of the extraction's */
    const char *data, *head;
    const char *cache; /* its folder, as it was found; the nodes' files are there */
} mr_extraction_nodes;

typedef struct mr_extraction {
    /* set by the caller */
    const char *path; /* of the pipeline */
    const char *text; /* its text, if it is not in the file; of "-" _prepare reads it, for all plans */
    const mr_overrides *overrides;
    const char *stage; /* id of the classify stage; NULL: the only one */
    bool show;         /* progress, on a terminal */
    const char *head;  /* that classify takes in place of its own; NULL: its own */
    mr_extraction_nodes *spread; /* how nodes are run; NULL: all stages run in this process */
    int least_side;    /* vectors of pictures that are smaller on a side, in pixels, are zeros; 0: none are */
    /* set by mr_extraction_prepare */
    const mr_plan_view *plan; /* as it is written */
    const mr_view_stage *classify, *source;
    char stages[MR_STAGES_TEXT]; /* "decode, hog" */
    mr_picture_choice choice;
    const char *tensor;          /* that classify is told to take; NULL: none */
    const mr_plan_view *nodes;   /* the plan with its nodes; NULL: there are none */
    mr_extraction_role role;
    int home; /* the node whose process takes the vectors */
    /* set by mr_extraction_trace, as mr_planned_lineage gives them */
    char digest[MR_DIGEST_TEXT];
    char *lineage;
    size_t length; /* of the vectors; 0: not known */
    /* The digest; if a stage before classify is on another device than the processors, with a digest of their kinds:
     * the last bits of a vector depend on that. */
    char cache_key[MR_CACHE_KEY_TEXT];
    /* set by mr_extraction_run: differences that the author has overruled (mr_summary.forced), "STAGE: why; ..."; NULL:
     * none */
    char *forced;
    /* private */
    char *typed; /* what standard input gave */
    struct mr_tap_type *types;
    const mr_stage_type **list;
    size_t type_count;
    pthread_mutex_t lock;
    mr_temp_folder temp;
    char folder[MR_TEMP_FOLDER_PATH]; /* of the files of a run */
    struct mr_file_index *index;
    char where[32]; /* the end of cache_key */
    mr_take_vector *take_vector;
    mr_take_classes *take_classes;
    mr_take_given *take_given;
    const mr_view_stage *given_to;
    void *user;
    bool has_videos;
    mr_pipeline *pipeline;
    int status; /* of a take that failed, with its message */
    char message[512];
} mr_extraction;

/* Plans the pipeline and finds its source and its classify. Returns an exit code; errors are printed. Finish it in any
 * case. */
int mr_extraction_prepare(mr_extraction *extraction);
/* Finds the lineage of the vectors; needed before vectors are taken. As _prepare. */
int mr_extraction_trace(mr_extraction *extraction);
/* Runs it over these files: vectors if `take_vector` is given, else classes. They may come in any
 * order. A file of which nothing comes was damaged or dropped. MR_ERROR_DATA for a name that is not a text. MR_OK;
 * MR_ERROR_CANCELLED if mr_stop_asked; *told: the error has been printed. */
typedef struct mr_extraction_job {
    size_t count;
    const mr_listed_file *const *files;
    mr_take_vector *take_vector;
    mr_take_classes *take_classes;
    mr_take_given *take_given;     /* NULL: none; beside take_classes */
    const mr_view_stage *given_to; /* the stage of that, which has one input */
    void *user;
    const mr_content_key *keys; /* beside take_vector: of each file; zeros of one whose vectors count only together */
} mr_extraction_job;
/* The stage or source whose frames that stage is given; NULL if there are several, or none. *port: of its outputs. */
const mr_view_stage *mr_extraction_before(const mr_extraction *extraction, const mr_view_stage *stage, int *port);

int mr_extraction_run(mr_extraction *extraction, const mr_extraction_job *job, bool *told);
/* Of nodes that a process watched, which was killed: gives the vectors that had come home, with their files' keys. Not
 * those of files whose vectors count only together, nor damaged ones. MR_ERROR_MEMORY, errors of `take`. */
typedef int mr_take_left(void *user, const mr_content_key *key, int64_t at_ns, const float *vector, size_t length);
int mr_extraction_take_left(const mr_extraction *extraction, const char *cache, mr_take_left *take, void *user);
/* Of a node: runs it, for the process that trains, until that lets it go. Returns an exit code; errors are printed. */
int mr_extraction_serve(mr_extraction *extraction);
/* Of home, when it has its vectors, or failed: lets nodes that others start go, unless another try may need them. Does
 * nothing in other roles. */
void mr_extraction_release(mr_extraction *extraction, int status);
void mr_extraction_fini(mr_extraction *extraction);

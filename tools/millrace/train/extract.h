/* Runs the user's unchanged pipeline over a data set's files, to get the same vectors and classes as in service.
 *
 * The source that leads to classify is replaced by a list of the files. If several sources take the same way, the first
 * is replaced. The others read one of these files, and the frames are ignored. No frame is dropped for being late,
 * and sinks write nothing. For `train`, a tap replaces the type `classify`: it finds the vector as classify does,
 * passes it on and absorbs the frame, so the head need not exist. For `evaluate`, classify reports all its classes to a
 * callback after it.
 *
 * If the pipeline has `nodes`, the vectors are computed there (extract_nodes.c). The home node takes them: the one that
 * runs classify or, if that node is several processes, the nearest later node that is one process. classify and all
 * later stages move there. The tap writes each vector to the cache before it settles the frame, so no vector is lost if
 * a process is killed. All nodes find the list of files in one folder. The watching process names it
 * (MILLRACE_TRAINING). If nodes are started by others, the name is the run's number in the cache folder.
 *
 * Main thread. Pipeline threads call the functions that take vectors and classes, one at a time. */
#pragma once

#include <pthread.h>

#include "engine/base/temp_folder.h"
#include "millrace/dataset.h"
#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"
#include "tools/millrace/run/run_nodes.h"
#include "tools/millrace/train/cache.h"

enum { MR_DIGEST_TEXT = 65, MR_STAGES_TEXT = 512, MR_CACHE_KEY_TEXT = MR_DIGEST_TEXT + 33 };

/* A picture in a file: the time when it is shown, from the video's start; 0 if the file is a picture. */
typedef struct mr_taken {
    size_t file; /* index in the job */
    int64_t at_ns;
    mr_identity frame; /* orders the pictures in one file */
} mr_taken;
/* Takes one picture's vector or classes. Anything but MR_OK, with mr_message, ends the run. */
typedef int mr_take_vector(void *user, const mr_taken *from, const float *vector, size_t length);
typedef int mr_take_classes(void *user, const mr_taken *from, const mr_class *classes, size_t count);
/* Takes the frame that a stage receives for one picture, in host memory. */
typedef int mr_take_given(void *user, const mr_taken *from, const mr_frame *frame);

/* Which pictures to take from a video: the pipeline source's `every`, `fps` and `stream`. */
typedef struct mr_picture_choice {
    int64_t every, stream;
    double fps;
} mr_picture_choice;

/* This process's role for a pipeline with nodes. */
typedef enum mr_extraction_role {
    MR_EXTRACTION_ALONE,   /* runs all stages; no nodes */
    MR_EXTRACTION_WATCHES, /* starts and watches all nodes, and trains */
    MR_EXTRACTION_HOME,    /* runs the home node, and trains; others start the other nodes */
    MR_EXTRACTION_NODE     /* runs a node for the training process */
} mr_extraction_role;

/* For a pipeline with nodes: the command that runs each one. */
typedef struct mr_extraction_nodes {
    mr_run_arguments run; /* its overrides copy the extraction's */
    const char *data, *head;
    const char *cache; /* its folder, as found; the vectors and the nodes' files are there */
} mr_extraction_nodes;

typedef struct mr_extraction {
    /* set by the caller */
    const char *path; /* pipeline's path */
    const char *text; /* its text, if not in the file; for "-" _prepare reads it once for all plans */
    const mr_overrides *overrides;
    const char *stage; /* classify stage's id; NULL: the only one */
    bool show;         /* progress, on a terminal */
    const char *head;  /* replaces classify's head; NULL: not replaced */
    mr_extraction_nodes *spread; /* how to run nodes; NULL: all stages run in this process */
    int least_side;    /* pictures with a smaller side, in pixels, get zero vectors; 0: none */
    /* set by mr_extraction_prepare */
    const mr_plan_view *plan; /* the pipeline's plan, unchanged */
    const mr_view_stage *classify, *source;
    char stages[MR_STAGES_TEXT]; /* "decode, hog" */
    mr_picture_choice choice;
    const char *tensor;          /* which tensor classify must use; NULL: none */
    const mr_plan_view *nodes;   /* the plan with nodes; NULL: there are none */
    mr_extraction_role role;
    int home; /* node whose process takes the vectors */
    /* set by mr_extraction_trace, as in mr_planned_lineage */
    char digest[MR_DIGEST_TEXT];
    char *lineage;
    size_t length; /* vector length; 0: not known */
    /* The digest. If a stage before classify runs on a device other than the processors, a digest over device kinds
     * follows: a vector's last bits depend on that. */
    char cache_key[MR_CACHE_KEY_TEXT];
    /* set by mr_extraction_run: differences that the author chose to ignore (mr_summary.forced), "STAGE: why; ...";
     * NULL: none */
    char *forced;
    /* private */
    char *typed; /* the text from standard input */
    struct mr_tap_type *types;
    const mr_stage_type **list;
    size_t type_count;
    pthread_mutex_t lock;
    mr_temp_folder temp;
    char folder[MR_TEMP_FOLDER_PATH]; /* a run's files */
    struct mr_file_index *index;
    char where[32]; /* cache_key's end */
    mr_take_vector *take_vector;
    mr_take_classes *take_classes;
    mr_take_given *take_given;
    const mr_view_stage *given_to;
    void *user;
    bool has_videos;
    mr_pipeline *pipeline;
    int status; /* status of a take that failed, with the message */
    char message[512];
} mr_extraction;

/* Plans the pipeline and finds the source and classify stage. Returns an exit code; errors are printed. The caller must
 * finish it in any case. */
int mr_extraction_prepare(mr_extraction *extraction);
/* Finds the vectors' lineage; must be called before vectors are taken. Returns as _prepare. */
int mr_extraction_trace(mr_extraction *extraction);
/* Runs the pipeline over these files: for vectors if `take_vector` is set, else for classes. They can come in any
 * order. A node's process writes vectors to the cache itself and does not call `take_vector`. If nothing comes for a
 * file, it was damaged or dropped. MR_ERROR_DATA: a name is not a text. MR_ERROR_CANCELLED if mr_stop_asked. *told: the
 * error has been printed. */
typedef struct mr_extraction_job {
    size_t count;
    const mr_listed_file *const *files;
    mr_take_vector *take_vector;
    mr_take_classes *take_classes;
    mr_take_given *take_given;     /* NULL: none; needs take_classes */
    const mr_view_stage *given_to; /* that stage, which must have one input */
    void *user;
    const mr_content_key *keys; /* with take_vector: the key of each file's vectors in the cache */
} mr_extraction_job;
/* The head that the pipeline's classify names; NULL: none. */
const char *mr_extraction_own_head(const mr_extraction *extraction);
/* The stage or source that feeds this stage; NULL if there are several, or none. *port: its output port. */
const mr_view_stage *mr_extraction_before(const mr_extraction *extraction, const mr_view_stage *stage, int *port);

int mr_extraction_run(mr_extraction *extraction, const mr_extraction_job *job, bool *told);
/* The cache's record for a picture. A picture file has one vector, whatever is before it in the list. */
mr_cache_record mr_extraction_record(const mr_content_key *key, bool video, const mr_taken *from);
/* On home: the state of the nodes of this MILLRACE_RUN. In other roles always NEW. */
typedef enum mr_nodes_state {
    MR_NODES_NEW,
    MR_NODES_WAIT, /* a killed home has left nodes that wait for it */
    MR_NODES_ENDED /* home released them */
} mr_nodes_state;
mr_nodes_state mr_extraction_nodes_state(const mr_extraction *extraction);
/* On a node: runs it for the training process, until that releases it. Returns an exit code; errors are printed. */
int mr_extraction_serve(mr_extraction *extraction);
/* On home, once it has its vectors or failed: releases nodes that others start, unless another try may need them. Does
 * nothing in other roles. */
void mr_extraction_release(mr_extraction *extraction, int status);
void mr_extraction_fini(mr_extraction *extraction);

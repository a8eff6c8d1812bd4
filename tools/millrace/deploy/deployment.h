/* A planned pipeline, written for a launcher: shared by the verbs `deploy` and `submit`, and by the targets.
 *
 * A shell, systemd and Kubernetes read the output line by line. Foreign text must not end a line there: mr_deploy_check
 * refuses control characters, once for all targets, and each target quotes the rest by its rules. */
#pragma once

#include <stdio.h>

#include "millrace/plan.h"
#include "tools/millrace/cli/overrides.h"

typedef enum mr_deploy_target {
    MR_DEPLOY_SLURM, MR_DEPLOY_KUBERNETES, MR_DEPLOY_SYSTEMD, MR_DEPLOY_TARGETS
} mr_deploy_target;
/* What happens when a signal has ended a process. */
typedef enum mr_on_death { MR_DEATH_RESTARTS, MR_DEATH_ENDS } mr_on_death;

/* The written files, in order. */
typedef struct mr_deploy_files {
    char **path;
    size_t count, room;
} mr_deploy_files;

typedef struct mr_deployment {
    mr_deploy_target target;
    const mr_overrides *overrides;
    const char *path;     /* the pipeline file; mr_deploy_prepare makes it absolute */
    const char *command;  /* absolute path of millrace, or a name to look up */
    const char *image;    /* kubernetes: of all containers; NULL: those of tools/image */
    const char *folder;   /* for the output files */
    const char *checkpoints, *notes; /* slurm: absolute paths of folders, for checkpoints and for notes on each task;
                                        NULL: the job's working directory has the checkpoints; there are no notes */
    mr_on_death on_death;
    bool trains;          /* `millrace train` instead of `millrace run` */
    char *const *words;   /* more arguments for it, ended by NULL */
    const char *claim, *mount; /* kubernetes: a volume claim that all nodes share, and the mount path; NULL: none */

    /* By mr_deploy_prepare: */
    const mr_plan_view *plan;
    char *name;           /* the pipeline's; only lower-case letters, digits and - */
    char run[17];         /* the run's number, for MILLRACE_RUN */
    mr_deploy_files *written;
    char *owned[2];
} mr_deployment;

typedef struct mr_deploy_file {
    FILE *stream;
    char *path; /* borrowed from the list */
} mr_deploy_file;

/* Opens a file in the folder for writing and lists it. MR_ERROR_PERMISSION, MR_ERROR_IO, MR_ERROR_MEMORY. */
int mr_deploy_open(const mr_deployment *of, mr_deploy_file *file, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Closes the file; MR_ERROR_IO if it could not be written completely. */
int mr_deploy_close(mr_deploy_file *file);
/* Calls `function` for each `millrace` argument, from "run" or "train" to the last override. Stops if it returns
 * nonzero, which means out of memory. MR_OK or MR_ERROR_MEMORY. */
typedef int mr_deploy_word(void *context, const char *word);
int mr_deploy_words(const mr_deployment *of, const char *path, mr_deploy_word *function, void *context);
/* The pipeline's nodes; a pipeline without nodes has one process, whose node is called "run". */
const mr_view_node *mr_deploy_nodes(const mr_plan_view *plan, size_t *count);
/* The number of different GPUs that a node's stages name. */
int mr_deploy_gpus(const mr_plan_view *plan, int node);

/* deploy_environment.c: writes NAME.env, which only the owner can read. It holds the variables from the pipeline's text
 * and millrace's own (ONNX Runtime's library), with the values in `deploy`'s environment. *path is absolute and must be
 * freed by the caller; NULL: there is nothing to write. */
int mr_deploy_environment(const mr_deployment *of, char **path);

/* deploy_secrets.c: whether the text has a URL's user or password, or a passphrase, that is written out. A user whose
 * password is a variable is no secret. True without memory. */
bool mr_deploy_shows_secret(const char *text);

/* deploy_names.c: a pipeline's name in the form allowed for units, jobs and hosts. The caller must free it. NULL: no
 * memory. */
char *mr_deploy_name(const char *name);
/* A node's Job in Kubernetes: only lower-case letters, digits and -. As above. */
char *mr_deploy_object_name(const char *name, const char *node);
/* MR_OK if each text fits on one line, else MR_ERROR_USAGE with the text and the reason. */
int mr_deploy_check(const mr_deployment *of);

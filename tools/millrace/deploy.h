/* What the files of `millrace deploy` share: a planned pipeline of several nodes, written for whoever starts it. */
#ifndef MILLRACE_TOOLS_DEPLOY_H
#define MILLRACE_TOOLS_DEPLOY_H

#include <stdio.h>

#include "engine/config/plan.h"
#include "tools/millrace/overrides.h"

typedef struct mr_deployment {
    const mr_plan *plan;
    const mr_overrides *overrides;
    const char *name;     /* of the pipeline, of small letters, digits and - only */
    const char *path;     /* of the pipeline's file, absolute */
    const char *command;  /* of millrace, absolute */
    const char *image;    /* of containers */
    const char *folder;   /* that files are written to */
    char run[17];         /* the number of the run, for MILLRACE_RUN */
} mr_deployment;

/* deploy.c: opens a file of the folder for writing and says its name. NULL with a message. */
FILE *mr_deploy_open(const mr_deployment *of, const char *name);
/* Closes it; MR_ERROR_IO where not all of it was written. */
int mr_deploy_close(FILE *file, const char *name);
/* Calls for each argument of `millrace`, from "run" to the last override. */
typedef void mr_deploy_word(void *context, const char *word);
void mr_deploy_words(const mr_deployment *of, const char *path, mr_deploy_word *function, void *context);
/* How many different GPUs stages of a node name. */
int mr_deploy_gpus(const mr_plan *plan, int node);

/* Each MR_OK, MR_ERROR_IO, MR_ERROR_MEMORY, or MR_ERROR_CONFIG where the pipeline cannot be run there. */
int mr_deploy_slurm(const mr_deployment *of);
int mr_deploy_kubernetes(const mr_deployment *of);
int mr_deploy_systemd(const mr_deployment *of);

#endif

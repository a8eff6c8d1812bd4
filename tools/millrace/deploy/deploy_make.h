/* The verbs `deploy` and `submit` share the command line, the plan, and the files for a target. */
#pragma once

#include "tools/millrace/deploy/deployment.h"

/* Options for `deploy` and `submit`. `arguments` must have the members `of`, a deployment, and `overrides`. */
#define MR_DEPLOY_OPTIONS                                                                                              \
    MR_OPTION("target", "slurm|kubernetes|systemd", arguments, of.target,                                              \
              "what starts the nodes; you can also write it as a word before the pipeline"),                           \
        MR_OPTION("image", "IMAGE", arguments, of.image,                                                               \
                  "kubernetes: the container image with millrace; millrace:VERSION by default, and "                   \
                  "millrace:VERSION-cuda for nodes with GPUs"),                                                        \
        MR_OPTION("command", "PATH", arguments, of.command,                                                            \
                  "slurm, systemd: the path of millrace on the machines where it will run; the path of this command "  \
                  "by default"),                                                                                       \
        MR_OPTION("on-death", "restart|end", arguments, of.on_death,                                                   \
                  "slurm, systemd: what happens when a signal has ended a process. restart is the default, at most 5 " \
                  "times; end ends all nodes. Another failure always ends all nodes under Slurm. systemd also "        \
                  "restarts after exit codes other than 64, 65, 66, 77 and 78; its limit is 5 starts a minute"),       \
        MR_OPTION("train", NULL, arguments, of.trains,                                                                 \
                  "slurm, kubernetes: the nodes train a classifier (millrace train) instead of a run. Options of "     \
                  "`train` follow \"--\". All nodes must find --data and --cache under the same path"),                \
        MR_OPTION_TAKE("volume", "CLAIM=PATH", arguments, of, mr_deploy_take_volume,                                   \
                       "kubernetes: a PersistentVolumeClaim that all nodes share, and its path in them. --train "      \
                       "keeps data, vectors and the head there"),                                                      \
        MR_OVERRIDE_INPUTS, MR_OVERRIDE_ALLOWING_PLUGINS

mr_usage_take_function mr_deploy_take_volume;
/* Reads the pipeline and the words after the options, and checks that they suit the target. Returns an exit code, with
 * an error printed. */
int mr_deploy_take_words(const mr_usage *usage, mr_deployment *of, const mr_overrides *overrides, int argc,
                         char **argv);
/* Plans the pipeline's text and sets the rest of the deployment; prints the diagnostics. Returns an exit code.
 * Afterwards, also on failure, call mr_deploy_fini. */
int mr_deploy_prepare(mr_deployment *of);
/* Writes the target's files into the folder, which it makes if needed. MR_OK, MR_ERROR_IO, MR_ERROR_MEMORY,
 * MR_ERROR_USAGE for a text that no file may have, or MR_ERROR_CONFIG if the pipeline cannot run there. */
int mr_deploy_write(mr_deployment *of);
void mr_deploy_fini(mr_deployment *of);

/* Writes the files for a target. Each function returns MR_OK, MR_ERROR_IO, MR_ERROR_MEMORY, or MR_ERROR_CONFIG if the
 * pipeline cannot run there. */
#pragma once

#include "tools/millrace/deploy/deployment.h"

int mr_deploy_slurm(const mr_deployment *of);
int mr_deploy_kubernetes(const mr_deployment *of);
int mr_deploy_systemd(const mr_deployment *of);

/* Makes manual pages and shell completions from all verbs' usages and the topics. */
#pragma once

#include <stdio.h>

#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/topics.h"

/* NULL if no topic has that name. */
const mr_topic *mr_topic_find(const char *name);

/* Writes the page millrace.yaml if `pipeline`, else millrace. MR_OK or MR_ERROR_MEMORY. */
int mr_help_manual(FILE *to, bool pipeline);
/* Writes the script for zsh or bash. */
void mr_help_completion(FILE *to, bool zsh);

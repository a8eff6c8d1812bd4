/* Output made from the usages of all verbs and from the topics: manual pages, and completions for shells. */
#pragma once

#include <stdio.h>

#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/topics.h"

/* NULL if no topic has that name. */
const mr_topic *mr_topic_find(const char *name);

/* The page millrace.yaml if `pipeline`, else millrace. MR_OK or MR_ERROR_MEMORY. */
int mr_help_manual(FILE *to, bool pipeline);
/* The script for zsh, else for bash. */
void mr_help_completion(FILE *to, bool zsh);

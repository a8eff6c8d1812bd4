/* Output made from the usages of all verbs and from the topics: manual pages, and completions for shells. */
#pragma once

#include <stdio.h>

#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/topics.h"

/* NULL if no topic has that name. */
const mr_topic *mr_topic_find(const char *name);

/* The parts in a usage's help: a list entry, such as an option with its argument, or a paragraph (name NULL). Texts are
 * one line each, borrowed for the call. */
typedef void mr_help_part(void *to, const char *name, const char *text);
void mr_help_parts(const char *help, mr_help_part *part, void *to);
/* The argument and the text of an option's help; both are "" if it has none. Cut if there is no room. */
void mr_help_option(const mr_usage *usage, const char *option, char *argument, size_t argument_room, char *text,
                    size_t room);

/* MR_OK, MR_ERROR_USAGE if there is no such page or shell (with a message), or MR_ERROR_MEMORY. */
int mr_help_manual(FILE *to, const char *page);
int mr_help_completion(FILE *to, const char *shell);

/* Sources from a watched list (`sources_from`): adds, changes and removes them to match the list.
 *
 * A separate thread reads the list when the pipeline starts, when one of the files changes, and on request. A list with
 * a syntax error changes nothing. A source that cannot be read or does not fit must not delay the others: it is
 * reported with the place, and tried again when the list is next read. */
#pragma once

#include "millrace/millrace.h"

typedef struct mr_listed mr_listed;

/* Call it when the pipeline runs. Without a list *listed stays NULL. MR_ERROR_MEMORY. */
int mr_listed_start(mr_listed **listed, mr_pipeline *pipeline);
/* Ends the thread, which may be opening a source. Any thread; can be called repeatedly. */
void mr_listed_end(mr_listed *listed);
/* Calls mr_listed_end and destroys the list. Must be called before the graph is destroyed. */
void mr_listed_stop(mr_listed **listed);

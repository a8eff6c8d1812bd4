/* Sources of a watched list (`sources_from`): added, changed and removed as the list says.
 *
 * A thread of its own reads the list when the pipeline starts, when a file of it changes, and when it is asked to. A
 * list with an error in its text changes nothing. A source that cannot be added, since it cannot be read or does not
 * fit, does not keep the others waiting: it is reported with its place, and tried again when the list is read again. */
#pragma once

#include "millrace/millrace.h"

typedef struct mr_listed mr_listed;

/* Once the pipeline runs; *listed stays NULL if it has no list. MR_ERROR_MEMORY. */
int mr_listed_start(mr_listed **listed, mr_pipeline *pipeline);
/* Ends the thread, which may be opening a source. Any thread, also more than once. */
void mr_listed_end(mr_listed *listed);
/* Likewise, and destroys it, before the pipeline's graph is. */
void mr_listed_stop(mr_listed **listed);

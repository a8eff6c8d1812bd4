/* All nodes' sources, as rows in one process's summary: frames as the source's node has counted them, classes as the
 * first node that gets them. */
#pragma once

#include "tools/millrace/run/children.h"

/* Sources beyond the first 20 are only counted. Faults are listed below the ledger. */
void mr_children_print_sources(const mr_child *children, size_t count, FILE *stream);

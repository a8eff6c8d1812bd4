/* The sources of all nodes, as rows of the summary of one process: frames as the node of the source has counted them,
 * classes as the first node that gets them. */
#pragma once

#include "tools/millrace/run/children.h"

/* Sources beyond the first 20 are only counted. Faults are listed below the ledger. */
void mr_children_print_sources(const mr_child *children, size_t count, FILE *stream);

/* What list and inspect both tell of a stage type. */
#ifndef MILLRACE_TOOLS_TYPES_H
#define MILLRACE_TOOLS_TYPES_H

#include "millrace/stage.h"

/* "source", "stage", "sink", or "stage, sink" where its output may be left open. */
const char *mr_type_kind(const mr_stage_type *type);

#endif

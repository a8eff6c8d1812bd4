/* A summary as dicts and lists, with the keys and units that `run --json` writes (millrace/summary_fields.h).
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"

PyObject *mr_py_summary(const mr_summary *summary);

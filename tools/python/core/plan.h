/* A plan as dicts and lists.
 *
 * Threads: with the GIL. */
#pragma once

#include "core.h"
#include "millrace/plan.h"

PyObject *mr_py_plan(const mr_plan_view *view);

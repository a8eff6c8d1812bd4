/* What a run answers to a request at its control socket (control.h), and does for it. */
#ifndef MILLRACE_TOOLS_RUN_CONTROL_ANSWER_H
#define MILLRACE_TOOLS_RUN_CONTROL_ANSWER_H

#include <stddef.h>

#include "millrace/millrace.h"

/* Does what one line asks for. The answer ends with a newline and is the caller's to free; NULL: no memory. `pipeline`
 * NULL: nothing runs yet, or any more. */
char *mr_control_answer(const char *request, mr_pipeline *pipeline, size_t *length);

#endif

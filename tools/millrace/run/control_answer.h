/* Handles requests at a run's control socket (control.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/millrace.h"

/* Checks a request before it is sent: the command, whether it has an argument (NULL: none), and whether it may have
 * options. MR_ERROR_USAGE. Any thread. */
int mr_control_check(const char *what, const char *argument, bool options);
/* Does one request, a line. Returns the answer, which ends with a newline and which the caller must free; NULL: no
 * memory. `pipeline` NULL: it is not running yet, or no longer. `refused`: why requests are refused, else NULL. Any
 * thread. */
char *mr_control_answer(const char *request, mr_pipeline *pipeline, const char *refused, size_t *length);

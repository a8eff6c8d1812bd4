/* Carries the log lines of the nodes' processes to the supervisor, whose HTTP server shows them. They also go where
 * they went before.
 *
 * A line is one packet. The process that logs never waits: if the supervisor does not read, lines are lost here once
 * some hundred wait. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "millrace/log.h"

typedef struct mr_node_line {
    size_t child; /* its place in the supervisor's list */
    mr_log_level level;
    char text[512];
} mr_node_line;

/* The supervisor's side: two ends; MR_ERROR_INTERNAL. */
int mr_node_log_open(int ends[2]);
/* In a child before it becomes a node's process: gives it the end. */
void mr_node_log_give(int end, size_t child);
/* The next line that has arrived; false if there is none. */
bool mr_node_log_take(int end, mr_node_line *line);

/* The node's side: from now on, lines are sent too if the supervisor wants them. */
void mr_node_log_begin(void);
/* Sends the message of a failure, which the command prints but does not log. */
void mr_node_log_failed(void);

/* SIGINT, SIGTERM and SIGHUP while a verb works for long: the first asks it to end, and is noted; the second ends the
 * process, unless it comes with the first (mr_signals_are_one). Main thread, before other threads are started. */
#pragma once

#include <stdbool.h>

void mr_stop_begin(void);
/* Records a signal that something else has handled. */
void mr_stop_note(int signal);
/* Whether one came. Any thread. */
bool mr_stop_asked(void);
/* Prints that the verb was interrupted, and `kept`, a sentence about what remains. Returns the exit code, 128 plus the
 * signal. */
int mr_stop_tell(const char *kept);

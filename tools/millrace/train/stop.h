/* SIGINT, SIGTERM and SIGHUP during a long verb. The first asks the verb to end and is recorded. The second ends the
 * process, unless it belongs to the first (mr_signals_are_one). Main thread, before other threads start. */
#pragma once

#include <stdbool.h>

void mr_stop_begin(void);
/* Records a signal that something else has handled. */
void mr_stop_note(int signal);
/* Whether one came. Any thread. */
bool mr_stop_asked(void);
/* Prints that the verb was interrupted, and `kept`, a sentence about the remaining files. Returns the exit code, 128
 * plus the signal. */
int mr_stop_tell(const char *kept);

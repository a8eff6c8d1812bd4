/* In a container the command may be process 1, which the kernel treats as an init process: orphans of other processes
 * become its children, and it must collect them when they end. */
#pragma once

/* Returns at once unless this is process 1. There it returns in a new process that does the command's work. Process 1
 * itself never returns: it passes on signals, collects ended processes, and exits when the new process has ended, with
 * the same code, or 128 plus the signal. If no process can be made, the command goes on as process 1. Must be called
 * before threads are started. */
void mr_first_process(void);

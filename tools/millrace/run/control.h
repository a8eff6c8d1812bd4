/* The control socket of a run: what `millrace ctl` talks to.
 *
 * It is a stream socket of the Unix domain, mode 0600, in a folder that belongs to the user and that nobody else may
 * enter; who connects is asked for by the system as well: the user, or root. Requests and answers are JSON objects, one
 * a line, any number on a connection:
 *
 *     {"millrace": 1, "do": "status"}
 *     {"millrace": 1, "ok": true, "pid": 4711, "pipeline": "classify", "status": {...}, "text": "..."}
 *     {"millrace": 1, "do": "disable", "argument": "cuda:1"}
 *     {"millrace": 1, "ok": false, "exit_code": 64, "error": "pipeline classify does not use a device \"cuda:1\""}
 *
 * "millrace" is the version of this protocol; another one is refused with exit code 76. "do" is one of status, disable,
 * enable (argument: a device), drain, stop, and log (argument: a level). "status" is what `run --json` prints, so far,
 * and "text" the same for people. Who does not take an answer within three seconds is let go. What changes something is entered into the audit log, whether it was done or refused.
 *
 * Threads: open and close are called while no thread serves; the rest by the thread that serves, which is that of
 * signals (signals.h). */
#ifndef MILLRACE_TOOLS_RUN_CONTROL_H
#define MILLRACE_TOOLS_RUN_CONTROL_H

#include <poll.h>
#include <sys/types.h>

#include "millrace/millrace.h"

enum { MR_CONTROL_VERSION = 1, MR_CONTROL_CLIENTS = 8, MR_CONTROL_FDS = MR_CONTROL_CLIENTS + 1 };
/* The longest that a request and an answer may be, in bytes. */
enum { MR_CONTROL_REQUEST = 4096, MR_CONTROL_ANSWER = 64 << 20 };

/* Listens at `path`; at NULL in the user's folder for such sockets, if there is one (mr_control_folder), and "off" is
 * nowhere. The folder is made where it is missing; a socket that nobody listens at any more is replaced.
 * MR_ERROR_USAGE, MR_ERROR_UNAVAILABLE (another run listens there), MR_ERROR_PERMISSION (the folder is open to
 * others), MR_ERROR_IO. */
int mr_control_open(const char *path);
void mr_control_close(void);

/* What is to be polled for, at most MR_CONTROL_FDS of them, and for no more than *wait_ms milliseconds, which becomes
 * less where something is due (-1: no limit); and what is to be done once that is over, which never waits for a client.
 * `pipeline` is the one that runs; NULL: none does yet, or any more. */
size_t mr_control_fds(struct pollfd *fds, int *wait_ms);
void mr_control_serve(const struct pollfd *fds, size_t count, mr_pipeline *pipeline);

/* control_path.c, for both ends. */
enum { MR_CONTROL_PATH = 108 /* of a socket, as the system has it */ };
/* XDG_RUNTIME_DIR/millrace; false where there is none. */
bool mr_control_folder(char path[MR_CONTROL_PATH]);
/* The socket of the run with that process number in that folder. */
int mr_control_name(const char *folder, pid_t pid, char path[MR_CONTROL_PATH]);
/* Connects; MR_ERROR_NO_INPUT where there is no socket, MR_ERROR_UNAVAILABLE where nobody listens at it,
 * MR_ERROR_PERMISSION, MR_ERROR_USAGE where the path is too long, MR_ERROR_IO. */
int mr_control_connect(const char *path, int *fd);

#endif

/* A run's control socket, to which `millrace ctl` connects.
 *
 * It is a Unix stream socket, mode 0600, in a folder that only the user can enter. The peer's credentials are checked
 * as well: they must be the user's or root's. Requests and answers are JSON objects, one per line. A connection may
 * carry any number:
 *
 *     {"millrace": 1, "do": "status"}
 *     {"millrace": 1, "ok": true, "pid": 4711, "pipeline": "classify", "status": {...}, "text": "..."}
 *     {"millrace": 1, "do": "disable", "argument": "cuda:1"}
 *     {"millrace": 1, "ok": false, "exit_code": 64, "error": "pipeline classify does not use a device \"cuda:1\""}
 *
 *     {"millrace": 1, "do": "add", "argument": "door", "options": {"uri": "door.mp4", "every": "10"}}
 *     {"millrace": 1, "ok": true, "pid": 4711, "text": "door is added\n"}
 *
 *     {"millrace": 1, "do": "tap", "argument": "detect", "options": {"wait": "1", "values": "8", "picture": "true"}}
 *     {"millrace": 1, "ok": true, "pid": 4711, "sample": {"stage": "detect", "format": "...", "record": {...}}}
 *
 * "millrace" is the protocol version; another one is refused with exit code 76. "do" is one of status, disable, enable
 * (argument: a device), drain, stop, log (argument: a level), and add, set and remove (argument: a source id;
 * "options": YAML texts by key), and tap (argument: a stage or source; exit code 75 if no frame has passed in time).
 * The requests on a connection are done in order, each after the answer to the one before. "status" is the object that
 * `run --json` prints, so far; "text" is the same for people. "diagnostics" and "more" are as in `check --json`: errors
 * and warnings about a source that was added or changed. A client that does not read an answer within three
 * seconds is disconnected. If there are more clients than MR_CONTROL_CLIENTS, the run closes a connection whose next
 * request it has not read; the client may send that request again. Requests that came before the end of the run are
 * answered. A request that changes something is entered into the audit log, even if it is refused.
 *
 * Each client has a thread, so a slow request or a slow reader delays nobody else. The signal thread (signals.h)
 * accepts clients. The run's thread calls open, watch and close. */
#pragma once

#include <sys/types.h>

#include "millrace/millrace.h"

enum { MR_CONTROL_VERSION = 1, MR_CONTROL_CLIENTS = 8 };
/* The longest request and the longest answer, in bytes. */
enum { MR_CONTROL_REQUEST = 4096, MR_CONTROL_ANSWER = 64 << 20 };

/* Listens at `path`. NULL: in the first usable folder of mr_control_find_folders; if there is none, a warning gives the
 * reason and the run continues without a socket. "off": nowhere. Creates the folder if it is missing, and replaces a
 * dead run's socket. MR_ERROR_USAGE, MR_ERROR_UNAVAILABLE (another run listens there), MR_ERROR_PERMISSION (the folder
 * is open to others), MR_ERROR_IO. */
int mr_control_open(const char *path);
/* Directs requests to this pipeline from now on. NULL: to none, and waits for requests in progress. This must be called
 * before the pipeline is destroyed, without any lock that requests take. */
void mr_control_watch(mr_pipeline *pipeline);
/* Refuses all pending requests with that reason, and those that come later from elsewhere (mr_control_do). */
void mr_control_close(const char *why);
/* Removes the socket's file, before the process exits at once. Any thread. */
void mr_control_unlink(void);

/* Does a request (control_answer.h) as if it had come over the socket, also if there is none. Returns the answer, which
 * the caller must free; NULL: no memory. Any thread. */
char *mr_control_do(const char *request, size_t *length);

/* The descriptor that is readable if clients wait; -1: there is none now. Lowers *wait_ms (milliseconds; -1: no limit)
 * if the caller must ask again earlier. Call mr_control_accept when the descriptor is readable. */
int mr_control_fd(int *wait_ms);
void mr_control_accept(void);

/* control_path.c, for both ends. */
enum { MR_CONTROL_PATH = 108 /* a socket's path, by sockaddr_un */, MR_CONTROL_FOLDERS = 64 };
/* Only root can make folders there; root trusts what their owners run. */
#define MR_CONTROL_SERVICES "/run/millrace/"
/* The folders where a run may put the socket (by default the first usable one), and where `ctl` looks for runs.
 * $MILLRACE_CONTROL alone if it is set, else "millrace" in $XDG_RUNTIME_DIR and in /run/user/UID if they exist, root's
 * /run/millrace, and /tmp/millrace-UID; for root also the folders in /run/millrace, where services of other users
 * listen. Not all come from the environment, so a shell can find runs that cron, a container or a service manager
 * started. */
typedef struct mr_control_folders {
    int count;
    char path[MR_CONTROL_FOLDERS][MR_CONTROL_PATH];
} mr_control_folders;
void mr_control_find_folders(mr_control_folders *folders);
/* For a list without folders: the one of MILLRACE_CONTROL is too long. */
int mr_control_fail_no_folder(void);
/* The socket in that folder for the run with that process number. */
int mr_control_name(const char *folder, pid_t pid, char path[MR_CONTROL_PATH]);
/* Connects; MR_ERROR_NO_INPUT if there is no socket, MR_ERROR_UNAVAILABLE if the run is dead, MR_ERROR_PERMISSION,
 * MR_ERROR_USAGE if the path is too long, MR_ERROR_AGAIN if the run has stood still for thousands of connections,
 * MR_ERROR_IO. */
int mr_control_connect(const char *path, int *fd);
/* Send and receive give up if the run takes, or gives, nothing for that time; 0: never. */
void mr_control_set_patience(int fd, int seconds);
/* Sends a request, which ends with a newline. MR_ERROR_USAGE: it is too long. MR_ERROR_CLOSED: the run no longer
 * listens. */
int mr_control_send(int fd, const char *request, size_t length);
/* Reads an answer, without the newline; the caller must free it. MR_ERROR_CLOSED: the run closed the connection without
 * an answer. MR_ERROR_AGAIN: the socket's timeout. MR_ERROR_UNAVAILABLE, MR_ERROR_PROTOCOL. */
int mr_control_receive(int fd, char **answer);

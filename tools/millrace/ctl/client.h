/* Finds runs by their control sockets and asks them. tools/millrace/run/control.h has the protocol. One thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <yajl/yajl_tree.h>

/* A connection to a run. */
typedef struct mr_client {
    int fd;
    pid_t pid;      /* the process that listens at the other end */
    int patience_s; /* how long to wait for an answer; 0: as long as it takes */
} mr_client;

/* Connects to the socket at `path`; MR_ERROR_NO_INPUT and others as mr_control_connect. */
int mr_client_connect(const char *path, mr_client *client);
/* Connects to this user's run with that process number, in the folders of mr_control_find_folders. */
int mr_client_connect_pid(pid_t pid, mr_client *client);
/* Connects to the run at `path`, or with that process number; if both are missing, to the only run of this user. Prints
 * the error, with a list if there are several runs. */
int mr_client_connect_only(const char *path, pid_t pid, mr_client *client);
void mr_client_close(mr_client *client);
/* The process at the other end of a socket; 0: it cannot be found. */
pid_t mr_client_peer(int fd);

/* All of this user's runs that can be reached. */
typedef struct mr_clients {
    size_t count, room;
    mr_client *item;
} mr_clients;
/* Connects to those that are not in the list yet. Removes sockets of dead runs. MR_ERROR_MEMORY. */
int mr_clients_find(mr_clients *clients);
void mr_clients_remove(mr_clients *clients, size_t at);
void mr_clients_fini(mr_clients *clients);
/* Sets the thread's message: no run can be reached in the folders that were searched. */
int mr_clients_fail_none(void);

/* A process's arguments, without the program's name; "" if they cannot be read. */
void mr_client_command(pid_t pid, char *text, size_t room);

typedef struct mr_question {
    const char *what, *argument; /* argument NULL: none */
    size_t option_count;
    char *const *options;        /* KEY=VALUE */
} mr_question;
/* Sends a request and reads the answer, one line of JSON that the caller must free. Connects again if the run closed
 * the connection because it has too many clients, or lets the client's patience end. MR_ERROR_UNAVAILABLE: the run has
 * ended; MR_ERROR_AGAIN: it is busy; MR_ERROR_USAGE: the request is too long; MR_ERROR_PROTOCOL: the answer is. */
int mr_client_ask(mr_client *client, const mr_question *question, char **answer);
/* Reads an answer: the tree, which the caller must free with yajl_tree_free, and in *ok whether the run has done it.
 * MR_ERROR_PROTOCOL: it is not a run's answer. */
int mr_client_parse(const char *answer, yajl_val *tree, bool *ok);

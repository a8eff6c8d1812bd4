/* Finds runs by the sockets in the folders for control sockets. */
#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/grow.h"
#include "engine/base/print.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/ctl/client.h"
#include "tools/millrace/run/control.h"

void mr_client_command(pid_t pid, char *text, size_t room) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%lld/cmdline", (long long)pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, room - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = '\0';
    size_t name = strlen(text) < length ? strlen(text) + 1 : length;
    for (size_t i = name; i + 1 < length; i++)
        if (!text[i])
            text[i] = ' ';
    memmove(text, text + name, length + 1 - name);
}

/* ---- connections ------------------------------------------------------------------------------------------------- */

/* Finds the process that listens at the other end. */
static struct ucred peer_of(int fd) {
    struct ucred who = {0};
    socklen_t bytes = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &bytes))
        who = (struct ucred){.uid = (uid_t)-1};
    return who;
}

pid_t mr_client_peer(int fd) {
    return peer_of(fd).pid;
}

int mr_client_connect(const char *path, mr_client *client) {
    *client = (mr_client){.fd = -1};
    int status = mr_control_connect(path, &client->fd);
    if (!status)
        client->pid = mr_client_peer(client->fd);
    return status;
}

void mr_client_close(mr_client *client) {
    if (client->fd >= 0)
        close(client->fd);
    client->fd = -1;
}

/* The owner of a service's folder, for root; else this user. */
static uid_t owner_of(const char *path) {
    char folder[MR_CONTROL_PATH];
    struct stat about;
    const char *end = strrchr(path, '/');
    if (geteuid() != 0 || !end || strncmp(path, MR_CONTROL_SERVICES, strlen(MR_CONTROL_SERVICES)) != 0)
        return geteuid();
    snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    return lstat(folder, &about) == 0 && S_ISDIR(about.st_mode) ? about.st_uid : geteuid();
}

/* Checks a searched folder: anybody can create the one in /tmp to intercept requests for a run, and a service's user
 * can put a link into its folder. */
static int connect_own(const char *path, mr_client *client) {
    int status = mr_client_connect(path, client);
    if (status || peer_of(client->fd).uid == owner_of(path))
        return status;
    mr_client_close(client);
    return mr_fail(MR_ERROR_PERMISSION, "a process of another user listens at %s", path);
}

/* Connects to a run, or removes a dead run's socket. A starting run holds the folder's lock until it listens. So a
 * socket that refuses is known to be dead only while this process holds the lock. */
static int connect_or_remove(int folder, const char *path, mr_client *client) {
    int status = connect_own(path, client);
    if (status != MR_ERROR_UNAVAILABLE || flock(folder, LOCK_EX))
        return status;
    status = connect_own(path, client);
    if (status == MR_ERROR_UNAVAILABLE)
        unlink(path);
    flock(folder, LOCK_UN);
    return status;
}

int mr_client_connect_pid(pid_t pid, mr_client *client) {
    mr_control_folders folders;
    char path[MR_CONTROL_PATH];
    int status = MR_ERROR_NO_INPUT;
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count && status == MR_ERROR_NO_INPUT; i++) {
        status = mr_control_name(folders.path[i], pid, path);
        if (!status)
            status = connect_own(path, client);
    }
    return status == MR_ERROR_NO_INPUT ? mr_fail(status, "no run of yours that can be reached has the process number "
                                                         "%ld", (long)pid) : status;
}

/* ---- all runs ---------------------------------------------------------------------------------------------------- */

/* The process number in a socket's name, "4711.sock"; 0: it is another file. */
static pid_t pid_of(const char *name) {
    char number[24];
    long long pid;
    size_t digits = strspn(name, "0123456789");
    if (digits == 0 || digits >= sizeof number || strcmp(name + digits, ".sock") != 0)
        return 0;
    snprintf(number, sizeof number, "%.*s", (int)digits, name);
    return mr_parse_integer(number, 1, INT_MAX, &pid) ? (pid_t)pid : 0;
}

static bool has(const mr_clients *clients, pid_t pid) {
    for (size_t i = 0; i < clients->count; i++)
        if (clients->item[i].pid == pid)
            return true;
    return false;
}

static int add(mr_clients *clients, mr_client client) {
    if (!mr_grow((void **)&clients->item, clients->count, &clients->room, sizeof client)) {
        mr_client_close(&client);
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of runs");
    }
    clients->item[clients->count++] = client;
    return MR_OK;
}

static int look_into(mr_clients *clients, const char *folder) {
    DIR *list = opendir(folder);
    int status = MR_OK;
    for (const struct dirent *entry; list && !status && (entry = readdir(list));) {
        char path[MR_CONTROL_PATH];
        mr_client client;
        const pid_t pid = pid_of(entry->d_name);
        if (pid && !has(clients, pid) && !mr_control_name(folder, pid, path) &&
            !connect_or_remove(dirfd(list), path, &client)) {
            client.pid = pid; /* as in this folder: the peer may be in another PID namespace */
            status = add(clients, client);
        }
    }
    if (list)
        closedir(list);
    return status;
}

int mr_clients_find(mr_clients *clients) {
    mr_control_folders folders;
    int status = MR_OK;
    mr_control_find_folders(&folders);
    for (int i = 0; i < folders.count && !status; i++)
        status = look_into(clients, folders.path[i]);
    return status;
}

void mr_clients_remove(mr_clients *clients, size_t at) {
    mr_client_close(&clients->item[at]);
    memmove(&clients->item[at], &clients->item[at + 1], (clients->count - at - 1) * sizeof *clients->item);
    clients->count--;
}

void mr_clients_fini(mr_clients *clients) {
    while (clients->count)
        mr_clients_remove(clients, clients->count - 1);
    mr_free(clients->item);
    *clients = (mr_clients){0};
}

int mr_clients_fail_none(void) {
    mr_control_folders folders;
    char where[sizeof folders.path + 32] = "";
    size_t length = 0;
    mr_control_find_folders(&folders);
    if (!folders.count)
        return mr_control_fail_no_folder();
    for (int i = 0; i < folders.count; i++)
        length += mr_print_into(where + length, sizeof where - length, "%s%s", i ? ", " : "", folders.path[i]);
    return mr_fail(MR_ERROR_UNAVAILABLE, "no run of yours can be reached in %s; --control PATH names the socket of "
                                         "another", where);
}

/* The only run; if there are several, they are listed. */
static int connect_only(mr_client *client) {
    mr_clients all = {0};
    char command[100];
    int status = mr_clients_find(&all);
    if (!status && all.count == 0)
        status = mr_clients_fail_none();
    else if (!status && all.count > 1)
        status = mr_fail(MR_ERROR_USAGE, "%zu runs can be reached: choose one with --pid:", all.count);
    if (status)
        mr_command_failed(status);
    for (size_t i = 0; all.count > 1 && i < all.count; i++) {
        mr_client_command(all.item[i].pid, command, sizeof command);
        mr_print(stderr, "  %lld  %s\n", (long long)all.item[i].pid, command);
    }
    if (!status) {
        *client = all.item[0];
        all.item[0].fd = -1;
    }
    mr_clients_fini(&all);
    return status;
}

int mr_client_connect_only(const char *path, pid_t pid, mr_client *client) {
    *client = (mr_client){.fd = -1};
    if (!path && !pid)
        return connect_only(client);
    int status = path ? mr_client_connect(path, client) : mr_client_connect_pid(pid, client);
    if (status)
        mr_command_failed(status);
    return status;
}

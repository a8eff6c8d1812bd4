#include "engine/transport/zmq/ipc_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "millrace/status.h"

static const char ipc[] = "ipc://";

const char *mr_ipc_path_of(const char *endpoint) {
    return strncmp(endpoint, ipc, strlen(ipc)) == 0 ? endpoint + strlen(ipc) : NULL;
}

/* ---- the path of an ipc socket ----------------------------------------------------------------------------------- */

/* Any user with access to the folder can connect. */
static int check_owner(const mr_zmq_params *params, const char *folder, const struct stat *found) {
    if (!S_ISDIR(found->st_mode))
        return mr_fail(MR_ERROR_IO, "%s is not a folder, but %s would be in it: name another path", folder,
                       params->endpoint);
    if (found->st_uid != geteuid() && !params->key)
        return mr_fail(MR_ERROR_PERMISSION,
                       "%s belongs to another user (%u), who could connect to %s: use a folder of your own (chmod "
                       "700), or give both ends keys (millrace keygen)",
                       folder, (unsigned)found->st_uid, params->endpoint);
    if (found->st_mode & 077 && !params->key)
        return mr_fail(MR_ERROR_PERMISSION,
                       "others may enter %s (mode %03o), and could connect to %s: use a folder of your own (chmod "
                       "700), or give both ends keys (millrace keygen)",
                       folder, (unsigned)(found->st_mode & 0777), params->endpoint);
    return MR_OK;
}

static const char *folder_of(const char *path, char folder[512]) {
    snprintf(folder, 512, "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = '\0';
    return slash ? folder : ".";
}

static int check_folder(const mr_zmq_params *params, const char *path, bool *made) {
    char folder[512];
    struct stat found;
    const char *named = folder_of(path, folder);
    bool makes = !mkdir(named, 0700);
    if (!makes && errno != EEXIST)
        return mr_file_fail("make the folder", named);
    *made |= makes;
    if (stat(named, &found))
        return mr_file_fail("look at", named);
    return check_owner(params, named, &found);
}

/* Whether a process listens there; libzmq refuses a path that is too long. */
static bool is_taken(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path)
        return false;
    strcpy(address.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool taken = fd >= 0 && (!connect(fd, (struct sockaddr *)&address, sizeof address) || errno == EAGAIN);
    if (fd >= 0)
        close(fd);
    return taken;
}

/* libzmq removes whatever file is at the path, to take its place. */
static int check_file(const mr_zmq_params *params, const char *path) {
    struct stat found;
    if (lstat(path, &found) || S_ISSOCK(found.st_mode))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "cannot bind %s: %s is there already: name a path at which there is nothing",
                   params->endpoint, S_ISDIR(found.st_mode) ? "a folder" : "a file that is no socket");
}

int mr_ipc_path_check(const mr_zmq_params *params, bool *made) {
    const char *path = mr_ipc_path_of(params->endpoint);
    if (!path)
        return MR_OK;
    int status = check_folder(params, path, made);
    if (!status)
        status = check_file(params, path);
    if (!status && is_taken(path))
        status = mr_fail(MR_ERROR_UNAVAILABLE,
                         "cannot bind %s: another process listens there, perhaps an earlier run: end it, or name "
                         "another path", params->endpoint);
    return status;
}

void mr_ipc_path_remove(const char *endpoint, bool made) {
    char folder[512];
    const char *path = mr_ipc_path_of(endpoint);
    if (!path)
        return;
    unlink(path);
    if (made)
        rmdir(folder_of(path, folder)); /* unless others use it */
}

/* ---- file descriptors -------------------------------------------------------------------------------------------- */

/* A context, a socket, a listener and a guard take eleven with libzmq 4.3; a few more for those of a peer.
 */
enum { DESCRIPTORS = 16 };

/* The guard duplicates a connection's descriptor if it limits what the peer sends, or how long it is a stranger. */
static rlim_t descriptors_per_peer(const mr_zmq_params *params) {
    return params->max_message_bytes > 0 || params->unknown_ns > 0 ? 2 : 1;
}

int mr_zmq_room_check(const mr_zmq_params *params) {
    struct rlimit limit;
    const rlim_t peers = params->bind && params->max_peers > 0
                             ? descriptors_per_peer(params) * (rlim_t)params->max_peers : 1;
    rlim_t wanted = DESCRIPTORS + peers, room = 0;
    if (getrlimit(RLIMIT_NOFILE, &limit))
        return mr_fail(MR_ERROR_INTERNAL, "cannot find out how many files may be open: %s", strerror(errno));
    for (rlim_t fd = 0; fd < limit.rlim_cur && room < wanted; fd++)
        room += fcntl((int)fd, F_GETFD) < 0;
    if (room >= wanted)
        return MR_OK;
    return mr_fail(
        MR_ERROR_UNAVAILABLE,
        "a socket and its peers may take %llu file descriptors, and of the %llu that this process may have only "
        "%llu are free: raise the limit (ulimit -n, LimitNOFILE= of systemd)",
        (unsigned long long)wanted, (unsigned long long)limit.rlim_cur, (unsigned long long)room);
}

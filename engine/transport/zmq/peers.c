#include "engine/transport/zmq/peers.h"

#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/memory.h"

struct mr_zmq_connection {
    mr_zmq_connection *next;
    int fd, kept; /* libzmq's, and a duplicate; -1: none, or it was closed */
    int64_t since_ns;
    bool known, cut; /* it was known once; it is as good as closed */
    mr_zmq_endless endless;
};

void mr_zmq_peers_init(mr_zmq_peers *peers, int most, int64_t handshake_ns, int64_t unknown_ns) {
    *peers = (mr_zmq_peers){
        .most = most, .handshake_ns = handshake_ns, .unknown_ns = unknown_ns, .chance = (uint32_t)getpid() | 1};
    for (int i = 0; i < MR_ZMQ_MOST_KNOWN; i++)
        atomic_init(&peers->known[i], -1);
}

void mr_zmq_peers_bind(mr_zmq_peers *peers, const mr_zmq_bound *bound) {
    peers->bound = *bound;
}

static void forget(mr_zmq_connection *gone) {
    if (gone->kept >= 0)
        close(gone->kept);
    mr_free(gone);
}

void mr_zmq_peers_fini(mr_zmq_peers *peers) {
    for (mr_zmq_connection *one = peers->first, *next; one; one = next) {
        next = one->next;
        forget(one);
    }
    peers->first = NULL;
}

static mr_zmq_connection **find(mr_zmq_peers *peers, int fd) {
    mr_zmq_connection **at = &peers->first;
    while (*at && (*at)->fd != fd)
        at = &(*at)->next;
    return at;
}

void mr_zmq_peers_come(mr_zmq_peers *peers, int fd, int64_t now_ns) {
    mr_zmq_connection *come = mr_calloc(1, sizeof *come), **end = &peers->first;
    if (!come)
        return;
    *come = (mr_zmq_connection){.fd = fd, .since_ns = now_ns};
    come->kept = peers->unknown_ns || peers->bound.message_bytes ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1;
    while (*end)
        end = &(*end)->next;
    *end = come;
    peers->open++;
}

void mr_zmq_peers_made(mr_zmq_peers *peers) {
    peers->made++;
    peers->asked -= peers->asked > 0;
}

bool mr_zmq_peers_go(mr_zmq_peers *peers, int fd, bool failed) {
    mr_zmq_connection **at = find(peers, fd), *gone = *at;
    if (!gone)
        return true;
    bool cut = gone->cut;
    *at = gone->next;
    forget(gone);
    peers->open -= !cut;
    peers->made -= !failed && peers->made > 0;
    return !cut;
}

/* A connection that was never asked about can close without a failure event, as if it had completed a handshake. So
 * connections that are still open count as completed once they must be. No more were asked about than are open besides
 * the present one. */
static void correct(mr_zmq_peers *peers, int64_t now_ns) {
    int old = 0;
    for (const mr_zmq_connection *one = peers->first; one; one = one->next)
        old += now_ns - one->since_ns > peers->handshake_ns;
    peers->made = peers->made > old ? peers->made : old;
    int others = peers->open > peers->made ? peers->open - peers->made - 1 : 0;
    peers->asked = peers->asked < others ? peers->asked : others;
}

bool mr_zmq_peers_ask(mr_zmq_peers *peers, int64_t now_ns) {
    correct(peers, now_ns);
    if (peers->most && !peers->unknown_ns && peers->made + peers->asked >= peers->most)
        return true;
    peers->asked++;
    return false;
}

void mr_zmq_peers_unask(mr_zmq_peers *peers) {
    peers->asked -= peers->asked > 0;
}

void mr_zmq_peers_know(mr_zmq_peers *peers, uint32_t peer, int fd) {
    atomic_store(&peers->known[peer], fd);
}

/* ---- strangers --------------------------------------------------------------------------------------------------- */

static bool is_stranger(mr_zmq_peers *peers, mr_zmq_connection *one) {
    if (one->cut || one->kept < 0)
        return false;
    for (int i = 0; i < MR_ZMQ_MOST_KNOWN; i++)
        if (atomic_load(&peers->known[i]) == one->fd)
            return !(one->known = true);
    return true;
}

/* A random connection is closed if there are too many: with the oldest or the newest first, a peer that connects often
 * enough could keep all others out. Marsaglia, "Xorshift RNGs", 2003. */
static uint32_t draw(mr_zmq_peers *peers, uint32_t below) {
    peers->chance ^= peers->chance << 13;
    peers->chance ^= peers->chance >> 17;
    peers->chance ^= peers->chance << 5;
    return peers->chance % below;
}

static mr_zmq_connection *one_of(mr_zmq_peers *peers, uint32_t index) {
    for (mr_zmq_connection *one = peers->first; one; one = one->next)
        if (is_stranger(peers, one) && index-- == 0)
            return one;
    return NULL;
}

static void address_of(int fd, char address[MR_ZMQ_ADDRESS]) {
    struct sockaddr_storage found;
    socklen_t bytes = sizeof found;
    if (getpeername(fd, (struct sockaddr *)&found, &bytes) || found.ss_family == AF_UNIX ||
        getnameinfo((struct sockaddr *)&found, bytes, address, MR_ZMQ_ADDRESS, NULL, 0, NI_NUMERICHOST))
        address[0] = '\0';
}

static const char *cut(mr_zmq_peers *peers, mr_zmq_connection *one, char address[MR_ZMQ_ADDRESS], bool *stranger,
                       const char *why) {
    address_of(one->kept, address);
    shutdown(one->kept, SHUT_RDWR);
    close(one->kept);
    one->kept = -1;
    one->cut = true;
    peers->open--;
    *stranger = !one->known;
    return why;
}

const char *mr_zmq_peers_cut(mr_zmq_peers *peers, int64_t now_ns, char address[MR_ZMQ_ADDRESS], bool *stranger) {
    uint32_t strangers = 0;
    for (mr_zmq_connection *one = peers->first; peers->unknown_ns && one; one = one->next) {
        if (!is_stranger(peers, one))
            continue;
        if (now_ns - one->since_ns >= peers->unknown_ns)
            return cut(peers, one, address, stranger, "it did not identify itself in time");
        strangers++;
    }
    if (!strangers || !peers->most || peers->open <= peers->most)
        return NULL;
    mr_zmq_connection *one = one_of(peers, draw(peers, strangers));
    return one ? cut(peers, one, address, stranger, "too many peers") : NULL; /* It has just become known. */
}

const char *mr_zmq_peers_cut_endless(mr_zmq_peers *peers, const mr_zmq_taken *taken, int64_t now_ns,
                                     char address[MR_ZMQ_ADDRESS]) {
    static const char why[] = "a message without end: the connection was closed, and messages on the way are lost";
    bool stranger;
    if (now_ns - peers->looked_ns < MR_ZMQ_LOOK_NS)
        return NULL;
    for (mr_zmq_connection *one = peers->first; peers->bound.message_bytes && one; one = one->next)
        if (!one->cut && one->kept >= 0 &&
            mr_zmq_endless_look(&one->endless, taken, &peers->bound, one->fd, one->kept, peers->open, now_ns))
            return cut(peers, one, address, &stranger, why);
    peers->looked_ns = now_ns;
    return NULL;
}

static int64_t wake_for_strangers_ns(const mr_zmq_peers *peers) {
    for (const mr_zmq_connection *one = peers->first; peers->unknown_ns && one; one = one->next)
        if (!one->cut && !one->known && one->kept >= 0)
            return one->since_ns + peers->unknown_ns;
    return INT64_MAX;
}

int64_t mr_zmq_peers_wake_ns(const mr_zmq_peers *peers) {
    const int64_t strangers_ns = wake_for_strangers_ns(peers), look_ns = peers->looked_ns + MR_ZMQ_LOOK_NS;
    return peers->open && peers->bound.message_bytes && look_ns < strangers_ns ? look_ns : strangers_ns;
}

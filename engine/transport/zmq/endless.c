#include "engine/transport/zmq/endless.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>

/* Handshakes, heartbeats, further parts (a topic, a record), and what libzmq has read ahead. */
static const uint64_t SPARE_BYTES = 4 << 20;
/* How long a suspicion must last: the owner may be late. */
static const int64_t PATIENCE_NS = 2000000000;
static const uint64_t NS_PER_S = 1000000000;

void mr_zmq_taken_note(mr_zmq_taken *taken, int fd) {
    if (fd >= 0)
        atomic_fetch_add_explicit(&taken->from[fd % MR_ZMQ_MOST_FD], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&taken->all, 1, memory_order_relaxed);
    atomic_store_explicit(&taken->empty, false, memory_order_relaxed);
}

void mr_zmq_taken_note_empty(mr_zmq_taken *taken) {
    if (atomic_exchange_explicit(&taken->empty, true, memory_order_relaxed))
        return;
    atomic_fetch_add_explicit(&taken->found_empty, 1, memory_order_relaxed);
}

/* The bytes that libzmq has read from a connection; false for one that is not TCP. */
static bool read_from(int kept, uint64_t *bytes) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    int waiting = 0;
    if (getsockopt(kept, IPPROTO_TCP, TCP_INFO, &info, &size) ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received ||
        ioctl(kept, SIOCINQ, &waiting))
        return false;
    const uint64_t received = info.tcpi_bytes_received, unread = (uint64_t)waiting;
    *bytes = received > unread ? received - unread : 0;
    return true;
}

/* Whether the owner would have received a whole message of that peer by now. libzmq takes messages from all peers that
 * have one in turn. */
static bool has_had_a_turn(const mr_zmq_endless *of, const mr_zmq_taken *taken, int open) {
    return atomic_load(&taken->empty) || atomic_load(&taken->found_empty) > of->found_empty ||
           atomic_load(&taken->all) - of->all > 2 * (uint64_t)open;
}

static void suspect(mr_zmq_endless *of, const mr_zmq_taken *taken, int64_t now_ns) {
    of->suspected_ns = now_ns;
    of->all = atomic_load(&taken->all);
    of->found_empty = atomic_load(&taken->found_empty);
}

static void settle_beside(mr_zmq_endless *of, const mr_zmq_bound *bound, int64_t now_ns) {
    const int64_t passed_ns = of->looked_ns ? now_ns - of->looked_ns : 0;
    const uint64_t settled = of->settled + bound->beside * (uint64_t)passed_ns / NS_PER_S;
    of->settled = settled < of->read ? settled : of->read;
    of->looked_ns = now_ns;
}

bool mr_zmq_endless_look(mr_zmq_endless *of, const mr_zmq_taken *taken, const mr_zmq_bound *bound, int fd, int kept,
                         int open, int64_t now_ns) {
    const uint64_t before = of->read;
    const uint32_t messages = atomic_load(&taken->from[fd % MR_ZMQ_MOST_FD]);
    if (!bound->message_bytes || !read_from(kept, &of->read))
        return false;
    if (messages != of->messages) {
        of->messages = messages;
        of->settled = before;
        of->suspected_ns = 0;
    }
    settle_beside(of, bound, now_ns);
    const uint64_t unsettled = of->read - of->settled, most = bound->message_bytes + SPARE_BYTES;
    if (unsettled <= most)
        return false;
    if (!of->suspected_ns)
        suspect(of, taken, now_ns);
    return unsettled / (bound->queued + 1) > most ||
           (now_ns - of->suspected_ns >= PATIENCE_NS && has_had_a_turn(of, taken, open));
}

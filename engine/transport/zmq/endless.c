#include "engine/transport/zmq/endless.h"

#include <linux/sockios.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/ioctl.h>

/* Handshakes, further parts (a topic, a record), and what libzmq has read ahead. */
static const uint64_t SPARE_BYTES = 4 << 20;
/* At least what a part takes on the wire beside its bytes: 9, and 33 with CURVE. */
enum { PART_BYTES = 64 };
/* How long a suspicion must last: the owner may be late. */
static const int64_t PATIENCE_NS = 2000000000;
static const uint64_t NS_PER_S = 1000000000;

void mr_zmq_taken_note(mr_zmq_taken *taken, int fd, size_t bytes, bool last) {
    if (fd >= 0)
        atomic_fetch_add(&taken->from[fd % MR_ZMQ_MOST_FD], bytes + PART_BYTES);
    if (last)
        atomic_fetch_add_explicit(&taken->all, 1, memory_order_relaxed);
}

void mr_zmq_taken_note_empty(mr_zmq_taken *taken) {
    atomic_fetch_add_explicit(&taken->found_empty, 1, memory_order_relaxed);
}

void mr_zmq_taken_note_wait(mr_zmq_taken *taken, bool waits) {
    atomic_store(&taken->waits, waits);
}

static bool received_from(int kept, uint64_t *bytes) {
    struct tcp_info info = {0};
    socklen_t size = sizeof info;
    if (getsockopt(kept, IPPROTO_TCP, TCP_INFO, &info, &size) ||
        size < offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received)
        return false;
    *bytes = info.tcpi_bytes_received;
    return true;
}

/* The bytes that libzmq has read from a connection, and the owner from libzmq. They change meanwhile: at least `*least`
 * were read when the owner had `*owned`, and at most `*most`. False for a connection that is not TCP. */
static bool count(const mr_zmq_taken *taken, int fd, int kept, uint64_t *least, uint64_t *owned, uint64_t *most) {
    uint64_t received;
    int unread = 0;
    if (!received_from(kept, &received) || ioctl(kept, SIOCINQ, &unread))
        return false;
    *least = received > (uint64_t)unread ? received - (uint64_t)unread : 0;
    *owned = atomic_load(&taken->from[fd % MR_ZMQ_MOST_FD]);
    if (ioctl(kept, SIOCINQ, &unread) || !received_from(kept, &received))
        return false;
    *most = received > (uint64_t)unread ? received - (uint64_t)unread : 0;
    return true;
}

/* Whether the owner would have received a whole message of that peer by now. libzmq takes messages from all peers that
 * have one in turn. */
static bool has_had_a_turn(const mr_zmq_endless *of, const mr_zmq_taken *taken, int open) {
    return atomic_load(&taken->waits) || atomic_load(&taken->found_empty) > of->found_empty ||
           atomic_load(&taken->all) - of->all > 2 * (uint64_t)open;
}

static void suspect(mr_zmq_endless *of, const mr_zmq_taken *taken, int64_t now_ns) {
    of->suspected_ns = now_ns;
    of->all = atomic_load(&taken->all);
    of->found_empty = atomic_load(&taken->found_empty);
}

static void settle(mr_zmq_endless *of, uint64_t owned, uint64_t most, uint64_t beside, int64_t now_ns) {
    const int64_t passed_ns = of->looked_ns ? now_ns - of->looked_ns : 0;
    const uint64_t settled = of->settled + owned - of->owned + beside * (uint64_t)passed_ns / NS_PER_S;
    if (owned != of->owned)
        of->suspected_ns = 0;
    of->settled = settled < most ? settled : most;
    of->owned = owned;
    of->looked_ns = now_ns;
}

bool mr_zmq_endless_look(mr_zmq_endless *of, const mr_zmq_taken *taken, const mr_zmq_bound *bound, int fd, int kept,
                         int open, int64_t now_ns) {
    const uint64_t message = bound->message_bytes + SPARE_BYTES;
    uint64_t read, owned, most;
    if (!bound->message_bytes || !count(taken, fd, kept, &read, &owned, &most))
        return false;
    settle(of, owned, most, bound->beside, now_ns);
    const uint64_t unsettled = read > of->settled ? read - of->settled : 0;
    if (unsettled <= message) {
        of->suspected_ns = 0;
        return false;
    }
    if (!of->suspected_ns)
        suspect(of, taken, now_ns);
    return unsettled / bound->most > message ||
           (now_ns - of->suspected_ns >= PATIENCE_NS && has_had_a_turn(of, taken, open));
}

#include "stages/zmq/zmq_link.h"

#include <errno.h>
#include <zmq.h>

/* How often a wait for a peer is interrupted, to check whether the run is being stopped. */
enum { PATIENCE_MS = 100 };

static mr_zmq_params params_of(const mr_zmq_link *link, const char *const *allow, const char *id, int type) {
    return (mr_zmq_params){.id = id,
                           .type = type,
                           .endpoint = link->endpoint,
                           .bind = link->bind,
                           .key = link->key,
                           .allow_count = *allow ? 1 : 0,
                           .allow = allow,
                           .server = link->server,
                           .send_hwm = (int)link->high_water,
                           .receive_hwm = (int)link->high_water,
                           .max_peers = link->bind ? (int)link->max_peers : 0,
                           .keeps = true};
}

int mr_zmq_link_negotiate(mr_negotiation *negotiation, const mr_zmq_link *link) {
    const char *wrong = NULL;
    negotiation->blocking = true;
    negotiation->threads = MR_ZMQ_WATCHED_THREADS;
    if (!link->endpoint)
        return MR_OK;
    mr_zmq_params params = params_of(link, &link->allow, negotiation->id, 0);
    int status = negotiation->offline ? mr_zmq_check(&params, &wrong) : mr_zmq_check_files(&params, &wrong);
    return status ? mr_refuse_status(negotiation, status, wrong, "%s", mr_message()) : MR_OK;
}

int mr_zmq_link_create(mr_zmq **socket, const mr_stage *self, const mr_zmq_link *link, int type, int64_t most_bytes) {
    mr_zmq_params params = params_of(link, &link->allow, self->id, type);
    params.max_message_bytes = most_bytes;
    return mr_zmq_create(socket, &params);
}

int mr_zmq_link_attach(mr_zmq *socket, const mr_stage *self, const mr_zmq_link *link) {
    int status = mr_zmq_attach(socket);
    if (!status)
        mr_stage_info(self, "%s %s", link->bind ? "listens at" : "connects to", mr_zmq_endpoint(socket));
    return status;
}

int mr_zmq_link_wait(mr_zmq *socket, const mr_stage *self, short events) {
    zmq_pollitem_t item = {.socket = mr_zmq_handle(socket), .events = events};
    if (mr_stage_gives_up(self))
        return mr_fail(MR_ERROR_CANCELLED, "stopped while waiting for %s", mr_zmq_endpoint(socket));
    mr_zmq_keep(socket);
    int ready = zmq_poll(&item, 1, PATIENCE_MS);
    if (ready < 0 && errno != EINTR)
        return mr_fail(MR_ERROR_IO, "%s: %s", mr_zmq_endpoint(socket), zmq_strerror(errno));
    if (!ready && events & ZMQ_POLLIN)
        mr_zmq_note_empty(socket);
    return ready > 0;
}

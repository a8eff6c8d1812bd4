/* mr_fit_help_serve: a process that makes shares of a fit's sums. */
#include <string.h>
#include <time.h>
#include <zmq.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "kernels/fit/fit_share.h"
#include "millrace/fit_helpers.h"
#include "millrace/status.h"
#include "stages/train/helper_message.h"
#include "stages/train/helper_rows.h"

enum { ASKED_EVERY_MS = 100, WAITING_MESSAGES = 1000, SPARE_BYTES = 4096, LAST_WORDS_NS = 500000000, MOST_PEERS = 16 };
static const int64_t UNKNOWN_NS = 30000000000;

/* Where an answer goes to. */
typedef struct helper_route {
    size_t bytes;
    uint8_t id[MR_HELPER_ROUTE];
} helper_route;

typedef struct helping {
    const mr_fit_help *help;
    char self[MR_HELPER_SELF];
    mr_helper_rows rows;
    mr_fit_point point;
    mr_fit_task task;
    mr_fit_crew *crew;
    mr_zmq *socket;
    double *parameters, *nodes;
    /* the message at hand */
    mr_helper_head head;
    mr_helper_body body;
    helper_route route;
} helping;

/* ---- answers ----------------------------------------------------------------------------------------------------- */

/* If an answer cannot be sent it is not missed: the fit asks again, or makes the sum itself. */
static void answer(helping *h, mr_helper_kind kind, mr_fit_span span, const void *body, size_t bytes) {
    const mr_helper_head head = {.magic = MR_HELPER_MAGIC, .kind = kind, .fit = h->rows.fit, .turn = h->head.turn,
                                 .span = span};
    mr_helper_send(h->socket, h->route.id, h->route.bytes, &head, body, bytes);
}

static int greet(helping *h) {
    const mr_fit_help *help = h->help;
    const char *other = h->body.bytes ? (const char *)h->body.data : "";
    const int length = (int)strnlen(other, h->body.bytes);
    if (strlen(h->self) != (size_t)length || memcmp(h->self, other, (size_t)length) != 0) {
        answer(h, MR_HELPER_REFUSED, (mr_fit_span){0}, h->self, strlen(h->self));
        return mr_fail(MR_ERROR_CONFIG, "node %s cannot help the fit, whose bits might become others: the fit is made "
                                        "by %.*s, and this process is %s", help->name, length, other,
                       h->self);
    }
    if (h->head.fit == h->rows.fit) /* else the file of its rows is still to come */
        answer(h, MR_HELPER_READY, (mr_fit_span){0}, NULL, 0);
    return MR_OK;
}

static bool is_of_here(const helping *h) {
    const size_t blocks = mr_fit_block_count(h->task.chunks);
    const mr_fit_span *span = &h->head.span;
    return h->head.fit == h->rows.fit && h->body.bytes == mr_helper_point_bytes(&h->rows.linear) &&
           span->first <= blocks && span->count <= blocks - span->first;
}

static void sum_up(helping *h) {
    const size_t blocks = mr_fit_block_count(h->task.chunks), length = h->task.length;
    mr_fit_span left = h->head.span;
    for (size_t count; (count = mr_fit_widest(left, blocks)) > 0; left.first += count, left.count -= count) {
        mr_fit_crew_blocks(h->crew, &h->task, left.first, count, h->nodes);
        answer(h, MR_HELPER_NODE, (mr_fit_span){left.first, count}, h->nodes, length * sizeof *h->nodes);
    }
}

/* Takes all messages that have come. If there are several points, only the last one's sums are still wanted. */
static int listen(helping *h) {
    mr_helper_head last = {0};
    helper_route from = {0};
    int status = MR_OK;
    while (!status && mr_helper_receive(h->socket, h->route.id, &h->route.bytes, &h->head, &h->body)) {
        if (h->head.kind == MR_HELPER_HELLO)
            status = greet(h);
        else if (h->head.kind == MR_HELPER_POINT && is_of_here(h)) {
            mr_helper_point_read(&h->point, h->parameters, h->body.data);
            last = h->head;
            from = h->route;
        }
    }
    h->head = last;
    h->route = from;
    if (!status && last.span.count)
        sum_up(h);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int open_socket(helping *h) {
    const mr_fit_help *help = h->help;
    const mr_zmq_params params = {.id = help->name, .type = ZMQ_ROUTER, .endpoint = help->endpoint, .bind = true,
                                  .key = help->key, .allow = &help->allow, .allow_count = help->key != NULL,
                                  .send_hwm = WAITING_MESSAGES, .receive_hwm = WAITING_MESSAGES,
                                  .max_peers = MOST_PEERS, .unknown_ns = help->key ? 0 : UNKNOWN_NS,
                                  .max_message_bytes =
                                      (int64_t)mr_helper_point_bytes(&h->rows.linear) + SPARE_BYTES};
    int status = mr_zmq_create(&h->socket, &params);
    return status ? status : mr_zmq_attach(h->socket);
}

static int begin(helping *h) {
    const mr_fit_help *help = h->help;
    int status = mr_helper_self(help->pipeline, h->self);
    if (!status)
        status = mr_helper_rows_open(&h->rows, help->rows);
    if (status)
        return status;
    const size_t parameters = mr_fit_parameters(&h->rows.linear);
    h->point.linear = &h->rows.linear;
    h->point.weights = mr_alloc_aligned(64, mr_aligned_bytes(parameters * sizeof(double)));
    h->task = mr_fit_linear_task(&h->point);
    h->parameters = mr_calloc(parameters, sizeof *h->parameters);
    h->nodes = mr_alloc(mr_fit_block_count(h->task.chunks) * h->task.length * sizeof *h->nodes);
    if (!h->point.weights || !h->parameters || !h->nodes)
        return mr_fail(MR_ERROR_MEMORY, "no memory to fit %zu weights", parameters);
    status = mr_fit_crew_create(&h->crew, &h->task, help->threads ? help->threads : mr_usable_cores());
    return status ? status : open_socket(h);
}

/* If the fit was refused the answer must leave first: a socket that is closed drops it. */
static void end(helping *h, int status) {
    if (status == MR_ERROR_CONFIG && h->socket)
        nanosleep(&(struct timespec){.tv_nsec = LAST_WORDS_NS}, NULL);
    mr_zmq_close(&h->socket, 0);
    mr_fit_crew_destroy(&h->crew);
    mr_helper_rows_close(&h->rows);
    mr_free(h->body.data);
    mr_free(h->point.weights);
    mr_free(h->parameters);
    mr_free(h->nodes);
}

int mr_fit_help_serve(const mr_fit_help *help) {
    helping h = {.help = help};
    int status = begin(&h);
    while (!status && !help->stopped(help->user)) {
        zmq_pollitem_t item = {.socket = mr_zmq_handle(h.socket), .events = ZMQ_POLLIN};
        zmq_poll(&item, 1, ASKED_EVERY_MS);
        status = listen(&h);
    }
    end(&h, status);
    return status;
}

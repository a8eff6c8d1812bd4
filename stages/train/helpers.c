#include "stages/train/helpers.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>
#include <zmq.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "kernels/fit/fit_share.h"
#include "millrace/log.h"
#include "millrace/status.h"
#include "stages/train/helper_message.h"
#include "stages/train/helper_rows.h"

enum { WAITING_MESSAGES = 1000, SPARE_BYTES = 4096, WAIT_MS = 100 };
static const int64_t HELLO_EVERY_NS = 500000000, NS_PER_MS = 1000000;
/* Sums that have not come are late after so many times what the own share took, or theirs should, and this. */
static const int64_t LATE_TIMES = 3, LATE_NS = 100000000;
static const double NEWEST = 0.5; /* its share in a process's rate */

typedef struct helper {
    const mr_fit_helper *given;
    mr_zmq *socket;
    bool ready, refused, was_ready;
    int64_t greeted_ns, asked_ns;
    mr_fit_span span; /* of this turn */
    size_t owed;      /* blocks of it that have not come */
    double rate;      /* blocks a second; 0: not known yet */
} helper;

struct mr_helpers {
    mr_fit_helpers *given;
    char self[MR_HELPER_SELF];
    uint64_t fit, turn;
    size_t blocks, length, weight_bytes;
    helper *helpers;
    zmq_pollitem_t *items;
    mr_helper_body body;
    uint8_t *weights; /* of a POINT */
    double own_rate, *rates;
    mr_fit_span *spans; /* the own one first */
    /* of the turn */
    double *nodes;
    size_t has[MR_FIT_BLOCKS]; /* as mr_fit_join_nodes takes it */
    bool covered[MR_FIT_BLOCKS];
    size_t missing;
};

static int64_t now_ns(void) {
    return mr_clock_now_ns(mr_clock_real());
}

/* ---- what comes from a helper ------------------------------------------------------------------------------------ */

static void set_ready(helper *from) {
    if (!from->ready)
        mr_log_repeating(MR_LOG_INFO, from->given->name, "node %s %s the fit", from->given->name,
                         from->was_ready ? "helps again with" : "helps");
    from->ready = from->was_ready = true;
}

static void refuse(const mr_helpers *h, helper *from, const mr_helper_body *body) {
    if (!from->refused)
        mr_log(MR_LOG_WARNING, "node %s does not help the fit, whose bits might become others: it is %.*s, and this "
                               "process is %s", from->given->name, (int)body->bytes, (const char *)body->data, h->self);
    from->refused = true;
    from->ready = false;
}

/* True if it is a node of this turn, and none of its blocks is there yet. */
static bool is_wanted(const mr_helpers *h, const mr_helper_head *head, const mr_helper_body *body) {
    const mr_fit_span *span = &head->span;
    bool wanted = head->turn == h->turn && h->missing && span->count && span->count <= h->blocks &&
                  span->first <= h->blocks - span->count && mr_fit_widest(*span, h->blocks) == span->count &&
                  body->bytes == h->length * sizeof *h->nodes;
    for (size_t i = 0; wanted && i < span->count; i++)
        wanted = !h->covered[span->first + i];
    return wanted;
}

static void cover(mr_helpers *h, mr_fit_span span) {
    h->has[span.first] = span.count;
    for (size_t i = 0; i < span.count; i++)
        h->covered[span.first + i] = true;
    h->missing -= span.count;
}

static void note_rate(double *rate, size_t blocks, int64_t took_ns) {
    const double now = (double)blocks * 1e9 / (double)(took_ns > 1 ? took_ns : 1);
    *rate = *rate > 0.0 ? NEWEST * now + (1.0 - NEWEST) * *rate : now;
}

static void take_node(mr_helpers *h, helper *from, const mr_helper_head *head) {
    h->given->received += h->body.bytes;
    if (head->turn == h->turn && head->span.count <= from->owed) {
        from->owed -= head->span.count;
        if (!from->owed)
            note_rate(&from->rate, from->span.count, now_ns() - from->asked_ns);
    }
    if (!is_wanted(h, head, &h->body))
        return;
    memcpy(h->nodes + head->span.first * h->length, h->body.data, h->body.bytes);
    cover(h, head->span);
    h->given->helped += head->span.count;
}

static void take_all(mr_helpers *h, helper *from) {
    mr_helper_head head;
    while (mr_helper_receive(from->socket, NULL, NULL, &head, &h->body)) {
        if (head.kind == MR_HELPER_REFUSED) {
            refuse(h, from, &h->body);
        } else if (head.fit == h->fit && head.kind == MR_HELPER_READY) {
            set_ready(from);
        } else if (head.fit == h->fit && head.kind == MR_HELPER_NODE) {
            if (head.turn == h->turn)
                from->ready = true;
            take_node(h, from, &head);
        }
    }
}

static void listen(mr_helpers *h, int64_t wait_ns) {
    const long wait_ms = wait_ns > 0 ? (long)(wait_ns / NS_PER_MS) + 1 : 0;
    if (zmq_poll(h->items, (int)h->given->count, wait_ms > WAIT_MS ? WAIT_MS : wait_ms) > 0)
        for (size_t i = 0; i < h->given->count; i++)
            if (h->items[i].revents & ZMQ_POLLIN)
                take_all(h, &h->helpers[i]);
}

/* ---- what goes to helpers ---------------------------------------------------------------------------------------- */

static void greet(mr_helpers *h) {
    const int64_t at_ns = now_ns();
    const mr_helper_head head = {.magic = MR_HELPER_MAGIC, .kind = MR_HELPER_HELLO, .fit = h->fit};
    for (size_t i = 0; i < h->given->count; i++) {
        helper *to = &h->helpers[i];
        if (to->ready || to->refused || at_ns - to->greeted_ns < HELLO_EVERY_NS)
            continue;
        if (mr_helper_send(to->socket, NULL, 0, &head, h->self, strlen(h->self)))
            to->greeted_ns = at_ns;
    }
}

/* The shares of this turn: of this process, and of the helpers that are ready. If a helper's rate is not known it is
 * taken for as fast as this process. */
static void share(mr_helpers *h) {
    h->rates[0] = h->own_rate > 0.0 ? h->own_rate : 1.0;
    for (size_t i = 0; i < h->given->count; i++) {
        const helper *to = &h->helpers[i];
        h->rates[i + 1] = !to->ready ? 0.0 : to->rate > 0.0 && h->own_rate > 0.0 ? to->rate : h->rates[0];
    }
    mr_fit_share(h->blocks, h->rates, h->given->count + 1, h->spans);
}

static void ask(mr_helpers *h) {
    for (size_t i = 0; i < h->given->count; i++) {
        helper *to = &h->helpers[i];
        const mr_helper_head head = {.magic = MR_HELPER_MAGIC, .kind = MR_HELPER_POINT, .fit = h->fit,
                                     .turn = h->turn, .span = h->spans[i + 1]};
        to->span = h->spans[i + 1];
        to->owed = 0;
        if (!to->span.count)
            continue;
        to->asked_ns = now_ns();
        to->ready = mr_helper_send(to->socket, NULL, 0, &head, h->weights, h->weight_bytes);
        to->owed = to->ready ? to->span.count : 0;
        h->given->sent += to->ready ? h->weight_bytes : 0;
    }
}

/* ---- a sum ------------------------------------------------------------------------------------------------------- */

typedef struct making {
    mr_fit_crew *crew;
    const mr_fit_task *task;
} making;

/* The widest node that begins with the span. */
static void make_node(mr_helpers *h, const making *m, mr_fit_span span) {
    span.count = mr_fit_widest(span, h->blocks);
    mr_fit_crew_blocks(m->crew, m->task, span.first, span.count, h->nodes + span.first * h->length);
    cover(h, span);
}

static void make_own(mr_helpers *h, const making *m) {
    const mr_fit_span own = h->spans[0];
    const int64_t since_ns = now_ns();
    mr_fit_span left = own;
    if (!own.count)
        return;
    mr_fit_crew_blocks(m->crew, m->task, own.first, own.count, h->nodes + own.first * h->length);
    for (size_t count; (count = mr_fit_widest(left, h->blocks)) > 0; left.first += count, left.count -= count)
        cover(h, (mr_fit_span){left.first, count});
    note_rate(&h->own_rate, own.count, now_ns() - since_ns);
}

static bool any_owes(const mr_helpers *h) {
    for (size_t i = 0; i < h->given->count; i++)
        if (h->helpers[i].ready && h->helpers[i].owed)
            return true;
    return false;
}

/* Until it answers again; then it is given less. */
static void give_up(const mr_helpers *h, helper *late) {
    late->ready = false;
    late->greeted_ns = now_ns();
    late->rate = (late->rate > 0.0 ? late->rate : h->own_rate) / 2.0;
    mr_log_repeating(MR_LOG_INFO, late->given->name, "node %s does not answer: its share of the fit is made here",
                     late->given->name);
}

/* How long the share of a turn should take that takes longest, as far as the rates are known. */
static int64_t expected_ns(const mr_helpers *h) {
    double longest = 0.0;
    for (size_t i = 0; i < h->given->count; i++)
        if (h->helpers[i].ready && h->helpers[i].rate > 0.0)
            longest = fmax(longest, (double)h->helpers[i].span.count / h->helpers[i].rate);
    return (int64_t)(longest * 1e9);
}

static void await_sums(mr_helpers *h, int64_t until_ns) {
    for (int64_t at_ns; h->missing && any_owes(h) && (at_ns = now_ns()) < until_ns;)
        listen(h, until_ns - at_ns);
    for (size_t i = 0; i < h->given->count && h->missing; i++)
        if (h->helpers[i].ready && h->helpers[i].owed)
            give_up(h, &h->helpers[i]);
}

/* Blocks that did not come, a node at a time: the rest may come meanwhile. */
static void make_missing(mr_helpers *h, const making *m) {
    while (h->missing) {
        mr_fit_span gap = {0};
        while (h->covered[gap.first])
            gap.first++;
        while (gap.first + gap.count < h->blocks && !h->covered[gap.first + gap.count])
            gap.count++;
        make_node(h, m, gap);
        listen(h, 0);
    }
}

void mr_helpers_sum(mr_helpers *h, mr_fit_crew *crew, const mr_fit_point *point, const mr_fit_task *task,
                    double *nodes) {
    const making m = {crew, task};
    listen(h, 0); /* of the turn before: dropped */
    greet(h);
    h->turn++;
    h->nodes = nodes;
    h->missing = h->blocks;
    memset(h->has, 0, sizeof h->has);
    memset(h->covered, 0, sizeof h->covered);
    share(h);
    mr_helper_point_write(point, h->weights);
    const int64_t since_ns = now_ns();
    ask(h);
    make_own(h, &m);
    const int64_t own_ns = now_ns() - since_ns, longest_ns = expected_ns(h);
    await_sums(h, since_ns + (own_ns > longest_ns ? own_ns : longest_ns) * (1 + LATE_TIMES) + LATE_NS);
    make_missing(h, &m);
    mr_fit_join_nodes(nodes, h->length, h->blocks, h->has);
    h->given->evaluations++;
    h->given->blocks += h->blocks;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int connect_to(mr_helpers *h, size_t i) {
    helper *to = &h->helpers[i];
    to->given = &h->given->helpers[i];
    const mr_zmq_params params = {.id = to->given->name, .type = ZMQ_DEALER, .endpoint = to->given->endpoint,
                                  .key = to->given->server ? h->given->key : NULL, .server = to->given->server,
                                  .send_hwm = WAITING_MESSAGES, .receive_hwm = WAITING_MESSAGES,
                                  .max_message_bytes = (int64_t)(h->length * sizeof(double)) + SPARE_BYTES};
    const int only_connected = 1;
    int status = mr_zmq_create(&to->socket, &params);
    if (!status)
        zmq_setsockopt(mr_zmq_handle(to->socket), ZMQ_IMMEDIATE, &only_connected, sizeof only_connected);
    if (!status)
        status = mr_zmq_attach(to->socket);
    h->items[i] = (zmq_pollitem_t){.socket = status ? NULL : mr_zmq_handle(to->socket), .events = ZMQ_POLLIN};
    return status;
}

static bool all_answered(const mr_helpers *h) {
    for (size_t i = 0; i < h->given->count; i++)
        if (!h->helpers[i].ready && !h->helpers[i].refused)
            return false;
    return true;
}

static int begin(mr_helpers *h, const mr_fit_linear *linear) {
    const size_t count = h->given->count;
    h->helpers = mr_calloc(count + 1, sizeof *h->helpers);
    h->items = mr_calloc(count + 1, sizeof *h->items);
    h->rates = mr_calloc(count + 1, sizeof *h->rates);
    h->spans = mr_calloc(count + 1, sizeof *h->spans);
    h->weights = mr_alloc(h->weight_bytes);
    if (!h->helpers || !h->items || !h->rates || !h->spans || !h->weights)
        return mr_fail(MR_ERROR_MEMORY, "no memory for %zu helpers", count);
    if (getrandom(&h->fit, sizeof h->fit, 0) != sizeof h->fit)
        return mr_fail(MR_ERROR_IO, "the system has no random numbers");
    int status = mr_helper_self(h->given->pipeline, h->self);
    if (!status)
        status = mr_helper_rows_write(h->given->rows, linear, h->fit);
    for (size_t i = 0; i < count && !status; i++)
        status = connect_to(h, i);
    return status;
}

int mr_helpers_create(mr_helpers **helpers, mr_fit_helpers *given, const mr_fit_linear *linear) {
    mr_helpers *made = mr_calloc(1, sizeof *made);
    *helpers = NULL;
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for helpers");
    made->given = given;
    made->blocks = mr_fit_block_count(mr_fit_chunks(linear->rows->count));
    made->length = mr_fit_parameters(linear) + 1;
    made->weight_bytes = mr_helper_point_bytes(linear);
    int status = begin(made, linear);
    const int64_t until_ns = now_ns() + given->patience_ns;
    while (!status && !all_answered(made) && now_ns() < until_ns) {
        greet(made);
        listen(made, until_ns - now_ns());
    }
    if (status)
        mr_helpers_destroy(&made);
    *helpers = made;
    return status;
}

void mr_helpers_destroy(mr_helpers **helpers) {
    mr_helpers *gone = *helpers;
    *helpers = NULL;
    if (!gone)
        return;
    for (size_t i = 0; gone->helpers && i < gone->given->count; i++)
        mr_zmq_close(&gone->helpers[i].socket, 0);
    mr_free(gone->helpers);
    mr_free(gone->items);
    mr_free(gone->rates);
    mr_free(gone->spans);
    mr_free(gone->weights);
    mr_free(gone->body.data);
    mr_free(gone);
}

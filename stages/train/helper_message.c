#include "stages/train/helper_message.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>
#include <zmq.h>

#include "engine/base/memory.h"
#include "kernels/fit/fit_sum.h"
#include "millrace/status.h"
#include "millrace/version.h"

/* ---- identity --------------------------------------------------------------------------------------------------- */

enum { PROBE_WIDTH = 1100, PROBE_OUTPUTS = 13, PROBE_NUMBERS = PROBE_OUTPUTS * (PROBE_WIDTH + 1) };

/* Memory of the sum that is made to tell processors apart. */
typedef struct probe {
    float features[MR_FIT_CHUNK * PROBE_WIDTH];
    int32_t classes[MR_FIT_CHUNK];
    double parameters[PROBE_NUMBERS], weights[PROBE_NUMBERS], sum[PROBE_NUMBERS + 1];
} probe;

/* Numbers between -1 and 1 that need all bits. */
static double next_number(uint64_t *state) {
    *state = *state * 6364136223846793005U + 1442695040888963407U;
    return (double)(int64_t)*state / 9223372036854775808.0;
}

static void fill(probe *p) {
    uint64_t state = 1;
    for (size_t i = 0; i < MR_FIT_CHUNK * PROBE_WIDTH; i++)
        p->features[i] = (float)next_number(&state);
    for (size_t i = 0; i < MR_FIT_CHUNK; i++)
        p->classes[i] = (int32_t)(i % PROBE_OUTPUTS);
    for (size_t i = 0; i < PROBE_NUMBERS; i++)
        p->parameters[i] = next_number(&state);
}

static int sum_up(probe *p, bool doubles, XXH3_state_t *digest) {
    const mr_fit_rows rows = {.features = p->features, .stride = PROBE_WIDTH, .width = PROBE_WIDTH,
                              .count = MR_FIT_CHUNK, .classes = p->classes};
    const mr_fit_linear linear = {.rows = &rows, .outputs = PROBE_OUTPUTS, .doubles = doubles};
    mr_fit_point point = {.linear = &linear, .weights = p->weights};
    mr_fit_point_set(&point, p->parameters);
    const mr_fit_task task = mr_fit_linear_task(&point);
    void *scratch = mr_alloc_aligned(64, mr_aligned_bytes(task.scratch_bytes));
    if (!scratch)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a sum of %d rows", MR_FIT_CHUNK);
    task.make(task.context, 0, scratch, p->sum);
    mr_free(scratch);
    XXH3_64bits_update(digest, p->sum, sizeof p->sum);
    return MR_OK;
}

/* What losses take of the C library: a difference in the last bit is seldom one of a sum. */
static void call_functions(XXH3_state_t *digest) {
    enum { CALLS = 1000 };
    uint64_t state = 1;
    for (int i = 0; i < CALLS; i++) {
        const double small = exp(-8.0 * fabs(next_number(&state)));
        const double made[] = {small, log1p(small), log(1.0 + small)};
        XXH3_64bits_update(digest, made, sizeof made);
    }
}

static int tell_processor(uint64_t *kind) {
    XXH3_state_t *digest = XXH3_createState();
    probe *p = mr_calloc(1, sizeof *p);
    int status = digest && p ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a sum of %d rows", MR_FIT_CHUNK);
    if (!status) {
        fill(p);
        XXH3_64bits_reset(digest);
        call_functions(digest);
        status = sum_up(p, false, digest);
    }
    if (!status)
        status = sum_up(p, true, digest);
    if (!status)
        *kind = XXH3_64bits_digest(digest);
    XXH3_freeState(digest);
    mr_free(p);
    return status;
}

int mr_helper_self(const char *pipeline, char text[MR_HELPER_SELF]) {
    uint64_t kind = 0;
    int status = tell_processor(&kind);
    snprintf(text, MR_HELPER_SELF, "millrace %s, pipeline %.64s, processor %08x", MILLRACE_VERSION, pipeline,
             (unsigned)(kind ^ kind >> 32));
    return status;
}

/* ---- weights ----------------------------------------------------------------------------------------------------- */

size_t mr_helper_weight_bytes(const mr_fit_linear *linear) {
    return linear->outputs * linear->rows->width * (linear->doubles ? sizeof(double) : sizeof(float));
}

size_t mr_helper_point_bytes(const mr_fit_linear *linear) {
    return mr_helper_weight_bytes(linear) + linear->outputs * sizeof(double);
}

void mr_helper_point_write(const mr_fit_point *point, uint8_t *to) {
    const mr_fit_linear *linear = point->linear;
    const size_t products = linear->outputs * linear->rows->width, bytes = mr_helper_weight_bytes(linear);
    memcpy(to, point->weights, bytes);
    memcpy(to + bytes, point->parameters + products, linear->outputs * sizeof(double));
}

void mr_helper_point_read(mr_fit_point *point, double *parameters, const uint8_t *from) {
    const mr_fit_linear *linear = point->linear;
    const size_t products = linear->outputs * linear->rows->width, bytes = mr_helper_weight_bytes(linear);
    memcpy(point->weights, from, bytes);
    memcpy(parameters + products, from + bytes, linear->outputs * sizeof(double));
    point->parameters = parameters;
}

/* ---- sending and receiving --------------------------------------------------------------------------------------- */

bool mr_helper_send(mr_zmq *socket, const void *route, size_t route_bytes, const mr_helper_head *head, const void *body,
                    size_t bytes) {
    void *to = mr_zmq_handle(socket);
    if (route && zmq_send(to, route, route_bytes, ZMQ_DONTWAIT | ZMQ_SNDMORE) < 0)
        return false;
    /* Of a message whose first part was taken, the others are, too. */
    return zmq_send(to, head, sizeof *head, ZMQ_DONTWAIT | ZMQ_SNDMORE) >= 0 &&
           zmq_send(to, body, bytes, ZMQ_DONTWAIT) >= 0;
}

static bool take_body(mr_helper_body *body, const void *data, size_t bytes) {
    if (bytes > body->room) {
        mr_free(body->data);
        body->data = mr_alloc_aligned(64, mr_aligned_bytes(bytes));
        body->room = body->data ? bytes : 0;
        body->bytes = 0;
    }
    if (bytes > body->room)
        return false;
    if (bytes)
        memcpy(body->data, data, bytes);
    body->bytes = bytes;
    return true;
}

/* One part; `more`: another one follows. False: nothing has come. */
static bool receive_part(void *from, zmq_msg_t *part, bool *more) {
    int got;
    zmq_msg_init(part);
    while ((got = zmq_msg_recv(part, from, ZMQ_DONTWAIT)) < 0 && errno == EINTR)
        ;
    *more = got >= 0 && zmq_msg_more(part);
    return got >= 0;
}

/* The parts of a message: whether they are one of these. */
static bool take_part(size_t number, zmq_msg_t *part, bool more, mr_helper_head *head, mr_helper_body *body) {
    if (number == 0) {
        if (zmq_msg_size(part) != sizeof *head || !more)
            return false;
        memcpy(head, zmq_msg_data(part), sizeof *head);
        return head->magic == MR_HELPER_MAGIC;
    }
    return number == 1 && !more && take_body(body, zmq_msg_data(part), zmq_msg_size(part));
}

/* *sound: it was one of these messages. */
static bool receive(mr_zmq *socket, void *route, size_t *route_bytes, mr_helper_head *head, mr_helper_body *body,
                    bool *sound) {
    void *from = mr_zmq_handle(socket);
    zmq_msg_t part;
    bool more = true;
    *sound = true;
    for (size_t number = route ? 0 : 1; more; number++) {
        if (!receive_part(from, &part, &more)) {
            zmq_msg_close(&part);
            return false;
        }
        if (number == 0) {
            *route_bytes = zmq_msg_size(&part);
            *sound = *route_bytes <= MR_HELPER_ROUTE && more;
            if (*sound)
                memcpy(route, zmq_msg_data(&part), *route_bytes);
        } else if (*sound) {
            *sound = take_part(number - 1, &part, more, head, body);
        }
        zmq_msg_close(&part);
    }
    return true;
}

bool mr_helper_receive(mr_zmq *socket, void *route, size_t *route_bytes, mr_helper_head *head, mr_helper_body *body) {
    bool sound = false;
    while (!sound)
        if (!receive(socket, route, route_bytes, head, body, &sound))
            return false;
    return true;
}

/* Between a fit and its helpers: a file of rows, whose sum is made if it is one, and the parts of a message as they
 * come over a socket.
 *
 *     tests/fuzz/run 60 fuzz_helper */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "engine/base/memory.h"
#include "kernels/fit/fit_share.h"
#include "millrace/status.h"
#include "stages/train/helper_message.h"
#include "stages/train/helper_rows.h"
#include "tests/fuzz/folder.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

enum { MOST_PARAMETERS = 4096, LENGTH = 2, BODY_MOST = 4096 };

/* The sum of the first chunk, at weights that a message brings. */
static void sum(mr_helper_rows *rows) {
    const size_t parameters = mr_fit_parameters(&rows->linear), bytes = mr_helper_point_bytes(&rows->linear);
    if (parameters > MOST_PARAMETERS)
        return;
    mr_fit_point point = {.linear = &rows->linear, .weights = mr_alloc_aligned(64, mr_aligned_bytes(8 * parameters))};
    const mr_fit_task task = mr_fit_linear_task(&point);
    void *scratch = mr_alloc_aligned(64, mr_aligned_bytes(task.scratch_bytes));
    double *numbers = mr_calloc(parameters, sizeof *numbers), *made = mr_calloc(task.length, sizeof *made);
    uint8_t *message = mr_calloc(1, bytes);
    if (!point.weights || !scratch || !numbers || !made || !message)
        abort();
    mr_helper_point_read(&point, numbers, message);
    task.make(task.context, 0, scratch, made);
    mr_helper_point_write(&point, message);
    mr_free(message);
    mr_free(made);
    mr_free(numbers);
    mr_free(scratch);
    mr_free(point.weights);
}

static void read_rows(const uint8_t *data, size_t bytes) {
    mr_helper_rows rows;
    const int status = mr_helper_rows_open(&rows, fuzz_file("rows", data, bytes));
    if (status && !*mr_message())
        abort();
    if (!status)
        sum(&rows);
    mr_helper_rows_close(&rows);
}

static mr_zmq *helper;
static void *fit;

static void connect_both(void) {
    char endpoint[512];
    snprintf(endpoint, sizeof endpoint, "ipc://%s/helper", fuzz_folder());
    const mr_zmq_params params = {.id = "helper", .type = ZMQ_ROUTER, .endpoint = endpoint, .bind = true,
                                  .max_message_bytes = BODY_MOST};
    fit = zmq_socket(zmq_ctx_new(), ZMQ_DEALER);
    if (mr_zmq_create(&helper, &params) || mr_zmq_attach(helper) || zmq_connect(fit, endpoint))
        abort();
}

static void send_parts(const uint8_t *data, size_t bytes) {
    while (bytes >= LENGTH) {
        const size_t said = (data[0] | (size_t)data[1] << 8) % BODY_MOST, room = bytes - LENGTH;
        const size_t length = said < room ? said : room;
        const bool more = bytes - LENGTH - length >= LENGTH;
        if (zmq_send(fit, data + LENGTH, length, more ? ZMQ_SNDMORE : 0) < 0)
            abort();
        data += LENGTH + length;
        bytes -= LENGTH + length;
        if (!more)
            break;
    }
}

/* A sound message behind it ends what is to be waited for. */
static void receive_parts(const uint8_t *data, size_t bytes) {
    static const mr_helper_head last = {.magic = MR_HELPER_MAGIC, .kind = MR_HELPER_READY, .turn = UINT64_MAX};
    mr_helper_head head = {0};
    mr_helper_body body = {0};
    uint8_t route[MR_HELPER_ROUTE];
    size_t route_bytes;
    zmq_pollitem_t item = {.events = ZMQ_POLLIN};
    if (!helper)
        connect_both();
    item.socket = mr_zmq_handle(helper);
    if (bytes >= LENGTH)
        send_parts(data, bytes);
    zmq_send(fit, &last, sizeof last, ZMQ_SNDMORE);
    zmq_send(fit, "", 0, 0);
    while (head.turn != last.turn || head.kind != last.kind || body.bytes) {
        zmq_poll(&item, 1, -1);
        if (mr_helper_receive(helper, route, &route_bytes, &head, &body) && head.magic != MR_HELPER_MAGIC)
            abort();
    }
    mr_free(body.data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    if (bytes && data[0])
        read_rows(data + 1, bytes - 1);
    else if (bytes)
        receive_parts(data + 1, bytes - 1);
    return 0;
}

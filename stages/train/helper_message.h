/* Messages between a fit and its helpers: a head, and in a second part what belongs to it. They have the byte order of
 * the machine; `magic` tells that of others.
 *
 *     HELLO     to a helper: the sender's mr_helper_self; answered by READY or REFUSED
 *     READY     the helper has the rows of that fit
 *     REFUSED   it is of another kind; the second part says of which
 *     POINT     to a helper: sum the blocks at these weights: the products' (floats or doubles), then the biases
 *               (doubles)
 *     NODE      the sum of blocks that are one node of the tree: doubles
 */
#ifndef MILLRACE_STAGES_TRAIN_HELPER_MESSAGE_H
#define MILLRACE_STAGES_TRAIN_HELPER_MESSAGE_H

#include "engine/transport/zmq/socket.h"
#include "kernels/fit/fit_linear.h"
#include "kernels/fit/fit_share.h"

enum { MR_HELPER_MAGIC = 0x4d524648, MR_HELPER_SELF = 256, MR_HELPER_ROUTE = 255 };
typedef enum mr_helper_kind {
    MR_HELPER_HELLO = 1, MR_HELPER_READY, MR_HELPER_REFUSED, MR_HELPER_POINT, MR_HELPER_NODE
} mr_helper_kind;

typedef struct mr_helper_head {
    uint32_t magic, kind;
    uint64_t fit, turn; /* of which fit, and which evaluation */
    mr_fit_span span;
} mr_helper_head;

/* Version, pipeline and kind of processor, as a text: two processes make the same bits if it is the same. The kind is a
 * digest of a sum that this processor's instructions make, and of the C library's functions. MR_ERROR_MEMORY. */
int mr_helper_self(const char *pipeline, char text[MR_HELPER_SELF]);
/* Bytes of a POINT, and of the products' weights in it. */
size_t mr_helper_weight_bytes(const mr_fit_linear *linear);
size_t mr_helper_point_bytes(const mr_fit_linear *linear);
void mr_helper_point_write(const mr_fit_point *point, uint8_t *to);
/* Into point->weights and point->parameters, which is `parameters`. */
void mr_helper_point_read(mr_fit_point *point, double *parameters, const uint8_t *from);
/* Sends at once or not at all: false if the other end is not there, or is too slow. `route`: of a ROUTER; NULL: of
 * another socket. */
bool mr_helper_send(mr_zmq *socket, const void *route, size_t route_bytes, const mr_helper_head *head, const void *body,
                    size_t bytes);
/* Takes a message if one has come; false: none. Other messages than these are dropped. `route` has room for
 * MR_HELPER_ROUTE; NULL: not of a ROUTER. The body is aligned for doubles, and valid until the next call; the caller
 * frees `data` with mr_free. */
typedef struct mr_helper_body {
    uint8_t *data;
    size_t bytes, room;
} mr_helper_body;
bool mr_helper_receive(mr_zmq *socket, void *route, size_t *route_bytes, mr_helper_head *head, mr_helper_body *body);

#endif

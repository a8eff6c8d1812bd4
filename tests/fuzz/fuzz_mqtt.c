/* What an MQTT broker sends: packets within their bounds, the same whether the bytes come at once or one by one. The
 * first byte chooses the version.
 *
 *     tests/fuzz/run 60 fuzz_mqtt */
#include <string.h>

#include "millrace/status.h"
#include "stages/deliver/mqtt_packet.h"
#include "tests/fuzz/fuzz.h"

static bool same(const mr_mqtt_packet *a, const mr_mqtt_packet *b) {
    return a->type == b->type && a->reason == b->reason && a->id == b->id && a->quality == b->quality &&
           a->limits.open == b->limits.open && a->limits.bytes == b->limits.bytes;
}

/* A packet needs all its bytes, and no more. */
static void check_edges(const uint8_t *data, size_t bytes, const mr_mqtt_packet *whole, int version) {
    mr_mqtt_packet part;
    size_t used;
    uint8_t *copy = fuzz_copy(data, bytes, 0);
    fault_if(mr_mqtt_read(&part, &used, copy, bytes, version) || used != bytes ||
             !same(&part, whole));
    free(copy);
    copy = fuzz_copy(data, bytes - 1, 0);
    fault_if(mr_mqtt_read(&part, &used, copy, bytes - 1, version) != MR_ERROR_AGAIN);
    free(copy);
}

FUZZ(data, bytes) {
    if (!bytes)
        return;
    const int version = data[0] & 1 ? MR_MQTT_5 : MR_MQTT_311;
    uint8_t *copy = fuzz_copy(data + 1, bytes - 1, 0);
    mr_mqtt_packet packet;
    size_t at = 0, used;
    int status;
    memset(&packet, 0, sizeof packet);
    while (!(status = mr_mqtt_read(&packet, &used, copy + at, bytes - 1 - at, version))) {
        fault_if(used < 2 || used > bytes - 1 - at || packet.reason < 0 || packet.reason > 255 || packet.quality > 2);
        fault_if(packet.type == MR_MQTT_PUBACK && !packet.id);
        fault_if(packet.type == MR_MQTT_CONNACK && (packet.limits.open < 1 || packet.limits.bytes < 1));
        fault_if(!*mr_mqtt_reason(packet.reason, version));
        check_edges(copy + at, used, &packet, version);
        at += used;
    }
    if (status != MR_ERROR_AGAIN)
        fuzz_expect_reason(status);
    free(copy);
}

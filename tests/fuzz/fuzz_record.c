/* Any bytes as the record of a message over ZeroMQ, as JSON or as protobuf: nothing may crash or leak, what is refused
 * is refused with a reason, and texts that are taken end within their room.
 *
 *     tests/fuzz/run 60 fuzz_record */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/zmq/zmq_record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* libFuzzer's own name for what it calls. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
    mr_zmq_record record;
    uint8_t *exact = malloc(bytes ? bytes : 1);
    if (!exact)
        abort();
    memcpy(exact, data, bytes);
    int status = mr_zmq_record_read(&record, exact, bytes);
    if (status != MR_OK && (status != MR_ERROR_DATA || !*mr_message()))
        abort();
    if (status == MR_OK && (!memchr(record.id, 0, sizeof record.id) ||
                            !memchr(record.file, 0, sizeof record.file) ||
                            !memchr(record.label, 0, sizeof record.label) ||
                            !memchr(record.format_text, 0, sizeof record.format_text)))
        abort();
    free(exact);
    return 0;
}

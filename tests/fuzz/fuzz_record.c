/* Any bytes as a ZeroMQ message record, in JSON or protobuf. Nothing may crash or leak, every refusal must have a
 * reason, and accepted texts must be terminated.
 *
 *     tests/fuzz/run 60 fuzz_record */
#include <string.h>

#include "millrace/status.h"
#include "stages/zmq/zmq_record.h"
#include "tests/fuzz/fuzz.h"

FUZZ(data, bytes) {
    mr_zmq_record record;
    uint8_t *exact = fuzz_copy(data, bytes, 0);
    int status = mr_zmq_record_read(&record, exact, bytes);
    fault_if(status != MR_OK && (status != MR_ERROR_DATA || !*mr_message()));
    fault_if(status == MR_OK && (!memchr(record.id, 0, sizeof record.id) ||
             !memchr(record.file, 0, sizeof record.file) ||
             !memchr(record.label, 0, sizeof record.label) ||
             !memchr(record.format_text, 0, sizeof record.format_text)));
    free(exact);
}

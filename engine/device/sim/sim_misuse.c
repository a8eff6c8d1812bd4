#include "engine/device/sim/sim_misuse.h"

#include <inttypes.h>
#include <stdio.h>

#include "millrace/log.h"
#include "millrace/status.h"

static _Atomic uint64_t misuses;

int mr_sim_misuse(const mr_device *device, const mr_stage *stage, const mr_identity *frame, const char *what) {
    char work[160];
    snprintf(work, sizeof work, "%s, frame %" PRIu32 "/%" PRIu32 "/%" PRIu64 "/%" PRIu32,
             stage && stage->id ? stage->id : "work without a stage", frame->source, frame->epoch, frame->seq,
             frame->sub);
    misuses++;
    mr_log(MR_LOG_ERROR, "%s: misuse by %s: %s", device->name, work, what);
    return mr_fail(MR_ERROR_INTERNAL, "%s: misuse by %s: %s", device->name, work, what);
}

uint64_t mr_sim_misuses(void) {
    return misuses;
}

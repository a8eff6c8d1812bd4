#include "stages/sink/full.h"

#include <errno.h>
#include <string.h>

/* How long to wait before trying again. */
static const int64_t PATIENCE_NS = 200000000;

const char *const mr_on_full_choices[] = {
    [MR_ON_FULL_AUTO] = "auto", [MR_ON_FULL_FAIL] = "fail", [MR_ON_FULL_WAIT] = "wait", NULL};

mr_full mr_full_make(const mr_stage *self, int on_full) {
    return (mr_full){.waits = on_full == MR_ON_FULL_WAIT || (on_full == MR_ON_FULL_AUTO && mr_stage_reliable(self))};
}

int mr_full_meet(mr_full *full, const mr_stage *self, int error, const char *path) {
    /* EFBIG is a process limit, which an administrator can raise (prlimit). */
    if (error != ENOSPC && error != EDQUOT && error != EFBIG)
        return MR_OK;
    if (!full->waits)
        return mr_fail(MR_ERROR_IO, "cannot write to %s: %s%s", path, strerror(error),
                       full->over ? "; the run has ended" : "; with on_full: wait the run would wait for room");
    if (mr_stage_gives_up(self))
        return mr_fail(MR_ERROR_CANCELLED, "stopped while there was no room for %s", path);
    if (!full->said)
        mr_stage_warn(self, "cannot write to %s: %s; waiting until there is room", path, strerror(error));
    full->said = full->is = true;
    return MR_ERROR_AGAIN;
}

void mr_full_end(mr_full *full) {
    full->over = full->waits;
    full->waits = false;
}

void mr_full_pass(mr_full *full, const mr_stage *self, const char *path) {
    if (full->is)
        mr_stage_info(self, "there is room for %s again", path);
    full->is = false;
}

int mr_full_wait(mr_io *io) {
    mr_io_wake_at(io, mr_io_now_ns(io) + PATIENCE_NS);
    return MR_WAIT;
}

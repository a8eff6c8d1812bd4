#include "engine/flow/run/control.h"

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/flow/run/ending.h"

int mr_control_create(mr_control **control, void (*stop)(void *context), void *context) {
    if (!(*control = mr_calloc(1, sizeof **control)))
        return mr_fail(MR_ERROR_MEMORY, "no memory for the graph");
    (*control)->stop = stop;
    (*control)->context = context;
    return MR_OK;
}

void mr_control_destroy(mr_control **control) {
    mr_free(*control);
    *control = NULL;
}

void mr_control_stop(const mr_run *run, bool at_once) {
    mr_control *control = run->control;
    if (at_once) {
        mr_ledger_freeze(run->ledger);
        atomic_store(&control->cancelled, true);
    }
    if (!atomic_exchange(&control->stopping, true))
        atomic_store(&control->stop_ns, mr_now_ns());
    mr_control_note_change(run);
    control->stop(control->context);
}

void mr_control_note_stop(const mr_run *run) {
    atomic_store(&run->control->stopping, true);
}

void mr_control_fail(const mr_run *run, int status, const char *message) {
    mr_ending_note_failure(run->ending, status, message);
    mr_ledger_freeze(run->ledger);
    /* If nobody reads the output, there is no reason to wait either. */
    mr_control_stop(run, status == MR_ERROR_CLOSED);
}

int64_t mr_control_stop_ns(const mr_run *run) {
    return atomic_load(&run->control->stop_ns);
}

void mr_control_note_change(const mr_run *run) {
    atomic_fetch_add(&run->control->news, 1);
}

uint64_t mr_control_changes(const mr_run *run) {
    return atomic_load(&run->control->news);
}

void mr_control_reopen(const mr_run *run) {
    atomic_fetch_add(&run->control->reopenings, 1);
}

uint64_t mr_control_reopenings(const mr_run *run) {
    return atomic_load_explicit(&run->control->reopenings, memory_order_relaxed);
}

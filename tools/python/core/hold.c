#include "hold.h"

#include <stdlib.h>

#include "stream.h"

mr_py_kept *mr_py_kept_create(void) {
    mr_py_kept *kept = calloc(1, sizeof *kept);
    if (kept)
        atomic_init(&kept->references, 1);
    return kept;
}

void mr_py_kept_unref(mr_py_kept *kept) {
    if (kept && atomic_fetch_sub(&kept->references, 1) == 1)
        free(kept);
}

mr_py_hold *mr_py_hold_create(mr_frame *frame) {
    mr_py_hold *hold = calloc(1, sizeof *hold);
    if (!hold) {
        mr_frame_unref(&frame);
        PyErr_NoMemory();
        return NULL;
    }
    hold->references = 1;
    hold->frame = frame;
    hold->generation = mr_py_sessions_generation();
    return hold;
}

mr_py_hold *mr_py_hold_keep(const mr_frame *frame) {
    mr_frame *kept;
    if (!mr_frame_keep(frame, &kept))
        return mr_py_hold_create(kept);
    PyErr_NoMemory();
    return NULL;
}

mr_py_hold *mr_py_hold_copy(size_t bytes) {
    mr_py_hold *hold = mr_py_hold_create(NULL);
    if (!hold)
        return NULL;
    hold->copy = malloc(bytes ? bytes : 1);
    if (!hold->copy) {
        free(hold);
        PyErr_NoMemory();
        return NULL;
    }
    return hold;
}

mr_py_hold *mr_py_hold_ref(mr_py_hold *hold) {
    hold->references++;
    return hold;
}

void mr_py_hold_unref(mr_py_hold *hold) {
    if (!hold || --hold->references)
        return;
    if (hold->frame && hold->generation != mr_py_sessions_generation())
        return; /* In a forked process nothing of the parent's pipeline may be touched. */
    mr_frame_unref(&hold->frame);
    if (hold->kept)
        hold->kept->frames--;
    mr_py_kept_unref(hold->kept);
    if (hold->stream) {
        mr_py_stream_release(hold->stream, hold->heavy);
        mr_py_stream_unref(hold->stream);
    }
    if (hold->session && mr_py_session_unhold(hold->session)) {
        Py_BEGIN_ALLOW_THREADS
        mr_py_session_destroy(hold->session);
        Py_END_ALLOW_THREADS
    }
    free(hold->copy);
    free(hold);
}

void mr_py_hold_count(mr_py_hold *hold, mr_py_kept *kept) {
    atomic_fetch_add(&kept->references, 1);
    hold->kept = kept;
    kept->frames++;
}

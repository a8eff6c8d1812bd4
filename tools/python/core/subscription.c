#include "subscription.h"

#include <stdlib.h>
#include <string.h>

#include "frame.h"
#include "gil.h"
#include "inside.h"
#include "stream.h"
#include "traceback.h"

/* The call of the stage that this thread is in. */
typedef struct call {
    const mr_stage *stage;
    mr_py_subscription *subscription; /* NULL: nobody has subscribed */
    int status;
} call;
static _Thread_local call *current;

static int call_function(mr_py_subscription *subscription, const char *source, const mr_frame *frame) {
    PyGILState_STATE state = mr_py_gil_take();
    int status = MR_OK;
    mr_py_call inside;
    mr_py_call_begin(&inside, subscription->stage);
    PyObject *seen = NULL, *answer = NULL;
    mr_py_hold *hold = mr_py_hold_keep(frame);
    if (hold)
        seen = mr_py_frame(hold, source);
    if (subscription->kept->frames > MR_PY_MOST_KEPT)
        PyErr_Format(mr_py.held, "the function keeps arrays of %ld earlier frames: copy what you keep",
                     subscription->kept->frames);
    else if (seen)
        answer = PyObject_CallFunctionObjArgs(subscription->function, seen, NULL);
    if (!answer)
        status = mr_py_fail_with_exception("the function that subscribed", subscription->kept);
    Py_XDECREF(answer);
    if (seen && mr_py_frame_end_call(seen, subscription->kept))
        status = mr_py_fail_with_exception("the function that subscribed", subscription->kept);
    Py_XDECREF(seen);
    mr_py_call_end(&inside);
    mr_py_gil_give(state);
    return status;
}

static void on_frame(void *context, const char *source, const mr_frame *frame) {
    mr_py_subscription *subscription = context;
    current->subscription = subscription;
    if (subscription->stream)
        current->status = mr_py_stream_give(subscription->stream, current->stage, source, frame);
    else
        current->status = call_function(subscription, source, frame);
}

/* ---- the stage --------------------------------------------------------------------------------------------------- */

static int process(mr_stage *self, mr_io *io) {
    call now = {.stage = self};
    current = &now;
    mr_stage_deliver(self, mr_io_input(io));
    current = NULL;
    *(mr_py_subscription **)self->state = now.subscription;
    if (now.status && !now.subscription->fails) {
        /* The engine would give a sink that fails no more frames. */
        mr_stage_warn(self, "%s", mr_message());
        mr_io_drop(io, mr_io_input(io), "error");
        return MR_DONE;
    }
    return now.status ? now.status : MR_DONE;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    mr_py_subscription *subscription = *(mr_py_subscription **)self->state;
    (void)io, (void)source;
    if (subscription && subscription->stream)
        mr_py_stream_expect_end(subscription->stream);
    return MR_DONE;
}

static const mr_port inputs[] = {{.name = "in"}, {0}};

const mr_stage_type mr_py_callback_stage = {
    .name = "callback",
    .summary = "hands frames to the Python program",
    .help =
        "millrace.run and Pipeline.frames give the frames, or Pipeline.subscribe sets a function that is called for "
        "one frame at a time, in order for each source. Otherwise the frames are swallowed.",
    .inputs = inputs,
    .state_bytes = sizeof(mr_py_subscription *),
    .entry = MR_ENTRY_SHARED,
    .blocking = true,
    .resumes = true,
    .process = process,
    .flush = flush,
};

/* ---- subscriptions ----------------------------------------------------------------------------------------------- */

static PyObject *taken(const char *stage) {
    mr_fail(MR_ERROR_USAGE, "the frames of stage %s are already taken: one function or one loop gets them", stage);
    return mr_py_raise(MR_ERROR_USAGE);
}

PyObject *mr_py_subscribe(mr_py_session *session, const char *stage, PyObject *function, long room, bool strict) {
    for (mr_py_subscription *each = session->subscriptions; each; each = each->next)
        if (strcmp(each->stage, stage) == 0)
            return taken(stage);
    mr_py_subscription *made = calloc(1, sizeof *made);
    char *name = strdup(stage);
    mr_py_stream *stream = function == Py_None ? mr_py_stream_create(session, room, strict) : NULL;
    mr_py_kept *kept = function == Py_None ? NULL : mr_py_kept_create();
    const int status = made && name && (stream || kept)
                           ? mr_pipeline_subscribe(session->pipeline, stage, on_frame, made)
                           : mr_fail(MR_ERROR_MEMORY, "no memory for a subscription");
    if (status) {
        free(made);
        free(name);
        mr_py_kept_unref(kept);
        if (stream)
            mr_py_stream_unref(stream);
        return mr_py_raise(status);
    }
    *made = (mr_py_subscription){.next = session->subscriptions,
                                 .session = session,
                                 .stage = name,
                                 .stream = stream,
                                 .fails = strict,
                                 .kept = kept};
    pthread_mutex_lock(&session->lock); /* a close reads the list without the GIL */
    session->subscriptions = made;
    pthread_mutex_unlock(&session->lock);
    if (stream)
        return mr_py_stream_iterator(stream);
    Py_INCREF(function);
    made->function = function;
    Py_RETURN_NONE;
}

void mr_py_subscription_close(mr_py_subscription *subscription) {
    if (subscription->stream)
        mr_py_stream_close(subscription->stream);
}

void mr_py_subscriptions_destroy(mr_py_subscription *first) {
    PyGILState_STATE state = mr_py_gil_take();
    while (first) {
        mr_py_subscription *next = first->next;
        Py_XDECREF(first->function);
        if (first->stream)
            mr_py_stream_unref(first->stream);
        mr_py_kept_unref(first->kept);
        free(first->stage);
        free(first);
        first = next;
    }
    mr_py_gil_give(state);
}

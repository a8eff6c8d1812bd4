#include "plan.h"

/* Formats of an output: the author of a plan reads the text, a program the parts. */
static PyObject *format_of(const mr_format_set *set) {
    char text[MR_FORMAT_SET_TEXT];
    return PyUnicode_FromString(mr_format_set_print(set, text, sizeof text));
}

static PyObject *inputs_of(const mr_view_stage *stage) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < stage->input_count; i++) {
        const mr_planned_input *input = &stage->inputs[i];
        if (mr_py_append(list, Py_BuildValue("{s:N,s:N,s:N}", "port", mr_py_text(input->port, true), "from",
                                             mr_py_text(input->from, true), "format", format_of(&input->set))))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *outputs_of(const mr_view_stage *stage) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < stage->output_count; i++) {
        const mr_format fixed = mr_format_set_common(&stage->outputs[i].set);
        const mr_view_pool *pool = &stage->pools[i];
        if (mr_py_append(list, Py_BuildValue("{s:N,s:i,s:i,s:i,s:i,s:K}", "format", format_of(&stage->outputs[i].set),
                                             "payload", (int)fixed.payload, "pixel", (int)fixed.pixel, "layout",
                                             (int)fixed.layout, "buffers", pool->count, "most_bytes",
                                             (unsigned long long)pool->most)))
            Py_CLEAR(list);
    }
    return list;
}

static const char *role_name(mr_view_role role) {
    static const char *const names[] = {"stage", "source", "upload", "download", "peer", "cut out", "cut in"};
    return names[role];
}

static PyObject *stage_of(const mr_view_stage *stage) {
    const mr_view_calls *calls = &stage->calls;
    PyObject *dict =
        Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N,s:N}", "id", mr_py_text(stage->id, false), "type",
                      mr_py_text(stage->type->name, false), "role", mr_py_text(role_name(stage->role), false), "place",
                      mr_py_text(stage->place, false), "device", mr_py_text(stage->devices.names, true), "inputs",
                      inputs_of(stage), "outputs", outputs_of(stage));
    if (dict && (mr_py_put(dict, "sink", PyBool_FromLong(stage->output_count == 0 && stage->input_count > 0)) ||
                 mr_py_put(dict, "external", PyBool_FromLong(stage->type->external)) ||
                 mr_py_put(dict, "queue", PyLong_FromLong(stage->queue)) ||
                 mr_py_put(dict, "batch", PyLong_FromLong(calls->batch)) ||
                 mr_py_put(dict, "workers", PyLong_FromLong(calls->entries)) ||
                 mr_py_put(dict, "blocking", PyBool_FromLong(calls->blocking)) ||
                 mr_py_put(dict, "on_error", mr_py_text(stage->on_error, true)) ||
                 mr_py_put(dict, "remark", mr_py_text(stage->remarks.anywhere, true)) ||
                 mr_py_put(dict, "rate", PyFloat_FromDouble(stage->offer.rate)) ||
                 mr_py_put(dict, "frames", PyLong_FromLongLong(stage->offer.frames))))
        Py_CLEAR(dict);
    return dict;
}

static PyObject *stages_of(const mr_plan_view *view) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < view->stage_count; i++)
        if (mr_py_append(list, stage_of(&view->stages[i])))
            Py_CLEAR(list);
    return list;
}

static PyObject *links_of(const mr_plan_view *view) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < view->link_count; i++) {
        const mr_view_link *link = &view->links[i];
        const mr_view_stage *from = &view->stages[link->from], *to = &view->stages[link->to];
        const char *output = from->type->outputs ? from->type->outputs[link->from_port].name : NULL;
        if (mr_py_append(list, Py_BuildValue("{s:N,s:N,s:N,s:N,s:i}", "from", mr_py_text(from->id, false), "output",
                                             mr_py_text(from->output_count > 1 ? output : NULL, true), "to",
                                             mr_py_text(to->id, false), "format",
                                             format_of(&from->outputs[link->from_port].set), "queue", to->queue)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *threads_of(const mr_plan_view *view) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < view->thread_count; i++) {
        const mr_view_thread *thread = &view->threads[i];
        if (mr_py_append(list, Py_BuildValue("{s:N,s:N,s:N,s:i}", "name", mr_py_text(thread->name, true), "what",
                                             mr_py_text(thread->what, true), "stage", mr_py_text(thread->stage, true),
                                             "count", thread->count)))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *memory_of(const mr_plan_view *view) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < view->row_count; i++) {
        const mr_view_row *row = &view->rows[i];
        if (mr_py_append(list, Py_BuildValue("{s:N,s:N,s:N,s:L,s:K,s:O}", "of", mr_py_text(row->of, true), "what",
                                             mr_py_text(row->what, true), "device",
                                             mr_py_text(view->devices[row->device].name, true), "buffers",
                                             (long long)row->buffers, "most_bytes", (unsigned long long)row->most.bytes,
                                             "unknown", row->most.unknown ? Py_True : Py_False)))
            Py_CLEAR(list);
    }
    return list;
}

PyObject *mr_py_plan(const mr_plan_view *view) {
    return Py_BuildValue("{s:N,s:N,s:N,s:i,s:n,s:K,s:N,s:N,s:N,s:N}", "pipeline", mr_py_text(view->name, false), "file",
                         mr_py_text(view->file, true), "digest", mr_py_text(view->digest, false), "workers",
                         view->workers, "nodes", (Py_ssize_t)view->written_nodes, "host_bytes",
                         (unsigned long long)view->host.bytes, "stages", stages_of(view), "links", links_of(view),
                         "threads", threads_of(view), "memory", memory_of(view));
}

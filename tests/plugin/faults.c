/* A stage type whose author has made a mistake: `fault` says which. The engine must report each, and must not crash. */
#include <millrace/objects.h>
#include <millrace/plugin.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    const char *fault;
} options;

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    if (!strcmp(given->fault, "negotiate"))
        return MR_ERROR_UNAVAILABLE; /* without a message */
    const bool objects = !strcmp(given->fault, "items");
    return mr_promise_result(negotiation, 0, objects ? mr_kind_objects() : mr_kind_classes(), NULL, NULL);
}

static int open_stage(mr_stage *self) {
    const options *given = self->options;
    return strcmp(given->fault, "open") ? MR_OK : MR_ERROR_UNAVAILABLE;
}

static int emit_classes(mr_io *io, size_t count) {
    mr_frame *output = NULL;
    mr_result *result = NULL;
    int status = mr_io_share(io, mr_io_input(io), &output);
    if (!status && (status = mr_io_add_result(io, output, mr_kind_classes(), 2, &result)))
        mr_frame_unref(&output);
    if (status)
        return status;
    result->count = count;
    return mr_io_emit(io, 0, output);
}

/* An object whose outline lies elsewhere. */
static int emit_object(mr_io *io) {
    mr_frame *output = NULL;
    mr_result *result = NULL;
    int status = mr_io_share(io, mr_io_input(io), &output);
    if (!status && (status = mr_io_add_result(io, output, mr_kind_objects(), 1, &result)))
        mr_frame_unref(&output);
    if (status)
        return status;
    result->count = 1;
    memset(result->data, 0, sizeof(mr_object));
    ((mr_object *)result->data)->quad = (mr_items){1 << 20, 8};
    return mr_io_emit(io, 0, output);
}

/* A frame that was emitted must stay as it is. */
static void change_input(mr_frame *input, const char *fault) {
    mr_result *newest = input->results;
    if (!strcmp(fault, "paint"))
        input->plane[0].data[0] ^= 1;
    if (!strcmp(fault, "score") && newest)
        newest->classes[0].score++;
    if (!strcmp(fault, "time"))
        input->pts_ns++;
}

static int process(mr_stage *self, mr_io *io) {
    const char *fault = ((const options *)self->options)->fault;
    if (!strcmp(fault, "keep"))
        mr_frame_ref(mr_io_input(io)); /* and never gives it back */
    if (!strcmp(fault, "null"))
        return mr_io_emit(io, 0, NULL);
    if (!strcmp(fault, "count"))
        return emit_classes(io, (size_t)1 << 40);
    if (!strcmp(fault, "items"))
        return emit_object(io);
    if (!strcmp(fault, "exit"))
        exit(0);
    if (!strcmp(fault, "classes")) /* no mistake */
        return emit_classes(io, 2);
    if (!strcmp(fault, "port"))
        return mr_io_emit(io, 7, mr_frame_ref(mr_io_input(io)));
    if (!strcmp(fault, "index"))
        return mr_io_forward(io, 3);
    if (!strcmp(fault, "process"))
        return MR_ERROR_DATA; /* without a message */
    if (!strcmp(fault, "spoken")) /* a reason for the first frame only */
        return mr_io_input(io)->identity.seq ? MR_ERROR_UNAVAILABLE : mr_fail(MR_ERROR_DATA, "the first reason");
    change_input(mr_io_input(io), fault);
    int status = mr_io_forward(io, 0);
    if (!strcmp(fault, "twice"))
        return mr_io_forward(io, 0);
    return strcmp(fault, "answer") ? status : 12345;
}

static const mr_option table[] = {
    {.name = "fault", .kind = MR_OPTION_STRING, .offset = offsetof(options, fault), .fallback = "none",
     .help = "the mistake"},
    MR_OPTIONS_END,
};
static const mr_port inputs[] = {{.name = "in"}, {0}};
static const mr_port outputs[] = {{.name = "out"}, {0}};

static const mr_stage_type faulty_stage = {
    .name = "faulty",
    .summary = "makes one of its author's mistakes",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
};

MR_PLUGIN("faults", "1.0", &faulty_stage);

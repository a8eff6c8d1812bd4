/* A stage type in a plugin: adds classes, objects with tracks, events, and text to each frame, which follow from its
 * number. For tests of sinks that write them, and for measuring those. */
#include <stdio.h>
#include <string.h>

#include <millrace/events.h>
#include <millrace/objects.h>
#include <millrace/plugin.h>
#include <millrace/text.h>

typedef struct options {
    int64_t objects;
    bool alone; /* only objects */
    bool long_zone;
} options;

static const char *const labels[] = {"owl", "tit \"blue\"", "Größe", "it's"};

/* A name that does not compress well. */
static char long_zone[6001];

static int negotiate(mr_negotiation *negotiation) {
    const options *given = negotiation->options;
    uint32_t next = 1;
    for (size_t i = 0; i < sizeof long_zone - 1; i++) {
        next = next * 1664525 + 1013904223;
        long_zone[i] = (char)('0' + (next >> 16) % 75);
    }
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    int status = mr_promise_result(negotiation, 0, mr_kind_objects(), NULL, NULL);
    if (!status && !given->alone)
        status = mr_promise_result(negotiation, 0, mr_kind_classes(), NULL, NULL);
    if (!status && !given->alone)
        status = mr_promise_result(negotiation, 0, mr_kind_events(), NULL, NULL);
    return status || given->alone ? status : mr_promise_result(negotiation, 0, mr_kind_text(), NULL, NULL);
}

static int add_objects(mr_io *io, mr_frame *frame, int64_t count) {
    const uint64_t seq = frame->identity.seq;
    const float quad[] = {0, 0, 1, 0, 1, 1, 0, 1};
    mr_result *result;
    int status = mr_io_add_result(io, frame, mr_kind_objects(), (size_t)count, &result);
    if (status)
        return status;
    mr_object *objects = result->data;
    for (int64_t i = 0; i < count; i++)
        objects[i] = (mr_object){.left = (float)i, .top = 0.5F, .right = (float)i + 0.87F, .bottom = 2, .score = 0.875F,
                                 .index = (int32_t)(i % 4), .label = labels[i % 4], .track = i % 3 ? i : 0,
                                 .number = i + 1};
    result->count = (size_t)count;
    return count && seq % 7 == 0 ? mr_result_add_items(result, quad, 8, sizeof *quad, &objects[0].quad) : MR_OK;
}

static int add_others(mr_io *io, mr_frame *frame, const char *zone) {
    const uint64_t seq = frame->identity.seq;
    mr_result *classes, *events, *texts;
    char read[32];
    int status = mr_io_add_result(io, frame, mr_kind_classes(), 2, &classes);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_events(), 1, &events);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_text(), 1, &texts);
    if (status)
        return status;
    classes->classes[0] = (mr_class){.index = (int32_t)(seq % 4), .score = 0.9F, .label = labels[seq % 4]};
    classes->classes[1] = (mr_class){.index = 7, .score = 0.1F};
    classes->count = 2;
    if (seq % 5 == 0)
        ((mr_zone_event *)events->data)[events->count++] = (mr_zone_event){
            .event = "enter", .zone = zone, .track = 3, .index = -1, .time_ns = frame->pts_ns,
            .dwell_ns = MR_NO_TIME, .count = 1, .total = 2};
    ((mr_text *)texts->data)[0] = (mr_text){.score = 0.5F};
    texts->count = 1;
    int length = snprintf(read, sizeof read, "line %llu\t\\.", (unsigned long long)seq);
    return mr_result_add_items(texts, read, (size_t)length, 1, &((mr_text *)texts->data)[0].text);
}

static int process(mr_stage *self, mr_io *io) {
    const options *given = self->options;
    mr_frame *output = NULL;
    int status = mr_io_share(io, mr_io_input(io), &output);
    if (!status)
        status = add_objects(io, output, given->objects);
    if (!status && !given->alone)
        status = add_others(io, output, given->long_zone ? long_zone : "door");
    return mr_io_finish(io, 0, output, status);
}

static const mr_option table[] = {
    {.name = "objects", .kind = MR_OPTION_INT, .offset = offsetof(options, objects), .fallback = "3", .max = 1000,
     .unit = "objects", .help = "how many objects each frame has"},
    {.name = "alone", .kind = MR_OPTION_BOOL, .offset = offsetof(options, alone), .fallback = "false",
     .help = "add objects only"},
    {.name = "long_zone", .kind = MR_OPTION_BOOL, .offset = offsetof(options, long_zone), .fallback = "false",
     .help = "events are in a zone whose name has 6000 characters"},
    MR_OPTIONS_END,
};
static const mr_port inputs[] = {{.name = "in"}, {0}};
static const mr_port outputs[] = {{.name = "out"}, {0}};
static const mr_stage_type found_stage = {
    .name = "found",
    .summary = "adds results of all kinds to each frame",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .process = process,
};

MR_PLUGIN("found", "1.0", &found_stage);

#include "engine/pipeline/pipeline.h"
#include "engine/planner/planner.h"
#include "tests/support/fakes.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#include "millrace/objects.h"
#include "millrace/status.h"

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {0}};
static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {0}};
static const mr_format_set tensors[] = {{.payload = MR_PAYLOAD_TENSOR}, {0}};
static const mr_format_set floats[] = {{.payload = MR_PAYLOAD_TENSOR, .dtypes = MR_IN_SET(MR_DTYPE_F32)}, {0}};
static const mr_format_set results[] = {{.payload = MR_PAYLOAD_RESULTS}, {0}};

static const mr_port anything_in[] = {{.name = "any"}, {0}};
static const mr_port packets_port[] = {{.name = "packets", .accepts = packets}, {0}};
static const mr_port pictures_port[] = {{.name = "pictures", .accepts = pictures}, {0}};
static const mr_port tensors_port[] = {{.name = "tensors", .accepts = tensors}, {0}};
static const mr_port floats_port[] = {{.name = "tensors", .accepts = floats}, {0}};
static const mr_port results_port[] = {{.name = "results", .accepts = results}, {0}};
static const mr_port split_ports[] = {{.name = "left", .accepts = pictures},
                                      {.name = "right", .accepts = pictures},
                                      {.name = "rest", .accepts = results, .optional = true},
                                      {0}};
static const mr_port pair_ports[] = {
    {.name = "one", .accepts = pictures}, {.name = "other", .accepts = tensors}, {0}};
static const mr_port many_ports[] = {{.name = "any", .many = true}, {0}};

static const mr_option camera_options[] = {
    {.name = "uri", .kind = MR_OPTION_URI, .file = MR_FILE_READ, .offset = offsetof(fake_camera, uri),
     .required = true, .help = "what to read"},
    {.name = "rate", .kind = MR_OPTION_RATE, .offset = offsetof(fake_camera, rate), .fallback = "25fps", .min = 1,
     .max = 240, .help = "pictures a second"},
    {.name = "wait", .kind = MR_OPTION_DURATION, .offset = offsetof(fake_camera, wait_ns), .fallback = "20ms",
     .min = 1e6,
     .max = 60e9, .help = "how long to wait"},
    {.name = "loop", .kind = MR_OPTION_BOOL, .offset = offsetof(fake_camera, loop), .fallback = "false",
     .help = "whether to start again"},
    MR_OPTIONS_END,
};

static int negotiate_camera(mr_negotiation *negotiation) {
    const fake_camera *options = negotiation->options;
    if (strstr(options->uri, "missing"))
        return mr_refuse_status(negotiation, MR_ERROR_NO_INPUT, "uri", "cannot open %s", options->uri);
    negotiation->outputs[0].set.payload = MR_PAYLOAD_PACKET;
    return MR_OK;
}

static const mr_stage_type camera = {.name = "camera",
                                     .summary = "gives packets",
                                     .outputs = packets_port,
                                     .options = camera_options,
                                     .options_bytes = sizeof(fake_camera),
                                     .entry = MR_ENTRY_PER_SOURCE,
                                     .blocking = true,
                                     .negotiate = negotiate_camera};

typedef struct fake_pattern {
    mr_format format;
} fake_pattern;

static const mr_option pattern_options[] = {
    {.name = "format", .kind = MR_OPTION_FORMAT, .offset = offsetof(fake_pattern, format),
     .fallback = "I420 1280x720",
     .help = "what it gives"},
    MR_OPTIONS_END,
};

static int negotiate_pattern(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = mr_format_set_of(&((const fake_pattern *)negotiation->options)->format);
    return MR_OK;
}

static const mr_stage_type pattern = {.name = "pattern",
                                      .summary = "gives pictures or tensors",
                                      .outputs = anything_in,
                                      .options = pattern_options,
                                      .options_bytes = sizeof(fake_pattern),
                                      .entry = MR_ENTRY_PER_SOURCE,
                                      .negotiate = negotiate_pattern};

static int negotiate_open(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_PICTURE};
    negotiation->retained = 3;
    negotiation->threads = 2;
    return MR_OK;
}

static const mr_stage_type opener = {.name = "open",
                                     .summary = "packets to pictures",
                                     .inputs = packets_port,
                                     .outputs = pictures_port,
                                     .entry = MR_ENTRY_PER_SOURCE,
                                     .blocking = true,
                                     .converts = true,
                                     .negotiate = negotiate_open};

static const char *const fits[] = {"stretch", "center-crop", "letterbox", NULL};
static const mr_option region_fields[] = {
    {.name = "x", .kind = MR_OPTION_INT, .offset = offsetof(fake_shrink, region.x) - offsetof(fake_shrink, region),
     .min = 0, .max = 65535, .unit = "px", .help = "left edge"},
    {.name = "y", .kind = MR_OPTION_INT, .offset = offsetof(fake_shrink, region.y) - offsetof(fake_shrink, region),
     .min = 0, .max = 65535, .unit = "px", .help = "top edge"},
    {.name = "width", .kind = MR_OPTION_INT,
     .offset = offsetof(fake_shrink, region.width) - offsetof(fake_shrink, region),
     .required = true, .min = 1, .max = 65535, .unit = "px", .help = "width"},
    MR_OPTIONS_END,
};
static const mr_option shrink_options[] = {
    {.name = "size", .kind = MR_OPTION_SIZE, .offset = offsetof(fake_shrink, size), .required = true, .min = 1,
     .max = 8192,
     .unit = "px", .help = "of the result"},
    {.name = "fit", .kind = MR_OPTION_ENUM, .offset = offsetof(fake_shrink, fit), .fallback = "stretch",
     .choices = fits,
     .help = "how the picture is made to fit"},
    {.name = "mean", .kind = MR_OPTION_DOUBLES, .offset = offsetof(fake_shrink, mean), .fallback = "[127, 127, 127]",
     .min = 0, .max = 255, .help = "subtracted"},
    {.name = "region", .kind = MR_OPTION_MAP, .offset = offsetof(fake_shrink, region), .fields = region_fields,
     .help = "what part of the picture"},
    MR_OPTIONS_END,
};

static int negotiate_shrink(mr_negotiation *negotiation) {
    const fake_shrink *options = negotiation->options;
    if (options->size.width % 2)
        return mr_refuse(negotiation, "size", "the width %d is odd", options->size.width);
    const int64_t dims[] = {3, options->size.height, options->size.width};
    const mr_format tensor = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NCHW, 3, dims);
    negotiation->outputs[0].set = mr_format_set_of(&tensor);
    return MR_OK;
}

static const mr_stage_type shrink = {.name = "shrink",
                                     .summary = "pictures to tensors",
                                     .inputs = pictures_port,
                                     .outputs = tensors_port,
                                     .options = shrink_options,
                                     .options_bytes = sizeof(fake_shrink),
                                     .entry = MR_ENTRY_STATELESS,
                                     .streams = true,
                                     .converts = true,
                                     .negotiate = negotiate_shrink};

static int negotiate_results(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_RESULTS};
    return MR_OK;
}

static int negotiate_enlarge(mr_negotiation *negotiation) {
    negotiation->outputs[0].set = negotiation->inputs[0].set;
    return MR_OK;
}

static int negotiate_changes(mr_negotiation *negotiation) {
    mr_promise_changes(negotiation, 0, 0);
    return MR_OK;
}

static int negotiate_notes(mr_negotiation *negotiation) {
    negotiation->outputs[0].follows = negotiation->outputs[0].shares = 0;
    negotiation->outputs[0].buffer_bytes = 64;
    return MR_OK;
}

static const mr_stage_type learn = {.name = "learn",
                                    .summary = "tensors to results",
                                    .inputs = floats_port,
                                    .outputs = results_port,
                                    .entry = MR_ENTRY_SHARED,
                                    .batches = true,
                                    .streams = true,
                                    .negotiate = negotiate_results};
static const mr_stage_type enlarge = {.name = "enlarge",
                                      .summary = "tensors to tensors",
                                      .inputs = floats_port,
                                      .outputs = tensors_port,
                                      .entry = MR_ENTRY_SHARED,
                                      .batches = true,
                                      .gathers = 16,
                                      .negotiate = negotiate_enlarge};
static const mr_stage_type change = {.name = "change",
                                     .summary = "changes tensors in place",
                                     .inputs = floats_port,
                                     .outputs = tensors_port,
                                     .entry = MR_ENTRY_SHARED,
                                     .batches = true,
                                     .gathers = 16,
                                     .negotiate = negotiate_changes};
static const mr_stage_type note_them = {.name = "note",
                                        .summary = "adds results in buffers to tensors",
                                        .inputs = floats_port,
                                        .outputs = tensors_port,
                                        .entry = MR_ENTRY_SHARED,
                                        .batches = true,
                                        .gathers = 16,
                                        .negotiate = negotiate_notes};
static const mr_stage_type name_them = {.name = "name",
                                        .summary = "adds results to tensors",
                                        .inputs = floats_port,
                                        .outputs = tensors_port,
                                        .entry = MR_ENTRY_SHARED,
                                        .batches = true,
                                        .gathers = 16};
static const mr_stage_type split = {.name = "split",
                                    .summary = "halves of pictures",
                                    .inputs = pictures_port,
                                    .outputs = split_ports,
                                    .entry = MR_ENTRY_SHARED};
static const mr_stage_type pair = {.name = "pair",
                                   .summary = "a picture and its tensor",
                                   .inputs = pair_ports,
                                   .outputs = results_port,
                                   .entry = MR_ENTRY_SHARED,
                                   .negotiate = negotiate_results};
static const mr_stage_type gather = {.name = "gather",
                                     .summary = "joins",
                                     .inputs = many_ports,
                                     .outputs = anything_in,
                                     .entry = MR_ENTRY_SHARED};

static int negotiate_objects(mr_negotiation *n) {
    n->outputs[0].follows = n->outputs[0].shares = 0;
    return mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
}

static const mr_stage_type look = {.name = "look",
                                   .summary = "finds objects",
                                   .inputs = anything_in,
                                   .outputs = anything_in,
                                   .entry = MR_ENTRY_STATELESS,
                                   .negotiate = negotiate_objects};
static const mr_stage_type same = {.name = "same",
                                   .summary = "passes on",
                                   .inputs = anything_in,
                                   .outputs = anything_in,
                                   .entry = MR_ENTRY_STATELESS};

static const mr_option write_options[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_WRITTEN, .offset = offsetof(fake_write, path),
     .fallback = "-", .help = "where to"},
    {.name = "features", .kind = MR_OPTION_BOOL, .offset = offsetof(fake_write, features), .fallback = "false",
     .help = "whether tensors are written"},
    MR_OPTIONS_END,
};
static const mr_stage_type writer = {.name = "write",
                                     .summary = "writes",
                                     .inputs = anything_in,
                                     .options = write_options,
                                     .options_bytes = sizeof(fake_write),
                                     .entry = MR_ENTRY_SHARED};
static const mr_stage_type trash = {
    .name = "trash", .summary = "forgets", .inputs = anything_in, .entry = MR_ENTRY_STATELESS};

const mr_stage_type *const fake_types[] = {&camera, &pattern, &opener, &shrink, &learn, &enlarge, &change,
                                           &note_them, &name_them, &split, &pair, &gather, &look, &same,
                                           &writer, &trash, NULL};

static mr_spec_params params_for(const char *text) {
    return (mr_spec_params){
        .types = fake_types, .default_source_type = "camera", .path = "dir/p.yaml", .text = text};
}

int fake_load(mr_plan **plan, const char *text, mr_diagnostics *diagnostics) {
    const mr_spec_params spec = params_for(text);
    const mr_plan_params params = {.inserted = &mr_pipeline_types, .workers = 3};
    return mr_plan_load(plan, &spec, &params, diagnostics);
}

const mr_plan_vertex *find_vertex(const mr_plan *plan, const char *id) {
    for (size_t v = 0; v < plan->vertex_count; v++)
        if (strcmp(plan->vertices[v].id, id) == 0)
            return &plan->vertices[v];
    return NULL;
}

const mr_plan_vertex *vertex(const mr_plan *plan, const char *id) {
    const mr_plan_vertex *found = find_vertex(plan, id);
    if (!found)
        fail_msg("no vertex %s", id);
    return found;
}

char *printed(const mr_diagnostics *diagnostics) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&text, &bytes);
    assert_non_null(stream);
    mr_diagnostics_print(diagnostics, stream);
    fclose(stream);
    return text;
}

void expect_printed(mr_diagnostics *diagnostics, const char *expected) {
    char *text = printed(diagnostics);
    assert_string_equal(text, expected);
    free(text);
    mr_diagnostics_fini(diagnostics);
}

void expect_in_print(mr_diagnostics *diagnostics, const char *expected) {
    char *text = printed(diagnostics);
    if (!strstr(text, expected))
        fail_msg("\"%s\" is not in %s", expected, text);
    free(text);
    mr_diagnostics_fini(diagnostics);
}

void fake_expect(const char *text, const char *expected) {
    mr_diagnostics diagnostics = {0};
    mr_plan *plan;
    int status = fake_load(&plan, text, &diagnostics);
    assert_int_equal(status, mr_diagnostics_status(&diagnostics));
    assert_null(plan);
    expect_printed(&diagnostics, expected);
}

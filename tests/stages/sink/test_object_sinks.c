/* Objects with items in what programs and files get: a subscription, jsonl and csv, after a stage that renews objects
 * and a join. A stage in the test supplies the objects. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "millrace/millrace.h"
#include "millrace/objects.h"
#include "millrace/text.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static int negotiate(mr_negotiation *n) {
    n->outputs[0].set = (mr_format_set){.payload = MR_PAYLOAD_RESULTS};
    int status = mr_promise_result(n, 0, mr_kind_text(), NULL, NULL);
    return status ? status : mr_promise_result(n, 0, mr_kind_objects(), NULL, NULL);
}

static int fill(mr_result *result) {
    static const float quad[8] = {0, 0.5F, 9, 0, 9, 8, 0, 8};
    static const int32_t mask[3] = {2, 3, 1};
    mr_object_attribute attribute = {.stage = "reader", .index = 4, .score = 0.5F};
    mr_object *objects = memset(result->data, 0, 2 * sizeof *objects);
    result->count = 2;
    objects[0] = (mr_object){.right = 9, .bottom = 8, .score = 0.75F, .index = 1, .label = "car", .number = 1,
                             .mask_width = 3, .mask_height = 2};
    objects[1] = (mr_object){.right = 2, .bottom = 1, .score = 0.25F, .number = 2, .parent = 1};
    int status = mr_result_add_items(result, quad, 8, sizeof *quad, &objects[0].quad);
    if (!status)
        status = mr_result_add_items(result, mask, 3, sizeof *mask, &objects[0].mask);
    if (!status)
        status = mr_result_add_items(result, "\"B\", 1", 6, 1, &attribute.text);
    return status ? status : mr_result_add_items(result, &attribute, 1, sizeof attribute, &objects[0].attributes);
}

static int find(mr_stage *self, mr_io *io) {
    mr_frame *frame = NULL;
    mr_result *text, *objects;
    int status = mr_io_derive(io, mr_io_input(io), &frame);
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_text(), 1, &text);
    if (!status) {
        mr_text *read = text->data;
        read->score = 1;
        text->count = 1;
        status = mr_result_add_items(text, "one, two", 8, 1, &read->text);
    }
    if (!status)
        status = mr_io_add_result(io, frame, mr_kind_objects(), 2, &objects);
    if (!status)
        status = fill(objects);
    return mr_io_finish(io, 0, frame, status);
}

/* Puts the first object into a zone, and adds a third one. */
static int change(mr_stage *self, mr_io *io) {
    const mr_object_zone zone = {"door", 1.5, "watch"};
    const mr_frame *input = mr_io_input(io);
    const mr_result *found = mr_frame_result(input, mr_kind_objects(), NULL);
    mr_frame *frame = NULL;
    mr_result *objects;
    int status = mr_io_derive(io, input, &frame);
    if (!status)
        status = mr_io_renew_objects(io, frame, found, 1, &objects);
    if (!status) {
        mr_object *object = objects->data;
        object[objects->count++] = (mr_object){.right = 1, .bottom = 1, .number = 3};
        status = mr_result_add_items(objects, &zone, 1, sizeof zone, &object->zones);
    }
    return mr_io_finish(io, 0, frame, status);
}

static const mr_port inputs[] = {{.name = "in"}, {0}}, outputs[] = {{.name = "out"}, {0}};
static const mr_stage_type finder = {.name = "finder", .summary = "gives objects", .inputs = inputs, .outputs = outputs,
                                     .negotiate = negotiate, .process = find};
static const mr_stage_type changer = {.name = "changer", .summary = "changes objects", .inputs = inputs,
                                      .outputs = outputs, .negotiate = negotiate, .process = change};

/* ---- running ----------------------------------------------------------------------------------------------------- */

static const mr_stage_type *const *all_types(void) {
    static const mr_stage_type *types[128];
    size_t count = 0;
    for (const mr_stage_type *const *type = mr_stage_types(); *type; type++)
        types[count++] = *type;
    types[count++] = &finder;
    types[count] = &changer;
    return types;
}

static void run(const char *sink, mr_frame_function *function, void *context) {
    char text[2048];
    ENDED_BY(mr_pipeline_destroy) mr_pipeline *pipeline = NULL;
    mr_diagnostics wrong = {0};
    snprintf(text, sizeof text,
             "version: 1\npipeline: test\nsources:\n  s: {type: 'null', frames: 3, rate: 10}\nstages:\n"
             "  finder: {input: s}\n  changer: {input: finder}\n"
             "  both: {type: join, join: {first: s, second: changer}}\n  sink: {input: both, %s}\n", sink);
    const mr_pipeline_params params = {.types = all_types(), .path = "test", .text = text, .workers = 2};
    if (mr_pipeline_open(&pipeline, &params, &wrong))
        mr_diagnostics_print(&wrong, stderr);
    mr_diagnostics_fini(&wrong);
    assert_non_null(pipeline);
    if (function)
        assert_int_equal(mr_pipeline_subscribe(pipeline, "sink", function, context), MR_OK);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_wait(pipeline, -1), MR_OK);
}

/* The sink writes these lines first. More columns may follow. */
static void expect(const char *sink, const char *const *lines) {
    char options[512];
    snprintf(options, sizeof options, "%s, path: \"%s\"", sink, temporary_path);
    run(options, NULL, NULL);
    char *text = whole_file(temporary_path), *line = strtok(text, "\n");
    for (; *lines; lines++, line = strtok(NULL, "\n")) {
        assert_non_null(line);
        line[strlen(*lines) < strlen(line) ? strlen(*lines) : strlen(line)] = 0;
        assert_string_equal(line, *lines);
    }
    free(text);
}

static void receive(void *context, const char *source, const mr_frame *frame) {
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    const mr_result *older = mr_frame_result(frame, mr_kind_objects(), "finder");
    const mr_result *text = mr_frame_result(frame, mr_kind_text(), NULL);
    assert_string_equal(source, "s");
    assert_true(objects && older && text && objects->count == 3 && older->count == 2);
    const mr_object *object = objects->data;
    const mr_object_zone *zones = mr_result_items(objects, object->zones);
    const mr_object_attribute *attributes = mr_result_items(objects, object->attributes);
    assert_true(((const float *)mr_result_items(objects, object->quad))[1] == 0.5F);
    assert_string_equal(zones->zone, "door");
    assert_string_equal(mr_result_items(objects, attributes->text), "\"B\", 1");
    assert_null(mr_result_items(older, ((const mr_object *)older->data)->zones));
    assert_string_equal(mr_result_items(text, ((const mr_text *)text->data)->text), "one, two");
    ++*(int *)context;
}

TEST_WITH(a_program_reads_items, make_temporary, remove_temporary) {
    int frames = 0;
    run("type: callback", receive, &frames);
    assert_int_equal(frames, 3);
}

TEST_WITH(jsonl_nests_items, make_temporary, remove_temporary) {
    static const char first[] =
        "{\"index\":1,\"label\":\"car\",\"score\":0.75,\"track\":null,\"left\":0,\"top\":0,\"right\":9,\"bottom\":8,"
        "\"number\":1,\"quad\":[0,0.5,9,0,9,8,0,8],\"mask\":[2,3,1],\"mask_width\":3,\"mask_height\":2,";
    static const char attributes[] =
        "\"attributes\":[{\"stage\":\"reader\",\"index\":4,\"score\":0.5,\"text\":\"\\\"B\\\", 1\"}]}";
    char line[2048];
    snprintf(line, sizeof line,
             "{\"source\":\"s\",\"seq\":0,\"pts\":0,\"classes\":[],\"objects\":[%s\"zones\":[{\"zone\":\"door\","
             "\"dwell\":1.5,\"stage\":\"watch\"}],%s,{\"index\":0,\"label\":null,\"score\":0.25,\"track\":null,"
             "\"left\":0,\"top\":0,\"right\":2,\"bottom\":1,\"number\":2,\"parent\":1},{\"index\":0,", first,
             attributes);
    expect("type: jsonl", (const char *const[]){line, NULL});
}

TEST_WITH(csv_has_lists_in_cells, make_temporary, remove_temporary) {
    static const char *const objects[] = {
        "source,epoch,seq,sub,pts,file,label,rank,index,class,score,track,left,top,right,bottom,number,parent,quad,"
        "points,mask,mask_width,mask_height,zones,attributes",
        "s,0,0,0,0,,,1,1,car,0.75,,0,0,9,8,1,,\"[0,0.5,9,0,9,8,0,8]\",,\"[2,3,1]\",3,2,"
        "\"[{\"\"zone\"\":\"\"door\"\",\"\"dwell\"\":1.5,\"\"stage\"\":\"\"watch\"\"}]\","
        "\"[{\"\"stage\"\":\"\"reader\"\",\"\"index\"\":4,\"\"score\"\":0.5,\"\"text\"\":\"\"\\\"\"B\\\"\", 1\"\"}]\"",
        "s,0,0,0,0,,,2,0,,0.25,,0,0,2,1,2,1,,,,,,,", NULL};
    static const char *const text[] = {"source,epoch,seq,sub,pts,file,label,rank,text,score\r",
                                       "s,0,0,0,0,,,1,\"one, two\",1\r", NULL};
    expect("type: csv, results: objects", objects);
    expect("type: csv, results: text", text);
}

RUN_TESTS(NULL, NULL)

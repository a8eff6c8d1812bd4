/* Malformed stage types and type lists: the errors that a plugin or a program can make. */
#include <string.h>

#include "millrace/millrace.h"
#include "tests/support/suite.h"

typedef struct options {
    bool flag;
    int64_t step;
    const char *text;
    int choice;
    struct {
        bool given;
        double x;
    } part;
} options;

static int process(mr_stage *self, mr_io *io) {
    return mr_io_forward(io, 0);
}
static int map(mr_stage *self, mr_stream *stream, const mr_frame *input, mr_frame *output) {
    return MR_OK;
}
static int shape(mr_stage *self, const mr_frame *input, mr_format *output) {
    return MR_OK;
}

static const mr_port in[] = {{.name = "in"}, {0}}, out[] = {{.name = "out"}, {0}};
static const char *const choices[] = {"one", "two", NULL};
static const mr_option part[] = {
    {.name = "x", .kind = MR_OPTION_DOUBLE, .offset = 8, .required = true, .min = 0, .max = 1}, MR_OPTIONS_END};
static const mr_option good[] = {
    {.name = "flag", .kind = MR_OPTION_BOOL, .offset = offsetof(options, flag), .fallback = "true"},
    {.name = "step", .kind = MR_OPTION_INT, .offset = offsetof(options, step), .fallback = "1", .min = 1, .max = 64},
    {.name = "text", .kind = MR_OPTION_PATH, .offset = offsetof(options, text), .required = true, .unless = "flag"},
    {.name = "choice", .kind = MR_OPTION_ENUM, .offset = offsetof(options, choice), .fallback = "two",
     .choices = choices},
    {.name = "part", .kind = MR_OPTION_MAP, .offset = offsetof(options, part), .fields = part, .brief = "x"},
    MR_OPTIONS_END,
};

static mr_stage_type sound(void) {
    return (mr_stage_type){.name = "mine", .summary = "does it", .inputs = in, .outputs = out, .options = good,
                           .options_bytes = sizeof(options), .entry = MR_ENTRY_STATELESS, .process = process};
}

static void refused(const mr_stage_type *type, const char *why) {
    assert_int_equal(mr_stage_type_check(type), MR_ERROR_DATA);
    if (!strstr(mr_message(), why))
        fail_msg("\"%s\" does not say \"%s\"", mr_message(), why);
}

/* A type that is valid except for one option, which has this kind, name and offset. */
static void option_refused(mr_option option, const char *why) {
    const mr_option table[] = {option, MR_OPTIONS_END};
    mr_stage_type type = sound();
    type.options = table;
    refused(&type, why);
}

TEST(those_of_millrace_are_sound) {
    const mr_stage_type type = sound();
    assert_int_equal(mr_stage_type_check(&type), MR_OK);
    for (const mr_stage_type *const *one = mr_stage_types(); *one; one++)
        if (mr_stage_type_check(*one))
            fail_msg("%s", mr_message());
}

#define REFUSED(why, ...)                                                                                            \
    do {                                                                                                             \
        mr_stage_type type = sound();                                                                                \
        __VA_ARGS__;                                                                                                 \
        refused(&type, why);                                                                                         \
    } while (0)

TEST(names_and_functions) {
    REFUSED("\"\" cannot be the name of a stage type", type.name = NULL);
    REFUSED("\"a b\" cannot be the name", type.name = "a b");
    REFUSED("\"-x\" cannot be the name", type.name = "-x");
    REFUSED("needs a summary", type.summary = NULL);
    REFUSED("needs a summary of one line", type.summary = "a\nb");
    REFUSED("entry 7", type.entry = (mr_entry)7);
    REFUSED("neither process nor map", type.process = NULL);
    REFUSED("both process and map", type.map = map);
    REFUSED("it has shape but not map", type.shape = shape);
    REFUSED("its calls take only one", type.gathers = 4);
    REFUSED("neither inputs nor outputs", (type.inputs = type.outputs = NULL));
    REFUSED("map is for stages with one input", (type.inputs = NULL, type.process = NULL, type.map = map));
    REFUSED("`external` is for sources", type.external = true);
    REFUSED("`awaits` is for sources", type.awaits = true);
}

TEST(ports) {
    static const mr_port none[] = {{0}}, twice[] = {{.name = "a"}, {.name = "a"}, {0}}, odd[] = {{.name = "a.b"}, {0}};
    mr_port many[20] = {0};
    mr_format_set endless[80];
    REFUSED("its table of inputs is empty", type.inputs = none);
    REFUSED("two outputs are called \"a\"", type.outputs = twice);
    REFUSED("\"a.b\" cannot be the name of an input", type.inputs = odd);
    for (size_t i = 0; i < 20; i++)
        many[i].name = (const char *[]){"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p",
                                        "q", "r", "s", "t"}[i];
    REFUSED("more than 16 inputs, or no {0} after the last", type.inputs = many);
    for (size_t i = 0; i < 80; i++)
        endless[i] = (mr_format_set){.payload = MR_PAYLOAD_PICTURE};
    const mr_port open[] = {{.name = "in", .accepts = endless}, {0}};
    REFUSED("the formats of input \"in\" have no end", type.inputs = open);
}

TEST(tables_of_options) {
    static const mr_option twice[] = {{.name = "a", .kind = MR_OPTION_BOOL}, {.name = "a", .kind = MR_OPTION_BOOL},
                                      MR_OPTIONS_END};
    static const mr_option late[] = {{.name = "x", .kind = MR_OPTION_DOUBLE, .offset = 64}, MR_OPTIONS_END};
    static const mr_option first[] = {{.name = "x", .kind = MR_OPTION_DOUBLE}, MR_OPTIONS_END};
    option_refused((mr_option){.name = "a.b", .kind = MR_OPTION_BOOL}, "\"a.b\" cannot be the name of an option");
    option_refused((mr_option){.name = "queue", .kind = MR_OPTION_BOOL}, "every stage has a key of that name");
    option_refused((mr_option){.name = "a", .kind = (mr_option_kind)99}, "has a kind that");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_MAPS, .elsewhere = true}, "has a kind that");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .offset = sizeof(options)},
                   "not within options_bytes");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .offset = SIZE_MAX - 3}, "not within options_bytes");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .offset = 4},
                   "is not aligned for its kind");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .min = 2, .max = 1}, "its min is above its max");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_ENUM}, "needs choices");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_MAP}, "has no fields");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_MAP, .fields = late},
                   "option \"x\": its field at byte 64");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_MAP, .fields = first},
                   "option \"x\": the first member of a MAP's struct is a bool");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .unless = "b"},
                   "option \"a\" names \"b\" in `unless`");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_MAP, .fields = part, .brief = "b"}, "no field \"b\"");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_INT, .fallback = "0", .min = 1, .max = 9},
                   "a default of its options is not valid: mine.a: 0 is out of range; expected 1 to 9");
    option_refused((mr_option){.name = "a", .kind = MR_OPTION_DURATION, .fallback = "soon"},
                   "a default of its options");
    REFUSED("two options are called \"a\"", type.options = twice);
    REFUSED("options_bytes is 0", type.options_bytes = 0);
}

TEST(lists) {
    ENDED_BY(mr_type_list_fini) mr_type_list list = {0};
    mr_stage_type stage = sound(), source = sound(), other = sound();
    source.inputs = NULL;
    const mr_stage_type *const first[] = {&stage, &source, &stage, NULL}, *const second[] = {&source, NULL};
    mr_stage_type fresh = sound();
    fresh.name = "fresh";
    const mr_stage_type *const third[] = {&fresh, &other, NULL};
    /* A name may stand for a source and for a stage; what is there already is not there twice. */
    assert_int_equal(mr_type_list_add(&list, first, true), MR_OK);
    assert_int_equal(mr_type_list_add(&list, second, true), MR_OK);
    assert_int_equal(list.count, 2);
    assert_ptr_equal(list.item[0], &stage);
    assert_ptr_equal(list.item[1], &source);
    assert_null(list.item[2]);
    assert_int_equal(mr_type_list_add(&list, third, true), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "the stage type \"mine\" of "));
    assert_int_equal(list.count, 2); /* also without the first one, whose name was free */
    assert_null(list.item[2]);
    assert_int_equal(mr_type_list_add(&list, NULL, true), MR_OK);
}

RUN_TESTS(NULL, NULL)

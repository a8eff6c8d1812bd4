/* millrace inspect MODEL.onnx: prints which stages can use a model, and a pipeline with it. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "engine/base/print.h"
#include "millrace/plan.h"
#include "millrace/status.h"
#include "tools/millrace/inspect/inspect_file.h"

/* Sizes that are chosen if the model accepts any. Detectors need larger pictures. */
enum { FREE_SIDE = 320, FREE_DETECTOR_SIDE = 640, FREE_DIM = 16, TEXT = 256 };

const char *mr_inspect_shape(const mr_model_value *value, char *text, size_t bytes) {
    size_t used = 0;
    if (!value->shaped) {
        snprintf(text, bytes, "shape not declared");
        return text;
    }
    used = mr_print_into(text, bytes, "[");
    for (int i = 0; i < value->rank && used < bytes; i++) {
        const mr_model_dimension *dim = &value->dims[i];
        used += mr_print_into(text + used, bytes - used, "%s", i ? ", " : "");
        if (used < bytes && dim->size >= 0)
            used += mr_print_into(text + used, bytes - used, "%" PRId64, dim->size);
        else if (used < bytes)
            used += mr_print_into(text + used, bytes - used, "%s", *dim->name ? dim->name : "?");
    }
    if (used < bytes)
        mr_print_into(text + used, bytes - used, "]");
    return text;
}

/* ---- one input or output --------------------------------------------------------------------------------------- */

static bool is_one_of(const char *text, const char *const *words) {
    while (text && *words && strcmp(text, *words) != 0)
        words++;
    return text && *words;
}

/* Types that frames can hold; number types in pictures; output types that are cast to those; and output types that
 * become f32. */
static const char *const held_types[] = {"f32", "f16", "u8", "i32", "i64", NULL};
static const char *const picture_types[] = {"f32", "f16", "u8", NULL};
static const char *const output_types[] = {"f32", "f16",  "bf16", "f64", "u8",  "bool", "i8",
                                           "i16", "u16", "i32",  "u32", "i64", "u64",  NULL};
static const char *const float_types[] = {"f32", "f16", "bf16", "f64", NULL};

static bool is_float(const mr_model_value *value) {
    return is_one_of(value->type, float_types);
}

/* The index of a frame's first dimension, after the batch. */
static int first_of(const mr_model_value *value) {
    return value->rank > 1;
}

static int rank_of(const mr_model_value *value) {
    return value->rank - first_of(value);
}

/* Why a frame cannot be this input; NULL: it can. */
static const char *obstacle(const mr_model_value *input) {
    if (!input->type)
        return *input->kind ? "is not a tensor" : "has no declared type";
    if (!is_one_of(input->type, held_types))
        return "is of a type that frames do not hold (f32, f16, u8, i32 or i64 are)";
    if (input->shaped && input->rank == 0)
        return "is a single number, not a tensor of a frame";
    return rank_of(input) > MR_MAX_RANK ? "has too many dimensions" : NULL;
}

static bool is_channels(int64_t size) {
    return size == 3 || size == 1;
}

typedef enum looks { NO_PICTURE, CHANNELS_FIRST, CHANNELS_LAST } looks;

/* preprocess outputs: pictures with one or three channels, at either end; the first if nothing is declared. */
static looks look(const mr_model_value *input) {
    if (!is_one_of(input->type, picture_types) || input->rank != 4)
        return NO_PICTURE;
    const mr_model_dimension *dims = input->dims;
    if (is_channels(dims[1].size) && !is_channels(dims[3].size))
        return CHANNELS_FIRST;
    if (is_channels(dims[3].size) && !is_channels(dims[1].size))
        return CHANNELS_LAST;
    return dims[1].size < 0 || is_channels(dims[1].size) ? CHANNELS_FIRST : NO_PICTURE;
}

/* A vector's length; 0: not a vector, or the size is not known. */
static int64_t vector_length(const mr_model_value *value) {
    int64_t length = 1;
    if (!is_float(value) || !value->shaped)
        return 0;
    for (int i = first_of(value); i < value->rank; i++) {
        int64_t size = value->dims[i].size;
        if (size < 1 || (size > 1 && length > 1))
            return 0;
        length *= size;
    }
    return length > 1 ? length : 0;
}

static const char *const to_logits[] = {"Gemm", "MatMul", "Add", "LogSoftmax", NULL};

static bool names_classes(const mr_model_value *output) {
    return vector_length(output) &&
           (mr_model_gives_scores(output->operation) || is_one_of(output->operation, to_logits));
}

/* The first output that passes the test; NULL: none. */
static const mr_model_value *find_output(const mr_model_view *model, bool (*holds)(const mr_model_value *)) {
    for (size_t i = 0; i < model->output_count; i++)
        if (holds(&model->outputs[i]))
            return &model->outputs[i];
    return NULL;
}

static bool is_vector(const mr_model_value *output) {
    return vector_length(output) > 0;
}

static bool is_held(const mr_model_value *output) {
    return is_one_of(output->type, output_types);
}

/* ---- which stages ---------------------------------------------------------------------------------------------- */

static const mr_model_value *find_obstacle(const mr_model_view *model) {
    for (size_t i = 0; i < model->input_count; i++)
        if (obstacle(&model->inputs[i]))
            return &model->inputs[i];
    return NULL;
}

static void judge_infer(const mr_model_view *model, mr_inspect_use *use) {
    const mr_model_value *bad = find_obstacle(model);
    use->stage = "infer";
    use->can = !bad && model->input_count && find_output(model, is_held);
    if (bad)
        mr_print_into(use->how, sizeof use->how, "its input \"%s\" %s", bad->name, obstacle(bad));
    else if (!use->can)
        mr_print_into(use->how, sizeof use->how, "it has no %s that frames can hold",
                      model->input_count ? "output" : "input");
    else if (model->input_count > 1)
        mr_print_into(use->how, sizeof use->how, "with join, one stage for each of its %zu inputs", model->input_count);
    else
        mr_print_into(use->how, sizeof use->how, "adds its outputs to each frame, by name%s",
                      model->inputs[0].shaped ? "" : "; its input declares no shape, so plan tries that of the frames");
}

static void judge_features(const mr_model_view *model, bool can, mr_inspect_use *use) {
    const mr_model_value *output = find_output(model, is_vector);
    output = output ? output : find_output(model, is_float);
    use->stage = "features";
    use->can = can && model->input_count == 1 && output;
    int64_t length = output ? vector_length(output) : 0;
    if (!can || model->input_count != 1)
        mr_print_into(use->how, sizeof use->how, "it takes models with one input that a frame can bring");
    else if (!output)
        mr_print_into(use->how, sizeof use->how, "no output is a tensor of float numbers");
    else if (length)
        mr_print_into(use->how, sizeof use->how, "tensor: %s, a vector of %" PRId64 " numbers", output->name, length);
    else
        mr_print_into(use->how, sizeof use->how, "tensor: %s, made flat, or with pool: average", output->name);
}

static void judge_classify(const mr_model_view *model, bool can, mr_inspect_use *use) {
    const mr_model_value *output = find_output(model, names_classes);
    output = output ? output : find_output(model, is_vector);
    use->stage = "classify";
    use->can = can && output;
    if (!use->can) {
        mr_print_into(use->how, sizeof use->how, "no output is a vector of float numbers of known length");
        return;
    }
    bool scores = mr_model_gives_scores(output->operation);
    mr_print_into(use->how, sizeof use->how, "after infer, tensor: %s, %" PRId64 " classes%s", output->name,
                  vector_length(output),
                  scores                  ? ", which are scores already (activation: auto is none)"
                  : names_classes(output) ? ""
                                          : "; or after features, with its own weights");
}

static void judge_detect(const mr_model_view *model, bool can, mr_inspect_use *use) {
    use->stage = "detect";
    use->can = can && *model->head;
    if (use->can)
        mr_print_into(use->how, sizeof use->how, "its outputs have the shapes of head: %s", model->head);
    else if (!can)
        mr_print_into(use->how, sizeof use->how, "it takes models with inputs that a frame can bring");
    else
        mr_print_into(use->how, sizeof use->how, "%s", model->no_head);
}

void mr_inspect_uses(const mr_model_view *model, mr_inspect_use uses[MR_INSPECT_USES]) {
    judge_infer(model, &uses[0]);
    judge_features(model, uses[0].can, &uses[1]);
    judge_classify(model, uses[0].can, &uses[2]);
    judge_detect(model, uses[0].can, &uses[3]);
}

/* ---- a pipeline ------------------------------------------------------------------------------------------------ */

/* Writes YAML in quotes; escapes variables in values too. */
static void put_quoted(FILE *yaml, const char *text, bool key) {
    fputc('"', yaml);
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        if (byte == '"' || byte == '\\')
            fprintf(yaml, "\\%c", byte);
        else if (byte < 0x20 || byte == 0x7f)
            fprintf(yaml, "\\x%02x", byte);
        else if (byte == '$' && !key)
            fputs("$$", yaml);
        else
            fputc(byte, yaml);
    }
    fputc('"', yaml);
}

static int64_t side(const mr_model_view *model, int64_t declared) {
    return declared > 0 ? declared : *model->head ? FREE_DETECTOR_SIDE : FREE_SIDE;
}

/* The file is untrusted: other kinds of values are omitted. */
static void put_note(FILE *yaml, const char *key, yajl_val value) {
    const size_t count = YAJL_IS_ARRAY(value) ? value->u.array.len : 0;
    for (size_t i = 0; i < count; i++)
        if (!YAJL_IS_NUMBER(value->u.array.values[i]))
            return;
    if (YAJL_IS_STRING(value) || YAJL_IS_NUMBER(value) || YAJL_IS_TRUE(value) || YAJL_IS_FALSE(value) || count)
        fprintf(yaml, ", %s: ", key);
    if (YAJL_IS_STRING(value))
        put_quoted(yaml, YAJL_GET_STRING(value), false);
    else if (YAJL_IS_NUMBER(value))
        fprintf(yaml, "%.9g", YAJL_GET_DOUBLE(value));
    else if (YAJL_IS_TRUE(value) || YAJL_IS_FALSE(value))
        fputs(YAJL_IS_TRUE(value) ? "true" : "false", yaml);
    for (size_t i = 0; i < count; i++)
        fprintf(yaml, "%s%.9g%s", i ? ", " : "[", YAJL_GET_DOUBLE(value->u.array.values[i]), i + 1 == count ? "]" : "");
}

/* Writes the preprocess options from the file as YAML: ", fit: "stretch", mean: [127, 127, 127]". False: none. */
static bool put_prepared(FILE *yaml, const mr_model_view *model) {
    static const char *const known[] = {"fit", "order", "interpolation", "antialias",
                                        "crop_fraction", "mean", "std", "pad"};
    yajl_val note = *model->prepared ? mr_json_parse(model->prepared, NULL, 0) : NULL;
    for (size_t i = 0; note && i < sizeof known / sizeof *known; i++) {
        yajl_val value = mr_json_member(note, known[i], yajl_t_any);
        if (value)
            put_note(yaml, known[i], value);
    }
    yajl_tree_free(note);
    return note;
}

/* The usual picture preparation for networks with this head; NULL: not known. */
static const char *prepared_for(const char *head) {
    static const char *const known[][2] = {
        {"yolox", ", fit: letterbox, place: top-left, pad: 114, order: bgr"},
        {"yolov5", ", fit: letterbox, pad: 114, normalize: unit"},
        {"yolov8", ", fit: letterbox, pad: 114, normalize: unit"},
        {"yolov8-pose", ", fit: letterbox, pad: 114, normalize: unit"},
        {"yolov8-obb", ", fit: letterbox, pad: 114, normalize: unit"},
        {"yolov8-seg", ", fit: letterbox, pad: 114, normalize: unit"},
        {"centerface", ""},
        {"db", ", order: bgr, normalize: signed"},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i][0], head) == 0)
            return known[i][1];
    return NULL;
}

static void put_preprocess(FILE *yaml, const char *id, const mr_model_view *model, const mr_model_value *input) {
    bool last = look(input) == CHANNELS_LAST;
    int64_t height = input->dims[last ? 1 : 2].size, width = input->dims[last ? 2 : 3].size;
    int64_t channels = input->dims[last ? 3 : 1].size;
    fprintf(yaml, "  %s: {type: preprocess, input: decode, size: %" PRId64 "x%" PRId64, id,
            side(model, width), side(model, height));
    if (put_prepared(yaml, model)) {
        fputs("}  # as the file notes\n", yaml);
        return;
    }
    const char *usual = prepared_for(model->head);
    if (usual) {
        fprintf(yaml, "%s}  # as usual for %s\n", usual, model->head);
        return;
    }
    fprintf(yaml, "%s}%s\n", channels == 1 ? ", order: gray" : "",
            height < 0 || width < 0 ? "  # it takes any size; add mean and std as it was trained"
                                    : "  # add mean and std as it was trained");
}

/* Writes the stages before the inputs: pictures come through preprocess, other tensors are zeros. All must come from
 * one source, so that they can be joined. False: impossible. */
static bool put_feeding(FILE *yaml, const mr_model_view *model, char *why) {
    const mr_model_value *first = &model->inputs[0];
    if (!first->shaped) {
        mr_print_into(why, MR_INSPECT_WHY, "its input \"%s\" declares no shape: write the size in preprocess",
                      first->name);
        return false;
    }
    bool pictures = look(first) != NO_PICTURE;
    char one[TEXT], other[TEXT], id[32];
    mr_inspect_shape(first, one, sizeof one);
    for (size_t i = 1; i < model->input_count; i++)
        if (pictures ? look(&model->inputs[i]) == NO_PICTURE
                     : strcmp(model->inputs[i].type, first->type) != 0 ||
                           strcmp(mr_inspect_shape(&model->inputs[i], other, sizeof other), one) != 0) {
            mr_print_into(why, MR_INSPECT_WHY,
                          "its inputs differ, and no source of millrace's own gives all of them; bring them with zmq "
                          "(pull) or a stage of your own");
            return false;
        }
    fputs("sources:\n", yaml);
    if (pictures)
        fputs("  video: {uri: \"${INPUT:-lavfi:testsrc2=size=640x480:rate=25:duration=2}\"}\nstages:\n"
              "  decode: {input: video}\n", yaml);
    else
        fprintf(yaml, "  numbers: {type: \"null\", frames: 10, format: %s ", first->type);
    for (int i = first_of(first); i < first->rank && !pictures; i++)
        fprintf(yaml, "%s%" PRId64, i > first_of(first) ? "x" : "",
                first->dims[i].size > 0 ? first->dims[i].size : FREE_DIM);
    fputs(pictures ? "" : "}\nstages:\n", yaml);
    for (size_t i = 0; i < model->input_count; i++) {
        snprintf(id, sizeof id, model->input_count > 1 ? "input_%zu" : "input", i + 1);
        if (pictures)
            put_preprocess(yaml, id, model, &model->inputs[i]);
        else
            fprintf(yaml, "  %s: {type: \"null\", input: numbers}%s\n", id,
                    i ? "" : "  # zeros, to be replaced by what you have");
    }
    return true;
}

/* Writes the outputs that fit into frames, if there are several. */
static void put_outputs(FILE *yaml, const mr_model_view *model) {
    size_t held = 0;
    for (size_t i = 0; i < model->output_count; i++)
        held += is_held(&model->outputs[i]);
    for (size_t i = 0, put = 0; i < model->output_count && held < model->output_count; i++) {
        if (!is_held(&model->outputs[i]))
            continue;
        fputs(put++ ? ", " : ", outputs: [", yaml);
        put_quoted(yaml, model->outputs[i].name, false);
        fputs(put == held ? "]" : "", yaml);
    }
}

static void put_model(FILE *yaml, const mr_model_view *model, const char *type, const char *path) {
    fprintf(yaml, "  network: {type: %s, ", type);
    if (model->input_count == 1)
        fputs("input: input", yaml);
    for (size_t i = 0; i < model->input_count && model->input_count > 1; i++) {
        fputs(i ? ", " : "join: {", yaml);
        put_quoted(yaml, model->inputs[i].name, true);
        fprintf(yaml, ": input_%zu%s", i + 1, i + 1 == model->input_count ? "}" : "");
    }
    fputs(", model: ", yaml);
    put_quoted(yaml, path, false);
}

/* Writes the labels from the file's metadata, as in millrace's exports, if they fit on a line. */
static void put_labels(FILE *yaml, const mr_model_view *model, int64_t count) {
    enum { SHOWN = 12 };
    yajl_val labels = *model->labels ? mr_json_parse(model->labels, NULL, 0) : NULL;
    fprintf(yaml, "  # add labels: a file with %" PRId64 " lines", count);
    for (size_t i = 0; YAJL_IS_ARRAY(labels) && labels->u.array.len <= SHOWN && i < labels->u.array.len; i++) {
        const char *label = YAJL_GET_STRING(labels->u.array.values[i]);
        fputs(i ? ", " : ": ", yaml);
        put_quoted(yaml, label ? label : "?", false);
    }
    yajl_tree_free(labels);
    fputc('\n', yaml);
}

/* Writes the last stages. They give objects if the outputs are a detector's, classes if the last layer shows them, a
 * vector if there is one, else all outputs. */
static void put_use(FILE *yaml, const mr_model_view *model, const char *path) {
    const mr_model_value *classes = find_output(model, names_classes), *vector = find_output(model, is_vector);
    bool features = !classes && vector && model->input_count == 1;
    if (*model->head) {
        put_model(yaml, model, "detect", path);
        fprintf(yaml, ", head: %s}  # add labels, if its metadata has none\n"
                "  results: {type: jsonl, input: network, path: \"${OUTPUT:--}\"}\n", model->head);
        return;
    }
    put_model(yaml, model, features ? "features" : "infer", path);
    if (features) {
        fputs(", tensor: ", yaml);
        put_quoted(yaml, vector->name, false);
    } else {
        put_outputs(yaml, model);
    }
    fputs("}\n", yaml);
    if (classes) {
        fputs("  classify: {input: network, tensor: ", yaml);
        put_quoted(yaml, classes->name, false);
        fputs(", top_k: 5}", yaml);
        put_labels(yaml, model, vector_length(classes));
    }
    fprintf(yaml, "  results: {type: jsonl, input: %s%s, path: \"${OUTPUT:--}\"}\n", classes ? "classify" : "network",
            features  ? ", features: true"
            : classes ? ""
                      : ", tensors: true");
}

/* Checks that it can be planned here, as `millrace plan` would. */
static bool is_planned(const char *text, char *why) {
    mr_diagnostics said = {0};
    const mr_plan_view *plan = NULL;
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "inspect.yaml", .text = text};
    int status = mr_plan_view_open(&plan, &params, &said);
    if (status)
        mr_print_into(why, MR_INSPECT_WHY, "%s", said.count ? said.item[0].message : mr_message());
    mr_plan_view_close(&plan);
    mr_diagnostics_fini(&said);
    return status == MR_OK;
}

char *mr_inspect_pipeline(const mr_model_view *model, const char *path, char why[MR_INSPECT_WHY]) {
    mr_inspect_use use;
    char *text = NULL, absolute[PATH_MAX];
    size_t bytes = 0;
    judge_infer(model, &use);
    if (!use.can || !realpath(path, absolute)) {
        snprintf(why, MR_INSPECT_WHY, "%s", use.can ? "its path cannot be resolved" : use.how);
        return NULL;
    }
    FILE *yaml = open_memstream(&text, &bytes);
    if (!yaml) {
        snprintf(why, MR_INSPECT_WHY, "there is no memory for one");
        return NULL;
    }
    fputs("version: 1\npipeline: model\n", yaml);
    bool good = put_feeding(yaml, model, why);
    if (good)
        put_use(yaml, model, absolute);
    good = fclose(yaml) == 0 && good && is_planned(text, why);
    if (!good) {
        free(text);
        text = NULL;
    }
    return text;
}

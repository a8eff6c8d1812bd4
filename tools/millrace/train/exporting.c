#include "tools/millrace/train/exporting.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/print.h"
#include "millrace/describe.h"
#include "millrace/onnx.h"
#include "millrace/signature.h"

enum { MOST_PATH = 4096, INPUT_TEXT = 256 };

/* A row that is computed both ways. */
typedef struct given_row {
    uint8_t *input; /* input for the exported graph */
    size_t bytes;
    float *scores;  /* classify's */
    int64_t input_ns, scores_ns; /* a video keeps its earliest picture: that picture's time */
} given_row;

/* An export in progress. */
typedef struct work {
    mr_exporting *of;
    const mr_classifier_card *card;
    mr_onnx_params params;
    const mr_view_stage *first; /* stage whose network comes first, or classify; NULL: no pipeline */
    char input[INPUT_TEXT];     /* picture format at the network's input */
    char unchecked[MOST_PATH];  /* the file until it has been compared */
    char *preprocessing;
    mr_onnx_note note;
    size_t count;
    given_row *row;
} work;

/* ---- where it begins --------------------------------------------------------------------------------------------- */

static const void *option_of(const mr_view_stage *stage, const char *name) {
    const mr_option *option = mr_option_find(stage->type->options, name);
    return option ? (const char *)stage->options + option->offset : NULL;
}

static const char *text_of(const mr_view_stage *stage, const char *name) {
    const mr_option *option = mr_option_find(stage->type->options, name);
    return option ? mr_option_string(option, stage->options) : NULL;
}

/* Whether an option has this choice. */
static bool is_chosen(const mr_view_stage *stage, const char *name, const char *choice) {
    const mr_option *option = mr_option_find(stage->type->options, name);
    const void *at = option_of(stage, name);
    return at && option->kind == MR_OPTION_ENUM && strcmp(option->choices[*(const int *)at], choice) == 0;
}

static bool is_type(const mr_view_stage *stage, const char *type) {
    return strcmp(stage->type->name, type) == 0;
}

/* The infer tensor that classify uses: the one that it names, else the first one kept. */
static const char *tensor_of(const mr_extraction *extraction, const mr_view_stage *infer) {
    const mr_strings *outputs = option_of(infer, "outputs");
    return extraction->tensor               ? extraction->tensor
           : outputs && outputs->count ? outputs->item[0]
                                       : NULL;
}

static void find_network(work *w) {
    const mr_extraction *extraction = w->of->extraction;
    int port;
    const mr_view_stage *stage = mr_extraction_before(extraction, extraction->classify, &port);
    const mr_view_stage *before = stage ? mr_extraction_before(extraction, stage, &port) : NULL;
    w->first = extraction->classify;
    if (!before)
        return;
    const bool features = is_type(stage, "features");
    /* After any stage other than preprocess, the frame itself may be a vector, which classify prefers to a result. */
    if (!features && !(is_type(stage, "infer") && (extraction->tensor || is_type(before, "preprocess"))))
        return;
    w->first = stage;
    w->params.network = text_of(stage, "model");
    w->params.tensor = features ? text_of(stage, "tensor") : tensor_of(extraction, stage);
    w->params.average = features && is_chosen(stage, "pool", "average");
    w->params.normalize = features && is_chosen(stage, "normalize", "l2");
    w->of->begins = stage->id;
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */

/* For a video, the last picture stays. */
static int take_input(void *user, const mr_taken *from, const mr_frame *frame) {
    work *w = user;
    given_row *row = &w->row[from->file];
    mr_frame_vector vector = {0};
    const void *data = frame->plane[0].data;
    size_t bytes = mr_tensor_bytes(&frame->format);
    if (!w->params.network) {
        int status = mr_frame_find_vector(frame, w->of->extraction->tensor, &vector);
        if (status)
            return status;
        data = vector.data;
        bytes = vector.length * sizeof(float);
    }
    if (!data || !bytes)
        return mr_fail(MR_ERROR_DATA, "%s is given no tensor", w->first->id);
    if (row->input && from->at_ns >= row->input_ns)
        return MR_OK;
    row->input_ns = from->at_ns;
    mr_format_print(&frame->format, w->input, sizeof w->input);
    free(row->input);
    row->input = malloc(bytes);
    row->bytes = bytes;
    if (!row->input)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    memcpy(row->input, data, bytes);
    return MR_OK;
}

/* NaN: not known, since classify reports at most a thousand classes. */
static int make_scores(const work *w, given_row *row) {
    if (!row->scores)
        row->scores = malloc((w->card->class_count + 1) * sizeof *row->scores);
    for (size_t j = 0; j < w->card->class_count && row->scores; j++)
        row->scores[j] = NAN;
    return row->scores ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
}

static int take_scores(void *user, const mr_taken *from, const mr_class *classes, size_t count) {
    work *w = user;
    given_row *row = &w->row[from->file];
    if (row->scores && from->at_ns >= row->scores_ns)
        return MR_OK;
    row->scores_ns = from->at_ns;
    int status = make_scores(w, row);
    for (size_t i = 0; i < count && !status; i++)
        if (classes[i].index >= 0 && (size_t)classes[i].index < w->card->class_count)
            row->scores[classes[i].index] = classes[i].score;
    return status;
}

/* Runs the pipeline on evenly spread files, and records classify's inputs and answers. */
static int run_pipeline(work *w, bool *told) {
    const mr_exporting *e = w->of;
    const mr_listed_file *file[MR_EXPORT_ROWS];
    for (size_t i = 0; i < w->count; i++)
        file[i] = e->files[i * e->file_count / w->count];
    const mr_extraction_job job = {.count = w->count, .files = file, .take_classes = take_scores,
                                   .take_given = take_input, .given_to = w->first, .user = w};
    return mr_extraction_run(e->extraction, &job, told);
}

/* Without a pipeline: random vectors. */
static int draw_rows(work *w) {
    const size_t width = w->card->width;
    uint64_t state = 1;
    int status = MR_OK;
    for (size_t i = 0; i < w->count && !status; i++) {
        given_row *row = &w->row[i];
        float *vector = malloc(width * sizeof *vector);
        row->input = (uint8_t *)vector;
        row->bytes = width * sizeof *vector;
        status = vector ? make_scores(w, row) : mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
        for (size_t j = 0; j < width && !status; j++) {
            state = state * 6364136223846793005u + 1442695040888963407u; /* Knuth, MMIX */
            vector[j] = (float)(state >> 40) / (float)(1 << 24);
        }
        if (!status)
            status = mr_classifier_scores(w->of->classifier, vector, 1, width, row->scores);
    }
    return status;
}

/* ---- how the network's input is made ----------------------------------------------------------------------------- */

static void put_resolved(yajl_gen json, const char *key, const double number[3]) {
    MR_JSON_ARRAY(json, key)
        for (int c = 0; c < 3; c++)
            mr_json_exact(json, NULL, number[c]);
}

/* One number per picture channel. */
static bool spread(const mr_view_stage *stage, const char *name, double to[3]) {
    const mr_doubles *list = option_of(stage, name);
    for (size_t c = 0; list && list->count && c < 3; c++)
        to[c] = list->value[list->count == 3 ? c : 0];
    return list && list->count;
}

/* (x - mean) / std for numbers from 0 to 255, as preprocess applies it. */
static void put_scale(yajl_gen json, const mr_view_stage *stage) {
    double mean[3] = {0, 0, 0}, std[3] = {1, 1, 1};
    if (is_chosen(stage, "normalize", "imagenet")) {
        memcpy(mean, (const double[]){255 * 0.485, 255 * 0.456, 255 * 0.406}, sizeof mean);
        memcpy(std, (const double[]){255 * 0.229, 255 * 0.224, 255 * 0.225}, sizeof std);
    }
    for (int c = 0; c < 3 && is_chosen(stage, "normalize", "signed"); c++)
        mean[c] = std[c] = 127.5;
    for (int c = 0; c < 3 && is_chosen(stage, "normalize", "unit"); c++)
        std[c] = 255;
    spread(stage, "mean", mean);
    spread(stage, "std", std);
    put_resolved(json, "mean", mean);
    put_resolved(json, "std", std);
}

static void put_pad(yajl_gen json, const mr_view_stage *stage) {
    double pad[3];
    if (spread(stage, "pad", pad))
        put_resolved(json, "pad", pad);
}

static void put_words(yajl_gen json, const mr_view_stage *stage) {
    static const char *const words[] = {"fit", "interpolation", "order"}, *const flags[] = {"antialias", "rotate",
                                                                                            "sar"};
    for (size_t i = 0; i < 3; i++) {
        const mr_option *option = mr_option_find(stage->type->options, words[i]);
        const void *at = option_of(stage, words[i]);
        if (at && option->kind == MR_OPTION_ENUM)
            mr_json_text(json, words[i], option->choices[*(const int *)at]);
    }
    for (size_t i = 0; i < 3; i++) {
        const bool *at = option_of(stage, flags[i]);
        if (at)
            mr_json_bool(json, flags[i], *at);
    }
    const double *crop = option_of(stage, "crop_fraction");
    if (crop)
        mr_json_exact(json, "crop_fraction", *crop);
}

/* "millrace.input": describes the network's input tensor, and how preprocess makes it from a picture. */
static int note_input(work *w) {
    int port;
    const unsigned char *text = NULL;
    size_t bytes = 0;
    if (!w->params.network)
        return MR_OK;
    const mr_view_stage *before = mr_extraction_before(w->of->extraction, w->first, &port);
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "format", w->input);
        mr_json_text(json, "stage", before->type->name);
        if (is_type(before, "preprocess")) {
            put_words(json, before);
            put_scale(json, before);
            put_pad(json, before);
        }
    }
    yajl_gen_get_buf(json, &text, &bytes);
    w->preprocessing = strdup((const char *)text);
    yajl_gen_free(json);
    w->note = (mr_onnx_note){.key = "millrace.input", .value = w->preprocessing};
    w->params.notes = &w->note;
    w->params.note_count = 1;
    return w->preprocessing ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the notes");
}

/* ---- the comparison ---------------------------------------------------------------------------------------------- */

static int compare_row(work *w, mr_onnx_scorer *scorer, const given_row *row, float *scores) {
    double largest = 0;
    if (row->bytes != mr_onnx_scorer_bytes(scorer))
        return mr_fail(MR_ERROR_DATA, "%s takes %zu bytes for a row, and %s is given %zu", w->of->output,
                       mr_onnx_scorer_bytes(scorer), w->first ? w->first->id : "the classifier", row->bytes);
    int status = mr_onnx_scorer_run(scorer, row->input, scores);
    for (size_t j = 0; j < w->card->class_count && !status; j++) {
        const double difference = fabs((double)scores[j] - (double)row->scores[j]);
        if (!isnan(row->scores[j]) && !(difference <= largest)) /* must also catch a NaN from the file */
            largest = difference;
    }
    w->of->rows++;
    w->of->apart += !(largest <= MR_EXPORT_BOUND);
    if (!(largest <= w->of->largest))
        w->of->largest = largest;
    return status;
}

static int judge(const work *w) {
    const mr_exporting *e = w->of;
    const size_t allowed = w->card->kind == MR_CLASSIFIER_NEIGHBORS ? (e->rows + 99) / 100 : 0;
    if (!e->rows)
        return mr_fail(MR_ERROR_NO_INPUT, "the pipeline gave no classes of any of %zu pictures to compare %s with",
                       w->count, e->output);
    if (e->apart > allowed)
        return mr_fail(MR_ERROR_DATA,
                       "%s was not written: of %zu of %zu rows its scores differ from those of classify by up to %.3g, "
                       "and %.0e is allowed; if that is rounding, a smaller --penalty makes smaller weights",
                       e->output, e->apart, e->rows, e->largest, MR_EXPORT_BOUND);
    return MR_OK;
}

static int compare(work *w) {
    mr_onnx_scorer *scorer = NULL;
    float *scores = calloc(w->card->class_count + 1, sizeof *scores);
    int status = scores ? mr_onnx_scorer_open(&scorer, w->unchecked, w->card->class_count)
                        : mr_fail(MR_ERROR_MEMORY, "no memory for the scores");
    for (size_t i = 0; i < w->count && !status; i++)
        if (w->row[i].input && w->row[i].scores && w->row[i].input_ns == w->row[i].scores_ns)
            status = compare_row(w, scorer, &w->row[i], scores);
    mr_onnx_scorer_close(&scorer);
    free(scores);
    return status ? status : judge(w);
}

/* ---- the whole export -------------------------------------------------------------------------------------------- */

/* Signs before the file has the final name: it must never stand next to a wrong signature. */
static int sign(const work *w) {
    static const char *const ends[] = {".sig", ".pub"};
    char path[sizeof w->unchecked];
    if (w->of->sign_key)
        return mr_signature_write_file(w->of->output, w->unchecked, w->of->sign_key);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        mr_print_into(path, sizeof path, "%s%s", w->of->output, ends[i]);
        if (unlink(path) && errno != ENOENT)
            return mr_file_fail("remove", path);
    }
    return MR_OK;
}

static int write_checked(work *w) {
    if ((size_t)snprintf(w->unchecked, sizeof w->unchecked, "%s.unchecked", w->of->output) >= sizeof w->unchecked)
        return mr_fail(MR_ERROR_USAGE, "%s: the path is too long", w->of->output);
    int status = mr_file_can_replace(w->of->output);
    if (!status)
        status = mr_classifier_write_onnx(w->of->classifier, w->unchecked, &w->params);
    if (!status)
        status = compare(w);
    if (!status)
        status = sign(w);
    if (!status && rename(w->unchecked, w->of->output))
        status = mr_file_fail("make", w->of->output);
    if (status)
        unlink(w->unchecked);
    return status ? status : mr_file_sync_folder(w->of->output);
}

int mr_export(mr_exporting *e, bool *told) {
    work w = {.of = e, .card = mr_classifier_card_of(e->classifier)};
    *told = false;
    w.count = e->extraction && e->file_count < MR_EXPORT_ROWS ? e->file_count : MR_EXPORT_ROWS;
    w.row = calloc(w.count + 1, sizeof *w.row);
    int status = w.row ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for the rows");
    if (!status && e->extraction) {
        find_network(&w);
        status = run_pipeline(&w, told);
    } else if (!status) {
        status = draw_rows(&w);
    }
    if (!status)
        status = note_input(&w);
    if (!status)
        status = write_checked(&w);
    for (size_t i = 0; i < w.count && w.row; i++) {
        free(w.row[i].input);
        free(w.row[i].scores);
    }
    free(w.row);
    free(w.preprocessing);
    return status;
}

void mr_exporting_tell(const mr_exporting *e, FILE *stream) {
    mr_print(stream, "%s, from %s%s to scores; the largest difference from classify is %.1e, of %zu %s", e->output,
             e->begins ? "the input of " : "the vector", e->begins ? e->begins : "", e->largest, e->rows,
             e->extraction ? "pictures" : "random vectors");
    if (e->apart)
        mr_print(stream, "; %zu by a vote that rounding decides", e->apart);
    mr_print(stream, "\n");
    if (e->sign_key)
        mr_print(stream, "  signed     %s.sig, with %s\n", e->output, e->sign_key);
    if (e->extraction && e->extraction->forced)
        mr_print(stream, "  forced     %s\n", e->extraction->forced);
}

void mr_exporting_put(const mr_exporting *e, const char *key, yajl_gen json) {
    MR_JSON_MAP(json, key) {
        mr_json_text(json, "file", e->output);
        mr_json_text(json, "network", e->begins);
        mr_json_text(json, "compared_with", e->extraction ? "pictures" : "drawn vectors");
        mr_json_integer(json, "rows", (int64_t)e->rows);
        mr_json_integer(json, "apart", (int64_t)e->apart);
        mr_json_exact(json, "largest_difference", e->largest);
        mr_json_exact(json, "bound", MR_EXPORT_BOUND);
        mr_json_bool(json, "signed", e->sign_key != NULL);
        if (e->extraction && e->extraction->forced)
            mr_json_text(json, "forced", e->extraction->forced);
    }
}

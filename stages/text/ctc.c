/* ctc: reads the text in what a recogniser scored. */
#include <stdio.h>
#include <string.h>

#include "kernels/text/ctc.h"
#include "millrace/text.h"
#include "stages/list.h"
#include "stages/model/onnx/onnx_traits.h"
#include "stages/named_tensor.h"
#include "stages/text/dictionary.h"

typedef struct options {
    const char *dictionary, *tensor;
    int blank, values;
    bool space;
    int64_t beam;
    double score, space_score;
} options;

typedef struct state {
    mr_dictionary dictionary;
    mr_ctc ctc;
} state;

static const char *const blanks[] = {"first", "last", NULL};
static const char *const values[] = {"auto", "logits", "probabilities", NULL};
enum { VALUES_AUTO, VALUES_LOGITS };

/* ---- planning ---------------------------------------------------------------------------------------------------- */

static int refuse_nothing(mr_negotiation *n, const options *o) {
    if (o->tensor)
        return mr_refuse(n, "tensor", "no tensor called \"%s\" is among the results that come from %s", o->tensor,
                         n->inputs[0].from);
    return mr_refuse(n, NULL, "no tensor to read text from comes from %s: put infer with a text recogniser before it",
                     n->inputs[0].from);
}

static int refuse_length(const options *o, const mr_dictionary *dictionary, size_t classes, const char *from) {
    const size_t own = mr_dictionary_classes(dictionary);
    return mr_fail(MR_ERROR_CONFIG, "%s has %zu characters, with blank%s %zu classes, but %s gives %zu%s",
                   o->dictionary, dictionary->characters.count, o->space ? " and space" : "", own, from, classes,
                   classes == own + (o->space ? (size_t)-1 : 1)
                       ? o->space ? ": write space: false" : ": write space: true" : "");
}

static int check_tensor(mr_negotiation *n, const options *o, const mr_dictionary *dictionary) {
    const mr_planned_result *tensor = mr_planned_tensor(&n->inputs[0], o->tensor);
    char text[MR_FORMAT_SET_TEXT];
    if (!tensor)
        return n->inputs[0].more_results ? MR_OK : refuse_nothing(n, o);
    const mr_format_set *set = &tensor->set;
    if ((set->dtypes && !(set->dtypes & MR_IN_SET(MR_DTYPE_F32))) || set->rank == 1)
        return mr_refuse(n, o->tensor ? "tensor" : NULL,
                         "%s gives a %s, but text is read from f32 tensors of steps x classes", n->inputs[0].from,
                         mr_format_set_print(set, text, sizeof text));
    const mr_bounds *classes = set->rank > 1 ? &set->dims[set->rank - 1] : NULL;
    if (!classes || classes->min != classes->max || !classes->max ||
        (size_t)classes->max == mr_dictionary_classes(dictionary))
        return MR_OK;
    int status = refuse_length(o, dictionary, (size_t)classes->max, n->inputs[0].from);
    return mr_refuse_status(n, status, "dictionary", "%s", mr_message());
}

/* A step gives one character at most. */
static void promise_bytes(mr_negotiation *n, const options *o, const mr_dictionary *dictionary) {
    const mr_planned_result *tensor = mr_planned_tensor(&n->inputs[0], o->tensor);
    size_t longest = 0;
    uint64_t steps = tensor && tensor->set.rank > 1 ? 1 : 0;
    for (int i = 0; steps && i + 1 < tensor->set.rank; i++)
        steps *= (uint64_t)tensor->set.dims[i].max;
    for (size_t i = 0; i < mr_dictionary_classes(dictionary); i++) {
        const size_t length = strlen(mr_dictionary_text(dictionary, i));
        longest = length > longest ? length : longest;
    }
    if (steps && steps < MR_MOST_ITEMS_BYTES)
        mr_promise_items(n, 0, mr_items_bytes(steps, longest));
}

static int read_dictionary(const options *o, mr_dictionary *dictionary) {
    *dictionary = (mr_dictionary){.blank_last = o->blank, .space = o->space};
    return mr_dictionary_read(o->dictionary, dictionary);
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    mr_dictionary dictionary;
    n->outputs[0].follows = n->outputs[0].shares = 0;
    n->unread = n->offline;
    if (o->space_score < 1 && (!o->space || o->beam > 1))
        return mr_refuse(n, "space_score", "space_score needs %s", o->space ? "beam: 1" : "a class for the space: "
                         "write space: true if the network has one");
    int status = mr_promise_result(n, 0, mr_kind_text(), NULL, NULL);
    if (status || n->offline)
        return status;
    status = read_dictionary(o, &dictionary);
    if (status)
        return mr_refuse_status(n, status, "dictionary", "%s", mr_message());
    status = check_tensor(n, o, &dictionary);
    promise_bytes(n, o, &dictionary);
    mr_dictionary_free(&dictionary);
    return status;
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    const mr_planned_result *tensor = mr_planned_tensor(&self->inputs[0], o->tensor);
    const bool scored = tensor && mr_onnx_gives_scores(tensor->operation);
    int status = read_dictionary(o, &s->dictionary);
    s->ctc = (mr_ctc){.classes = mr_dictionary_classes(&s->dictionary), .blank = mr_dictionary_blank(&s->dictionary),
                      .beam = (size_t)o->beam,
                      .logits = o->values == VALUES_AUTO ? !scored : o->values == VALUES_LOGITS,
                      .space = mr_dictionary_space(&s->dictionary),
                      .space_score = o->space_score < 1 ? o->space_score : 0};
    return status;
}

static void close_stage(mr_stage *self) {
    mr_dictionary_free(&((state *)self->state)->dictionary);
}

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* The number of steps; 0: the tensor is none of steps x classes. */
static size_t steps_of(const mr_ctc *ctc, const mr_format *format) {
    size_t steps = 1, long_ones = 0;
    if (format->dtype != MR_DTYPE_F32 || format->rank < 2 || (size_t)format->dims[format->rank - 1] != ctc->classes)
        return 0;
    for (int i = 0; i < format->rank - 1; i++) {
        steps *= (size_t)format->dims[i];
        long_ones += format->dims[i] != 1;
    }
    return long_ones <= 1 ? steps : 0;
}

static int read_tensor(const mr_stage *self, const mr_frame *frame, mr_ctc_text *text) {
    const options *o = self->options;
    const state *s = self->state;
    const mr_result *tensor = mr_frame_tensor(frame, o->tensor);
    char shape[MR_FORMAT_TEXT];
    if (!tensor)
        return mr_fail(MR_ERROR_DATA, "a frame of %s has no tensor%s%s", self->inputs[0].from, o->tensor ? " " : "",
                       o->tensor ? o->tensor : "");
    const size_t steps = steps_of(&s->ctc, &tensor->format);
    if (!steps)
        return mr_fail(MR_ERROR_DATA, "a frame of %s has a %s, and not one of steps x %zu classes",
                       self->inputs[0].from, mr_format_print(&tensor->format, shape, sizeof shape), s->ctc.classes);
    return mr_ctc_read(&s->ctc, tensor->data, steps, text);
}

static int publish(const state *s, mr_io *io, mr_frame *frame, const mr_ctc_text *text) {
    mr_result *result = NULL;
    size_t bytes = 0;
    int status = mr_io_add_result(io, frame, mr_kind_text(), 1, &result);
    for (size_t i = 0; i < text->count; i++)
        bytes += strlen(mr_dictionary_text(&s->dictionary, (size_t)text->character[i]));
    if (status || !bytes)
        return status;
    mr_text *one = result->data;
    *one = (mr_text){.score = text->score};
    status = mr_result_add_items(result, NULL, bytes, 1, &one->text);
    if (status)
        return status;
    char *to = (char *)(uintptr_t)mr_result_items(result, one->text);
    for (size_t i = 0; i < text->count; i++) {
        const char *character = mr_dictionary_text(&s->dictionary, (size_t)text->character[i]);
        const size_t length = strlen(character);
        memcpy(to, character, length);
        to += length;
    }
    result->count = 1;
    return MR_OK;
}

/* A picture that only says its stream is away gets no text. */
static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    const mr_frame *input = mr_io_input(io);
    mr_ctc_text text = {0};
    mr_frame *frame = NULL;
    const bool away = input->flags & MR_FRAME_AWAY;
    int status = away ? MR_OK : read_tensor(self, input, &text);
    if (!status)
        status = mr_io_share(io, input, &frame);
    if ((double)text.score <= o->score)
        text.count = 0;
    if (!status && !away)
        status = publish(self->state, io, frame, &text);
    return mr_io_finish(io, 0, frame, status);
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(dictionary), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .named = ".onnx", .required = true,
     .example = "models/text-recognizer.onnx",
     .help = "a text file with one character per line, or an ONNX file with the characters in its metadata"},
    {FIELD(tensor), .kind = MR_OPTION_STRING, .example = "logits",
     .help = "the infer tensor to read, of steps x classes; if not given, the newest one"},
    {FIELD(blank), .kind = MR_OPTION_ENUM, .fallback = "first", .choices = blanks,
     .help = "where the class for \"no character\" is, before or after the characters"},
    {FIELD(space), .kind = MR_OPTION_BOOL, .fallback = "true",
     .help = "a class for the space follows the dictionary's characters, as in PaddleOCR"},
    {FIELD(values), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = values,
     .help = "what the tensor has; auto: probabilities if a softmax made it, else logits"},
    {FIELD(beam), .kind = MR_OPTION_INT, .fallback = "1", .min = 1, .max = MR_CTC_MOST_BEAM, .unit = "texts",
     .help = "texts to follow from step to step; 1: only the best class of each step"},
    {FIELD(score), .kind = MR_OPTION_DOUBLE, .fallback = "0", .min = 0, .max = 1, .example = "0.5",
     .help = "texts must have a higher score"},
    {FIELD(space_score), .kind = MR_OPTION_DOUBLE, .fallback = "1", .min = 0.0001, .max = 1, .example = "0.02",
     .help = "a space is also read between two characters where the network gives it at least this probability; 1: "
             "only where nothing is more probable"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_port inputs[] = {{.name = "in", .help = "frames with a text recogniser's tensor from infer"}, {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same frames, with text as a result"}, {0}};

const mr_stage_type mr_ctc_stage = {
    .name = "ctc",
    .summary = "reads text in the output of a network that was trained with CTC",
    .help = "For each step the network scores all characters and \"blank\"; repetitions are joined and blanks removed. "
            "The score is the mean of the characters' probabilities, or with beam the root of the text's probability, "
            "for one character. A frame without text, or with too low a score, gets an empty result.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_STATELESS,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};

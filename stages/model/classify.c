/* classify: a linear layer, scores, and the best classes with labels; for logits, only the last two. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "engine/device/cuda/cuda.h"
#include "engine/device/resident.h"
#include "kernels/vector/cublas.h"
#include "kernels/vector/vector.h"
#include "stages/download.h"
#include "stages/list.h"
#include "stages/model/head.h"
#include "stages/model/lineage.h"
#include "stages/model/onnx/onnx_traits.h"
#include "stages/model/vote.h"

typedef struct options {
    const char *head, *key, *weights, *labels, *tensor;
    bool force;
    int activation;
    int64_t top_k, window;
    double threshold;
} options;

typedef struct state {
    mr_head *head;
    mr_resident *weights; /* the head, for a device with separate memory; else NULL */
    mr_trained_copies copies; /* the same for a classifier with more than a product */
    mr_vote *vote; /* over the window; NULL: each frame separately */
    mr_activation activation;
    const mr_stage *self;
    _Atomic uint64_t odd; /* frames whose logits were not finite */
} state;

/* The option's choices: mr_activation's, and auto. */
static const char *const activations[] = {"none", "softmax", "sigmoid", "auto", NULL};
enum { ACTIVATION_AUTO = 3 };
_Static_assert(MR_ACTIVATION_NONE == 0 && MR_ACTIVATION_SOFTMAX == 1 && MR_ACTIVATION_SIGMOID == 2, "in this order");

/* Whether the input is a vector for weights rather than logits. */
static bool has_weights(const options *o) {
    return o->head || o->weights;
}

/* The operator that has already made scores from the input, such as "Softmax"; NULL: it is logits, or a vector for
 * weights. */
static const char *scored_by(const options *o, const mr_planned_input *input) {
    const char *operation = has_weights(o) ? NULL : mr_planned_operation(input, o->tensor);
    return mr_onnx_gives_scores(operation) ? operation : NULL;
}

static mr_activation activation_of(const options *o, const mr_head *head, const mr_planned_input *input) {
    if (head->classifier)
        return head->classifier->trained.activation;
    if (o->activation != ACTIVATION_AUTO)
        return (mr_activation)o->activation;
    return scored_by(o, input) ? MR_ACTIVATION_NONE : MR_ACTIVATION_SOFTMAX;
}

static int open_head(mr_head **head, const options *o) {
    return mr_head_open(head, &(mr_head_files){.folder = o->head, .key = o->key, .weights = o->weights,
                                               .labels = o->labels});
}

/* A classifier with more than a product; NULL: none. */
static const mr_trained *beyond_product(const mr_head *head) {
    const mr_trained *trained = head->classifier ? &head->classifier->trained : NULL;
    return trained && !mr_trained_is_linear(trained) ? trained : NULL;
}

/* One call's scratch memory, in one buffer. */
typedef struct scratch {
    mr_buffer *buffer;
    mr_download home;
    float *gathered; /* batch x features */
    float *logits;   /* batch x classes */
    uint8_t *best;   /* batch x best_bytes */
    float *work;     /* for a classifier with more than a product */
} scratch;

/* What a device finds for one frame: the number of best classes, scores and indices. */
static size_t best_bytes(size_t most) {
    return (1 + 2 * most) * sizeof(int32_t);
}

/* How many classes fit in this many bytes. */
static size_t most_in(size_t bytes) {
    return (bytes / sizeof(int32_t) - 1) / 2;
}

static int32_t *found_in(uint8_t *best) {
    return (int32_t *)(void *)best;
}

static float *scores_in(uint8_t *best) {
    return (float *)(void *)best + 1;
}

static int32_t *indices_in(uint8_t *best, size_t most) {
    return found_in(best) + 1 + most;
}

/* Frames whose best classes are found together. */
enum { PIECE = 32 };
/* More would hardly be cheaper: with 4, reading weights is a small part of the work. */
enum { GATHERS = 4 };

/* One call's work. */
typedef struct job {
    const float *vector; /* first frame's vector */
    size_t length;       /* numbers per vector */
    size_t classes, most, batch;
} job;

/* ---- planning -------------------------------------------------------------------------------------------------- */

/* Checks that this vector length fits the weights, and the labels fit the classes. */
static int check_length(const options *o, const mr_head *head, size_t length, const char *from) {
    const mr_matrix_f32 *weights = &head->weights;
    if (o->head && weights->columns != length + 1)
        return mr_fail(MR_ERROR_CONFIG, "the classifier in %s takes vectors of %zu numbers, but %s gives %zu", o->head,
                       weights->columns - 1, from, length);
    if (o->weights && weights->columns != length + 1)
        return mr_fail(MR_ERROR_CONFIG, "%s is %zux%zu, for vectors of %zu numbers and a bias, but %s gives %zu",
                       o->weights, weights->rows, weights->columns, weights->columns - 1, from, length);
    size_t classes = has_weights(o) ? weights->rows : length;
    if (o->labels && head->labels.count != classes)
        return mr_fail(MR_ERROR_CONFIG, "%s has %zu labels, but there are %zu classes", o->labels, head->labels.count,
                       classes);
    return MR_OK;
}

static const char *list_results(const mr_planned_input *input, char *text, size_t bytes) {
    char one[MR_FORMAT_SET_TEXT];
    size_t used = 0;
    text[0] = 0;
    for (const mr_planned_result *result = input->results; result && used < bytes; result = result->next)
        if (result->kind == mr_kind_tensor())
            used += (size_t)snprintf(text + used, bytes - used, "%s\"%s\", a %s", used ? "; " : "", result->name,
                                     mr_format_set_print(&result->set, one, sizeof one));
    return text;
}

static int refuse_nothing(mr_negotiation *n, const options *o) {
    const mr_planned_input *input = &n->inputs[0];
    char list[512], text[MR_FORMAT_SET_TEXT];
    list_results(input, list, sizeof list);
    if (o->tensor)
        return mr_refuse(n, "tensor", "no vector called \"%s\" is among the results that come from %s; it gives %s",
                         o->tensor, input->from, *list ? list : "none");
    return mr_refuse(n, NULL,
                     "no vector to classify: %s gives a %s%s%s; put features, infer or histogram before it",
                     input->from, mr_format_set_print(&input->set, text, sizeof text), *list ? " with " : "", list);
}

/* *wrong: the option at fault. */
static int check(const options *o, const mr_head *head, const mr_format *vector, const char *from,
                 const char **wrong) {
    size_t length = mr_vector_length(vector);
    *wrong = "labels";
    if (o->weights && o->labels && head->labels.count != head->weights.rows)
        return mr_fail(MR_ERROR_CONFIG, "%s has %zu labels, but %s has the weights of %zu classes", o->labels,
                       head->labels.count, o->weights, head->weights.rows);
    *wrong = o->head ? "head" : o->weights ? "weights" : "labels";
    return length ? check_length(o, head, length, from) : MR_OK;
}

static size_t scratch_numbers(const job *j, const options *o, const mr_head *head, size_t *gathered, size_t *logits) {
    const bool weights = has_weights(o);
    const mr_trained *trained = beyond_product(head);
    *gathered = weights && j->batch > 1 ? j->batch * j->length : 0;
    *logits = weights ? j->batch * j->classes : 0;
    return *gathered + *logits + j->batch * best_bytes(j->most) / sizeof(float) +
           (trained ? mr_trained_scratch(trained, j->batch) : 0);
}

static job job_of(const options *o, const mr_head *head, size_t length, size_t batch) {
    size_t classes = has_weights(o) ? head->weights.rows : length;
    size_t most = (size_t)o->top_k < classes ? (size_t)o->top_k : classes;
    return (job){.length = length, .classes = classes, .most = most, .batch = batch};
}

/* The weights give the vector length; without weights, the input does. If it is not known, top_k limits the classes. */
static void plan_scratch(mr_negotiation *n, const mr_head *head, const mr_format *vector) {
    const options *o = n->options;
    const size_t known = has_weights(o) ? head->weights.columns - 1 : mr_vector_length(vector);
    size_t gathered, logits;
    const job j = job_of(o, head, known ? known : (size_t)o->top_k, (size_t)(n->gathers > 1 ? n->gathers : n->batch));
    n->scratch_bytes = scratch_numbers(&j, o, head, &gathered, &logits) * sizeof(float);
    mr_download_plan(n, best_bytes(j.most));
}

/* How many numbers all matrices have. */
static size_t numbers_of(const mr_head *head) {
    const mr_trained *trained = beyond_product(head);
    return trained ? mr_trained_numbers(trained) : head->weights.rows * head->weights.columns;
}

/* On a GPU: one copy gathers a batch's vectors, a product is one call with the bias before it, one launch finds the
 * best for up to 32 frames, and one copy downloads everything. */
static void count_work(mr_negotiation *n, const mr_head *head) {
    const mr_trained *trained = beyond_product(head);
    bool linear = has_weights(n->options);
    n->work.launches = (n->batch + 31) / 32 + 1 + (linear && n->batch > 1) +
                       (trained ? mr_trained_launches(trained, n->batch) : linear ? 2 : 0);
    if (!linear)
        return;
    n->work.call_bytes = (double)numbers_of(head) * sizeof(float);
    n->work.f32_operations = 2 * (double)numbers_of(head);
}

static void plan_work(mr_negotiation *n, const options *o, const mr_head *head, const mr_format *vector) {
    plan_scratch(n, head, vector);
    if (has_weights(o)) {
        n->stream_bytes[0] = mr_cublas_workspace_bytes(0);
        n->stream_bytes[1] = mr_cublas_workspace_bytes(90);
    }
    const mr_trained *trained = beyond_product(head);
    n->constant_bytes = trained ? mr_trained_bytes(trained) : has_weights(o) ? numbers_of(head) * sizeof(float) : 0;
    count_work(n, head);
}

/* ---- scores ------------------------------------------------------------------------------------------------------ */

/* The highest possible score. `head` NULL: not read. */
static double most_score(const mr_negotiation *n, const options *o, const mr_head *head) {
    if (o->window > 1)
        return 1; /* a share */
    if (o->head && !head)
        return INFINITY;
    const mr_activation activation = head ? activation_of(o, head, &n->inputs[0])
                                          : activation_of(o, &(mr_head){0}, &n->inputs[0]);
    return activation != MR_ACTIVATION_NONE || scored_by(o, &n->inputs[0]) ? 1 : INFINITY;
}

static int check_threshold(mr_negotiation *n, const options *o, const mr_head *head) {
    const double most = most_score(n, o, head);
    if (o->threshold <= most)
        return MR_OK;
    return mr_refuse(n, "threshold", "no score is above %g, so no class would ever reach %g; write threshold: %g", most,
                     o->threshold, o->threshold <= 100 ? o->threshold / 100 : 0.5);
}

/* Softmax of scores from 0 to 1 makes them nearly equal: with a thousand classes none is above 0.003. */
static void judge_activation(mr_negotiation *n, const options *o, mr_planned_finding of) {
    const char *operation = scored_by(o, &n->inputs[0]);
    const bool automatic = o->activation == ACTIVATION_AUTO;
    if (operation && automatic)
        mr_remark(n, "activation: none, since what it classifies comes from %s and is scores already", operation);
    else if (operation && o->activation != MR_ACTIVATION_NONE)
        mr_warn(n, "activation", "remove activation, or write activation: none",
                "what it classifies comes from %s and is scores already: %s on top makes them nearly equal", operation,
                activations[o->activation]);
    else if (automatic && of == MR_PLANNED_UNKNOWN && (n->inputs[0].settled || n->inputs[0].unseen) &&
             !has_weights(o) && n->returns)
        mr_warn(n, NULL, "write activation: none if it ends in softmax or sigmoid, else activation: softmax",
                "the network that it classifies the output of is not on this machine: activation: auto is softmax");
}

/* What later stages can know about the classes. */
static int promise_classes(mr_negotiation *n, const options *o, const mr_head *head, const mr_format *vector) {
    const mr_planned_classes classes = {
        .count = head->labels.count  ? head->labels.count
                 : has_weights(o) ? head->weights.rows
                                  : mr_vector_length(vector),
        .labels = head->labels.count ? head->labels.item : NULL,
        .most_score = most_score(n, o, head)};
    return mr_promise_classes(n, 0, &classes);
}

/* Options that the head provides must not be set. */
static int check_given(mr_negotiation *n, const options *o) {
    static const char *const brought[] = {"weights", "labels", "activation"};
    for (size_t i = 0; o->head && i < sizeof brought / sizeof *brought; i++)
        if (mr_is_given(n, brought[i]))
            return mr_refuse(n, brought[i], "a head brings its own %s: leave out one of the two", brought[i]);
    if (o->force && !o->head)
        return mr_refuse(n, "force", "force is about a head, and there is none");
    if (o->key && !o->head)
        return mr_refuse(n, "key", "key is about the signature of a head, and there is none");
    return MR_OK;
}

/* The classifier was fitted to vectors from other stages: refuses that, or remarks on it if the check is overruled. */
static int differ(mr_negotiation *n, const options *o, const char *what) {
    if (!o->force && !n->force)
        return mr_refuse(n, "head",
                         "the classifier in %s was trained on vectors of another pipeline: %s; train it with this "
                         "one, or overrule it by force: true, or --force",
                         o->head, what);
    mr_remark(n, "forced: the classifier in %s was trained on vectors of another pipeline: %s", o->head, what);
    n->forced = true;
    return MR_OK;
}

/* Whether the preceding stages are those that made the classifier's training vectors. */
static int check_lineage(mr_negotiation *n, const options *o, const mr_classifier_card *card) {
    char text[MR_LINEAGE_TEXT];
    mr_lineage here;
    if (strcmp(card->tensor, o->tensor ? o->tensor : "") != 0 && *card->digest) {
        snprintf(text, sizeof text, "tensor is \"%s\", and was \"%s\"", o->tensor ? o->tensor : "", card->tensor);
        return differ(n, o, text);
    }
    if (!*card->digest) {
        mr_remark(n, "the classifier in %s does not say which pipeline made the vectors that it was trained on",
                  o->head);
        return MR_OK;
    }
    int status = mr_planned_lineage(n, 0, &here);
    if (status)
        return mr_refuse_status(n, status, "head", "%s", mr_message());
    if (strcmp(here.digest, card->digest) == 0)
        return MR_OK;
    mr_lineage_difference(card->stages, here.stages, text);
    return differ(n, o, *card->stages && *text ? text : "its digest is another");
}

static int check_length_of(mr_negotiation *n, const options *o, const mr_head *head, const mr_format *vector) {
    const char *wrong = NULL;
    int status = check(o, head, vector, n->inputs[0].from, &wrong);
    return status ? mr_refuse(n, wrong, "%s", mr_message()) : MR_OK;
}

/* Opens the whole head: its files must match its card. */
static int check_head(mr_negotiation *n, const options *o, const mr_format *vector) {
    mr_head *head;
    int status = open_head(&head, o);
    if (status)
        return mr_refuse_status(n, status, "head", "%s", mr_message());
    status = check_length_of(n, o, head, vector);
    if (!status)
        status = check_lineage(n, o, mr_classifier_card_of(head->classifier));
    if (!status)
        status = check_threshold(n, o, head);
    if (!status) {
        plan_work(n, o, head, vector);
        status = promise_classes(n, o, head, vector);
    }
    mr_head_close(&head);
    return status;
}

static int check_files(mr_negotiation *n, const options *o, const mr_format *vector) {
    mr_head head = {0}; /* without the numbers */
    int status = o->weights ? mr_npy_look(o->weights, &head.weights) : MR_OK;
    if (status)
        mr_refuse_status(n, status, "weights", "%s", mr_message());
    int labels = o->labels ? mr_labels_read(o->labels, &head.labels) : MR_OK;
    if (labels)
        mr_refuse_status(n, labels, "labels", "%s", mr_message());
    status = status ? status : labels;
    if (!status)
        status = check_length_of(n, o, &head, vector);
    if (!status) {
        plan_work(n, o, &head, vector);
        status = promise_classes(n, o, &head, vector);
    }
    mr_labels_free(&head.labels);
    return status;
}

static int negotiate(mr_negotiation *n) {
    const options *o = n->options;
    char text[MR_FORMAT_TEXT];
    mr_format vector = {0};
    n->outputs[0].follows = n->outputs[0].shares = 0;
    if (o->window > 1)
        n->entry = MR_ENTRY_PER_SOURCE;
    if (o->window > 1 && n->batch > 1)
        return mr_refuse(n, "window",
                         "window counts the frames of one source, batch mixes those of several; keep one of them");
    mr_planned_finding of = mr_planned_find_vector(&n->inputs[0], o->tensor, &vector);
    /* Frames in a call share only the weights. A frame that cannot be classified must not affect others. */
    if (!has_weights(o) || o->window > 1 || !mr_vector_length(&vector))
        n->gathers = 1;
    if (of == MR_PLANNED_NONE)
        return refuse_nothing(n, o);
    if (of == MR_PLANNED_FOUND && vector.dtype && vector.dtype != MR_DTYPE_F32)
        return mr_refuse(n, o->tensor ? "tensor" : NULL, "%s gives a %s, but only f32 can be classified",
                         n->inputs[0].from, mr_format_print(&vector, text, sizeof text));
    const mr_format *length = of == MR_PLANNED_FOUND ? &vector : &(mr_format){0};
    int status = check_given(n, o);
    judge_activation(n, o, of);
    if (!status && !o->head)
        status = check_threshold(n, o, NULL);
    if (status || n->offline)
        return status ? status : mr_promise_result(n, 0, mr_kind_classes(), NULL, NULL);
    return o->head ? check_head(n, o, length) : check_files(n, o, length);
}

static int open_stage(mr_stage *self) {
    const options *o = self->options;
    state *s = self->state;
    s->self = self;
    int status = open_head(&s->head, o);
    const mr_matrix_f32 *weights = status ? NULL : &s->head->weights;
    const mr_trained *trained = status ? NULL : beyond_product(s->head);
    if (!status)
        s->activation = activation_of(o, s->head, &self->inputs[0]);
    const bool copied = has_weights(o) && self->device->type->kind == MR_DEVICE_CUDA;
    if (trained && copied)
        status = mr_trained_copies_init(&s->copies, trained);
    else if (!status && copied)
        status = mr_resident_create(&s->weights, weights->data, weights->rows * weights->columns * sizeof(float));
    if (!status && o->window > 1)
        status = mr_vote_create(&s->vote, (size_t)o->window);
    return status;
}

static void close_stage(mr_stage *self) {
    state *s = self->state;
    mr_vote_destroy(&s->vote);
    mr_resident_destroy(&s->weights);
    mr_trained_copies_fini(&s->copies);
    mr_head_close(&s->head);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

typedef mr_frame_vector vector;

/* The numbers to classify. */
static int find_vector(const mr_stage *self, const mr_frame *frame, vector *found) {
    const options *o = self->options;
    int status = mr_frame_find_vector(frame, o->tensor, found);
    return status == MR_ERROR_NO_INPUT ? mr_fail(MR_ERROR_DATA, "%s of %s", mr_message(), self->inputs[0].from)
                                       : status;
}

/* Finds the vector in input `index`; all vectors must have the same length. */
static int find_next(const mr_stage *self, const mr_io *io, size_t index, size_t length, vector *found) {
    int status = find_vector(self, mr_io_input_at(io, 0, index), found);
    if (status || found->length == length)
        return status;
    return mr_fail(MR_ERROR_DATA, "vectors of %zu and of %zu numbers in one batch", length, found->length);
}

static int plan_job(const mr_stage *self, mr_io *io, job *j) {
    const options *o = self->options;
    const mr_head *head = ((const state *)self->state)->head;
    vector first;
    int status = find_vector(self, mr_io_input(io), &first);
    if (!status)
        status = check_length(o, head, first.length, self->inputs[0].from);
    if (status)
        return status == MR_ERROR_CONFIG ? mr_fail(MR_ERROR_DATA, "%s", mr_message()) : status;
    *j = job_of(o, head, first.length, self->batch > 1 ? (size_t)self->batch : mr_io_count(io));
    j->vector = first.data;
    return MR_OK;
}

static mr_class class_of(const mr_labels *labels, int32_t index, float score) {
    bool named = index >= 0 && (size_t)index < labels->count;
    return (mr_class){.index = index, .score = score, .label = named ? labels->item[index] : NULL};
}

/* Turns a frame's best classes into the result; with a window, uses the window's frames. It may run although earlier
 * work failed and left invalid data: the frame is then dropped, and nothing else may be touched. */
static void publish(const void *context, mr_result *result, uint8_t *best, size_t bytes) {
    state *own = (state *)(uintptr_t)context;
    size_t most = most_in(bytes);
    int32_t *found = found_in(best), *index = indices_in(best, most);
    float *score = scores_in(best);
    if (*found == MR_TOP_K_NOT_FINITE)
        mr_stage_warn(own->self, "a frame has no classes: its logits are not finite (%llu so far)",
                      (unsigned long long)atomic_fetch_add(&own->odd, 1) + 1);
    if (*found < 0 || (size_t)*found > most)
        *found = 0;
    if (own->vote)
        mr_vote_add(own->vote, *found ? index[0] : -1, index, score, (int32_t)most, found);
    for (int32_t i = 0; i < *found; i++)
        result->classes[i] = class_of(&own->head->labels, index[i], score[i]);
    result->count = (size_t)*found;
}

static int take_memory(const mr_stage *self, mr_io *io, const job *j, scratch *s) {
    const options *o = self->options;
    const state *own = self->state;
    size_t gathered, logits;
    int status = mr_io_scratch(io, scratch_numbers(j, o, own->head, &gathered, &logits) * sizeof(float), &s->buffer);
    if (status)
        return status;
    s->gathered = (float *)(void *)s->buffer->data;
    s->logits = s->gathered + gathered;
    s->best = (uint8_t *)(s->logits + logits);
    s->work = (float *)(void *)(s->best + j->batch * best_bytes(j->most));
    s->home = (mr_download){.finish = publish, .context = self->state, .each = best_bytes(j->most)};
    return mr_download_begin(&s->home, self, io);
}

/* Finds a run of contiguous vectors, as one call produces them; *count: how many. */
static int find_run(const mr_stage *self, const mr_io *io, size_t first, size_t length, vector *run, size_t *count) {
    int status = find_next(self, io, first, length, run);
    vector next = *run;
    for (*count = 1; !status && first + *count < mr_io_count(io); ++*count) {
        status = find_next(self, io, first + *count, length, &next);
        if (!next.buffer || next.buffer != run->buffer || next.data != run->data + *count * length)
            break;
    }
    return status;
}

/* Concatenates a call's vectors and fills the batch with zeros: the product must always have the planned size. */
static int gather(const mr_stage *self, mr_io *io, const job *j, float *to) {
    size_t count = mr_io_count(io), some = 0;
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i += some) {
        vector run = {0};
        status = find_run(self, io, i, j->length, &run, &some);
        if (!status)
            status = mr_stream_copy(mr_io_stream(io), to + i * j->length, run.data, some * j->length * sizeof(float));
    }
    if (status)
        return status;
    size_t missing = (j->batch - count) * j->length;
    return mr_stream_copy(mr_io_stream(io), to + count * j->length, NULL, missing * sizeof(float));
}

static int multiply(const mr_stage *self, mr_io *io, const job *j, scratch *s) {
    state *own = self->state;
    const mr_matrix_f32 *matrix = &own->head->weights;
    const void *weights = matrix->data;
    int status = j->batch > 1 ? gather(self, io, j, s->gathered) : MR_OK;
    const float *src = j->batch > 1 ? s->gathered : j->vector;
    const mr_trained *trained = beyond_product(own->head);
    if (trained && !status)
        return mr_trained_enqueue(mr_io_stream(io), &(mr_trained_work){.trained = trained, .vectors = src,
                                                                       .stride = j->length, .batch = (int)j->batch,
                                                                       .scratch = s->work, .logits = s->logits},
                                  &own->copies);
    if (!status && own->weights)
        status = mr_resident_get(own->weights, mr_io_stream(io), &weights);
    mr_linear_work work = {.weights = weights,
                           .bias = (const float *)weights + j->length,
                           .weight_stride = matrix->columns,
                           .bias_stride = matrix->columns,
                           .outputs = (int)j->classes,
                           .inputs = (int)j->length,
                           .batch = (int)j->batch,
                           .alone = self->batch == 1,
                           .src = src,
                           .src_stride = j->length,
                           .dst = s->logits,
                           .dst_stride = j->classes};
    return status ? status : mr_linear_enqueue(mr_io_stream(io), &work);
}

/* Finds the best classes for `count` inputs from `first` together. */
static int rank(const mr_stage *self, mr_io *io, const job *j, const scratch *s, size_t first, size_t count) {
    const options *o = self->options;
    const mr_activation activation = ((const state *)self->state)->activation;
    mr_top_k_work works[PIECE];
    int status = MR_OK;
    for (size_t i = 0; i < count && !status; i++) {
        uint8_t *best = s->best + (first + i) * best_bytes(j->most);
        vector logits = {.data = s->logits + (first + i) * j->classes};
        if (!has_weights(o))
            status = find_next(self, io, first + i, j->length, &logits);
        works[i] = (mr_top_k_work){.logits = logits.data,
                                   .count = (int)j->classes,
                                   .most = (int)j->most,
                                   .activation = activation,
                                   .threshold = (float)o->threshold,
                                   .index = indices_in(best, j->most),
                                   .score = scores_in(best),
                                   .found = found_in(best)};
    }
    return status ? status : mr_top_k_enqueue(mr_io_stream(io), works, (int)count);
}

/* A picture that only says its stream is away gets no classes. */
static int emit(mr_io *io, const job *j, scratch *s, size_t index) {
    mr_frame *frame = NULL;
    mr_result *result = NULL;
    int status = mr_io_share(io, mr_io_input_at(io, 0, index), &frame);
    if (!status && !(frame->flags & MR_FRAME_AWAY))
        status = mr_io_add_result(io, frame, mr_kind_classes(), j->most, &result);
    if (!status)
        mr_download_add(&s->home, result, s->best + index * best_bytes(j->most));
    return mr_io_finish(io, 0, frame, status);
}

static int process(mr_stage *self, mr_io *io) {
    const options *o = self->options;
    size_t count = mr_io_count(io);
    job j = {0};
    scratch s = {0};
    int status = plan_job(self, io, &j);
    if (!status)
        status = take_memory(self, io, &j, &s);
    if (!status && has_weights(o))
        status = multiply(self, io, &j, &s);
    for (size_t first = 0; first < count && !status; first += PIECE)
        status = rank(self, io, &j, &s, first, count - first < PIECE ? count - first : PIECE);
    for (size_t i = 0; i < count && !status; i++)
        status = emit(io, &j, &s, i);
    if (!status)
        status = mr_download_end(&s.home, io, s.best);
    mr_download_release(&s.home);
    mr_buffer_unref(&s.buffer);
    return status;
}

#define FIELD(field) .name = #field, .offset = offsetof(options, field)
static const mr_option table[] = {
    {FIELD(head), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .example = "head",
     .help =
         "a trained classifier's folder, with weights, labels and activation; refused after other stages than those "
         "that it was trained with"},
    {FIELD(force), .kind = MR_OPTION_BOOL, .fallback = "false", .neutral = true,
     .help = "take the head even if it was trained with other stages, like --force; every summary reports it"},
    {FIELD(key), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .neutral = true, .example = "keys/approved.pub",
     .help = "a public key: a head is refused unless the private key's signature on it is good (train --sign)"},
    {FIELD(weights), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .named = ".npy", .example = "models/lite0-head.npy",
     .help = "a .npy matrix, classes x (features + 1), the bias last; without it the input is taken as logits"},
    {FIELD(labels), .kind = MR_OPTION_PATH, .file = MR_FILE_READ, .named = ".txt", .example = "models/imagenet.txt",
     .help = "a text file with one class label per line, or an ONNX file with labels in its metadata"},
    {FIELD(tensor), .kind = MR_OPTION_STRING, .example = "logits",
     .help = "the infer tensor to classify; if not given, the frame's vector, else the newest one from infer"},
    {FIELD(activation), .kind = MR_OPTION_ENUM, .fallback = "auto", .choices = activations,
     .help = "how logits become scores: softmax for one class of many, sigmoid for each class by itself; auto: none if "
             "the network ends in softmax or sigmoid itself, else softmax"},
    {FIELD(top_k), .kind = MR_OPTION_INT, .fallback = "5", .min = 1, .max = 1000, .unit = "classes",
     .help = "most classes in a result, best first"},
    {FIELD(threshold), .kind = MR_OPTION_DOUBLE, .fallback = "-1e30", .min = -1e30, .max = 1e30, .example = "0.5",
     .help = "classes with a lower score are left out"},
    {FIELD(window), .kind = MR_OPTION_INT, .fallback = "1", .min = 1, .max = MR_VOTE_MAX, .unit = "frames",
     .help = "more than 1: over this many of a source's last frames, the classes that were most often the best; the "
             "score is their share"},
    MR_OPTIONS_END};
#undef FIELD

static const mr_port inputs[] = {{.name = "in", .help = "feature vectors or logits, or frames with tensors from infer"},
                                 {0}};
static const mr_port outputs[] = {{.name = "out", .help = "the same payload, with the classes as a result"}, {0}};

const mr_stage_type mr_classify_stage = {
    .name = "classify",
    .summary = "names the most likely classes by a linear layer or a trained classifier, or from logits",
    .help = "With weights or a head the input is a feature vector: logits = weights x vector + bias. Without, it "
            "holds the logits. A frame whose logits are not finite (NaN, or an infinity that softmax has no score "
            "for) has no classes; the log reports how many. Values that a network makes finite itself (Relu turns "
            "-infinity into 0) are not detected. On a processor weights are read once for up to 4 frames, if they "
            "wait while all workers are busy; `batch` waits for frames. A head is a classifier's folder: "
            "`head.json`, its card, with each other file's SHA-256 and the digest of the stages that made its "
            "vectors; `labels.txt`, a class per line; `weights.npy`, classes x (features + 1), for the kinds "
            "softmax, logistic, squared-hinge and prototypes; `layer-1.npy`, `layer-2.npy` and so on, units x "
            "(inputs + 1), for a perceptron; `vectors.npy`, the kept vectors with -|v|^2 / 2 after each, and "
            "`classes.npy`, their classes, for neighbors; `head.sig`, the Ed25519 signature on `head.json`, and "
            "`head.pub`, the public key, if it is signed. All kinds run on all devices. On a processor with `batch: "
            "1` a score equals the one from `millrace evaluate` bit for bit.",
    .inputs = inputs,
    .outputs = outputs,
    .options = table,
    .options_bytes = sizeof(options),
    .state_bytes = sizeof(state),
    .entry = MR_ENTRY_STATELESS,
    .batches = true,
    .gathers = GATHERS,
    .streams = true,
    .cuda = true,
    .negotiate = negotiate,
    .open = open_stage,
    .process = process,
    .close = close_stage,
};

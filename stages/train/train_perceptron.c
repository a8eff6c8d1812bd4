/* Perceptrons: Adam with minibatches that consist of whole chunks, shuffled anew for each epoch. The result is the
 * epoch with the smallest log loss on validation rows. Without validation rows, the last epoch counts. */
#include <math.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/draw.h"
#include "kernels/fit/fit_perceptron.h"
#include "millrace/status.h"
#include "stages/train/train_kinds.h"
#include "stages/train/train_loss.h"
#include "stages/train/train_state.h"

/* The state's header. */
typedef struct counters {
    uint64_t epoch, adam_step; /* epochs and steps made */
    uint64_t best_epoch;
    double best_loss, best_objective;
} counters;

typedef struct perceptron_fit {
    mr_fitting *training;
    mr_fit_rows rows, validation;
    mr_perceptron net, judged; /* the same network, for training rows and for validation rows */
    mr_perceptron_point point, judged_point;
    mr_fit_workers *workers;
    mr_adam adam;
    counters count;
    size_t length;        /* parameters */
    size_t *units;        /* per layer, for the card */
    uint32_t *order;      /* training rows in this epoch's order */
    double *parameters, *best, *nodes;
    void *weights;
    double c;
} perceptron_fit;

/* ---- the state --------------------------------------------------------------------------------------------------- */

enum { PIECES = 5 };

static void list_pieces(perceptron_fit *f, mr_state_piece pieces[PIECES]) {
    const size_t bytes = f->length * sizeof(double);
    pieces[0] = (mr_state_piece){&f->count, sizeof f->count};
    pieces[1] = (mr_state_piece){f->parameters, bytes};
    pieces[2] = (mr_state_piece){f->best, bytes};
    pieces[3] = (mr_state_piece){f->adam.mean, bytes};
    pieces[4] = (mr_state_piece){f->adam.square, bytes};
}

static int write_state(perceptron_fit *f) {
    mr_state_piece pieces[PIECES];
    f->count.adam_step = f->adam.step;
    list_pieces(f, pieces);
    return mr_state_write(f->training, pieces, PIECES);
}

static void finish_state(perceptron_fit *f) {
    mr_state_piece pieces[PIECES];
    f->count.adam_step = f->adam.step;
    list_pieces(f, pieces);
    mr_state_finish(f->training, pieces, PIECES);
}

static int read_state(perceptron_fit *f) {
    mr_state_piece pieces[PIECES];
    bool found;
    list_pieces(f, pieces);
    int status = mr_state_read(f->training, pieces, PIECES, &found);
    f->adam.step = f->count.adam_step;
    return status;
}

/* ---- one epoch --------------------------------------------------------------------------------------------------- */

/* The order depends only on the seed and the epoch number (Fisher and Yates). */
static void shuffle(perceptron_fit *f) {
    uint64_t draw = f->training->params.seed ^ (f->count.epoch * 0xd1342543de82ef95u);
    memcpy(f->order, f->training->train, f->training->train_count * sizeof *f->order);
    for (size_t i = f->training->train_count; i > 1; i--) {
        size_t at = mr_draw_below(&draw, i);
        uint32_t held = f->order[i - 1];
        f->order[i - 1] = f->order[at];
        f->order[at] = held;
    }
}

static double weight_of(const perceptron_fit *f, size_t first_chunk, size_t chunks) {
    const size_t first = first_chunk * MR_FIT_CHUNK, end = (first_chunk + chunks) * MR_FIT_CHUNK;
    double total = 0.0;
    for (size_t at = first; at < end && at < f->rows.count; at++)
        total += mr_fit_row_weight(&f->rows, f->order[at]);
    return total;
}

/* Adds the penalty for weights (not biases) to the gradient, and returns it. */
static double add_penalty(const perceptron_fit *f, double *gradient) {
    const double strength = 1.0 / (f->c * f->training->total);
    double squares = 0.0;
    size_t at = 0, inputs = f->rows.width;
    for (size_t l = 0; l < f->net.layers; l++) {
        for (size_t i = 0; i < f->net.units[l] * inputs; i++, at++) {
            gradient[at] += strength * f->parameters[at];
            squares += f->parameters[at] * f->parameters[at];
        }
        at += f->net.units[l];
        inputs = f->net.units[l];
    }
    return 0.5 * strength * squares;
}

static double run_minibatch(perceptron_fit *f, size_t first, size_t chunks) {
    const double total = weight_of(f, first, chunks);
    const mr_fit_task task = mr_perceptron_task(&f->point, chunks);
    f->point.first = first;
    mr_perceptron_point_set(&f->point, f->parameters);
    mr_fit_workers_sum(f->workers, &task, f->nodes);
    for (size_t i = 0; i < f->length; i++)
        f->nodes[i] /= total;
    const double loss = f->nodes[f->length] / total, penalty = add_penalty(f, f->nodes);
    mr_adam_step(&f->adam, f->training->params.rate, f->nodes, f->parameters);
    return total * (loss + penalty);
}

/* Returns the mean objective over minibatches, each measured before its step. */
static double run_epoch(perceptron_fit *f) {
    const size_t chunks = mr_fit_chunks(f->rows.count), most = f->training->params.minibatch / MR_FIT_CHUNK;
    double sum = 0.0;
    shuffle(f);
    for (size_t first = 0; first < chunks; first += most)
        sum += run_minibatch(f, first, chunks - first < most ? chunks - first : most);
    return sum / f->training->total;
}

/* ---- validation -------------------------------------------------------------------------------------------------- */

static void judge_chunk(void *context, size_t chunk, void *scratch, double *sum) {
    const perceptron_fit *f = context;
    const size_t classes = f->training->given.class_count, rows = mr_fit_rows_of(&f->validation, chunk);
    double *logits = scratch;
    void *rest = (char *)scratch + mr_aligned_bytes(MR_FIT_CHUNK * classes * sizeof *logits);
    mr_perceptron_logits(&f->judged_point, chunk, rest, logits);
    *sum = 0.0;
    for (size_t i = 0; i < rows; i++)
        *sum += mr_fit_softmax(logits + i * classes, classes,
                               (size_t)f->validation.classes[f->validation.order[chunk * MR_FIT_CHUNK + i]]);
}

static mr_fit_task judging(perceptron_fit *f) {
    const size_t classes = f->training->given.class_count;
    return (mr_fit_task){.chunks = mr_fit_chunks(f->validation.count), .length = 1, .make = judge_chunk, .context = f,
                         .scratch_bytes = mr_aligned_bytes(MR_FIT_CHUNK * classes * sizeof(double)) +
                                          mr_perceptron_task(&f->judged_point, 1).scratch_bytes};
}

static double validate(perceptron_fit *f) {
    double nodes[MR_FIT_BLOCKS];
    const mr_fit_task task = judging(f);
    if (!f->validation.count)
        return (double)NAN;
    mr_perceptron_point_set(&f->judged_point, f->parameters);
    mr_fit_workers_sum(f->workers, &task, nodes);
    return nodes[0] / (double)f->validation.count;
}

/* ---- the fit ----------------------------------------------------------------------------------------------------- */

static void keep_best(perceptron_fit *f, double objective, double loss) {
    const bool better = loss < f->count.best_loss || isnan(f->count.best_loss);
    if (f->validation.count && f->count.best_epoch && !better)
        return;
    memcpy(f->best, f->parameters, f->length * sizeof *f->best);
    f->count.best_epoch = f->count.epoch;
    f->count.best_loss = loss;
    f->count.best_objective = objective;
}

static bool is_out_of_patience(const perceptron_fit *f) {
    return f->validation.count && f->count.epoch - f->count.best_epoch >= (uint64_t)f->training->params.patience;
}

static int fit_epochs(perceptron_fit *f) {
    mr_fitting *t = f->training;
    int status = read_state(f);
    while (!status && f->count.epoch < (uint64_t)t->params.steps && !is_out_of_patience(f)) {
        const double objective = run_epoch(f), loss = validate(f);
        f->count.epoch++;
        if (!isfinite(objective))
            return mr_fail(MR_ERROR_DATA, "the fit ran away in epoch %d: take a smaller rate than %g",
                           (int)f->count.epoch, t->params.rate);
        keep_best(f, objective, loss);
        status = mr_training_report(t, &(mr_fit_progress){.penalties = 1, .c = f->c, .step = (int)f->count.epoch,
                                                          .objective = objective, .validation = loss});
        if (status == MR_ERROR_CANCELLED || (!status && mr_state_is_due(t))) {
            int written = write_state(f);
            status = written ? written : status;
        }
    }
    if (!status)
        finish_state(f);
    return status;
}

/* Folds the scaler into the first layer. */
static int fold(perceptron_fit *f) {
    mr_fitting *t = f->training;
    mr_trained *trained = &t->made->trained;
    double *parameters = f->best;
    size_t inputs = t->given.width;
    int status = MR_OK;
    if (t->factor)
        mr_fit_fold(parameters, f->net.units[0], inputs, t->mean, t->factor);
    for (size_t l = 0; l < f->net.layers && !status; l++) {
        status = mr_train_layer(&trained->layer[l], parameters, f->net.units[l], inputs, 1.0);
        parameters += f->net.units[l] * (inputs + 1);
        inputs = f->net.units[l];
    }
    return status;
}

static void fill_card(perceptron_fit *f) {
    mr_classifier_card *card = &f->training->made->card;
    bool better;
    mr_train_tried(f->training, (mr_fit_tried){.c = f->c, .objective = f->count.best_objective,
                                               .validation = f->count.best_loss, .steps = (int)f->count.best_epoch,
                                               .end = is_out_of_patience(f) ? "patience" : "steps"}, &better);
    card->layer_count = f->net.layers;
    card->units = f->units;
    f->training->made->trained.layers = f->net.layers;
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

static void shape(perceptron_fit *f) {
    mr_fitting *t = f->training;
    f->rows = mr_training_rows(t, false);
    f->validation = mr_training_rows(t, true);
    f->net.rows = &f->rows;
    f->net.doubles = t->params.doubles;
    for (size_t l = 0; l < t->params.hidden_count; l++)
        f->net.units[l] = t->params.hidden[l];
    f->net.units[t->params.hidden_count] = t->given.class_count;
    f->net.layers = t->params.hidden_count + 1;
    f->judged = f->net;
    f->judged.rows = &f->validation;
    f->point.perceptron = &f->net;
    f->judged_point.perceptron = &f->judged;
    f->length = f->adam.length = mr_perceptron_parameters(&f->net);
    f->c = t->params.penalties[0];
    f->count.best_loss = (double)NAN;
}

static int take_memory(perceptron_fit *f, size_t chunks) {
    mr_fitting *t = f->training;
    /* The last minibatch can have fewer chunks, but more blocks: 65 chunks make 33 blocks, and 64 make 64. */
    const size_t blocks = chunks < MR_FIT_BLOCKS ? chunks : MR_FIT_BLOCKS;
    double **const vectors[] = {&f->parameters, &f->best, &f->adam.mean, &f->adam.square};
    bool got = true;
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++)
        got = (*vectors[i] = mr_calloc(f->length, sizeof(double))) && got;
    f->nodes = mr_alloc(blocks * (f->length + 1) * sizeof *f->nodes);
    f->weights = mr_alloc_aligned(64, mr_aligned_bytes(f->length * sizeof(double)));
    f->order = mr_alloc(t->train_count * sizeof *f->order);
    f->units = mr_arena_array(&t->made->arena, f->net.layers, sizeof *f->units);
    t->made->card.tried = mr_arena_array(&t->made->arena, 1, sizeof *t->made->card.tried);
    if (!got || !f->nodes || !f->weights || !f->order || !f->units || !t->made->card.tried)
        return mr_fail(MR_ERROR_MEMORY, "no memory to fit %zu weights", f->length);
    f->rows.order = f->order;
    f->point.weights = f->judged_point.weights = f->weights;
    memcpy(f->units, f->net.units, f->net.layers * sizeof *f->units);
    return MR_OK;
}

static int begin(perceptron_fit *f) {
    mr_fitting *t = f->training;
    shape(f);
    size_t chunks = t->params.minibatch / MR_FIT_CHUNK;
    chunks = chunks < mr_fit_chunks(t->train_count) ? chunks : mr_fit_chunks(t->train_count);
    const mr_fit_task step = mr_perceptron_task(&f->point, chunks), judge = judging(f);
    const mr_fit_task most = mr_train_larger(&step, &judge);
    if (t->params.penalty_count > 1)
        return mr_fail(MR_ERROR_USAGE, "a perceptron takes one penalty, not %zu", t->params.penalty_count);
    const int status = take_memory(f, chunks);
    if (!status)
        mr_perceptron_draw(&f->net, t->params.seed, f->parameters);
    return status ? status : mr_fit_workers_create(&f->workers, &most, t->params.threads);
}

static void end(perceptron_fit *f) {
    mr_fit_workers_destroy(&f->workers);
    mr_free(f->parameters);
    mr_free(f->best);
    mr_free(f->adam.mean);
    mr_free(f->adam.square);
    mr_free(f->nodes);
    mr_free(f->weights);
    mr_free(f->order);
    mr_free(f);
}

int mr_train_perceptron(mr_fitting *training) {
    perceptron_fit *f = mr_calloc(1, sizeof *f);
    if (!f)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a fit");
    f->training = training;
    int status = begin(f);
    if (!status)
        status = fit_epochs(f);
    if (!status) {
        fill_card(f);
        status = fold(f);
    }
    end(f);
    return status;
}

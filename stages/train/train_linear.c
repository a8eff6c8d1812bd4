/* Linear classifiers: L-BFGS for each penalty, strongest first, each starting from the previous result. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "kernels/fit/fit_linear.h"
#include "kernels/fit/lbfgs.h"
#include "millrace/status.h"
#include "stages/train/train_kinds.h"
#include "stages/train/train_loss.h"
#include "stages/train/train_state.h"

/* The state's header; vectors follow. */
typedef struct counters {
    uint64_t penalty;
    struct {
        double c, objective, validation;
        int64_t steps, end;
    } tried[64];
    double temperature; /* best one's so far */
} counters;

typedef struct linear_fit {
    mr_fitting *training;
    mr_fit_rows rows;
    mr_fit_linear linear;
    mr_fit_point point;
    mr_fit_task task;
    mr_fit_workers *workers;
    mr_lbfgs search;
    mr_trained trial;     /* classifier for the current penalty, as it will be used */
    counters count;
    size_t length;        /* parameters */
    double *nodes, *best, *folded;
    uint8_t *search_state;
    double penalties[64]; /* ascending */
    double c;
} linear_fit;

static const char *end_name(int64_t end) {
    static const char *const names[] = {"", "gradient", "progress", "precision", "steps"};
    return end >= 0 && end <= MR_LBFGS_STEPS ? names[end] : "";
}

static int evaluate(void *user, const double *x, double *value, double *gradient) {
    linear_fit *f = user;
    mr_fit_point_set(&f->point, x);
    mr_fit_workers_sum(f->workers, &f->task, f->nodes);
    *value = mr_fit_objective(&f->linear, x, f->nodes, f->training->total, f->c, gradient);
    return MR_OK;
}

/* With weak penalties, separable rows have a small minimum surrounded by small gradients. */
static mr_lbfgs_params search_params(linear_fit *f) {
    const double small_objective = 0.01;
    const mr_fit_params *p = &f->training->params;
    return (mr_lbfgs_params){.length = f->length, .evaluate = evaluate, .user = f, .gradient = p->gradient,
                             .small = small_objective, .progress = p->doubles ? 1e-13 : 1e-8, .steps = p->steps};
}

/* ---- the state --------------------------------------------------------------------------------------------------- */

enum { PIECES = 3 };

static void list_pieces(linear_fit *f, mr_state_piece pieces[PIECES]) {
    pieces[0] = (mr_state_piece){&f->count, sizeof f->count};
    pieces[1] = (mr_state_piece){f->best, f->length * sizeof *f->best};
    pieces[2] = (mr_state_piece){f->search_state, mr_lbfgs_state_bytes(f->length)};
}

static int write_state(linear_fit *f) {
    mr_state_piece pieces[PIECES];
    if (!f->training->params.state)
        return MR_OK;
    mr_lbfgs_save(&f->search, f->search_state);
    list_pieces(f, pieces);
    return mr_state_write(f->training, pieces, PIECES);
}

/* After all penalties, the state holds the last search, which need not be read again. */
static void finish_state(linear_fit *f) {
    mr_state_piece pieces[PIECES];
    if (!f->training->params.state || !f->search.x)
        return;
    mr_lbfgs_save(&f->search, f->search_state);
    list_pieces(f, pieces);
    mr_state_finish(f->training, pieces, PIECES);
}

static void note(linear_fit *f, size_t penalty, bool *better) {
    mr_train_tried(f->training, (mr_fit_tried){.c = f->count.tried[penalty].c,
                                               .objective = f->count.tried[penalty].objective,
                                               .validation = f->count.tried[penalty].validation,
                                               .steps = (int)f->count.tried[penalty].steps,
                                               .end = end_name(f->count.tried[penalty].end)}, better);
}

static int warn_of_steps(linear_fit *f, size_t penalty) {
    if (f->count.tried[penalty].end != MR_LBFGS_STEPS)
        return MR_OK;
    return mr_training_warn(f->training, "the fit of penalty C = %g ended after %d steps, before it had converged",
                            f->count.tried[penalty].c, (int)f->count.tried[penalty].steps);
}

/* Continues the fit from its state file; *found: there was one. */
static int read_state(linear_fit *f, bool *found) {
    mr_state_piece pieces[PIECES];
    bool better;
    list_pieces(f, pieces);
    int status = mr_state_read(f->training, pieces, PIECES, found);
    if (status || !*found)
        return status;
    const size_t penalties = f->training->params.penalty_count;
    bool whole = f->count.penalty <= penalties;
    for (size_t i = 0; i < f->count.penalty && whole && !status; i++) {
        note(f, i, &better);
        status = warn_of_steps(f, i);
    }
    const bool going = whole && f->count.penalty < penalties;
    const mr_lbfgs_params params = search_params(f);
    f->c = going ? f->penalties[f->count.penalty] : 0.0;
    if (going && !status)
        status = mr_lbfgs_load(&f->search, &params, f->search_state);
    if (!whole || status == MR_ERROR_DATA)
        return mr_fail(MR_ERROR_DATA, "%s is damaged: remove it to begin anew", f->training->params.state);
    return status;
}

/* ---- one penalty ------------------------------------------------------------------------------------------------- */

static int report(linear_fit *f) {
    double most = 0.0;
    for (size_t i = 0; i < f->length; i++)
        most = fmax(most, fabs(f->search.gradient[i]));
    return mr_training_report(f->training, &(mr_fit_progress){.penalty = f->count.penalty, .c = f->c,
                                                              .penalties = f->training->params.penalty_count,
                                                              .step = f->search.step, .objective = f->search.value,
                                                              .gradient = most, .validation = (double)NAN});
}

/* Saves the state occasionally, and when the fit is cancelled. */
static int search_on(linear_fit *f) {
    int status = MR_OK;
    while (!status && !f->search.end) {
        status = mr_lbfgs_step(&f->search);
        if (!status)
            status = report(f);
        if (status == MR_ERROR_CANCELLED) {
            int written = write_state(f);
            return written ? written : status;
        }
        if (!status && mr_state_is_due(f->training))
            status = write_state(f);
    }
    return status;
}

/* Folds the scaler into the classifier and divides it by the temperature. */
static int fold(linear_fit *f, const double *parameters, double divisor, mr_trained *to) {
    const size_t width = f->rows.width, classes = f->linear.outputs;
    memcpy(f->folded, parameters, f->length * sizeof *f->folded);
    if (f->training->factor)
        mr_fit_fold(f->folded, classes, width, f->training->mean, f->training->factor);
    mr_npy_free(&to->layer[0]);
    return mr_train_layer(&to->layer[0], f->folded, classes, width, divisor);
}

/* Judges the penalty by the log loss on the validation rows; for machines, at the best temperature. */
static int judge(linear_fit *f, double *temperature, double *loss) {
    *temperature = 1.0;
    int status = fold(f, f->search.x, 1.0, &f->trial);
    if (!status && f->linear.loss == MR_FIT_SQUARED_HINGE)
        status = mr_train_temperature(f->training, &f->trial, temperature);
    if (!status && *temperature != 1.0)
        status = fold(f, f->search.x, *temperature, &f->trial);
    *loss = status ? (double)NAN : mr_train_log_loss(f->training, &f->trial, f->workers);
    return status;
}

static int finish_penalty(linear_fit *f) {
    const size_t at = f->count.penalty;
    double temperature, loss;
    bool better = false;
    int status = judge(f, &temperature, &loss);
    if (status)
        return status;
    f->count.tried[at].c = f->c;
    f->count.tried[at].objective = f->search.value;
    f->count.tried[at].validation = loss;
    f->count.tried[at].steps = f->search.step;
    f->count.tried[at].end = f->search.end;
    note(f, at, &better);
    if (better) {
        memcpy(f->best, f->search.x, f->length * sizeof *f->best);
        f->count.temperature = temperature;
    }
    f->count.penalty++;
    return warn_of_steps(f, at);
}

/* A search that starts so would end immediately and report the zeros as converged. */
static int check_start(const linear_fit *f) {
    bool finite = isfinite(f->search.value);
    for (size_t i = 0; i < f->length && finite; i++)
        finite = isfinite(f->search.gradient[i]);
    return finite ? MR_OK
                  : mr_fail(MR_ERROR_DATA, "the features are so large that sums of them are not finite: let them be "
                                           "standardised");
}

static int begin_penalty(linear_fit *f, double *start) {
    f->c = f->penalties[f->count.penalty];
    memset(start, 0, f->length * sizeof *start);
    if (f->search.x)
        memcpy(start, f->search.x, f->length * sizeof *start);
    mr_lbfgs_fini(&f->search);
    const mr_lbfgs_params params = search_params(f);
    int status = mr_lbfgs_init(&f->search, &params, start);
    return status ? status : check_start(f);
}

static int fit_path(linear_fit *f) {
    bool going = false;
    int status = read_state(f, &going);
    while (!status && f->count.penalty < f->training->params.penalty_count) {
        if (!going)
            status = begin_penalty(f, f->folded);
        going = false;
        if (!status)
            status = search_on(f);
        if (!status)
            status = finish_penalty(f);
    }
    if (!status)
        finish_state(f);
    return status;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    const double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static int take_memory(linear_fit *f) {
    mr_fitting *t = f->training;
    const size_t vectors = f->length * sizeof(double);
    mr_fit_tried *tried = mr_arena_array(&t->made->arena, t->params.penalty_count, sizeof *tried);
    t->made->card.tried = tried;
    f->point.weights = mr_alloc_aligned(64, mr_aligned_bytes(vectors));
    f->nodes = mr_alloc(mr_fit_block_count(f->task.chunks) * f->task.length * sizeof *f->nodes);
    f->best = mr_calloc(f->length, sizeof *f->best);
    f->folded = mr_alloc(vectors);
    f->search_state = mr_alloc(t->params.state ? mr_lbfgs_state_bytes(f->length) : 1);
    return tried && f->point.weights && f->nodes && f->best && f->folded && f->search_state
               ? MR_OK
               : mr_fail(MR_ERROR_MEMORY, "no memory to fit %zu weights", f->length);
}

static int begin(linear_fit *f) {
    mr_fitting *t = f->training;
    f->trial = t->made->trained;
    f->rows = mr_training_rows(t, false);
    f->linear = (mr_fit_linear){.rows = &f->rows, .outputs = t->given.class_count, .doubles = t->params.doubles,
                                .loss = t->params.kind == MR_CLASSIFIER_LOGISTIC        ? MR_FIT_LOGISTIC
                                        : t->params.kind == MR_CLASSIFIER_SQUARED_HINGE ? MR_FIT_SQUARED_HINGE
                                                                                        : MR_FIT_SOFTMAX};
    f->point.linear = &f->linear;
    f->length = mr_fit_parameters(&f->linear);
    f->task = mr_fit_linear_task(&f->point);
    memcpy(f->penalties, t->params.penalties, t->params.penalty_count * sizeof *f->penalties);
    qsort(f->penalties, t->params.penalty_count, sizeof *f->penalties, by_value);
    const mr_fit_task loss = mr_train_loss_task(t, &f->trial), most = mr_train_larger(&f->task, &loss);
    const int status = take_memory(f);
    return status ? status : mr_fit_workers_create(&f->workers, &most, t->params.threads);
}

static void end(linear_fit *f) {
    mr_fit_workers_destroy(&f->workers);
    mr_lbfgs_fini(&f->search);
    mr_npy_free(&f->trial.layer[0]);
    mr_free(f->point.weights);
    mr_free(f->nodes);
    mr_free(f->best);
    mr_free(f->folded);
    mr_free(f->search_state);
    mr_free(f);
}

int mr_train_linear(mr_fitting *training) {
    linear_fit *f = mr_calloc(1, sizeof *f);
    if (!f)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a fit");
    f->training = training;
    int status = begin(f);
    if (!status)
        status = fit_path(f);
    if (!status)
        status = fold(f, f->best, f->count.temperature, &training->made->trained);
    end(f);
    return status;
}

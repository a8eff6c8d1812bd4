/* L-BFGS: minimises a smooth function of many variables.
 *
 * Nocedal and Wright, Numerical Optimization, 2nd edition: two loops over the last MR_LBFGS_PAIRS steps (algorithm
 * 7.4), a step length that satisfies the strong Wolfe conditions (3.5 and 3.6) with c1 = 1e-4 and c2 = 0.9. All in
 * double precision on the calling thread; inner products are summed in one fixed order, so the same values of the
 * function lead to the same bits everywhere.
 *
 * The state between two steps can be saved and restored (`mr_lbfgs` holds plain numbers), which changes no later bit.
 *
 * Ownership: a minimiser owns the vectors. One thread at a time. Errors: MR_ERROR_MEMORY, and those from `evaluate`. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { MR_LBFGS_PAIRS = 10 };

/* Writes the value and the gradient at `x` into *value and `gradient`. A status other than 0 ends the search. */
typedef int mr_lbfgs_function(void *user, const double *x, double *value, double *gradient);

typedef struct mr_lbfgs_params {
    size_t length; /* variables */
    mr_lbfgs_function *evaluate;
    void *user;
    double gradient; /* converged if no gradient component is larger */
    double small;    /* below this value the bound on the gradient shrinks with the value; 0: it does not */
    double progress; /* and once the value has fallen by less than this fraction in each of three steps; 0: not used */
    int steps;       /* at most */
} mr_lbfgs_params;

typedef enum mr_lbfgs_end {
    MR_LBFGS_RUNNING,
    MR_LBFGS_GRADIENT, /* the gradient is small enough */
    MR_LBFGS_PROGRESS, /* the value hardly falls any more */
    MR_LBFGS_PRECISION, /* no step length makes it smaller: rounding in the function prevents it */
    MR_LBFGS_STEPS      /* all allowed steps were made */
} mr_lbfgs_end;

typedef struct mr_lbfgs {
    mr_lbfgs_params params;
    double value;
    double *x, *gradient;
    mr_lbfgs_end end;
    int step, evaluations;
    int pairs, slow;                  /* steps remembered; steps in a row with little progress */
    double curvature[MR_LBFGS_PAIRS]; /* 1 / (gradient change . step), in a ring by step number */
    double *moved[MR_LBFGS_PAIRS], *turned[MR_LBFGS_PAIRS]; /* the steps and the gradient changes */
    double *direction, *next, *next_gradient;
    double *memory;
} mr_lbfgs;

/* Starts at `x`, which must have params->length numbers and is copied; evaluates once. */
int mr_lbfgs_init(mr_lbfgs *search, const mr_lbfgs_params *params, const double *x);
/* Accepts a zeroed one. */
void mr_lbfgs_fini(mr_lbfgs *search);
/* Makes one step; `end` says whether it was the last. Calls after the end change nothing. */
int mr_lbfgs_step(mr_lbfgs *search);

/* The state in bytes: the size, and both directions. A state to read must come from a search with the same length;
 * `params` must be given again. MR_ERROR_DATA if the counters cannot be a search's. */
size_t mr_lbfgs_state_bytes(size_t length);
void mr_lbfgs_save(const mr_lbfgs *search, void *state);
int mr_lbfgs_load(mr_lbfgs *search, const mr_lbfgs_params *params, const void *state);

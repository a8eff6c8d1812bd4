#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/bench/ops.h"

enum { LEAST_SAMPLES = 5, MOST_SAMPLES = 500, SIMULATED_SAMPLES = 9, MOST_CALLS = 1 << 20 };
/* A sample must be long enough that reading the clock and waiting for the last call are negligible. */
static const double sample_ns = 5e6;

const char *mr_ops_path_name(mr_operation_path path) {
    static const char *const names[MR_PATHS] = {"memory", "upload", "download"};
    return names[path];
}

const char *mr_ops_group_name(mr_operation_group group) {
    static const char *const names[MR_OPERATION_GROUPS] = {"ceiling", "kernel", "copy", "network", "codec"};
    return names[group];
}

/* ---- one operation ---------------------------------------------------------------------------------------------- */

static int run(mr_ops *ops, int calls, double *ns) {
    int64_t all_ns;
    int status = mr_operations_run(ops->operations, calls, &all_ns);
    if (!status)
        *ns = (double)all_ns / calls;
    return status;
}

/* The first calls load code and fill tables, and do not count. The second round finds the number of calls per sample
 * and raises clock rates. Simulated calls all take the same time. */
static int warm_up(mr_ops *ops, mr_ops_figure *figure) {
    double ns = 0;
    figure->calls = 1;
    int status = run(ops, 1, &ns);
    for (int round = 0; round < 2 && !status && !ops->view->simulated && ns < sample_ns; round++) {
        double calls = ns > 0 ? sample_ns / ns : MOST_CALLS;
        figure->calls = calls < 1 ? 1 : calls > MOST_CALLS ? MOST_CALLS : (int)calls;
        status = run(ops, figure->calls, &ns);
    }
    return status;
}

static int ascending(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static double quantile(const double *sorted, int count, double share) {
    double at = share * (count - 1);
    int below = (int)at;
    return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

static int sample(mr_ops *ops, mr_ops_figure *figure, double seconds) {
    double ns[MOST_SAMPLES];
    const int least = ops->view->simulated ? SIMULATED_SAMPLES : LEAST_SAMPLES;
    const int most = ops->view->simulated ? SIMULATED_SAMPLES : MOST_SAMPLES;
    const int64_t end_ns = mr_now_ns() + (int64_t)(seconds * 1e9);
    int count = 0, status = warm_up(ops, figure);
    while (!status && count < most && (count < least || mr_now_ns() < end_ns))
        status = run(ops, figure->calls, &ns[count++]);
    if (status)
        return status;
    qsort(ns, (size_t)count, sizeof ns[0], ascending);
    figure->samples = count;
    figure->best_ns = ns[0];
    figure->low_ns = quantile(ns, count, 0.25);
    figure->ns = quantile(ns, count, 0.5);
    figure->high_ns = quantile(ns, count, 0.75);
    return MR_OK;
}

/* An operation that cannot run here is left out; a device failure ends the benchmark. */
static int measure(mr_ops *ops, size_t index, double seconds) {
    mr_ops_figure *figure = &ops->figure[ops->count++];
    figure->operation = &ops->view->list[index];
    figure->bound = "";
    int status = mr_operations_prepare(ops->operations, index);
    if (!status)
        status = sample(ops, figure, seconds);
    if (!status || status == MR_ERROR_DEVICE || status == MR_ERROR_INTERNAL)
        return status;
    figure->left_out = mr_strdup(mr_message());
    return figure->left_out ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a message");
}

/* ---- ceilings and shares ---------------------------------------------------------------------------------------- */

/* A ceiling is the best sample. For memory it is the best operation, because reading, writing and both have different
 * rates. */
static void raise_ceilings(mr_ops_ceilings *ceilings, const mr_ops_figure *figure) {
    const mr_operation *operation = figure->operation;
    if (operation->group != MR_OPERATION_CEILING || figure->left_out || !(figure->best_ns > 0))
        return;
    double bytes_s = operation->bytes * 1e9 / figure->best_ns, flops_s = operation->flops * 1e9 / figure->best_ns;
    double *path = &ceilings->bytes_s[operation->path];
    if (operation->bytes > 0 && bytes_s > *path)
        *path = bytes_s;
    if (flops_s > ceilings->flops_s)
        ceilings->flops_s = flops_s;
    if (!(operation->bytes > 0) && !(operation->flops > 0))
        ceilings->launch_ns = figure->best_ns;
}

static void judge(const mr_ops_ceilings *ceilings, mr_ops_figure *figure) {
    const mr_operation *operation = figure->operation;
    double bandwidth = ceilings->bytes_s[operation->path];
    double moving_ns = bandwidth > 0 ? operation->bytes * 1e9 / bandwidth : 0;
    double computing_ns = ceilings->flops_s > 0 ? operation->flops * 1e9 / ceilings->flops_s : 0;
    double least_ns = moving_ns > computing_ns ? moving_ns : computing_ns;
    if (figure->left_out || !(least_ns > 0) || !(figure->ns > 0))
        return;
    figure->share = least_ns / figure->ns;
    /* Launching takes longer than the work, and dominates the measured time. */
    bool launch = ceilings->launch_ns > least_ns && figure->share < 0.5;
    figure->bound = launch ? "launch" : computing_ns > moving_ns ? "compute" : mr_ops_path_name(operation->path);
}

/* ---- a device --------------------------------------------------------------------------------------------------- */

static void show_progress(const mr_ops *ops, size_t index) {
    mr_print(stderr, "\r\033[Kbench ops: %s, %zu of %zu: %s", ops->view->device, index + 1, ops->view->count,
             ops->view->list[index].name);
    fflush(stderr);
}

static int measure_all(mr_ops *ops, const mr_ops_params *params) {
    int status = MR_OK;
    for (size_t i = 0; i < ops->view->count && !status; i++) {
        const mr_operation *operation = &ops->view->list[i];
        bool named = !params->only || fnmatch(params->only, operation->name, 0) == 0;
        ops->matching += named;
        if (!named && operation->group != MR_OPERATION_CEILING)
            continue;
        if (params->progress)
            show_progress(ops, i);
        status = measure(ops, i, params->seconds);
        if (!status)
            raise_ceilings(&ops->ceilings, &ops->figure[ops->count - 1]);
    }
    if (params->progress)
        fputs("\r\033[K", stderr);
    return status;
}

int mr_ops_measure(mr_ops *ops, const char *device, const mr_ops_params *params) {
    *ops = (mr_ops){0};
    const mr_operations_params opened = {.device = device, .models = params->models};
    int status = mr_operations_open(&ops->operations, &opened);
    if (status)
        return status;
    ops->view = mr_operations_look(ops->operations);
    ops->figure = mr_calloc(ops->view->count, sizeof *ops->figure);
    if (!ops->figure)
        return mr_fail(MR_ERROR_MEMORY, "no memory for figures");
    ops->before = *mr_operations_read_clocks(ops->operations);
    status = measure_all(ops, params);
    if (status)
        return status;
    ops->after = *mr_operations_read_clocks(ops->operations);
    for (size_t i = 0; i < ops->count; i++)
        judge(&ops->ceilings, &ops->figure[i]);
    return MR_OK;
}

void mr_ops_fini(mr_ops *ops) {
    for (size_t i = 0; i < ops->count; i++)
        mr_free(ops->figure[i].left_out);
    mr_free(ops->figure);
    mr_operations_close(&ops->operations);
    *ops = (mr_ops){0};
}

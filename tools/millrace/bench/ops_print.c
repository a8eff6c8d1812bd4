#include <stdio.h>

#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/bench/ops.h"
#include "tools/millrace/cli/table.h"

/* "1.23 ms": three digits, in the largest unit that gives at least 1. */
static const char *print_time(double ns, char *text, size_t room) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t unit = 0;
    for (; ns >= 999.5 && unit < 3; unit++)
        ns /= 1000;
    snprintf(text, room, "%.*f %s", ns < 9.995 ? 2 : ns < 99.95 ? 1 : 0, ns, units[unit]);
    return text;
}

/* Three digits. "-": there is none. */
static const char *print_number(double value, char *text, size_t room) {
    if (!(value > 0))
        snprintf(text, room, "-");
    else if (value < 0.01)
        snprintf(text, room, "%.1e", value);
    else
        snprintf(text, room, "%.*f", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value);
    return text;
}

static void print_clock(const char *name, double before, double after) {
    if (before > 0 || after > 0)
        printf("  %s clock %.0f MHz before, %.0f MHz after\n", name, before, after);
}

static void print_head(const mr_ops *ops) {
    const mr_ops_ceilings *c = &ops->ceilings;
    char number[32];
    mr_print(stdout, "bench ops: %s%s%s%s\n", ops->view->device, *ops->view->model ? ", " : "", ops->view->model,
             ops->view->simulated ? " (simulated)" : "");
    print_clock("core", ops->before.core_mhz, ops->after.core_mhz);
    print_clock("memory", ops->before.memory_mhz, ops->after.memory_mhz);
    printf("  memory %s GB/s", print_number(c->bytes_s[MR_PATH_MEMORY] * 1e-9, number, sizeof number));
    if (c->bytes_s[MR_PATH_UPLOAD] > 0)
        printf(", upload %s GB/s", print_number(c->bytes_s[MR_PATH_UPLOAD] * 1e-9, number, sizeof number));
    if (c->bytes_s[MR_PATH_DOWNLOAD] > 0)
        printf(", download %s GB/s", print_number(c->bytes_s[MR_PATH_DOWNLOAD] * 1e-9, number, sizeof number));
    printf("\n  compute %s Gflop/s", print_number(c->flops_s * 1e-9, number, sizeof number));
    printf(", launch %s\n\n", print_time(c->launch_ns, number, sizeof number));
}

static void add_row(mr_table *table, const mr_ops_figure *figure) {
    const mr_operation *operation = figure->operation;
    char text[32];
    mr_table_add(table, "%s\t%s", operation->name, print_time(figure->ns, text, sizeof text));
    if (figure->ns > 0)
        mr_table_add(table, "%.1f%%", 100 * (figure->high_ns - figure->low_ns) / figure->ns);
    else
        mr_table_add(table, "-"); /* a simulated launch may take no time */
    mr_table_add(table, "%s", print_number(operation->bytes / figure->ns, text, sizeof text));
    mr_table_add(table, "%s", operation->flops > 0 ? print_number(operation->flops / figure->ns, text, sizeof text)
                                                   : "-");
    mr_table_add(table, "%s", *figure->bound ? figure->bound : "-");
    if (figure->share > 0)
        mr_table_add(table, "%.*f%%", figure->share < 0.0995 ? 1 : 0, 100 * figure->share);
    else
        mr_table_add(table, "-");
}

int mr_ops_print(const mr_ops *ops) {
    static const mr_column columns[] = {
        {"operation", .cut = MR_CUT_MIDDLE}, {"median", .right = true},   {"spread", .right = true},
        {"GB/s", .right = true},             {"Gflop/s", .right = true},  {"bound by", .cut = MR_CUT_NEVER},
        {"share", .right = true},            {0},
    };
    const int width = mr_terminal_width(stdout);
    mr_table table = {.columns = columns};
    print_head(ops);
    for (size_t i = 0; i < ops->count; i++)
        if (!ops->figure[i].left_out)
            add_row(&table, &ops->figure[i]);
    int status = mr_table_print(&table, width, stdout);
    for (size_t i = 0; i < ops->count; i++)
        if (ops->figure[i].left_out)
            mr_print_wrapped(width, stdout, "left out: %s: %s", ops->figure[i].operation->name,
                             ops->figure[i].left_out);
    return status;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

static void put_figure(yajl_gen json, const mr_ops_figure *figure) {
    const mr_operation *operation = figure->operation;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", operation->name);
        mr_json_text(json, "group", mr_ops_group_name(operation->group));
        mr_json_text(json, "function", operation->function);
        mr_json_text(json, "works_on", operation->works_on);
        mr_json_text(json, "path", mr_ops_path_name(operation->path));
        mr_json_number(json, "bytes", operation->bytes);
        mr_json_number(json, "flops", operation->flops);
        if (figure->left_out) {
            mr_json_text(json, "left_out", figure->left_out);
        } else {
            mr_json_integer(json, "samples", figure->samples);
            mr_json_integer(json, "calls", figure->calls);
            mr_json_number(json, "median_ns", figure->ns);
            mr_json_number(json, "low_ns", figure->low_ns);
            mr_json_number(json, "high_ns", figure->high_ns);
            mr_json_number(json, "best_ns", figure->best_ns);
            mr_json_number(json, "bytes_s", operation->bytes * 1e9 / figure->ns);
            mr_json_number(json, "flops_s", operation->flops * 1e9 / figure->ns);
            mr_json_text(json, "bound", *figure->bound ? figure->bound : NULL);
            mr_json_known(json, "share", figure->share);
        }
    }
}

static void put_clocks(yajl_gen json, const char *key, const mr_operations_clocks *clocks) {
    MR_JSON_MAP(json, key) {
        mr_json_known(json, "core_mhz", clocks->core_mhz);
        mr_json_known(json, "memory_mhz", clocks->memory_mhz);
    }
}

void mr_ops_put_json(yajl_gen json, const mr_ops *ops) {
    const mr_ops_ceilings *c = &ops->ceilings;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "device", ops->view->device);
        mr_json_text(json, "model", *ops->view->model ? ops->view->model : NULL);
        mr_json_bool(json, "simulated", ops->view->simulated);
        MR_JSON_MAP(json, "clocks") {
            put_clocks(json, "before", &ops->before);
            put_clocks(json, "after", &ops->after);
        }
        MR_JSON_MAP(json, "ceilings") {
            mr_json_known(json, "memory_bytes_s", c->bytes_s[MR_PATH_MEMORY]);
            mr_json_known(json, "upload_bytes_s", c->bytes_s[MR_PATH_UPLOAD]);
            mr_json_known(json, "download_bytes_s", c->bytes_s[MR_PATH_DOWNLOAD]);
            mr_json_known(json, "flops_s", c->flops_s);
            mr_json_known(json, "launch_ns", c->launch_ns);
        }
        MR_JSON_ARRAY(json, "operations")
            for (size_t i = 0; i < ops->count; i++)
                put_figure(json, &ops->figure[i]);
    }
}

/* The roofline of a device as SVG (Williams, Waterman and Patterson, "Roofline", CACM 2009): arithmetic in a second
 * over arithmetic for each byte, both logarithmic. A slope is the rate of memory or of a link, a level line that of
 * arithmetic; each operation is a mark with a number, whose shape tells its group, and the list beside the chart has
 * the names. If an operation has no arithmetic it has no place in the chart, and ceilings are its lines: they are in
 * the list alone. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/print.h"
#include "millrace/status.h"
#include "tools/millrace/bench/ops.h"

enum {
    LEFT = 70, TOP = 56, CHART_WIDTH = 620, CHART_HEIGHT = 440, BOTTOM = 60, LIST = LEFT + CHART_WIDTH + 24,
    LIST_WIDTH = 400, LINE = 15, FONT = 11, WIDTH = LIST + LIST_WIDTH
};

static const char look[] =
    "  <style>\n"
    "    svg { background: #ffffff; color: #1b1f24; font-family: ui-monospace, Menlo, Consolas, monospace; "
    "font-size: 11px; }\n"
    "    text { fill: currentColor; }\n"
    "    .page { fill: #ffffff; }\n"
    "    .title { font-size: 14px; }\n"
    "    .grid { stroke: #d5dae0; }\n"
    "    .frame { fill: none; stroke: currentColor; }\n"
    "    .roof { fill: none; stroke: currentColor; stroke-width: 2; }\n"
    "    .upload { stroke-dasharray: 9 4; }\n"
    "    .download { stroke-dasharray: 2 4; }\n"
    "    .mark { fill: #ffffff; stroke: currentColor; stroke-width: 1.4; }\n"
    "    .halo { stroke: #ffffff; stroke-width: 3; paint-order: stroke; }\n"
    "    @media (prefers-color-scheme: dark) {\n"
    "      svg { background: #15191e; color: #e4e8ed; }\n"
    "      .page, .mark { fill: #15191e; }\n"
    "      .grid { stroke: #333c47; }\n"
    "      .halo { stroke: #15191e; }\n"
    "    }\n"
    "  </style>\n";

/* Powers of ten at the edges of the chart: flop/byte, and flop/s. */
typedef struct chart {
    FILE *to;
    const mr_ops *ops;
    int top; /* of the chart, px */
    int left_power, right_power, low_power, high_power;
} chart;

static double place_x(const chart *c, double intensity) {
    return LEFT + CHART_WIDTH * (log10(intensity) - c->left_power) / (c->right_power - c->left_power);
}

static double place_y(const chart *c, double flops_s) {
    double share = (log10(flops_s) - c->low_power) / (c->high_power - c->low_power);
    return c->top + CHART_HEIGHT * (1 - share);
}

static bool has_place(const mr_ops_figure *figure) {
    const mr_operation *operation = figure->operation;
    bool ceiling = operation->group == MR_OPERATION_CEILING;
    return !figure->left_out && !ceiling && operation->bytes > 0 && operation->flops > 0 && figure->ns > 0;
}

static double intensity_of(const mr_ops_figure *figure) {
    return figure->operation->flops / figure->operation->bytes;
}

static double rate_of(const mr_ops_figure *figure) {
    return figure->operation->flops * 1e9 / figure->ns;
}

/* All marks, and the ridge, where memory and arithmetic bind alike. */
static void choose_edges(chart *c) {
    const mr_ops_ceilings *ceilings = &c->ops->ceilings;
    double top = ceilings->integers_s > 0 ? ceilings->integers_s : 1;
    double ridge = ceilings->bytes_s[MR_PATH_MEMORY] > 0 ? top / ceilings->bytes_s[MR_PATH_MEMORY] : 1;
    double left = ridge, right = 2 * ridge, high = top, low = top / 10;
    for (size_t i = 0; i < c->ops->count; i++) {
        const mr_ops_figure *figure = &c->ops->figure[i];
        if (!has_place(figure))
            continue;
        left = fmin(left, intensity_of(figure));
        right = fmax(right, intensity_of(figure));
        low = fmin(low, rate_of(figure));
        high = fmax(high, rate_of(figure));
    }
    c->left_power = (int)floor(log10(left));
    c->right_power = (int)ceil(log10(right) + 1e-9);
    c->low_power = (int)floor(log10(low));
    c->high_power = (int)ceil(log10(high) + 0.1);
}

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static void put_escaped(FILE *to, const char *text) {
    for (; *text; text++)
        if (*text == '&' || *text == '<' || *text == '>' || *text == '"')
            fprintf(to, "&#%d;", *text);
        else
            fputc(*text, to);
}

static void put_text(FILE *to, double x, double y, const char *attributes, const char *text) {
    char *shown = mr_print_new("%s", text);
    fprintf(to, "  <text x=\"%.1f\" y=\"%.1f\"%s>", x, y, attributes);
    put_escaped(to, shown ? shown : "");
    fputs("</text>\n", to);
    free(shown);
}

/* "10 Gflop/s" of 1e10. */
static void put_power(const chart *c, double x, double y, const char *attributes, int power, const char *unit) {
    static const char *const prefixes[] = {"", "k", "M", "G", "T", "P"};
    char text[48];
    int prefix = power < 0 ? 0 : power / 3 > 5 ? 5 : power / 3;
    snprintf(text, sizeof text, "%g %s%s", pow(10, power - 3 * prefix), prefixes[prefix], unit);
    put_text(c->to, x, y, attributes, text);
}

/* ---- the chart -------------------------------------------------------------------------------------------------- */

static void put_line(const chart *c, const char *class, double x1, double y1, double x2, double y2) {
    fprintf(c->to, "  <line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", class, x1, y1, x2, y2);
}

static void put_grid(const chart *c) {
    char text[32];
    const double bottom = c->top + CHART_HEIGHT;
    for (int power = c->left_power; power <= c->right_power; power++) {
        double x = place_x(c, pow(10, power));
        put_line(c, "grid", x, c->top, x, bottom);
        snprintf(text, sizeof text, "%g", pow(10, power));
        put_text(c->to, x, bottom + 16, " text-anchor=\"middle\"", text);
    }
    for (int power = c->low_power; power <= c->high_power; power++) {
        double y = place_y(c, pow(10, power));
        put_line(c, "grid", LEFT, y, LEFT + CHART_WIDTH, y);
        put_power(c, LEFT - 6, y + 4, " text-anchor=\"end\"", power, "");
    }
    fprintf(c->to, "  <rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT, c->top,
            CHART_WIDTH, CHART_HEIGHT);
    put_text(c->to, LEFT + CHART_WIDTH / 2.0, bottom + 36, " text-anchor=\"middle\"",
             "arithmetic for each byte that has to move (flop/B)");
    put_text(c->to, LEFT, c->top - 8, "", "arithmetic in a second (flop/s)");
}

/* A slope from where it enters the chart to the level line, or to the chart's edge. */
static void put_slope(const chart *c, mr_operation_path path) {
    double bandwidth = c->ops->ceilings.bytes_s[path], left = pow(10, c->left_power), low = pow(10, c->low_power);
    char class[32], text[64];
    if (!(bandwidth > 0) || !(c->ops->ceilings.flops_s > 0))
        return;
    double from = fmax(left, low / bandwidth), right = pow(10, c->right_power);
    double to = fmin(c->ops->ceilings.integers_s / bandwidth, right);
    if (!(from < to))
        return;
    snprintf(class, sizeof class, "roof %s", mr_ops_path_name(path));
    put_line(c, class, place_x(c, from), place_y(c, from * bandwidth), place_x(c, to), place_y(c, to * bandwidth));
    /* Slopes may lie on each other; their names do not. */
    static const double along[MR_PATHS] = {0.5, 0.3, 0.7};
    double at = from * pow(to / from, along[path]);
    snprintf(text, sizeof text, "%s %.4g GB/s", mr_ops_path_name(path), bandwidth * 1e-9);
    put_text(c->to, place_x(c, at) + 8, place_y(c, at * bandwidth) + 12, " class=\"halo\"", text);
}

static void put_level(const chart *c, const char *name, double flops_s) {
    double bandwidth = c->ops->ceilings.bytes_s[MR_PATH_MEMORY];
    char text[64];
    if (!(flops_s > 0) || !(bandwidth > 0))
        return;
    double from = fmax(flops_s / bandwidth, pow(10, c->left_power)), y = place_y(c, flops_s);
    put_line(c, "roof", place_x(c, from), y, LEFT + CHART_WIDTH, y);
    snprintf(text, sizeof text, "%s %.4g Gflop/s", name, flops_s * 1e-9);
    put_text(c->to, LEFT + CHART_WIDTH - 6, y - 7, " class=\"halo\" text-anchor=\"end\"", text);
}

/* A circle is a kernel, a square a ceiling, a diamond a network, a triangle all else. */
static void put_shape(const chart *c, mr_operation_group group, double x, double y) {
    switch (group) {
    case MR_OPERATION_KERNEL:
        fprintf(c->to, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", x, y);
        break;
    case MR_OPERATION_CEILING:
        fprintf(c->to, "<rect class=\"mark\" x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\"/>", x - 4, y - 4);
        break;
    case MR_OPERATION_NETWORK:
        fprintf(c->to, "<path class=\"mark\" d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\"/>", x, y - 5);
        break;
    default:
        fprintf(c->to, "<path class=\"mark\" d=\"M%.1f %.1fl5 9h-10z\"/>", x, y - 5);
    }
}

static void put_mark(const chart *c, const mr_ops_figure *figure, int number) {
    char text[16];
    double x = place_x(c, intensity_of(figure)), y = place_y(c, rate_of(figure));
    fputs("  <g><title>", c->to);
    put_escaped(c->to, figure->operation->name);
    fprintf(c->to, ": %.3g GB/s, %.3g Gflop/s</title>", figure->operation->bytes / figure->ns, rate_of(figure) * 1e-9);
    put_shape(c, figure->operation->group, x, y);
    fputs("</g>\n", c->to);
    snprintf(text, sizeof text, "%d", number);
    put_text(c->to, x + 6, y + 4, " class=\"halo\"", text);
}

/* ---- the list --------------------------------------------------------------------------------------------------- */

static void put_row(const chart *c, const mr_ops_figure *figure, int number, int row) {
    char text[128];
    const char *name = figure->operation->name;
    double y = c->top + 4 + LINE * row;
    if (figure->share > 0)
        mr_print_into(text, sizeof text, "%2d %-24.24s %5.1f%% of %s", number, name, 100 * figure->share,
                      *figure->bound ? figure->bound : "its ceiling");
    else
        mr_print_into(text, sizeof text, "%2d %-24.24s", number, name);
    put_shape(c, figure->operation->group, LIST + 5, y - 4);
    put_text(c->to, LIST + 16, y, " xml:space=\"preserve\"", text);
}

static int count_rows(const mr_ops *ops) {
    int rows = 0;
    for (size_t i = 0; i < ops->count; i++)
        rows += !ops->figure[i].left_out;
    return rows;
}

static int height_of(const mr_ops *ops) {
    int list = LINE * (count_rows(ops) + 3), picture = CHART_HEIGHT;
    return TOP + (list > picture ? list : picture) + BOTTOM;
}

static void put_device(chart *c) {
    int number = 0;
    char *title = mr_print_new("%s%s%s%s", c->ops->view->device, *c->ops->view->model ? ", " : "", c->ops->view->model,
                               c->ops->view->simulated ? " (simulated)" : "");
    choose_edges(c);
    put_text(c->to, LEFT, c->top - 30, " class=\"title\"", title ? title : c->ops->view->device);
    put_grid(c);
    for (int path = 0; path < MR_PATHS; path++)
        put_slope(c, (mr_operation_path)path);
    put_level(c, "compute", c->ops->ceilings.flops_s);
    if (c->ops->ceilings.integers_s > c->ops->ceilings.flops_s)
        put_level(c, "of small integers", c->ops->ceilings.integers_s);
    for (size_t i = 0; i < c->ops->count; i++) {
        const mr_ops_figure *figure = &c->ops->figure[i];
        if (figure->left_out)
            continue;
        number++;
        if (has_place(figure))
            put_mark(c, figure, number);
        put_row(c, figure, number, number - 1);
    }
    put_text(c->to, LIST, c->top + 4 + LINE * (number + 1), "",
             "square: ceiling, a line of the chart; circle: kernel;");
    put_text(c->to, LIST, c->top + 4 + LINE * (number + 2), "", "diamond: network; triangle: copy or codec");
    free(title);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

static void put_picture(FILE *to, const mr_ops *all, size_t count) {
    int height = 0;
    for (size_t i = 0; i < count; i++)
        height += height_of(&all[i]);
    fprintf(to,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n"
            "  <title>millrace bench ops</title>\n%s  <rect class=\"page\" width=\"%d\" height=\"%d\"/>\n",
            WIDTH, height, WIDTH, height, look, WIDTH, height);
    int top = TOP;
    for (size_t i = 0; i < count; i++) {
        put_device(&(chart){.to = to, .ops = &all[i], .top = top});
        top += height_of(&all[i]);
    }
    fputs("</svg>\n", to);
}

int mr_ops_draw(const mr_ops *all, size_t count, const char *path) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    if (!to)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a picture");
    put_picture(to, all, count);
    int status = fclose(to) ? mr_fail(MR_ERROR_MEMORY, "no memory for a picture") : MR_OK;
    if (!status && mr_file_replace(path, text, bytes))
        status = mr_file_fail("write", path);
    free(text);
    return status;
}

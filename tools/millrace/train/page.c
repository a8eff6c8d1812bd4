/* An evaluation's page: HTML with style, SVG plots and pictures as data URIs, all in one file.
 *
 * All texts from outside (file and class names) are escaped, and the page has no scripts. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/log.h"
#include "tools/millrace/train/evaluation.h"
#include "tools/millrace/train/thumbnails.h"

enum { PLOT = 320, EDGE = 40, MOST_CURVES = 12, MOST_CELLS = 60, MOST_WRONG = 24 };
enum { MOST_LETTERS = 18 }; /* limit for a name next to the confusion matrix */
enum { MOST_PICTURE_BYTES = 1 << 19 };

static const char head[] = "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
                           "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
                           "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; img-src data:; "
                           "style-src 'unsafe-inline'\">\n";
static const char style[] =
    "<style>\nbody { font: 16px/1.5 sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; "
    "background: #fff; }\n"
    "table { border-collapse: collapse; margin: 1em 0; display: block; max-width: 100%; "
    "overflow-x: auto; }\nth, td { padding: .2em .8em; text-align: right; "
    "border-bottom: 1px solid #ddd; }\n"
    "th:first-child, td:first-child { text-align: left; }\nsvg { max-width: 100%; height: auto; overflow: visible; "
    "font: 12px sans-serif; }\n"
    ".plots, .pictures { display: flex; flex-wrap: wrap; gap: 1.5em; }\nfigure { margin: 0; }\nfigcaption { font-size: "
    "14px; max-width: 22em; "
    "overflow-wrap: anywhere; }\n.pictures figure { width: 11em; }\n.pictures img { max-width: 11em; max-height: 11em; "
    "min-width: 5em; "
    "image-rendering: auto; border: 1px solid #ddd; }\n.none { width: 11em; height: 6em; line-height: 6em; "
    "text-align: center; color: #666; background: #f2f2f2; }\n</style>\n";
/* Colours that people with any colour vision can distinguish (Okabe and Ito), then the same again, dashed. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"};
enum { COLOURS = sizeof colours / sizeof *colours };

/* ---- text -------------------------------------------------------------------------------------------------------- */

/* Escapes text for HTML and SVG, also in double quotes; invalid UTF-8 and control characters become a mark. */
static void put_text(FILE *page, const char *text) {
    for (size_t left = strlen(text), step; left > 0; left -= step, text += step) {
        step = mr_utf8_bytes(text, left);
        if (!step || (unsigned char)*text < ' ' || *text == 0x7f) {
            step = 1;
            fputs("\xef\xbf\xbd", page);
        } else if (*text == '<') {
            fputs("&lt;", page);
        } else if (*text == '>') {
            fputs("&gt;", page);
        } else if (*text == '&') {
            fputs("&amp;", page);
        } else if (*text == '"') {
            fputs("&quot;", page);
        } else {
            fwrite(text, 1, step, page);
        }
    }
}

static void put_percent(FILE *page, double share) {
    if (isfinite(share))
        fprintf(page, "<td>%.2f%%</td>", 100 * share);
    else
        fputs("<td>&ndash;</td>", page);
}

static void put_number(FILE *page, double value) {
    if (isfinite(value))
        fprintf(page, "<td>%.4f</td>", value);
    else
        fputs("<td>&ndash;</td>", page);
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

static void put_summary(FILE *page, const mr_evaluation *e) {
    static const char *const names[MR_JUDGED_FIGURES] = {"accuracy", "balanced accuracy", "F1, mean of the classes",
                                                         "log loss"};
    const mr_judgement *j = &e->judgement;
    fprintf(page,
            "<p>%zu pictures, %zu classes; %llu are right.</p>\n<table>\n<tr><th>figure</th><th>value</th>"
            "<th>95%% interval</th></tr>\n",
            e->count, e->class_count, (unsigned long long)j->all.right);
    for (int f = 0; f < MR_JUDGED_FIGURES; f++) {
        fprintf(page, "<tr><td>%s</td>", names[f]);
        put_number(page, mr_judgement_value(j, (mr_judged_figure)f));
        fprintf(page, "<td>%.4f to %.4f</td></tr>\n", j->interval[f].low, j->interval[f].high);
    }
    fputs("<tr><td>ROC area, mean of the classes</td>", page);
    put_number(page, j->roc_area);
    fputs("<td></td></tr>\n<tr><td>average precision, mean</td>", page);
    put_number(page, j->average_precision);
    fputs("<td></td></tr>\n<tr><td>calibration error</td>", page);
    put_number(page, j->calibration_error);
    fputs("<td></td></tr>\n", page);
    if (e->tempered.temperature > 0) {
        fprintf(page, "<tr><td>log loss at temperature %.3f</td>", e->tempered.temperature);
        put_number(page, e->tempered.log_loss);
        fputs("<td></td></tr>\n<tr><td>calibration error at that temperature</td>", page);
        put_number(page, e->tempered.calibration_error);
        fprintf(page, "<td>fitted to %zu validation pictures</td></tr>\n", e->tempered.rows);
    }
    fputs("</table>\n", page);
}

static void put_classes(FILE *page, const mr_evaluation *e) {
    fputs("<h2>Classes</h2>\n<table>\n<tr><th>class</th><th>pictures</th><th>precision</th><th>recall</th><th>F1</th>"
          "<th>ROC area</th><th>average precision</th></tr>\n",
          page);
    for (size_t j = 0; j < e->class_count; j++) {
        const mr_class_figures *each = &e->judgement.each[j];
        if (!each->rows && !each->first)
            continue;
        fputs("<tr><td>", page);
        put_text(page, e->names[j]);
        fprintf(page, "</td><td>%llu</td>", (unsigned long long)each->rows);
        put_percent(page, each->precision);
        put_percent(page, each->recall);
        put_percent(page, each->f1);
        put_number(page, e->judgement.curves[j].roc_area);
        put_number(page, e->judgement.curves[j].average_precision);
        fputs("</tr>\n", page);
    }
    fputs("</table>\n", page);
}

static void put_pairs(FILE *page, const mr_evaluation *e) {
    enum { MOST = 15 };
    if (!e->judgement.pair_count)
        return;
    fputs("<h2>Worst told apart</h2>\n<table>\n<tr><th>class</th><th>taken for</th><th>pictures</th><th>of the "
          "class</th></tr>\n",
          page);
    for (size_t i = 0; i < e->judgement.pair_count && i < MOST; i++) {
        const mr_mixed_pair *pair = &e->judgement.pairs[i];
        uint64_t rows = e->judgement.each[pair->truth].rows;
        fputs("<tr><td>", page);
        put_text(page, e->names[pair->truth]);
        fputs("</td><td>", page);
        put_text(page, e->names[pair->first]);
        fprintf(page, "</td><td>%llu</td><td>%.1f%%</td></tr>\n", (unsigned long long)pair->rows,
                100.0 * (double)pair->rows / (double)rows);
    }
    fputs("</table>\n", page);
}

/* ---- plots ------------------------------------------------------------------------------------------------------- */

/* Layout for the confusion matrix's cells, in pixels. */
typedef struct grid {
    int side, left, top;
    bool upright; /* column names are horizontal */
} grid;

/* A name's width in letters: characters with three or more bytes are usually twice as wide. */
static size_t letters_of(const char *name) {
    size_t letters = 0;
    for (size_t left = strlen(name), step; left > 0; left -= step, name += step) {
        step = mr_utf8_bytes(name, left);
        letters += step > 2 ? 2 : 1;
        step += !step;
    }
    return letters;
}

/* Writes as much of a name as fits, with an ellipsis; a tooltip shows all. */
static void put_name(FILE *page, const char *name) {
    char start[4 * MOST_LETTERS + 4];
    size_t bytes = 0, letters = 0;
    if (letters_of(name) <= MOST_LETTERS) {
        put_text(page, name);
        return;
    }
    for (size_t step; letters < MOST_LETTERS - 2; bytes += step ? step : 1) {
        step = mr_utf8_bytes(name + bytes, strlen(name + bytes));
        letters += step > 2 ? 2 : 1;
    }
    snprintf(start, sizeof start, "%.*s\xe2\x80\xa6", (int)bytes, name);
    put_text(page, start);
    fputs("<title>", page);
    put_text(page, name);
    fputs("</title>", page);
}

/* Columns and rows are classes; a darker cell is a larger share of its row. */
static void put_cell(FILE *page, const mr_evaluation *e, size_t t, size_t p, const grid *g) {
    uint64_t count = e->judgement.confusion[t * e->class_count + p], rows = e->judgement.each[t].rows;
    double share = rows ? (double)count / (double)rows : 0;
    const int x = g->left + (int)p * g->side, y = g->top + (int)t * g->side;
    if (!count)
        return;
    const char *colour = t == p ? "0,114,178" : "213,94,0";
    fprintf(page, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"rgba(%s,%.3f)\"><title>", x, y, g->side,
            g->side, colour, 0.1 + 0.9 * sqrt(share));
    put_text(page, e->names[t]);
    fputs(" taken for ", page);
    put_text(page, e->names[p]);
    fprintf(page, ": %llu of %llu</title></rect>", (unsigned long long)count, (unsigned long long)rows);
    if (g->side >= 24)
        fprintf(page, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\" fill=\"%s\">%llu</text>\n", x + g->side / 2,
                y + g->side / 2 + 4, share > 0.3 ? "#fff" : "#222", (unsigned long long)count);
}

/* Writes a class's name at its row and its column. */
static void put_names(FILE *page, const char *name, int number, const grid *g) {
    const int size = g->side < 20 ? 9 : 12, middle = number * g->side + g->side / 2;
    fprintf(page, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\" font-size=\"%d\">", g->left - 6, g->top + middle + 4,
            size);
    put_name(page, name);
    if (g->upright)
        fprintf(page, "</text><text x=\"%d\" y=\"%d\" text-anchor=\"middle\">", g->left + middle, g->top - 6);
    else
        fprintf(page, "</text><text font-size=\"%d\" transform=\"translate(%d %d) rotate(-90)\">", size,
                g->left + middle + 4, g->top - 6);
    put_name(page, name);
    fputs("</text>", page);
}

static grid lay_out(const mr_evaluation *e) {
    size_t letters = 0;
    for (size_t j = 0; j < e->class_count; j++)
        letters = letters_of(e->names[j]) > letters ? letters_of(e->names[j]) : letters;
    const int most = letters < MOST_LETTERS ? (int)letters : MOST_LETTERS;
    grid g = {.side = e->class_count <= 20 ? 32 : 12, .left = 20 + 8 * most};
    g.upright = letters <= 4 && g.side > 20;
    g.top = g.upright ? 30 : 20 + 8 * most;
    return g;
}

static void put_confusion(FILE *page, const mr_evaluation *e) {
    const grid g = lay_out(e);
    const int classes = (int)e->class_count, inside = classes * g.side;
    const int across = g.left + inside + 10, down = g.top + inside + 10;
    if (classes > MOST_CELLS)
        return;
    fprintf(page,
            "<h2>Confusion</h2>\n<p>Rows are the classes of the pictures, columns what they are taken for.</p>\n"
            "<svg role=\"img\" aria-label=\"confusion\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
            across, down, across, down);
    for (int t = 0; t < classes; t++) {
        put_names(page, e->names[t], t, &g);
        for (int p = 0; p < classes; p++)
            put_cell(page, e, (size_t)t, (size_t)p, &g);
    }
    fputs("</svg>\n", page);
}

static void begin_plot(FILE *page, const char *title, const char *across, const char *up) {
    const int size = PLOT + EDGE + 10;
    fprintf(page, "<figure><svg role=\"img\" aria-label=\"%s\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\">\n",
            title, size, size, size, size);
    fprintf(page, "<rect x=\"%d\" y=\"5\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#999\"/>\n", EDGE, PLOT,
            PLOT);
    for (int i = 0; i <= 4; i++) {
        fprintf(page, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%g</text>", EDGE + PLOT * i / 4, PLOT + 20,
                i / 4.0);
        fprintf(page, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%g</text>\n", EDGE - 4, PLOT + 9 - PLOT * i / 4,
                i / 4.0);
    }
    fprintf(page, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>", EDGE + PLOT / 2, PLOT + 38, across);
    fprintf(page, "<text x=\"12\" y=\"%d\" text-anchor=\"middle\" transform=\"rotate(-90 12 %d)\">%s</text>\n",
            PLOT / 2, PLOT / 2, up);
}

static double across_of(double share) {
    return EDGE + PLOT * share;
}

static double up_of(double share) {
    return 5 + PLOT * (1 - share);
}

/* Chooses which classes' curves to draw: if there are many, those with the smallest area. */
static size_t choose_curves(const mr_evaluation *e, size_t chosen[MOST_CURVES]) {
    size_t count = 0;
    for (size_t j = 0; j < e->class_count; j++) {
        const double area = e->judgement.curves[j].roc_area;
        if (!isfinite(area))
            continue;
        size_t at = count < MOST_CURVES ? count++ : MOST_CURVES;
        for (; at > 0 && e->judgement.curves[chosen[at - 1]].roc_area > area; at--)
            if (at < MOST_CURVES)
                chosen[at] = chosen[at - 1];
        if (at < MOST_CURVES)
            chosen[at] = j;
    }
    return count;
}

static void put_curve(FILE *page, const mr_curve *curve, size_t number, bool precision) {
    fprintf(page, "<polyline fill=\"none\" stroke-width=\"1.5\" stroke=\"%s\"%s points=\"", colours[number % COLOURS],
            number >= COLOURS ? " stroke-dasharray=\"5 3\"" : "");
    if (!precision)
        fprintf(page, "%.1f,%.1f ", across_of(0), up_of(0));
    for (size_t i = 0; i < curve->count; i++) {
        const mr_curve_point *point = &curve->points[i];
        double recall = (double)point->true_positives / (double)curve->positives;
        double first = (double)(point->true_positives + point->false_positives);
        double x = precision ? recall : (double)point->false_positives / (double)curve->negatives;
        double y = precision ? (double)point->true_positives / first : recall;
        fprintf(page, "%.1f,%.1f ", across_of(x), up_of(y));
    }
    fputs("\"/>\n", page);
}

static void put_curves(FILE *page, const mr_evaluation *e, bool precision) {
    size_t chosen[MOST_CURVES], count = choose_curves(e, chosen);
    begin_plot(page, precision ? "precision and recall" : "ROC", precision ? "recall" : "share of other classes",
               precision ? "precision" : "recall");
    for (size_t i = 0; i < count; i++)
        put_curve(page, &e->judgement.curves[chosen[i]], i, precision);
    fprintf(page, "</svg><figcaption>%s of each class against the others%s: ",
            precision ? "Precision and recall" : "ROC curves",
            count < e->class_count ? "; those that are told worst" : "");
    for (size_t i = 0; i < count; i++) {
        fprintf(page, "<span style=\"color:%s\">%s ", colours[i % COLOURS], i >= COLOURS ? "&#9476;" : "&#9473;");
        put_text(page, e->names[chosen[i]]);
        fputs("</span> ", page);
    }
    fputs("</figcaption></figure>\n", page);
}

static void put_calibration(FILE *page, const mr_evaluation *e) {
    begin_plot(page, "calibration", "score of the first class", "share that is right");
    fprintf(page, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\" stroke-dasharray=\"4\"/>\n",
            across_of(0), up_of(0), across_of(1), up_of(1));
    for (size_t i = 0; i < MR_JUDGE_BINS; i++) {
        const mr_calibration_bin *bin = &e->judgement.bins[i];
        if (!bin->rows)
            continue;
        double share = (double)bin->right / (double)bin->rows,
               radius = 3 + 9 * sqrt((double)bin->rows / (double)e->count);
        fprintf(page,
                "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#0072b2\" fill-opacity=\"0.7\"><title>%llu "
                "pictures</title></circle>\n",
                across_of(bin->mean_score), up_of(share), radius, (unsigned long long)bin->rows);
    }
    fputs("</svg><figcaption>Calibration: points on the line are as often right as their scores say; larger points "
          "stand for more "
          "pictures.</figcaption></figure>\n",
          page);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* A picture's MIME type; NULL if browsers cannot show it. */
static const char *type_of(const mr_file_bytes *file) {
    static const struct {
        size_t at;
        const char *bytes, *type;
    } kinds[] = {{0, "\x89PNG", "image/png"},
                 {0, "\xff\xd8\xff", "image/jpeg"},
                 {0, "GIF8", "image/gif"},
                 {8, "WEBP", "image/webp"}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (file->bytes > kinds[i].at + 4 &&
            memcmp(file->data + kinds[i].at, kinds[i].bytes, strlen(kinds[i].bytes)) == 0)
            return kinds[i].type;
    return NULL;
}

/* RFC 4648 */
static void put_base64(FILE *page, const uint8_t *data, size_t bytes) {
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        uint32_t three =
            (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);
        fputc(signs[three >> 18], page);
        fputc(signs[three >> 12 & 63], page);
        fputc(left > 1 ? signs[three >> 6 & 63] : '=', page);
        fputc(left > 2 ? signs[three & 63] : '=', page);
    }
}

/* Little-endian. */
static void put_number_at(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Writes a bitmap with rows from the top, which needs a negative height. */
static void put_thumbnail(FILE *page, const mr_thumbnail *from) {
    enum { FILE_HEADER = 14, HEADER = 40, BEFORE = FILE_HEADER + HEADER, BITS = 24 };
    static uint8_t bitmap[BEFORE + MR_THUMBNAIL_BYTES];
    memset(bitmap, 0, BEFORE);
    memcpy(bitmap, "BM", 2);
    put_number_at(bitmap + 2, sizeof bitmap);
    put_number_at(bitmap + 10, BEFORE);
    put_number_at(bitmap + FILE_HEADER, HEADER);
    put_number_at(bitmap + FILE_HEADER + 4, MR_THUMBNAIL_SIDE);
    put_number_at(bitmap + FILE_HEADER + 8, -(uint32_t)MR_THUMBNAIL_SIDE);
    bitmap[FILE_HEADER + 12] = 1; /* planes */
    bitmap[FILE_HEADER + 14] = BITS;
    memcpy(bitmap + BEFORE, from->pixels, MR_THUMBNAIL_BYTES);
    fputs("<img alt=\"\" src=\"data:image/bmp;base64,", page);
    put_base64(page, bitmap, sizeof bitmap);
    fputs("\">", page);
}

/* False if browsers cannot show the file, or it is large. */
static bool put_file(FILE *page, const char *path) {
    mr_file_bytes file;
    if (mr_file_read("the picture", path, MOST_PICTURE_BYTES, 0, &file))
        return false;
    const char *type = type_of(&file);
    if (type) {
        fprintf(page, "<img alt=\"\" src=\"data:%s;base64,", type);
        put_base64(page, file.data, file.bytes);
        fputs("\">", page);
    }
    mr_free(file.data);
    return type != NULL;
}

static const mr_listed_file *file_of(const mr_evaluation *e, size_t wrong) {
    return &e->set.list->files[e->row[e->judgement.wrong[wrong].row]];
}

static size_t count_wrong(const mr_evaluation *e) {
    return e->judgement.wrong_count < MOST_WRONG ? e->judgement.wrong_count : MOST_WRONG;
}

/* Whether the page can embed the file unchanged. */
static bool suits(const mr_listed_file *file) {
    mr_file_bytes bytes;
    if (file->video || mr_file_read("the picture", file->path, MOST_PICTURE_BYTES, 0, &bytes))
        return false;
    bool shown = type_of(&bytes) != NULL;
    mr_free(bytes.data);
    return shown;
}

/* Makes thumbnails for pictures that cannot be embedded. thumbnail[i] belongs to wrong row i; without a path it is not
 * needed. */
static int make_thumbnails(const mr_evaluation *e, mr_thumbnail *thumbnail) {
    size_t count = 0;
    for (size_t i = 0; i < count_wrong(e) && !e->vectors; i++) {
        const mr_listed_file *file = file_of(e, i);
        if (suits(file))
            continue;
        thumbnail[i] = (mr_thumbnail){
            .path = file->path, .video = file->video, .at_ns = e->at_ns[e->judgement.wrong[i].row]};
        count++;
    }
    int status = count ? mr_thumbnails_make(thumbnail, count_wrong(e), e->extraction.choice.stream) : MR_OK;
    if (!status || status == MR_ERROR_CANCELLED || status == MR_ERROR_MEMORY)
        return status;
    mr_log(MR_LOG_WARNING, "the page has no pictures of videos: %s", mr_message());
    return MR_OK;
}

static void put_one_wrong(FILE *page, const mr_evaluation *e, size_t number, const mr_thumbnail *thumbnail) {
    const mr_wrong_row *wrong = &e->judgement.wrong[number];
    const mr_listed_file *file = file_of(e, number);
    fputs("<figure>", page);
    if (thumbnail->pixels)
        put_thumbnail(page, thumbnail);
    else if (e->vectors || thumbnail->path || !put_file(page, file->path))
        fputs("<div class=\"none\">no picture</div>", page);
    fputs("<figcaption>", page);
    put_text(page, e->names[e->truth[wrong->row]]);
    fputs(" taken for <strong>", page);
    put_text(page, e->names[wrong->first]);
    fprintf(page, "</strong>, %.3f<br><small>", wrong->score);
    if (*file->path)
        put_text(page, file->path);
    else
        fprintf(page, "line %zu", file->line);
    if (file->video)
        fprintf(page, " at %.3f s", (double)e->at_ns[wrong->row] / 1e9);
    fputs("</small></figcaption></figure>\n", page);
}

static void put_wrong(FILE *page, const mr_evaluation *e, const mr_thumbnail *thumbnail) {
    if (!e->judgement.wrong_count)
        return;
    fputs("<h2>Most surely wrong</h2>\n<p>The class that was named in the data, what the picture was taken for, and "
          "the score of that.</p>\n<div class=\"pictures\">\n", page);
    for (size_t i = 0; i < count_wrong(e); i++)
        put_one_wrong(page, e, i, &thumbnail[i]);
    fputs("</div>\n", page);
}

/* ---- the page ---------------------------------------------------------------------------------------------------- */

static void put_page(FILE *page, const mr_evaluation *e, const mr_thumbnail *thumbnail) {
    fputs(head, page);
    fputs("<title>", page);
    put_text(page, e->extraction.plan->name);
    fputs(": evaluation</title>\n", page);
    fputs(style, page);
    fputs("</head>\n<body>\n<h1>", page);
    put_text(page, e->extraction.plan->name);
    fputs("</h1>\n<p>", page);
    put_text(page, e->params->data);
    fprintf(page, ", %s%s, by millrace %s</p>\n", strcmp(e->params->part, "all") == 0 ? "" : "part ",
            strcmp(e->params->part, "all") == 0 ? "all pictures" : e->params->part, mr_version());
    if (mr_evaluation_has_trained(e))
        fputs("<p>Pictures that it was trained on are among them, if there are any in these data, and say little: "
              "<code>--part test</code> leaves them out.</p>\n", page);
    if (e->extraction.forced) {
        fputs("<p><b>Forced:</b> ", page);
        put_text(page, e->extraction.forced);
        fputs("</p>\n", page);
    }
    put_summary(page, e);
    fputs("<div class=\"plots\">\n", page);
    put_curves(page, e, false);
    put_curves(page, e, true);
    put_calibration(page, e);
    fputs("</div>\n", page);
    put_confusion(page, e);
    put_pairs(page, e);
    put_wrong(page, e, thumbnail);
    put_classes(page, e);
    fputs("</body>\n</html>\n", page);
}

static int write_page(const mr_evaluation *e, const char *path, const mr_thumbnail *thumbnail) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *page = open_memstream(&text, &bytes);
    if (!page)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the page");
    put_page(page, e, thumbnail);
    int status = fclose(page) ? mr_fail(MR_ERROR_MEMORY, "no memory for the page") : MR_OK;
    if (!status && mr_file_replace(path, text, bytes))
        status = mr_file_fail("write", path);
    free(text);
    return status;
}

int mr_evaluation_write_page(const mr_evaluation *e, const char *path) {
    mr_thumbnail thumbnail[MOST_WRONG] = {0};
    int status = make_thumbnails(e, thumbnail);
    if (!status)
        status = write_page(e, path, thumbnail);
    for (size_t i = 0; i < MOST_WRONG; i++)
        free(thumbnail[i].pixels);
    return status;
}

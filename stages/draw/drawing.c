#include "stages/draw/drawing.h"

#include <math.h>
#include <string.h>

#include "millrace/status.h"
#include "stages/draw/words.h"

enum { LEAST_FONT = 11, MOST_FONT = 400 };

/* ---- coordinates ------------------------------------------------------------------------------------------------- */

/* Returns false if the frame has no map. */
static bool find_way(mr_drawing *f, const mr_frame *frame) {
    static const double corners[3][2] = {{0, 0}, {1, 0}, {0, 1}};
    double at[3][2];
    for (int i = 0; i < 3; i++) {
        if (!mr_geometry_from_display(&frame->geometry, corners[i][0], corners[i][1], at[i])) {
            memcpy(f->x, (const double[3]){1, 0, 0}, sizeof f->x);
            memcpy(f->y, (const double[3]){0, 1, 0}, sizeof f->y);
            return false;
        }
        mr_geometry_to_display(&f->sketch->turn, at[i][0], at[i][1], at[i]);
    }
    for (int i = 0; i < 2; i++) {
        f->x[i] = at[i + 1][0] - at[0][0];
        f->y[i] = at[i + 1][1] - at[0][1];
    }
    f->x[2] = at[0][0];
    f->y[2] = at[0][1];
    return true;
}

void mr_drawing_map(const mr_drawing *f, double x, double y, double to[2]) {
    to[0] = f->x[0] * x + f->x[1] * y + f->x[2];
    to[1] = f->y[0] * x + f->y[1] * y + f->y[2];
}

static mr_area bounds_of(const mr_drawing *f, const mr_object *object) {
    double a[2], b[2];
    mr_drawing_map(f, (double)object->left, (double)object->top, a);
    mr_drawing_map(f, (double)object->right, (double)object->bottom, b);
    return (mr_area){fmin(a[0], b[0]), fmin(a[1], b[1]), fmax(a[0], b[0]), fmax(a[1], b[1])};
}

bool mr_drawing_begin(mr_drawing *f, const mr_frame *frame) {
    const int32_t side = f->sketch->width < f->sketch->height ? f->sketch->width : f->sketch->height;
    const int32_t size = side / 45 > LEAST_FONT ? side / 45 : LEAST_FONT;
    if (!f->font_size)
        f->font_size = size < MOST_FONT ? size : MOST_FONT;
    if (f->thickness == 0)
        f->thickness = fmax(1, floor(side / 360.0 + 0.5));
    return find_way(f, frame);
}

/* ---- colours ----------------------------------------------------------------------------------------------------- */

static mr_ink ink_of(const mr_drawing *f, const mr_object *object, uint8_t opacity) {
    if (object->track && f->color != MR_INK_CLASS)
        return mr_ink_of((uint64_t)object->track, opacity);
    return mr_ink_of(object->index < 0 && object->label ? mr_ink_number(object->label) : (uint64_t)object->index,
                     opacity);
}

/* ---- shapes of an object ----------------------------------------------------------------------------------------- */

/* Fills in the cells that runs cover. False: the runs do not fit. */
static bool fill_mask(uint8_t *cells, size_t count, const int32_t *runs, size_t run_count) {
    size_t at = 0;
    if (run_count > count + 1) /* so that empty runs take no more time than cells */
        return false;
    for (size_t i = 0; i < run_count; i++) {
        if (runs[i] < 0 || (size_t)runs[i] > count - at)
            return false;
        memset(cells + at, i % 2 ? 255 : 0, (size_t)runs[i]);
        at += (size_t)runs[i];
    }
    return true;
}

static void add_mask(mr_drawing *f, const mr_result *objects, const mr_object *object) {
    const int32_t *runs = mr_result_items(objects, object->mask);
    const int32_t columns = object->mask_width, rows = object->mask_height;
    const mr_area bounds = bounds_of(f, object);
    uint8_t *cells = runs ? mr_sketch_room(f->sketch, bounds, columns, rows) : NULL;
    const mr_ink ink = ink_of(f, object, (uint8_t)(255 * f->mask + 0.5));
    if (cells && fill_mask(cells, (size_t)columns * (size_t)rows, runs, object->mask.count))
        mr_sketch_stencil(f->sketch, bounds, columns, rows, ink);
}

static void add_line(mr_drawing *f, const float *from, const float *to, double thickness, mr_ink ink) {
    double a[2], b[2];
    mr_drawing_map(f, (double)from[0], (double)from[1], a);
    mr_drawing_map(f, (double)to[0], (double)to[1], b);
    mr_sketch_line(f->sketch, a, b, thickness, ink);
}

/* NULL: the object has none. */
static const float *quad_of(const mr_result *objects, const mr_object *object) {
    return object->quad.count == 8 ? mr_result_items(objects, object->quad) : NULL;
}

/* The quadrilateral, if the object has one. */
static void add_box(mr_drawing *f, const mr_result *objects, const mr_object *object) {
    const float *quad = quad_of(objects, object);
    const mr_ink ink = ink_of(f, object, 255);
    if (!quad)
        mr_sketch_outline(f->sketch, bounds_of(f, object), f->thickness, ink);
    for (int i = 0; quad && i < 4; i++)
        add_line(f, quad + 2 * i, quad + 2 * ((i + 1) % 4), f->thickness, ink);
}

/* The limbs that join COCO's 17 key points. */
static const uint8_t limbs[][2] = {{0, 1},   {0, 2},   {1, 3},   {2, 4},   {5, 6},   {5, 7},   {7, 9},   {6, 8},
                                   {8, 10},  {5, 11},  {6, 12},  {11, 12}, {11, 13}, {13, 15}, {12, 14}, {14, 16}};

static void add_points(mr_drawing *f, const mr_result *objects, const mr_object *object) {
    enum { PERSON = 17 };
    const float *points = mr_result_items(objects, object->points);
    const uint32_t count = points ? object->points.count / 3 : 0;
    const mr_ink ink = ink_of(f, object, 255);
    for (size_t i = 0; count == PERSON && i < sizeof limbs / sizeof *limbs; i++) {
        const float *a = points + 3 * limbs[i][0], *b = points + 3 * limbs[i][1];
        if ((double)a[2] >= f->point_score && (double)b[2] >= f->point_score)
            add_line(f, a, b, f->thickness, ink);
    }
    for (uint32_t i = 0; i < count && !mr_sketch_is_full(f->sketch, count - i); i++)
        if ((double)points[3 * i + 2] >= f->point_score)
            add_line(f, points + 3 * i, points + 3 * i, 3 * f->thickness, ink);
}

/* The older a place, the fainter: a tail has four steps. */
static void add_tail(mr_drawing *f, const mr_object *object, int64_t now_ns) {
    const mr_tail_place here = {
        .x = (object->left + object->right) / 2,
        .y = f->anchor == MR_ANCHOR_BOTTOM ? object->bottom : (object->top + object->bottom) / 2,
        .time_ns = now_ns,
    };
    const mr_tail *tail = mr_tails_add(f->tails, object->track, &here);
    mr_tail_place a, b;
    for (size_t i = 0; mr_tail_place_at(f->tails, tail, i, now_ns, &a) &&
                       mr_tail_place_at(f->tails, tail, i + 1, now_ns, &b); i++) {
        const int64_t quarter = 4 * (now_ns - b.time_ns) / (f->tails->length_ns + 1);
        add_line(f, (const float[2]){a.x, a.y}, (const float[2]){b.x, b.y}, f->thickness,
                 ink_of(f, object, (uint8_t)(255 - 50 * quarter)));
    }
}

/* ---- texts ------------------------------------------------------------------------------------------------------- */

/* A text that is too large is counted, and the line is empty. */
static int find_text(mr_drawing *f, const char *text, mr_text_line *line) {
    /* A line may begin left of the picture. */
    int status = mr_font_resize(f->font, f->font_size, (int32_t)ceil(f->sketch->width) + f->font_size);
    if (status)
        return status;
    status = mr_font_line(f->font, text, line);
    if (status == MR_ERROR_DATA) {
        f->sketch->left_out++;
        *line = (mr_text_line){0};
        return MR_OK;
    }
    if (!status && !f->missing)
        f->missing = line->missing;
    return status;
}

static double padding_of(const mr_drawing *f) {
    return floor(f->font_size / 4.0 + 0.5);
}

static double width_of(const mr_drawing *f, const mr_text_line *line) {
    return line->width + 2 * padding_of(f);
}

static void add_line_of_text(mr_drawing *f, const mr_text_line *line, double x, double y, mr_ink ground, mr_ink ink) {
    const double left = floor(fmax(0, fmin(x, f->sketch->width - width_of(f, line))) + 0.5);
    const double top = floor(fmax(0, fmin(y, f->sketch->height - line->rows)) + 0.5);
    const double begin = left + padding_of(f) + line->left;
    const int32_t columns = (int32_t)fmin(line->columns, ceil(f->sketch->width - begin));
    const int32_t rows = (int32_t)fmin(line->rows, ceil(f->sketch->height - top));
    const mr_area bounds = {begin, top, begin + columns, top + rows};
    if (!line->cover)
        return;
    mr_sketch_rectangle(f->sketch, (mr_area){left, top, left + width_of(f, line), top + line->rows}, ground);
    uint8_t *cells = mr_sketch_room(f->sketch, bounds, columns, rows);
    if (!cells)
        return;
    for (int32_t row = 0; row < rows; row++)
        memcpy(cells + (ptrdiff_t)row * columns, line->cover + (ptrdiff_t)row * line->columns, (size_t)columns);
    mr_sketch_stencil(f->sketch, bounds, columns, rows, ink);
}

int mr_drawing_add_text(mr_drawing *f, const char *text, double x, double y, mr_ink ground, mr_ink ink) {
    mr_text_line line;
    int status = find_text(f, text, &line);
    if (!status)
        add_line_of_text(f, &line, x, y, ground, ink);
    return status;
}

/* The upper one of the two corners at the left. It is not the first one if the object stands on its head. */
static const float *upper_left(const float quad[8]) {
    const float *left = quad, *next = quad + 2;
    for (int i = 1; i < 4; i++) {
        const float *one = quad + (ptrdiff_t)2 * i;
        if (one[0] < left[0])
            next = left, left = one;
        else if (i > 1 && one[0] < next[0])
            next = one;
    }
    return next[1] < left[1] ? next : left;
}

/* Above the upper left corner of the box, or of the quadrilateral; below the corner if there is no room. */
static int add_label(mr_drawing *f, const mr_result *objects, const mr_object *object) {
    const mr_area box = bounds_of(f, object);
    const mr_ink ground = ink_of(f, object, 255);
    const float *quad = quad_of(objects, object);
    double at[2] = {box.left, box.top};
    char text[MR_WORDS];
    mr_text_line line;
    const float *corner = quad ? upper_left(quad) : NULL;
    if (corner)
        mr_drawing_map(f, (double)corner[0], (double)corner[1], at);
    if (!mr_sketch_sees(f->sketch, box) || !isfinite(at[0]) || !isfinite(at[1]))
        return MR_OK;
    mr_words_of_object(text, f->label, objects, object);
    int status = text[0] ? find_text(f, text, &line) : MR_OK;
    if (status || !text[0])
        return status;
    const double above = floor(at[1] + 0.5) - line.rows;
    add_line_of_text(f, &line, at[0], above >= 0 ? above : at[1], ground, mr_ink_on(ground));
    return MR_OK;
}

int mr_drawing_add(mr_drawing *f, const mr_result *objects, int64_t now_ns) {
    const mr_object *object = objects->data;
    int status = MR_OK;
    for (size_t i = objects->count; f->mask > 0 && i > 0 && !mr_sketch_is_full(f->sketch, i); i--)
        add_mask(f, objects, &object[i - 1]);
    for (size_t i = objects->count; f->tails && i > 0 && !mr_sketch_is_full(f->sketch, i); i--)
        if (object[i - 1].track)
            add_tail(f, &object[i - 1], now_ns);
    for (size_t i = objects->count; (f->boxes || f->points) && i > 0 && !mr_sketch_is_full(f->sketch, i); i--) {
        if (f->boxes)
            add_box(f, objects, &object[i - 1]);
        if (f->points)
            add_points(f, objects, &object[i - 1]);
    }
    for (size_t i = objects->count; f->label[0] && !status && i > 0 && !mr_sketch_is_full(f->sketch, i); i--)
        status = add_label(f, objects, &object[i - 1]);
    return status;
}

int mr_drawing_add_caption(mr_drawing *f, const char *text, int corner) {
    static const mr_ink ground = {{0, 0, 0}, 160}, ink = {{255, 255, 255}, 255};
    const double margin = padding_of(f);
    mr_text_line line;
    int status = find_text(f, text, &line);
    if (status)
        return status;
    const double right = f->sketch->width - width_of(f, &line) - margin;
    const double bottom = f->sketch->height - line.rows - margin;
    add_line_of_text(f, &line, corner % 2 ? right : margin, corner / 2 ? bottom : margin, ground, ink);
    return MR_OK;
}

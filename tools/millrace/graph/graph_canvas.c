#include "tools/millrace/graph/graph_canvas.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/print.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };
/* The cell belongs to the wide character to the left of it. */
static const uint32_t taken = UINT32_MAX;

/* By sides. */
static const char lines_ascii[] = " |||-+++-+++-+++";
static const uint16_t lines[] = {' ',    0x2575, 0x2577, 0x2502, 0x2574, 0x2518, 0x2510, 0x2524,
                                 0x2576, 0x2514, 0x250c, 0x251c, 0x2500, 0x2534, 0x252c, 0x253c};

/* Corners from the upper left one on clockwise, then horizontal and vertical. */
typedef struct border {
    uint16_t corner[4], horizontal, vertical;
} border;
static const border plain[2] = {{{0x250c, 0x2510, 0x2518, 0x2514}, 0x2500, 0x2502}, {{'+', '+', '+', '+'}, '-', '|'}};
static const border rounded_edges[2] = {{{0x256d, 0x256e, 0x256f, 0x2570}, 0x2500, 0x2502},
                                        {{'.', '.', '\'', '\''}, '-', '|'}};
static const border dotted[2] = {{{0x256d, 0x256e, 0x256f, 0x2570}, 0x254c, 0x250a},
                                 {{'.', '.', '\'', '\''}, '.', ':'}};

int mr_canvas_init(mr_canvas *canvas, int width, int height, bool ascii) {
    *canvas = (mr_canvas){.width = width, .height = height, .ascii = ascii};
    canvas->cell = calloc((size_t)width * (size_t)height, sizeof *canvas->cell);
    return canvas->cell ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for a drawing of %d lines", height);
}

void mr_canvas_fini(mr_canvas *canvas) {
    free(canvas->cell);
    *canvas = (mr_canvas){0};
}

static mr_canvas_cell *at(mr_canvas *canvas, int x, int y) {
    static mr_canvas_cell outside;
    if (x < 0 || x >= canvas->width || y < 0 || y >= canvas->height)
        return &outside;
    return &canvas->cell[y * canvas->width + x];
}

static void put(mr_canvas *canvas, int x, int y, uint32_t glyph) {
    at(canvas, x, y)->glyph = glyph;
    at(canvas, x, y)->mark = 0;
}

static void add_sides(mr_canvas *canvas, int net, int x, int y, int sides) {
    mr_canvas_cell *cell = at(canvas, x, y);
    cell->glyph = 0;
    cell->crossed = cell->crossed || (cell->sides && cell->net != net);
    cell->sides = (uint8_t)(cell->sides | sides);
    cell->net = net;
}

void mr_canvas_line(mr_canvas *canvas, int net, int x0, int y0, int x1, int y1) {
    for (int x = x0; x <= x1 && y0 == y1; x++)
        add_sides(canvas, net, x, y0, (x > x0 ? LEFT : 0) | (x < x1 ? RIGHT : 0));
    for (int y = y0; y <= y1 && y0 != y1; y++)
        add_sides(canvas, net, x0, y, (y > y0 ? UP : 0) | (y < y1 ? DOWN : 0));
}

static void draw_border(mr_canvas *canvas, int x, int y, int width, int height, const border *look) {
    int right = x + width - 1, bottom = y + height - 1;
    for (int i = x + 1; i < right; i++) {
        put(canvas, i, y, look->horizontal);
        put(canvas, i, bottom, look->horizontal);
    }
    for (int i = y + 1; i < bottom; i++) {
        put(canvas, x, i, look->vertical);
        put(canvas, right, i, look->vertical);
    }
    put(canvas, x, y, look->corner[0]);
    put(canvas, right, y, look->corner[1]);
    put(canvas, right, bottom, look->corner[2]);
    put(canvas, x, bottom, look->corner[3]);
}

void mr_canvas_box(mr_canvas *canvas, int x, int y, int width, int height, bool rounded) {
    draw_border(canvas, x, y, width, height, &(rounded ? rounded_edges : plain)[canvas->ascii]);
}

void mr_canvas_frame(mr_canvas *canvas, int x, int y, int width, int height, const char *title) {
    draw_border(canvas, x, y, width, height, &dotted[canvas->ascii]);
    put(canvas, x + 1, y, ' ');
    mr_canvas_text(canvas, x + 2, y, title, width - 4);
    put(canvas, x + 2 + (int)mr_columns(title, strlen(title)), y, ' ');
}

void mr_canvas_end(mr_canvas *canvas, int x, int y, bool arrives) {
    if (canvas->ascii)
        put(canvas, x, y, arrives ? 'v' : '+');
    else
        put(canvas, x, y, arrives ? 0x25bc : 0x252c);
}

/* Columns from this character to the next. */
static int put_character(mr_canvas *canvas, int x, int y, uint32_t code, size_t columns) {
    bool is_ascii = code < 0x80;
    if (canvas->ascii && !is_ascii)
        code = '?';
    if (columns == 0 && !is_ascii) {
        at(canvas, x - 1, y)->mark = canvas->ascii ? 0 : code;
        return 0;
    }
    put(canvas, x, y, code);
    if (columns == 2)
        put(canvas, x + 1, y, canvas->ascii ? '?' : taken);
    return columns == 2 ? 2 : 1;
}

void mr_canvas_text(mr_canvas *canvas, int x, int y, const char *text, int most) {
    size_t length = strlen(text);
    int dots = canvas->ascii ? 2 : 1, end = x + most;
    bool cut = (int)mr_columns(text, length) > most;
    if (cut)
        length = mr_columns_fit(text, length, (size_t)(most > dots ? most - dots : 0));
    for (size_t i = 0, bytes; i < length; i += bytes) {
        bytes = mr_utf8_bytes(text + i, length - i);
        x += put_character(canvas, x, y, bytes ? mr_utf8_code(text + i, bytes) : '?', mr_columns(text + i, bytes));
        bytes = bytes ? bytes : 1;
    }
    for (; cut && x < end; x++)
        put(canvas, x, y, canvas->ascii ? '.' : 0x2026);
}

static uint32_t shown(const mr_canvas *canvas, const mr_canvas_cell *cell) {
    if (cell->glyph)
        return cell->glyph;
    int sides = cell->crossed ? UP | DOWN : cell->sides;
    return canvas->ascii ? (unsigned char)lines_ascii[sides] : lines[sides];
}

static void put_utf8(uint32_t code, FILE *stream) {
    if (code < 0x80) {
        fputc((int)code, stream);
        return;
    }
    if (code < 0x800) {
        fputc((int)(0xc0 | code >> 6), stream);
    } else {
        if (code >= 0x10000)
            fputc((int)(0xf0 | code >> 18), stream);
        fputc((int)(code < 0x10000 ? 0xe0 | code >> 12 : 0x80 | (code >> 12 & 0x3f)), stream);
        fputc((int)(0x80 | (code >> 6 & 0x3f)), stream);
    }
    fputc((int)(0x80 | (code & 0x3f)), stream);
}

void mr_canvas_print(const mr_canvas *canvas, FILE *stream) {
    for (int y = 0; y < canvas->height; y++) {
        const mr_canvas_cell *row = &canvas->cell[y * canvas->width];
        int end = canvas->width;
        while (end > 0 && shown(canvas, &row[end - 1]) == ' ')
            end--;
        for (int x = 0; x < end; x++) {
            if (shown(canvas, &row[x]) != taken)
                put_utf8(shown(canvas, &row[x]), stream);
            if (row[x].mark)
                put_utf8(row[x].mark, stream);
        }
        fputc('\n', stream);
    }
}

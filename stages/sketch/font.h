/* Text as bitmaps. fontconfig finds fonts, Raqm lays text out (HarfBuzz for shapes, FriBidi for direction), and
 * FreeType draws the glyphs. If the font lacks a character, another font of the system gives it.
 *
 * Glyphs and laid-out words are kept for the next frames, in bounded memory. Ownership: a font owns its lines; a line
 * is valid until the next call. Threads: a font belongs to one thread at a time. Units: pixels. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct mr_font mr_font;

/* A line of text: coverage bytes, row by row. */
typedef struct mr_text_line {
    const uint8_t *cover;
    int32_t columns, rows;
    int32_t width;    /* where the next text would begin; glyphs may reach beyond. Not less than the font's `most`, if
                         the text is wider */
    int32_t left;     /* column 0 is this far right of the line's beginning */
    uint32_t missing; /* the first character without a font; 0: none */
} mr_text_line;

/* `name` is a pattern of fontconfig, such as "Sans" or "DejaVu Sans:bold", or the path of a font file.
 * MR_ERROR_NO_INPUT: the file cannot be read, or no such font is installed; the message has the fix.
 * MR_ERROR_MEMORY. */
int mr_font_open(mr_font **font, const char *name);
void mr_font_close(mr_font **font);

/* Sets the font's size (em), and the most columns of a line that are drawn: what is not seen costs no time. A line is a
 * quarter higher than the size. */
int mr_font_resize(mr_font *font, int32_t size, int32_t most);
/* Lays out one line; bytes that are not UTF-8 become question marks, and control characters spaces. Text after
 * MR_TEXT_MOST bytes is cut. MR_ERROR_MEMORY, MR_ERROR_DATA. */
enum { MR_TEXT_MOST = 256 };
int mr_font_line(mr_font *font, const char *text, mr_text_line *line);

#include "stages/sketch/font.h"

#include <fontconfig/fontconfig.h>
#include <raqm.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>

#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

/* MOST_FACES: fonts that are open at once. Runs and glyphs are all forgotten when a table or its memory is full. */
enum {
    MOST_FACES = 24, RUNS = 1024, GLYPHS = 2048, MOST_GLYPHS = 4 * MR_TEXT_MOST, RUN_BYTES = 1 << 20,
    GLYPH_BYTES = 1 << 20
};

/* Memory that is only ever freed as a whole. */
typedef struct arena {
    uint8_t *data;
    size_t used, bytes;
} arena;

typedef struct glyph {
    FT_Face face; /* NULL: the place is free */
    FT_UInt index;
    int32_t left, top, columns, rows; /* of the bitmap; the pen is at 0, 0, and `top` counts upwards */
    const uint8_t *cover;
} glyph;

/* Where a glyph's pen is, from the run's beginning, in 1/64 px. */
typedef struct placed {
    const glyph *glyph;
    int32_t x, y;
} placed;

/* A text that is laid out as a whole: a word, or a line. */
typedef struct run {
    const char *text; /* NULL: the place is free */
    const placed *glyphs;
    size_t count;
    int64_t width;    /* 1/64 px */
    uint32_t missing; /* as in mr_text_line */
} run;

/* A font that may be opened. */
typedef struct candidate {
    const char *file;
    int index;
    const FcCharSet *characters;
    FT_Face face;
    bool failed;
} candidate;

struct mr_font {
    FT_Library library;
    FcFontSet *fonts;       /* sorted: the best for the name first */
    candidate *candidates;  /* the font itself first */
    size_t count, opened;
    int32_t size, most;
    int32_t height, ascent; /* of a line; the baseline is `ascent` below its upper edge */
    arena glyph_bytes, run_bytes;
    glyph glyphs[GLYPHS];
    run runs[RUNS];
    size_t glyph_count, run_count;
    uint8_t *cover; /* of the last line, with this room */
    size_t cover_bytes;
    uint32_t text[MR_TEXT_MOST]; /* of the run that is being laid out */
    size_t text_count;
};

/* ---- memory ------------------------------------------------------------------------------------------------------ */

static void *take(arena *from, size_t bytes) {
    void *taken = from->data + from->used;
    const size_t whole = (bytes + 7) / 8 * 8;
    if (whole > from->bytes - from->used)
        return NULL;
    from->used += whole;
    return taken;
}

static int make_arena(arena *made, size_t bytes) {
    made->data = mr_alloc(bytes);
    made->bytes = made->data ? bytes : 0;
    return made->data ? MR_OK : mr_fail(MR_ERROR_MEMORY, "no memory for text");
}

/* Runs refer to glyphs. */
static void forget(mr_font *font) {
    memset(font->runs, 0, sizeof font->runs);
    memset(font->glyphs, 0, sizeof font->glyphs);
    font->run_bytes.used = font->glyph_bytes.used = font->run_count = font->glyph_count = 0;
}

static size_t hash(const void *data, size_t bytes) {
    uint64_t value = 0xcbf29ce484222325u; /* FNV-1a */
    for (size_t i = 0; i < bytes; i++)
        value = (value ^ ((const uint8_t *)data)[i]) * 0x100000001b3u;
    return (size_t)(value ^ value >> 32);
}

/* ---- finding fonts ----------------------------------------------------------------------------------------------- */

static bool is_file(const char *name) {
    static const char *const endings[] = {".ttf", ".otf", ".ttc", ".otc", ".pfb"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (FcStrCmpIgnoreCase((const FcChar8 *)dot, (const FcChar8 *)endings[i]) == 0)
            return true;
    return strchr(name, '/') != NULL;
}

/* Names that fontconfig resolves by the system's preference. */
static bool is_generic(const FcChar8 *family) {
    static const char *const names[] = {"sans", "sans-serif", "serif", "mono", "monospace", "system-ui"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (FcStrCmpIgnoreCase(family, (const FcChar8 *)names[i]) == 0)
            return true;
    return false;
}

static bool has_family(const FcPattern *font, const FcChar8 *family) {
    FcChar8 *one;
    for (int i = 0; FcPatternGetString(font, FC_FAMILY, i, &one) == FcResultMatch; i++)
        if (FcStrCmpIgnoreCase(one, family) == 0)
            return true;
    return false;
}

/* fontconfig always offers a font: the wrong one must not be taken without a word. */
static int check_family(const FcFontSet *fonts, const FcChar8 *family, const char *name) {
    FcChar8 *other = NULL;
    if (!fonts || fonts->nfont == 0)
        return mr_fail(MR_ERROR_NO_INPUT, "fontconfig finds no font: install one, such as fonts-dejavu-core, or name a "
                       "font file");
    if (!family || is_generic(family) || has_family(fonts->fonts[0], family))
        return MR_OK;
    FcPatternGetString(fonts->fonts[0], FC_FAMILY, 0, &other);
    return mr_fail(MR_ERROR_NO_INPUT, "there is no font \"%s\": fontconfig would take \"%s\" for it; install it, name "
                   "another, or a font file", name, other ? (const char *)other : "another");
}

static bool can_scale(const FcPattern *font) {
    FcBool scalable = FcTrue, color = FcFalse;
    FcPatternGetBool(font, FC_SCALABLE, 0, &scalable);
    FcPatternGetBool(font, FC_COLOR, 0, &color);
    return scalable && !color;
}

static int sort_fonts(mr_font *font, const char *name) {
    FcPattern *pattern = FcNameParse((const FcChar8 *)name);
    FcChar8 *family = NULL;
    FcResult result;
    if (!pattern)
        return mr_fail(MR_ERROR_CONFIG, "\"%s\" is no name of a font, such as Sans or \"DejaVu Sans:bold\"", name);
    FcConfigSubstitute(NULL, pattern, FcMatchPattern);
    FcPattern *asked = FcNameParse((const FcChar8 *)name);
    FcDefaultSubstitute(pattern);
    font->fonts = FcFontSort(NULL, pattern, FcTrue, NULL, &result);
    if (asked)
        FcPatternGetString(asked, FC_FAMILY, 0, &family);
    int status = check_family(font->fonts, family, name);
    if (asked)
        FcPatternDestroy(asked);
    FcPatternDestroy(pattern);
    return status;
}

static void list_candidates(mr_font *font, const char *file) {
    if (file)
        font->candidates[font->count++] = (candidate){.file = file};
    for (int i = 0; font->fonts && i < font->fonts->nfont; i++) {
        const FcPattern *one = font->fonts->fonts[i];
        candidate *to = &font->candidates[font->count];
        FcChar8 *path;
        FcCharSet *characters = NULL;
        if (!can_scale(one) || FcPatternGetString(one, FC_FILE, 0, &path) != FcResultMatch)
            continue;
        *to = (candidate){.file = (const char *)path};
        FcPatternGetInteger(one, FC_INDEX, 0, &to->index);
        FcPatternGetCharSet(one, FC_CHARSET, 0, &characters);
        to->characters = characters;
        font->count++;
    }
}

/* ---- faces ------------------------------------------------------------------------------------------------------- */

static int size_face(const mr_font *font, FT_Face face) {
    return FT_Set_Pixel_Sizes(face, 0, (FT_UInt)font->size) ? MR_ERROR_DATA : MR_OK;
}

/* FreeType would wait for the writer of a pipe. */
static bool is_regular(const char *path) {
    struct stat found;
    return !stat(path, &found) && S_ISREG(found.st_mode);
}

/* Opens it if it is not open; NULL if it cannot be. */
static FT_Face face_of(mr_font *font, candidate *one) {
    if (one->face || one->failed)
        return one->face;
    one->failed = true;
    if (font->opened == MOST_FACES || !is_regular(one->file) ||
        FT_New_Face(font->library, one->file, one->index, &one->face))
        return NULL;
    if (!FT_IS_SCALABLE(one->face) || (font->size && size_face(font, one->face))) {
        FT_Done_Face(one->face);
        one->face = NULL;
        return NULL;
    }
    one->failed = false;
    font->opened++;
    return one->face;
}

static bool has_character(mr_font *font, candidate *one, uint32_t code) {
    if (one->characters)
        return FcCharSetHasChar(one->characters, code) && face_of(font, one);
    return face_of(font, one) && FT_Get_Char_Index(one->face, code);
}

/* Marks on the character before them. */
static bool belongs_to_last(uint32_t code) {
    return code >= 0x300 && code <= 0x36f;
}

/* Characters that HarfBuzz draws as nothing, whether the font has them or not: Unicode's Default_Ignorable_Code_Point,
 * without the fillers of Hangul. */
static bool is_ignored(uint32_t code) {
    static const uint32_t ranges[][2] = {
        {0xad, 0xad}, {0x34f, 0x34f}, {0x61c, 0x61c}, {0x17b4, 0x17b5}, {0x180b, 0x180e}, {0x200b, 0x200f},
        {0x202a, 0x202e}, {0x2060, 0x206f}, {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}, {0xfff0, 0xfff8}, {0x1d173, 0x1d17a},
        {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (code >= ranges[i][0] && code <= ranges[i][1])
            return true;
    return false;
}

/* The font for a character: the first in the list that has it. If that is not the list's first font, the last
 * character's font is preferred. NULL: no font has it. */
static candidate *find_font(mr_font *font, uint32_t code, candidate *last) {
    candidate *first = &font->candidates[0];
    if (is_ignored(code))
        return last;
    if ((last != first && belongs_to_last(code)) || has_character(font, first, code))
        return belongs_to_last(code) ? last : first;
    if (has_character(font, last, code))
        return last;
    for (size_t i = 1; i < font->count; i++)
        if (has_character(font, &font->candidates[i], code))
            return &font->candidates[i];
    return NULL;
}

int mr_font_resize(mr_font *font, int32_t size, int32_t most) {
    if (font->size == size && font->most == most)
        return MR_OK;
    font->size = size;
    font->most = most;
    font->height = (5 * size + 3) / 4;
    for (size_t i = 0; i < font->count; i++)
        if (font->candidates[i].face && size_face(font, font->candidates[i].face))
            return mr_fail(MR_ERROR_DATA, "%s: the font has no size of %d px", font->candidates[i].file, size);
    const FT_Size_Metrics *metrics = &font->candidates[0].face->size->metrics;
    const double ascent = (double)metrics->ascender, descent = (double)-metrics->descender;
    font->ascent = ascent + descent > 0 ? (int32_t)(font->height * ascent / (ascent + descent) + 0.5) : size;
    forget(font);
    return MR_OK;
}

static int open_first(mr_font *font, const char *name) {
    if (font->count && face_of(font, &font->candidates[0]))
        return MR_OK;
    return mr_fail(MR_ERROR_NO_INPUT, "%s: no font can be read there; name a font, such as Sans, or a file that "
                   "FreeType reads", font->count ? font->candidates[0].file : name);
}

static int fill(mr_font *font, const char *name) {
    const bool file = is_file(name);
    int status = FT_Init_FreeType(&font->library) ? mr_fail(MR_ERROR_MEMORY, "FreeType does not start") : MR_OK;
    if (!status && !FcInit())
        status = mr_fail(MR_ERROR_UNAVAILABLE, "fontconfig does not start");
    if (!status)
        status = sort_fonts(font, file ? "Sans" : name);
    if (status && file) /* the file is enough, without fonts for other characters */
        status = MR_OK;
    if (!status)
        status = make_arena(&font->glyph_bytes, GLYPH_BYTES);
    if (!status)
        status = make_arena(&font->run_bytes, RUN_BYTES);
    const size_t most = 1 + (size_t)(font->fonts ? font->fonts->nfont : 0);
    if (!status && !(font->candidates = mr_calloc(most, sizeof *font->candidates)))
        status = mr_fail(MR_ERROR_MEMORY, "no memory for fonts");
    if (status)
        return status;
    list_candidates(font, file ? name : NULL);
    return open_first(font, name);
}

int mr_font_open(mr_font **font, const char *name) {
    mr_font *made = mr_calloc(1, sizeof *made);
    int status = made ? fill(made, name) : mr_fail(MR_ERROR_MEMORY, "no memory for a font");
    if (status)
        mr_font_close(&made);
    else
        *font = made;
    return status;
}

void mr_font_close(mr_font **font) {
    mr_font *gone = *font;
    *font = NULL;
    if (!gone)
        return;
    for (size_t i = 0; i < gone->count; i++)
        if (gone->candidates[i].face)
            FT_Done_Face(gone->candidates[i].face);
    if (gone->library)
        FT_Done_FreeType(gone->library);
    if (gone->fonts)
        FcFontSetDestroy(gone->fonts);
    mr_free(gone->candidates);
    mr_free(gone->glyph_bytes.data);
    mr_free(gone->run_bytes.data);
    mr_free(gone->cover);
    mr_free(gone);
}

/* ---- glyphs ------------------------------------------------------------------------------------------------------ */

/* Draws a glyph. One that cannot be drawn is empty. False: there is no room. */
static bool draw_glyph(mr_font *font, glyph *to, FT_Face face, FT_UInt index) {
    *to = (glyph){.face = face, .index = index};
    if (FT_Load_Glyph(face, index, FT_LOAD_RENDER | FT_LOAD_NO_BITMAP) ||
        face->glyph->bitmap.pixel_mode != FT_PIXEL_MODE_GRAY)
        return true;
    const FT_Bitmap *bitmap = &face->glyph->bitmap;
    uint8_t *cover = take(&font->glyph_bytes, (size_t)bitmap->width * bitmap->rows);
    if (!cover) {
        to->face = NULL;
        return false;
    }
    for (unsigned row = 0; row < bitmap->rows; row++)
        memcpy(cover + row * bitmap->width, bitmap->buffer + (ptrdiff_t)row * bitmap->pitch, bitmap->width);
    to->left = face->glyph->bitmap_left;
    to->top = face->glyph->bitmap_top;
    to->columns = (int32_t)bitmap->width;
    to->rows = (int32_t)bitmap->rows;
    to->cover = cover;
    return true;
}

/* NULL: there is no room. */
static const glyph *find_glyph(mr_font *font, FT_Face face, FT_UInt index) {
    const struct key {
        uintptr_t face;
        uintptr_t index;
    } key = {(uintptr_t)face, index};
    size_t at = hash(&key, sizeof key) % GLYPHS;
    while (font->glyphs[at].face && (font->glyphs[at].face != face || font->glyphs[at].index != index))
        at = (at + 1) % GLYPHS;
    if (font->glyphs[at].face)
        return &font->glyphs[at];
    if (font->glyph_count >= GLYPHS / 4 * 3 || !draw_glyph(font, &font->glyphs[at], face, index))
        return NULL;
    font->glyph_count++;
    return &font->glyphs[at];
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void decode(mr_font *font, const char *text, size_t length) {
    size_t at = 0;
    for (font->text_count = 0; at < length && font->text_count < MR_TEXT_MOST; font->text_count++) {
        const size_t bytes = mr_utf8_bytes(text + at, length - at);
        const uint32_t code = bytes ? mr_utf8_code(text + at, bytes) : '?';
        font->text[font->text_count] = code < 0x20 || code == 0x7f ? ' ' : code;
        at += bytes ? bytes : 1;
    }
}

/* Gives each character its font; returns the first without one. */
static uint32_t assign_fonts(mr_font *font, raqm_t *layout) {
    candidate *last = &font->candidates[0];
    uint32_t missing = 0;
    size_t begin = 0;
    for (size_t i = 0; i < font->text_count; i++) {
        candidate *found = find_font(font, font->text[i], last);
        missing = found || missing ? missing : font->text[i];
        found = found ? found : &font->candidates[0];
        if (found != last && i > begin)
            raqm_set_freetype_face_range(layout, last->face, begin, i - begin);
        begin = found != last ? i : begin;
        last = found;
    }
    raqm_set_freetype_face_range(layout, last->face, begin, font->text_count - begin);
    return missing;
}

/* Glyphs beyond what is seen are not drawn. False: there is no room. */
static bool place_glyphs(mr_font *font, const raqm_glyph_t *shaped, size_t count, run *to) {
    static const glyph unseen;
    placed *glyphs = take(&font->run_bytes, count * sizeof *glyphs);
    int64_t pen = 0;
    for (size_t i = 0; i < count && glyphs; i++) {
        const glyph *one = pen / 64 < font->most ? find_glyph(font, shaped[i].ftface, shaped[i].index) : &unseen;
        if (!one)
            return false;
        glyphs[i] = (placed){one, (int32_t)(pen + shaped[i].x_offset), shaped[i].y_offset};
        pen += shaped[i].x_advance;
    }
    to->glyphs = glyphs;
    to->count = count;
    to->width = pen;
    return glyphs;
}

/* MR_ERROR_AGAIN: there is no room, unless all is forgotten. */
static int shape(mr_font *font, raqm_t *layout, run *to) {
    size_t count = 0;
    if (!layout || !raqm_set_text(layout, font->text, font->text_count))
        return mr_fail(MR_ERROR_MEMORY, "no memory for text");
    to->missing = assign_fonts(font, layout);
    const raqm_glyph_t *shaped = raqm_layout(layout) ? raqm_get_glyphs(layout, &count) : NULL;
    if (!shaped || count > MOST_GLYPHS)
        return mr_fail(MR_ERROR_DATA, "a text cannot be laid out");
    return place_glyphs(font, shaped, count, to) ? MR_OK : MR_ERROR_AGAIN;
}

/* The place of a text in the table: its own, or a free one. */
static run *place_of(mr_font *font, const char *text, size_t length) {
    size_t at = hash(text, length) % RUNS;
    while (font->runs[at].text &&
           (strncmp(font->runs[at].text, text, length) != 0 || font->runs[at].text[length] != '\0'))
        at = (at + 1) % RUNS;
    return &font->runs[at];
}

/* Lays the text out and keeps it. */
static int make_run(mr_font *font, const char *text, size_t length) {
    raqm_t *layout = raqm_create();
    run made = {0};
    char *copy = font->run_count < RUNS / 4 * 3 ? take(&font->run_bytes, length + 1) : NULL;
    decode(font, text, length);
    int status = copy ? shape(font, layout, &made) : MR_ERROR_AGAIN;
    if (layout)
        raqm_destroy(layout);
    if (status)
        return status;
    memcpy(copy, text, length);
    copy[length] = '\0';
    made.text = copy;
    *place_of(font, text, length) = made;
    font->run_count++;
    return MR_OK;
}

static int find_run(mr_font *font, const char *text, size_t length, const run **found) {
    *found = place_of(font, text, length);
    int status = (*found)->text ? MR_OK : make_run(font, text, length);
    if (status == MR_ERROR_AGAIN) {
        forget(font);
        status = make_run(font, text, length);
    }
    *found = place_of(font, text, length);
    return status == MR_ERROR_AGAIN ? mr_fail(MR_ERROR_DATA, "a text is too large to be drawn") : status;
}

/* ---- lines ------------------------------------------------------------------------------------------------------- */

static int32_t rounded(int64_t position) {
    return (int32_t)((position + 32) >> 6);
}

/* Where a glyph's bitmap begins, if its run begins at `pen`. */
static int32_t left_of(const placed *one, int64_t pen) {
    return rounded(pen + one->x) + one->glyph->left;
}

/* Adds a glyph to a line whose size is known. *end: the column after all earlier glyphs. */
static void add_glyph(const mr_font *font, const mr_text_line *line, const placed *one, int64_t pen, int32_t *end) {
    const int32_t top = font->ascent - rounded(one->y) - one->glyph->top, left = left_of(one, pen) - line->left;
    const int32_t room = line->columns - left, columns = one->glyph->columns < room ? one->glyph->columns : room;
    const bool alone = left >= *end;
    if (columns <= 0)
        return;
    *end = left + one->glyph->columns > *end ? left + one->glyph->columns : *end;
    for (int32_t y = 0; y < one->glyph->rows; y++) {
        if (top + y < 0 || top + y >= line->rows)
            continue;
        uint8_t *to = font->cover + (ptrdiff_t)(top + y) * line->columns + left;
        const uint8_t *from = one->glyph->cover + (ptrdiff_t)y * one->glyph->columns;
        if (alone)
            memcpy(to, from, (size_t)columns);
        for (int32_t x = 0; x < columns && !alone; x++) {
            const int sum = to[x] + from[x];
            to[x] = (uint8_t)(sum < 255 ? sum : 255);
        }
    }
}

static void add_run(const mr_font *font, const mr_text_line *line, const run *one, int64_t pen, int32_t *end) {
    for (size_t i = 0; i < one->count; i++)
        add_glyph(font, line, &one->glyphs[i], pen, end);
}

/* Extends the line so that the run fits. */
static void measure_run(mr_text_line *line, const run *one, int64_t pen) {
    for (size_t i = 0; i < one->count; i++) {
        const int32_t left = left_of(&one->glyphs[i], pen), right = left + one->glyphs[i].glyph->columns;
        const int32_t end = line->left + line->columns;
        line->left = left < line->left ? left : line->left;
        line->columns = (right > end ? right : end) - line->left;
    }
    line->missing = line->missing ? line->missing : one->missing;
    line->width = rounded(pen + one->width);
}

/* The length of the text that is laid out as a whole. Words repeat, such as labels and scores; lines seldom do. Words
 * in ASCII do not depend on each other. */
static size_t run_length(const char *text, bool words) {
    const size_t length = words ? strcspn(text, " ") : strlen(text);
    return length ? length : 1;
}

static bool has_plain_words(const char *text) {
    while (*text >= ' ' && *text < 0x7f)
        text++;
    return !*text;
}

/* Visits the runs in order: measures the line, or draws it. */
static int visit(mr_font *font, const char *text, mr_text_line *line, bool draw) {
    const bool words = has_plain_words(text);
    int64_t pen = 0;
    int32_t end = 0;
    for (size_t left = strnlen(text, MR_TEXT_MOST); left > 0 && pen / 64 < font->most;) {
        const run *one;
        const size_t length = run_length(text, words) < left ? run_length(text, words) : left;
        int status = find_run(font, text, length, &one);
        if (status)
            return status;
        if (draw)
            add_run(font, line, one, pen, &end);
        else
            measure_run(line, one, pen);
        pen += one->width;
        text += length;
        left -= length;
    }
    return MR_OK;
}

static int make_room(mr_font *font, size_t bytes) {
    if (bytes > font->cover_bytes) {
        mr_free(font->cover);
        font->cover = mr_alloc(bytes);
        font->cover_bytes = font->cover ? bytes : 0;
    }
    if (!font->cover)
        return mr_fail(MR_ERROR_MEMORY, "no memory for text");
    memset(font->cover, 0, bytes);
    return MR_OK;
}

int mr_font_line(mr_font *font, const char *text, mr_text_line *line) {
    *line = (mr_text_line){.rows = font->height};
    int status = visit(font, text, line, false);
    line->columns = line->columns < font->most ? line->columns : font->most;
    line->columns = line->columns > 0 ? line->columns : 1;
    if (!status)
        status = make_room(font, (size_t)line->columns * (size_t)line->rows);
    if (!status)
        status = visit(font, text, line, true);
    line->cover = font->cover;
    return status;
}

#include "stages/media/still/background.h"

#include <libavutil/intreadwrite.h>
#include <libavutil/pixdesc.h>
#include <stdbool.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

enum { PALETTE = 256 };

/* Samples of alpha in memory. */
typedef struct opacity {
    const uint8_t *data;
    ptrdiff_t stride;
    int step, depth;
    bool big, multiplied;
} opacity;

/* A picture's samples, widened to 16 bits. `line` and `alpha` have a row each, `sum` the alpha of a row of chroma. */
typedef struct samples {
    AVFrame *picture;
    const AVPixFmtDescriptor *about;
    int colours; /* components without alpha */
    opacity opacity;
    uint16_t *line, *alpha;
    uint32_t *sum;
} samples;

static int most_of(int depth) {
    return (1 << depth) - 1;
}

static bool is_chroma(const samples *s, int part) {
    return (part == 1 || part == 2) && s->colours > 1 && !(s->about->flags & AV_PIX_FMT_FLAG_RGB);
}

static uint8_t *row_at(const samples *s, int part, int y) {
    const AVComponentDescriptor *of = &s->about->comp[part];
    return s->picture->data[of->plane] + (ptrdiff_t)y * s->picture->linesize[of->plane] + of->offset;
}

static void widen(const uint8_t *from, int step, int depth, bool big, int width, uint16_t *to) {
    for (int x = 0; x < width; x++, from += step)
        to[x] = (uint16_t)(depth <= 8 ? *from : big ? AV_RB16(from) : AV_RL16(from));
}

static void read_row(const samples *s, int part, int y, int width, uint16_t *to) {
    const AVComponentDescriptor *of = &s->about->comp[part];
    widen(row_at(s, part, y), of->step, of->depth, s->about->flags & AV_PIX_FMT_FLAG_BE, width, to);
}

static void read_alpha(const samples *s, int y) {
    const opacity *of = &s->opacity;
    widen(of->data + y * of->stride, of->step, of->depth, of->big, s->picture->width, s->alpha);
}

static void write_row(const samples *s, int part, int y, int width, const uint16_t *from) {
    const AVComponentDescriptor *of = &s->about->comp[part];
    const bool big = s->about->flags & AV_PIX_FMT_FLAG_BE;
    uint8_t *to = row_at(s, part, y);
    for (int x = 0; x < width; x++, to += of->step) {
        if (of->depth <= 8)
            *to = (uint8_t)from[x];
        else if (big)
            AV_WB16(to, from[x]);
        else
            AV_WL16(to, from[x]);
    }
}

/* ---- which background -------------------------------------------------------------------------------------------- */

/* White's or black's sample in a component. */
static int background_of(const samples *s, int part, bool white) {
    const int depth = s->about->comp[part].depth;
    const bool limited = s->colours > 1 && !(s->about->flags & AV_PIX_FMT_FLAG_RGB) &&
                         s->picture->color_range != AVCOL_RANGE_JPEG;
    if (is_chroma(s, part))
        return 1 << (depth - 1);
    if (limited)
        return (white ? 235 : 16) << (depth - 8);
    return white ? most_of(depth) : 0;
}

/* The component that is nearest to luma: Y, gray, or green. */
static int light_of(const samples *s) {
    return s->about->flags & AV_PIX_FMT_FLAG_RGB ? 1 : 0;
}

static bool is_dark(const samples *s) {
    const int part = light_of(s);
    const double black = background_of(s, part, false), white = background_of(s, part, true);
    const double most = most_of(s->opacity.depth);
    double light = 0, seen = 0;
    for (int y = 0; y < s->picture->height; y++) {
        read_row(s, part, y, s->picture->width, s->line);
        read_alpha(s, y);
        for (int x = 0; x < s->picture->width; x++) {
            light += (s->line[x] - black) * (s->opacity.multiplied ? most : s->alpha[x]);
            seen += s->alpha[x];
        }
    }
    return light < seen * (white - black) / 2;
}

/* ---- components -------------------------------------------------------------------------------------------------- */

static uint16_t mix(uint32_t value, uint32_t background, uint64_t alpha, uint64_t most) {
    return (uint16_t)((value * alpha + background * (most - alpha) + most / 2) / most);
}

/* Premultiplied colours are already mixed with black. */
static uint16_t add(uint64_t value, uint32_t over_black, uint64_t alpha, uint64_t most, uint32_t limit) {
    value += (over_black * (most - alpha) + most / 2) / most;
    return (uint16_t)(value < limit ? value : limit);
}

/* Adds up the alpha of the pixels that each sample in row y covers; returns how many samples that are. */
static int sum_alpha(const samples *s, int y, int right, int down) {
    const int width = s->picture->width, height = s->picture->height;
    memset(s->sum, 0, (size_t)width * sizeof *s->sum);
    for (int row = y << down; row < (y + 1) << down && row < height; row++) {
        read_alpha(s, row);
        for (int x = 0; x < width; x++)
            s->sum[x >> right] += s->alpha[x];
    }
    return AV_CEIL_RSHIFT(width, right);
}

static int least(int a, int b) {
    return a < b ? a : b;
}

static void mix_component(const samples *s, int part, bool white) {
    const int right = is_chroma(s, part) ? s->about->log2_chroma_w : 0;
    const int down = is_chroma(s, part) ? s->about->log2_chroma_h : 0;
    const int width = s->picture->width, height = s->picture->height;
    const uint32_t background = (uint32_t)background_of(s, part, white);
    const uint32_t over_black = background - (uint32_t)background_of(s, part, false);
    const uint32_t limit = (uint32_t)most_of(s->about->comp[part].depth);
    for (int y = 0; y < AV_CEIL_RSHIFT(height, down); y++) {
        const int count = sum_alpha(s, y, right, down), rows = least(1 << down, height - (y << down));
        read_row(s, part, y, count, s->line);
        for (int x = 0; x < count; x++) {
            const int pixels = rows * least(1 << right, width - (x << right));
            const uint64_t most = (uint64_t)most_of(s->opacity.depth) * (uint64_t)pixels;
            const uint64_t alpha = s->sum[x] < most ? s->sum[x] : most;
            s->line[x] = s->opacity.multiplied ? add(s->line[x], over_black, alpha, most, limit)
                                               : mix(s->line[x], background, alpha, most);
        }
        write_row(s, part, y, count, s->line);
    }
}

static void make_opaque(const samples *s) {
    for (int x = 0; x < s->picture->width; x++)
        s->alpha[x] = (uint16_t)most_of(s->opacity.depth);
    for (int y = 0; y < s->picture->height && s->colours < s->about->nb_components; y++)
        write_row(s, s->colours, y, s->picture->width, s->alpha);
}

static int mix_components(samples *s, mr_background background) {
    const size_t width = (size_t)s->picture->width;
    s->line = mr_alloc(width * (2 * sizeof *s->line + sizeof *s->sum));
    if (!s->line)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a background behind a picture");
    s->alpha = s->line + width;
    s->sum = (uint32_t *)(void *)(s->alpha + width);
    const bool white = background == MR_BACKGROUND_WHITE || (background == MR_BACKGROUND_CONTRAST && is_dark(s));
    for (int part = 0; part < s->colours; part++)
        mix_component(s, part, white);
    make_opaque(s);
    mr_free(s->line);
    return MR_OK;
}

/* ---- palettes ---------------------------------------------------------------------------------------------------- */

/* An entry is 0xAARRGGBB. */
static bool has_dark_entries(const AVFrame *picture, const uint32_t entries[PALETTE]) {
    double light = 0, seen = 0;
    for (int y = 0; y < picture->height; y++)
        for (int x = 0; x < picture->width; x++) {
            const uint32_t entry = entries[picture->data[0][y * picture->linesize[0] + x]];
            light += (double)(entry >> 8 & 255) * (entry >> 24);
            seen += entry >> 24;
        }
    return light < seen * 127.5;
}

static void mix_palette(AVFrame *picture, mr_background background) {
    uint32_t entries[PALETTE];
    memcpy(entries, picture->data[1], sizeof entries);
    const bool white = background == MR_BACKGROUND_WHITE ||
                       (background == MR_BACKGROUND_CONTRAST && has_dark_entries(picture, entries));
    for (int i = 0; i < PALETTE; i++) {
        const uint32_t entry = entries[i];
        entries[i] = 255u << 24;
        for (int shift = 0; shift < 24; shift += 8)
            entries[i] |= (uint32_t)mix(entry >> shift & 255, white ? 255 : 0, entry >> 24, 255) << shift;
    }
    memcpy(picture->data[1], entries, sizeof entries);
}

/* ---- pictures ---------------------------------------------------------------------------------------------------- */

/* Whether a background can be put behind it: it has alpha, and each sample has bytes of its own. */
static bool is_transparent(const AVPixFmtDescriptor *about) {
    const uint64_t others = AV_PIX_FMT_FLAG_HWACCEL | AV_PIX_FMT_FLAG_FLOAT | AV_PIX_FMT_FLAG_BITSTREAM;
    if (!about || !(about->flags & AV_PIX_FMT_FLAG_ALPHA) || about->flags & others)
        return false;
    for (int part = 0; part < about->nb_components; part++)
        if (about->comp[part].shift || about->comp[part].depth < 8)
            return false;
    return true;
}

int mr_background_put(AVFrame *picture, mr_background background) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(picture->format);
    if (!background || !is_transparent(about))
        return MR_OK;
    if (about->flags & AV_PIX_FMT_FLAG_PAL) {
        mix_palette(picture, background);
        return MR_OK;
    }
    const int last = about->nb_components - 1;
    const AVComponentDescriptor *of = &about->comp[last];
    samples s = {.picture = picture, .about = about, .colours = last};
    s.opacity = (opacity){.data = row_at(&s, last, 0), .stride = picture->linesize[of->plane], .step = of->step,
                          .depth = of->depth, .big = about->flags & AV_PIX_FMT_FLAG_BE};
    return mix_components(&s, background);
}

int mr_background_put_alpha(AVFrame *picture, const mr_alpha *alpha, mr_background background) {
    const AVPixFmtDescriptor *about = av_pix_fmt_desc_get(picture->format);
    if (!background)
        return MR_OK;
    samples s = {.picture = picture, .about = about, .colours = about->nb_components,
                 .opacity = {.data = alpha->data, .stride = alpha->stride, .step = alpha->depth > 8 ? 2 : 1,
                             .depth = alpha->depth, .multiplied = alpha->multiplied}};
    return mix_components(&s, background);
}

void mr_background_put_bit(AVFrame *picture, bool transparent, mr_background background) {
    const bool white = background == MR_BACKGROUND_WHITE;
    /* What is seen has the other colour, so `contrast` keeps all as it is. */
    if (background == MR_BACKGROUND_NONE || background == MR_BACKGROUND_CONTRAST || transparent == white)
        return;
    for (int y = 0; y < picture->height; y++)
        memset(picture->data[0] + y * picture->linesize[0], white ? 255 : 0, (size_t)(picture->width + 7) / 8);
}

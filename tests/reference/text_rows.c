/* Finds lines of text in a map, and reads what a network scored, for text.py. Prints numbers with all digits.
 *
 *   text_rows db WIDTH HEIGHT SCORE MOST APART    lines: score, 8 numbers; "cut" if there were more. APART: 0 or 1
 *   text_rows ctc STEPS CLASSES BLANK BEAM KIND   KIND: logits or probabilities. Score, then the classes.
 *   text_rows warp WIDTH HEIGHT W H X Y ... X Y   values of a gray picture's quadrilateral, made W x H
 *
 * Standard input: f32 values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/detect/box_db.h"
#include "kernels/text/ctc.h"
#include "kernels/text/warp.h"
#include "millrace/status.h"

static float *read_values(size_t count) {
    float *values = malloc(count * sizeof *values);
    if (!values || fread(values, sizeof *values, count, stdin) != count)
        exit(EXIT_FAILURE);
    return values;
}

static int find_lines(char **words) {
    const int64_t dims[2] = {atoll(words[1]), atoll(words[0])};
    const mr_box_head_output output = {"map", mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 2, dims)};
    mr_box_head head;
    const mr_box_head_params params = {.family = MR_BOX_HEAD_DB, .width = (int32_t)dims[1], .height = (int32_t)dims[0]};
    if (mr_box_head_make(&head, &params, &output, 1)) {
        puts(mr_message());
        return 1;
    }
    head.mask = 0.3f;
    head.unclip = 1.6;
    head.apart = atoi(words[4]);
    float *map = read_values((size_t)(dims[0] * dims[1]));
    mr_db_lines lines = {.width = head.width, .height = head.height, .most = atoi(words[3])};
    lines.item = malloc((size_t)lines.most * sizeof *lines.item);
    lines.corner = malloc((size_t)lines.most * MR_BOX_CORNER_NUMBERS * sizeof *lines.corner);
    if (!lines.item || !lines.corner || mr_box_db_find(&head, map, (float)atof(words[2]), &lines))
        return 1;
    for (int32_t i = 0; i < lines.count; i++) {
        printf("%.9g", (double)lines.item[i].score);
        for (int k = 0; k < MR_BOX_CORNER_NUMBERS; k++)
            printf(" %.9g", (double)lines.corner[i * MR_BOX_CORNER_NUMBERS + k]);
        puts("");
    }
    if (lines.cut)
        puts("cut");
    free(lines.item);
    free(lines.corner);
    free(map);
    return 0;
}

static int read_text(char **words) {
    const size_t steps = strtoull(words[0], NULL, 10);
    const mr_ctc ctc = {.classes = strtoull(words[1], NULL, 10), .blank = strtoull(words[2], NULL, 10),
                        .beam = strtoull(words[3], NULL, 10), .logits = strcmp(words[4], "logits") == 0};
    float *values = read_values(steps * ctc.classes);
    mr_ctc_text text;
    if (mr_ctc_read(&ctc, values, steps, &text))
        return 1;
    printf("%.9g", (double)text.score);
    for (size_t i = 0; i < text.count; i++)
        printf(" %d", text.character[i]);
    puts("");
    free(values);
    return 0;
}

static uint8_t *read_gray(const mr_format *format) {
    const size_t count = mr_packed_bytes(format);
    float *values = read_values(count);
    uint8_t *bytes = malloc(count);
    for (size_t i = 0; i < count && bytes; i++)
        bytes[i] = (uint8_t)values[i];
    free(values);
    return bytes;
}

static int make_upright(char **words) {
    const mr_format from = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = atoi(words[0]),
                            .height = atoi(words[1])};
    const mr_format to = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = atoi(words[2]),
                          .height = atoi(words[3])};
    const double corner[4][2] = {{0, 0}, {to.width, 0}, {to.width, to.height}, {0, to.height}};
    double at[4][2];
    mr_plane source[MR_MAX_PLANES], target[MR_MAX_PLANES];
    mr_plane_map map;
    uint8_t *given = read_gray(&from), *made = malloc(mr_packed_bytes(&to));
    for (int i = 0; i < 8; i++)
        at[i / 2][i % 2] = atof(words[4 + i]);
    if (!given || !made || !mr_plane_map_make(&map, corner, (const double (*)[2])at))
        return 1;
    mr_lay_out(&from, 1, given, source);
    mr_lay_out(&to, 1, made, target);
    mr_warp(&map, &from, source, &to, target);
    for (size_t i = 0; i < mr_packed_bytes(&to); i++)
        printf("%d ", made[i]);
    puts("");
    free(given);
    free(made);
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 7 && strcmp(argv[1], "db") == 0)
        return find_lines(argv + 2);
    if (argc == 7 && strcmp(argv[1], "ctc") == 0)
        return read_text(argv + 2);
    if (argc == 14 && strcmp(argv[1], "warp") == 0)
        return make_upright(argv + 2);
    return 64;
}

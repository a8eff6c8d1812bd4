/* Finds lines of text in a map, and reads what a network scored, for text.py. Prints numbers with all digits.
 *
 *   text_rows db WIDTH HEIGHT SCORE MOST          lines: score, 8 numbers; "cut" if there were more
 *   text_rows ctc STEPS CLASSES BLANK BEAM KIND   KIND: logits or probabilities. Score, then the classes.
 *
 * Standard input: f32 values. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/detect/box_db.h"
#include "kernels/text/ctc.h"
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
    float *map = read_values((size_t)(dims[0] * dims[1]));
    mr_db_lines lines = {.width = head.width, .height = head.height, .most = atoi(words[3])};
    lines.item = malloc((size_t)lines.most * sizeof *lines.item);
    lines.corner = malloc((size_t)lines.most * MR_DB_NUMBERS * sizeof *lines.corner);
    if (!lines.item || !lines.corner || mr_box_db_find(&head, map, (float)atof(words[2]), &lines))
        return 1;
    for (int32_t i = 0; i < lines.count; i++) {
        printf("%.9g", (double)lines.item[i].score);
        for (int k = 0; k < MR_DB_NUMBERS; k++)
            printf(" %.9g", (double)lines.corner[i * MR_DB_NUMBERS + k]);
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

int main(int argc, char **argv) {
    if (argc == 6 && strcmp(argv[1], "db") == 0)
        return find_lines(argv + 2);
    if (argc == 7 && strcmp(argv[1], "ctc") == 0)
        return read_text(argv + 2);
    return 64;
}

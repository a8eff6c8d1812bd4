/* Finds objects in raw network outputs for detect.py. Prints one object a line, with all digits.
 *
 *   detect_rows FAMILY WIDTH HEIGHT SCORE OVERLAP MOST NAME=TYPE:DIMxDIM... [custom KEY=VALUE...]
 *
 * FAMILY: the name of a head, or `find`, which prints the family that fits. Standard input: the outputs, one after
 * another. TYPE: f32, i32 or i64. KEY: boxes, scores, classes, order (a number), normalized, background, logits,
 * suppress; points, key_points, task and agnostic, for any family. Lines: left top right bottom score class row, then
 * x, y and score of each key point, x and y of four corners, or a mask's width, height and cells. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/detect/box_numbers.h"
#include "millrace/status.h"

static mr_box_head_output output[MR_BOX_HEAD_MOST_OUTPUTS];
static void *data[MR_BOX_HEAD_MOST_OUTPUTS];
static mr_box_head_custom custom;
static mr_box_head_params params = {.custom = &custom};
static bool agnostic;

static void take_output(size_t i, char *text) {
    static const mr_dtype types[] = {MR_DTYPE_F32, MR_DTYPE_I32, MR_DTYPE_I64};
    static const char *const names[] = {"f32", "i32", "i64"};
    int64_t dims[MR_MAX_RANK];
    int32_t rank = 0;
    mr_dtype type = MR_DTYPE_ANY;
    output[i].name = strtok(text, "=");
    const char *name = strtok(NULL, ":");
    for (size_t k = 0; k < 3; k++)
        type = strcmp(name, names[k]) == 0 ? types[k] : type;
    for (char *next; (next = strtok(NULL, "x"));)
        dims[rank++] = atoll(next);
    output[i].format = mr_tensor_format(type, MR_LAYOUT_FLAT, rank, dims);
    const size_t bytes = mr_tensor_bytes(&output[i].format);
    data[i] = malloc(bytes + 1);
    if (!data[i] || fread(data[i], 1, bytes, stdin) != bytes)
        exit(EXIT_FAILURE);
}

static void take_key(char *text) {
    const char *key = strtok(text, "="), *value = strtok(NULL, "");
    const bool on = atoi(value);
    if (strcmp(key, "boxes") == 0)
        custom.boxes = value;
    else if (strcmp(key, "scores") == 0)
        custom.scores = value;
    else if (strcmp(key, "classes") == 0)
        custom.classes = value;
    else if (strcmp(key, "order") == 0)
        custom.order = (mr_box_order)atoi(value);
    else if (strcmp(key, "normalized") == 0)
        custom.normalized = on;
    else if (strcmp(key, "background") == 0)
        custom.background = on;
    else if (strcmp(key, "logits") == 0)
        custom.logits = on;
    else if (strcmp(key, "suppress") == 0)
        custom.suppress = on;
    else if (strcmp(key, "points") == 0)
        params.points = atoi(value);
    else if (strcmp(key, "key_points") == 0)
        params.key_points = value;
    else if (strcmp(key, "task") == 0)
        params.task = value;
    else if (strcmp(key, "agnostic") == 0)
        agnostic = on;
}

static void print(const mr_box_head *head, const mr_boxes *found) {
    const void *items[MR_BOX_HEAD_MOST_OUTPUTS];
    float *numbers = malloc(((size_t)head->numbers + 1) * sizeof *numbers);
    memcpy(items, data, sizeof items);
    for (size_t i = 0; i < found->count && numbers; i++) {
        const mr_box *one = &found->item[i];
        const mr_box_mask *mask = (const mr_box_mask *)(const void *)numbers;
        printf("%.9g %.9g %.9g %.9g %.9g %d %d", (double)one->left, (double)one->top, (double)one->right,
               (double)one->bottom, (double)one->score, one->class_index, one->row);
        if (mr_box_numbers(head, items, one, numbers))
            exit(EXIT_FAILURE);
        for (int32_t k = 0; k < head->numbers && head->kind != MR_BOX_MASK; k++)
            printf(" %.9g", (double)numbers[k]);
        if (head->kind == MR_BOX_MASK)
            printf(" %d %d", mask->width, mask->height);
        for (int32_t k = 0; head->kind == MR_BOX_MASK && k < mask->width * mask->height; k++)
            printf(" %u", mask->bits[k / 32] >> k % 32 & 1);
        printf("\n");
    }
    free(numbers);
}

int main(int argc, char **argv) {
    enum { FAMILY = 1, WIDTH, HEIGHT, SCORE, OVERLAP, MOST, OUTPUTS };
    size_t count = 0;
    mr_box_head_family family = 0;
    mr_box_head head;
    mr_boxes found;
    const void *items[MR_BOX_HEAD_MOST_OUTPUTS];
    if (argc < OUTPUTS)
        return 64;
    for (int i = OUTPUTS; i < argc && strcmp(argv[i], "custom") != 0; i++)
        take_output(count++, argv[i]);
    for (int i = OUTPUTS + (int)count + 1; i < argc; i++)
        take_key(argv[i]);
    const int width = atoi(argv[WIDTH]), height = atoi(argv[HEIGHT]);
    if (strcmp(argv[FAMILY], "find") == 0) {
        params.width = width;
        params.height = height;
        return puts(mr_box_head_find(&family, &params, output, count) ? "none" : mr_box_head_names[family]) < 0;
    }
    while (mr_box_head_names[family] && strcmp(mr_box_head_names[family], argv[FAMILY]) != 0)
        family++;
    params.family = family;
    params.width = width;
    params.height = height;
    if (mr_box_head_make(&head, &params, output, count)) {
        puts(mr_message());
        return 1;
    }
    head.agnostic = agnostic;
    const size_t room = mr_box_head_most(&head) + 2;
    mr_box *candidate = malloc(room * sizeof *candidate);
    memcpy(items, data, sizeof items);
    mr_boxes_init(&found, candidate, room);
    mr_box_head_decode(&head, items, (float)atof(argv[SCORE]), NULL, &found);
    mr_box_head_finish(&head, (float)atof(argv[OVERLAP]), (size_t)atoll(argv[MOST]), &found);
    print(&head, &found);
    free(candidate);
    for (size_t i = 0; i < count; i++)
        free(data[i]);
    return 0;
}

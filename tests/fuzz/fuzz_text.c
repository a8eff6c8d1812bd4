/* Any numbers as a map of where text is, as what a text recogniser scored, and as corners of a line to be made upright.
 * The first byte chooses; two more have sizes.
 *
 *     tests/fuzz/run 60 fuzz_text */
#include <math.h>
#include <string.h>

#include "kernels/detect/box_db.h"
#include "kernels/text/ctc.h"
#include "kernels/text/warp.h"
#include "tests/fuzz/fuzz.h"

enum { MOST_NUMBERS = 4096, MOST_LINES = 5 };

static void find_lines(const float *map, size_t count, size_t width) {
    const mr_box_head head = {.family = MR_BOX_HEAD_DB, .mask = 0.3f, .unclip = 1.6, .apart = true};
    mr_box item[MOST_LINES];
    float corner[MOST_LINES * MR_BOX_CORNER_NUMBERS];
    mr_db_lines lines = {.width = (int32_t)width, .height = (int32_t)(count / width), .most = MOST_LINES, .item = item,
                         .corner = corner};
    fault_if(mr_box_db_find(&head, map, 0.25f, &lines));
    fault_if(lines.count < 0 || lines.count > MOST_LINES);
    for (int32_t i = 0; i < lines.count; i++) {
        fault_if(!(item[i].score > 0.25f && item[i].score <= 1) || (i && item[i].score > item[i - 1].score));
        for (int k = 0; k < MR_BOX_CORNER_NUMBERS; k++)
            fault_if(!isfinite(corner[i * MR_BOX_CORNER_NUMBERS + k]));
    }
}

static void read_text(const float *values, size_t count, size_t classes, size_t how) {
    const mr_ctc ctc = {.classes = classes, .blank = how % 2 ? classes - 1 : 0, .beam = 1 + how / 4 % MR_CTC_MOST_BEAM,
                        .logits = how / 2 % 2};
    mr_ctc_text text;
    fault_if(mr_ctc_read(&ctc, values, count / classes, &text));
    fault_if(text.count > count / classes || !(text.score >= 0 && text.score <= 1));
    for (size_t i = 0; i < text.count; i++)
        fault_if(text.character[i] < 0 || (size_t)text.character[i] >= classes ||
                 (size_t)text.character[i] == ctc.blank);
}

static void warp(const float *numbers, size_t count, size_t width, size_t height) {
    static uint8_t from[64 * 64 * 3], to[64 * 64 * 3];
    const mr_pixel pixels[] = {MR_PIXEL_I420, MR_PIXEL_NV12, MR_PIXEL_RGB24, MR_PIXEL_GRAY8};
    const mr_format source = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixels[width % 4],
                              .width = 1 + (int32_t)width % 64, .height = 1 + (int32_t)height % 64};
    mr_format target = source;
    const double w = target.width = 1 + (int32_t)height % 60, h = target.height = 1 + (int32_t)width % 50;
    const double corner[4][2] = {{0, 0}, {w, 0}, {w, h}, {0, h}};
    double at[4][2];
    mr_plane planes[2][MR_MAX_PLANES] = {0};
    mr_plane_map map;
    for (size_t i = 0; i < 8; i++)
        at[i / 2][i % 2] = i < count && isfinite(numbers[i]) ? (double)numbers[i] : 0;
    mr_lay_out(&source, 1, from, planes[0]);
    mr_lay_out(&target, 1, to, planes[1]);
    if (mr_plane_map_make(&map, corner, (const double (*)[2])at))
        mr_warp(&map, &source, planes[0], &target, planes[1]);
}

FUZZ(data, bytes) {
    static float numbers[MOST_NUMBERS];
    if (bytes < 3)
        return;
    const size_t all = (bytes - 3) / sizeof *numbers, count = all < MOST_NUMBERS ? all : MOST_NUMBERS;
    memcpy(numbers, data + 3, count * sizeof *numbers);
    const size_t size = 1 + data[1] % 64;
    if (data[0] % 3 == 0 && count >= size)
        find_lines(numbers, count, size);
    else if (data[0] % 3 == 1)
        read_text(numbers, count, size, data[2]);
    else
        warp(numbers, count, data[1], data[2]);
}

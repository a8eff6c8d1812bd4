/* Draws labelled boxes on a 1920x1080 I420 picture, without a pipeline: prints the microseconds of processor time for a
 * frame (medians), with scores that change from frame to frame. objects/objects.py compares it with others, for the
 * same boxes.
 *
 *     bench_draw [BOXES [FRAMES]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "millrace/status.h"
#include "stages/draw/drawing.h"

enum { WIDTH = 1920, HEIGHT = 1080, MOST_FRAMES = 100000 };

static double now_us(void) {
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int order(const void *a, const void *b) {
    return (*(const double *)a > *(const double *)b) - (*(const double *)a < *(const double *)b);
}

static double median(double *values, int count) {
    qsort(values, (size_t)count, sizeof *values, order);
    return values[count / 2];
}

static mr_object box(int i) {
    mr_object one = {.left = (float)(50 + i * 389 % 1500), .top = (float)(60 + i * 211 % 700), .label = "person",
                     .track = i + 1};
    one.right = one.left + (float)(100 + i * 37 % 200);
    one.bottom = one.top + (float)(100 + i * 53 % 250);
    return one;
}

/* What one frame takes; negative if it fails. */
static double draw(mr_font *font, const mr_frame *frame, const mr_result *objects, void *memory, int64_t at) {
    const double since = now_us();
    mr_sketch sketch;
    mr_sketch_begin(&sketch, &frame->format, memory);
    mr_drawing drawing = {.sketch = &sketch, .font = font, .label = "{label} {track} {score}", .boxes = true};
    mr_drawing_begin(&drawing, frame);
    if (mr_drawing_add(&drawing, objects, at))
        return -1;
    const mr_paint_work work = mr_sketch_work(&sketch, frame, memory);
    return mr_paint(&work) ? -1 : now_us() - since;
}

int main(int argc, char **argv) {
    const int count = argc > 1 ? atoi(argv[1]) : 20, frames = argc > 2 ? atoi(argv[2]) : 500;
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = WIDTH, .height = HEIGHT};
    const size_t bytes = mr_format_bytes(&format);
    mr_frame frame = {.format = format, .geometry = mr_geometry_of(&format)};
    uint8_t *pixels = calloc(1, bytes), *other = calloc(1, bytes);
    void *memory = malloc(MR_SKETCH_BYTES);
    mr_object *objects = calloc((size_t)(count > 0 ? count : 1), sizeof *objects);
    double *drawn = calloc(MOST_FRAMES, sizeof *drawn), *copied = calloc(MOST_FRAMES, sizeof *copied);
    mr_font *font = NULL;
    if (count < 1 || frames < 1 || frames > MOST_FRAMES || !pixels || !other || !memory || !objects || !drawn ||
        !copied || mr_font_open(&font, "Sans")) {
        fprintf(stderr, "bench_draw: %s\n", font ? "no memory" : mr_message());
        return 1;
    }
    const mr_result result = {.kind = mr_kind_objects(), .data = objects, .count = (size_t)count};
    mr_lay_out(&format, MR_ROW_ALIGNMENT, pixels, frame.plane);
    for (int at = 0; at < frames; at++) {
        for (int i = 0; i < count; i++) {
            objects[i] = box(i);
            objects[i].score = (float)((i * 7 + at) % 100) / 100;
        }
        drawn[at] = draw(font, &frame, &result, memory, at);
        const double since = now_us();
        memcpy(other, pixels, bytes);
        copied[at] = now_us() - since;
    }
    printf("{\"draw_us\": %.1f, \"copy_us\": %.1f}\n", median(drawn, frames), median(copied, frames));
    mr_font_close(&font);
    free(pixels);
    free(other);
    free(memory);
    free(objects);
    free(drawn);
    free(copied);
    return 0;
}

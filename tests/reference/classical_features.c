/* Computes one classical feature for classical.py. Reads raw 8-bit planes from standard input, and writes raw results.
 *
 *   classical_features hog WIDTH HEIGHT CHANNELS BLOCK_W BLOCK_H STRIDE_X STRIDE_Y CELL_W CELL_H BINS FULL_TURN GAMMA
 *   classical_features histogram WIDTH HEIGHT SPACE BINS JOINT    SPACE: 0 RGB, 1 HSV; floats
 *   classical_features phash                                      32 x 32 samples; 8 bytes
 *   classical_features sharpness WIDTH HEIGHT SCALE               a float
 *   classical_features change COUNT NOISE                         two arrays of COUNT samples; a uint32 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/classical/classical.h"
#include "millrace/status.h"
#include "tests/reference/raw.h"

static int number[16];

static int write_result(const void *result, size_t bytes) {
    return fwrite(result, 1, bytes, stdout) == bytes ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int hog(void) {
    const int *n = number;
    const mr_hog_params params = {.width = n[0], .height = n[1], .channels = n[2], .block_width = n[3],
                                  .block_height = n[4], .stride_x = n[5], .stride_y = n[6], .cell_width = n[7],
                                  .cell_height = n[8], .bins = n[9], .full_turn = n[10] != 0, .gamma = n[11] != 0,
                                  .clip = 0.2f};
    mr_hog *made = NULL;
    uint8_t *samples = read_many(stdin, (size_t)n[0] * (size_t)n[1] * (size_t)n[2], 1);
    if (mr_hog_create(&made, &params)) {
        fprintf(stderr, "%s\n", mr_message());
        free(samples);
        return EXIT_FAILURE;
    }
    size_t bytes = (size_t)mr_hog_length(mr_hog_layout_of(made)) * sizeof(float);
    float *result = malloc(bytes);
    void *scratch = aligned_alloc(64, (mr_hog_scratch_bytes(made) + 63) / 64 * 64);
    int code = EXIT_FAILURE;
    if (result && scratch) {
        mr_hog_run(made, mr_classical_rows_get(), samples, result, scratch);
        code = write_result(result, bytes);
    }
    mr_hog_destroy(&made);
    free(samples);
    free(result);
    free(scratch);
    return code;
}

static int histogram(void) {
    const mr_histogram_params params = {.width = number[0], .height = number[1],
                                        .space = (mr_color_space)number[2], .bins = number[3],
                                        .joint = number[4] != 0};
    size_t bytes = (size_t)mr_histogram_length(&params) * sizeof(float);
    uint8_t *samples = read_many(stdin, 3 * (size_t)params.width * (size_t)params.height, 1);
    float *result = malloc(bytes);
    int code = EXIT_FAILURE;
    if (result && mr_histogram(&params, samples, result) == MR_OK)
        code = write_result(result, bytes);
    free(samples);
    free(result);
    return code;
}

static int phash(void) {
    uint8_t *samples = read_many(stdin, 32 * 32, 1), hash[MR_HASH_BYTES];
    mr_phash(samples, hash);
    free(samples);
    return write_result(hash, sizeof hash);
}

static int sharpness(float scale) {
    float result = 0.0f;
    uint8_t *samples = read_many(stdin, (size_t)number[0] * (size_t)number[1], 1);
    mr_sharpness(mr_classical_rows_get(), &(mr_sharpness_item){.src = samples, .stride = number[0], .width = number[0],
                                                           .height = number[1], .scale = scale, .dst = &result});
    free(samples);
    return write_result(&result, sizeof result);
}

static int change(void) {
    size_t count = (size_t)number[0];
    uint32_t changed = 0;
    uint8_t *samples = read_many(stdin, 2 * count, 1);
    mr_change(mr_classical_rows_get(), &(mr_change_work){.a = samples, .b = samples + count, .count = count,
                                                     .noise = number[1], .changed = &changed});
    free(samples);
    return write_result(&changed, sizeof changed);
}

int main(int count, char **words) {
    for (int i = 2; i < count && i < 18; i++)
        number[i - 2] = atoi(words[i]);
    const char *name = count > 1 ? words[1] : "";
    if (strcmp(name, "hog") == 0 && count == 14)
        return hog();
    if (strcmp(name, "histogram") == 0 && count == 7)
        return histogram();
    if (strcmp(name, "phash") == 0)
        return phash();
    if (strcmp(name, "sharpness") == 0 && count == 5)
        return sharpness((float)atof(words[4]));
    if (strcmp(name, "change") == 0 && count == 4)
        return change();
    fprintf(stderr, "usage: see the top of tests/reference/classical_features.c\n");
    return 64;
}

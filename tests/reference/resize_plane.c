/* Resizes one gray 8-bit plane for resize.py. Reads width x height bytes from standard input, runs preprocess, and
 * writes the resized bytes.
 *
 *   resize_plane INTERPOLATION ANTIALIAS WIDTH HEIGHT TO_WIDTH TO_HEIGHT CROP_FRACTION
 *
 * INTERPOLATION: 0 nearest, 1 bilinear, 2 bicubic, 3 area. CROP_FRACTION 0: stretch the whole picture. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels/preprocess/preprocess_rows.h"
#include "kernels/preprocess/preprocess.h"
#include "millrace/status.h"

static int resize(const mr_preprocess_params *params, const mr_format *format) {
    size_t bytes = (size_t)format->width * (size_t)format->height;
    size_t results = (size_t)params->width * (size_t)params->height;
    uint8_t *src = malloc(bytes), *dst = malloc(3 * results);
    void *scratch = NULL;
    mr_preprocess *plan = NULL;
    int status = mr_preprocess_create(&plan, params, format);
    if (status == MR_OK)
        scratch = aligned_alloc(64, (mr_preprocess_scratch_bytes(plan) + 63) / 64 * 64);
    if (status < 0 || !scratch || !src || !dst || fread(src, 1, bytes, stdin) != bytes)
        return EXIT_FAILURE;
    mr_picture picture = {.data = {src}, .stride = {format->width}};
    mr_preprocess_run(plan, mr_preprocess_rows_get(), &picture, dst, scratch);
    bool written = fwrite(dst, 1, results, stdout) == results;
    mr_preprocess_destroy(&plan);
    free(scratch);
    free(src);
    free(dst);
    return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int count, char **words) {
    if (count != 8) {
        fprintf(stderr,
                "usage: resize_plane INTERPOLATION ANTIALIAS WIDTH HEIGHT TO_WIDTH TO_HEIGHT CROP_FRACTION\n");
        return 64;
    }
    double crop = atof(words[7]);
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = atoi(words[3]),
                              .height = atoi(words[4]), .range = MR_RANGE_FULL};
    const mr_preprocess_params params = {.width = atoi(words[5]), .height = atoi(words[6]),
                                         .fit = crop > 0.0 ? MR_FIT_CENTER_CROP : MR_FIT_STRETCH,
                                         .crop_fraction = crop > 0.0 ? crop : 1.0,
                                         .interpolation = (mr_interpolation)atoi(words[1]),
                                         .antialias = atoi(words[2]) != 0, .std = {1, 1, 1}, .dtype = MR_DTYPE_U8,
                                         .layout = MR_LAYOUT_NCHW};
    return resize(&params, &format);
}

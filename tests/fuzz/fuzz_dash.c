/* Manifests of DASH: each gives a playlist or an error, and so does the one that follows it (all that stands behind a
 * zero). */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "stages/live/web/dash.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void translate(mr_dash *dash, const uint8_t *text, size_t bytes) {
    const mr_dash_params params = {.url = "http://a/b/c.mpd", .date_ns = INT64_C(1700000000000000000),
                                   .max_pixels = INT64_C(1) << 30, .stream = -1};
    char *playlist;
    const int status = mr_dash_to_hls(dash, &params, (const char *)text, bytes, &playlist);
    if (status > 0 || (status && playlist))
        abort();
    mr_free(playlist);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : size;
    mr_dash dash = {0};
    mr_dash_may_be(data, first);
    translate(&dash, data, first);
    if (zero)
        translate(&dash, zero + 1, size - first - 1);
    mr_dash_fini(&dash);
    return 0;
}

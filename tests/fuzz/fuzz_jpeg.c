/* JPEG that is decoded at 1/4 or 1/8: what is not refused is what libavcodec decodes. The first byte chooses the
 * scale.
 *
 *     tests/fuzz/run 60 fuzz_jpeg */
#include <stdint.h>
#include <stdlib.h>

#include "tests/support/lowres.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static mr_jpeg_decoder *jpeg; /* keeps codes of inputs before, as that of a stage does */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    av_log_set_level(AV_LOG_QUIET);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size > 0 && compare_lowres(&jpeg, data + 1, size - 1, 2 + (data[0] & 1)) == LOWRES_WRONG)
        abort();
    return 0;
}

/* JPEG that is decoded at 1/4 or 1/8: what is not refused is what libavcodec decodes. The first byte chooses the
 * scale.
 *
 *     tests/fuzz/run 60 fuzz_jpeg */

#include "tests/fuzz/fuzz.h"
#include "tests/support/lowres.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
static mr_jpeg_decoder *jpeg; /* keeps codes from earlier inputs, like a stage's decoder */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    av_log_set_level(AV_LOG_QUIET);
    return 0;
}

FUZZ(data, size) {
    fault_if(size > 0 && compare_lowres(&jpeg, data + 1, size - 1, 2 + (data[0] & 1)) == LOWRES_WRONG);
}

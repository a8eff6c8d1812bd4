/* The row operations for reduced JPEG pictures in C, the reference that every other variant must equal bit for bit; and
 * the table. */
#include "kernels/jpeg/jpeg_rows.h"

static uint8_t clip(int sample) {
    return (uint8_t)(sample < 0 ? 0 : sample > 255 ? 255 : sample);
}

static void fours_c(uint8_t *const rows[2], const int16_t *blocks, int count, const int16_t factors[MR_JPEG_LOW]) {
    int rounded = (count + MR_JPEG_AT_ONCE - 1) / MR_JPEG_AT_ONCE * MR_JPEG_AT_ONCE;
    for (int i = 0; i < rounded; i++, blocks += MR_JPEG_LOW) {
        int mean = (int16_t)(blocks[0] * factors[0] + 4), across = (int16_t)(blocks[1] * factors[1]);
        int down = (int16_t)(blocks[2] * factors[2]), corner = (int16_t)(blocks[4] * factors[4]);
        rows[0][2 * i] = clip((mean + across + down + corner) >> 3);
        rows[0][2 * i + 1] = clip((mean - across + down - corner) >> 3);
        rows[1][2 * i] = clip((mean + across - down - corner) >> 3);
        rows[1][2 * i + 1] = clip((mean - across - down + corner) >> 3);
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

void mr_jpeg_rows_init(mr_jpeg_rows *table, mr_isa most) {
    table->fours = fours_c;
    MR_ROWS_FILL(jpeg, table, mr_isa_up_to(most));
}

MR_ROWS_OF_PROCESS(jpeg)

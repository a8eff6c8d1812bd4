#include "stages/media/coded/reorder.h"

enum { MOST = 16 };

/* ---- H.264 ------------------------------------------------------------------------------------------------------- */

/* E.1.2: hrd_parameters(). */
static void pass_buffers(mr_bits *bits) {
    unsigned left = mr_bits_golomb(bits) % 32 + 1;
    mr_bits_read(bits, 8);
    for (; left > 0; left--) {
        mr_bits_golomb(bits);
        mr_bits_golomb(bits);
        mr_bits_read(bits, 1);
    }
    mr_bits_read(bits, 20);
}

/* E.1.1, up to the chroma sample position. */
static void pass_look(mr_bits *bits) {
    enum { EXTENDED_ASPECT = 255 };
    if (mr_bits_read(bits, 1) && mr_bits_read(bits, 8) == EXTENDED_ASPECT)
        mr_bits_read(bits, 32);
    if (mr_bits_read(bits, 1)) /* overscan */
        mr_bits_read(bits, 1);
    if (mr_bits_read(bits, 1)) {
        mr_bits_read(bits, 4);
        if (mr_bits_read(bits, 1))
            mr_bits_read(bits, 24);
    }
    if (mr_bits_read(bits, 1)) { /* where chroma is */
        mr_bits_golomb(bits);
        mr_bits_golomb(bits);
    }
}

/* E.1.1; max_num_reorder_frames, below 0: it is not there. */
static int read_usability(mr_bits *bits) {
    bool buffers = false;
    pass_look(bits);
    if (mr_bits_read(bits, 1)) { /* timing */
        mr_bits_read(bits, 32);
        mr_bits_read(bits, 32);
        mr_bits_read(bits, 1);
    }
    for (int i = 0; i < 2; i++)
        if (mr_bits_read(bits, 1)) {
            buffers = true;
            pass_buffers(bits);
        }
    mr_bits_read(bits, buffers ? 2 : 1);
    if (!mr_bits_read(bits, 1))
        return -1;
    mr_bits_read(bits, 1);
    for (int i = 0; i < 4; i++)
        mr_bits_golomb(bits);
    const unsigned depth = mr_bits_golomb(bits);
    return bits->short_of || depth > MOST ? -1 : (int)depth;
}

/* 7.3.2.1.1: reads pic_order_cnt_type and its parameters. */
static unsigned read_order(mr_bits *bits) {
    const unsigned order = mr_bits_golomb(bits);
    if (order == 0)
        mr_bits_golomb(bits);
    if (order != 1)
        return order;
    mr_bits_read(bits, 1);
    mr_bits_golomb(bits); /* signed ones are as long */
    mr_bits_golomb(bits);
    for (unsigned left = mr_bits_golomb(bits); left > 0 && !bits->short_of; left--)
        mr_bits_golomb(bits);
    return order;
}

/* A.2: profiles without B pictures, or with only intra pictures (constraint_set3_flag). */
static bool cannot_reorder(unsigned profile, unsigned constraints) {
    enum { BASELINE = 66, MAIN = 77, CAVLC = 44, SCALABLE_BASELINE = 83, CONSTRAINT_3 = 0x10 };
    const bool intra = profile == CAVLC || (profile > MAIN && constraints & CONSTRAINT_3);
    return profile == BASELINE || profile == SCALABLE_BASELINE || intra;
}

mr_reorder mr_reorder_read_h264(mr_bits bits, unsigned profile, unsigned constraints) {
    enum { AS_DECODED = 2 };
    mr_reorder read = {.sure = true};
    const unsigned order = read_order(&bits), references = mr_bits_golomb(&bits);
    mr_bits_read(&bits, 1);
    mr_bits_golomb(&bits); /* width and height */
    mr_bits_golomb(&bits);
    read.fields = !mr_bits_read(&bits, 1) || bits.short_of;
    if (read.fields)
        mr_bits_read(&bits, 1);
    mr_bits_read(&bits, 1);
    if (mr_bits_read(&bits, 1))
        for (int i = 0; i < 4; i++)
            mr_bits_golomb(&bits);
    read.use_at = bits.short_of ? 0 : bits.at;
    if (order == AS_DECODED || cannot_reorder(profile, constraints)) {
        read.sure = !bits.short_of;
        return read;
    }
    const int depth = mr_bits_read(&bits, 1) ? read_usability(&bits) : -1;
    read.sure = depth >= 0;
    /* A picture that is shown before others needs two references, or at least one that is shown later. */
    const unsigned guessed = references > MOST ? MOST : references > 0 ? references - 1 : 0;
    read.depth = (uint8_t)(read.sure ? (unsigned)depth : guessed);
    return read;
}

/* ---- HEVC -------------------------------------------------------------------------------------------------------- */

mr_reorder mr_reorder_read_hevc(mr_bits bits, unsigned layers) {
    unsigned depth = 0;
    const bool all = mr_bits_read(&bits, 1);
    for (unsigned i = all ? 0 : layers; i <= layers; i++) {
        mr_bits_golomb(&bits); /* sps_max_dec_pic_buffering_minus1 */
        depth = mr_bits_golomb(&bits);
        mr_bits_golomb(&bits);
    }
    return bits.short_of || depth > MOST ? (mr_reorder){0} : (mr_reorder){.depth = (uint8_t)depth, .sure = true};
}

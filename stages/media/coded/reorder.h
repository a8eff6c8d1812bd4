/* From a sequence's parameters: how many pictures can be decoded before one that is shown earlier, and more. Pure
 * functions. */
#pragma once

#include "stages/media/coded/nal.h"

typedef struct mr_reorder {
    uint8_t depth;
    bool sure;     /* the parameters say so; else it is the most that the reference pictures allow */
    bool fields;   /* H.264: pictures may be fields */
    size_t use_at; /* H.264: position of the usage information (VUI), which does not affect pictures */
} mr_reorder;

/* H.264, 7.3.2.1.1, starting at pic_order_cnt_type. `constraints`: the six flags, the first one highest, as in the byte
 * after the profile. */
mr_reorder mr_reorder_read_h264(mr_bits bits, unsigned profile, unsigned constraints);
/* HEVC, 7.3.2.2.1, starting at sps_sub_layer_ordering_info_present_flag; `layers`: sps_max_sub_layers_minus1. */
mr_reorder mr_reorder_read_hevc(mr_bits bits, unsigned layers);

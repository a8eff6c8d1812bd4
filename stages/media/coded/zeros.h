/* Finds slices in H.264 and HEVC packets that zeros have overwritten, as failing disks and unfinished downloads leave
 * them. FFmpeg's decoders take zeros for skipped blocks: H.264's reports only some of them, HEVC's almost none.
 *
 * No NAL unit has three zeros in a row (H.264 and HEVC, 7.4.1 and 7.4.2: emulation prevention). Its last byte is not
 * zero either, but some streams pad units with zeros. Before start codes, padding is allowed and does not count as
 * damage. In units with lengths it is not allowed, so it counts unless the stream often has it. Short padding counts
 * only after some packets without any. A length of zero, which decoders pass over, counts as padding.
 *
 * One thread uses an mr_zeros. */
#pragma once

#include "stages/media/coded/packet.h"

/* All zero: a stream begins. */
typedef struct mr_zeros {
    unsigned packets; /* the last ones */
    unsigned padded;  /* those with padding */
} mr_zeros;

/* Call for each packet in decode order: whether zeros have overwritten a part of a slice. False for other codecs. */
bool mr_zeros_find(mr_zeros *zeros, const mr_packet *packet);

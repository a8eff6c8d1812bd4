/* This board's video decoders: V4L2's stateful memory-to-memory devices, nodes /dev/video*, as a Raspberry Pi has them.
 * No board was available: tests imitate a driver. Any thread. */
#pragma once

enum { MR_BOARD_DECODERS = 32, MR_BOARD_NODE = 24 };

typedef struct mr_board_decoder {
    const char *codec;              /* as libavcodec calls it: "h264" */
    unsigned max_width, max_height; /* px; 0: the driver does not say */
    char node[MR_BOARD_NODE];       /* "/dev/video10" */
    char card[32];                  /* as the driver calls it */
} mr_board_decoder;

typedef struct mr_board {
    int count;
    mr_board_decoder decoder[MR_BOARD_DECODERS];
    char closed[MR_BOARD_NODE]; /* a node that this process may not open; "": none */
} mr_board;

/* Asks every node, except on USB and PCI, where cameras are. The board has those decoders that pass 8-bit 4:2:0
 * pictures to libavcodec. */
void mr_board_probe(mr_board *board);
/* The first decoder for this codec; NULL: none. */
const mr_board_decoder *mr_board_decoder_for(const mr_board *board, const char *codec);

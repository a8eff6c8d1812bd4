/* Decodes with a board's V4L2 decoder (engine/device/probe/board.h), through libavcodec's wrappers, into the
 * processors' memory. If it fails, software continues.
 *
 * The pictures lie in the driver's memory, of which there is little: each is copied before the next is received. The
 * driver returns a time in microseconds with each picture and nothing else, so packets are sent with their number as
 * the time. What it says about colours and padding is replaced by what the stream announces: the pictures are those of
 * software.
 *
 * One thread at a time, except for mr_board_here, mr_board_suits and mr_board_is. */
#pragma once

#include <libavcodec/avcodec.h>

#include "engine/device/probe/board.h"
#include "millrace/stage.h"
#include "stages/media/media_hardware.h"

/* The state for one source. */
typedef struct mr_decode_board {
    const mr_stage *self;
    mr_hardware hardware;
    bool able;         /* the stage's options allow it */
    bool failed;       /* software decodes from now on */
    int width, height; /* announced, for the decoder that was opened last */
    char why[256];     /* it failed */
} mr_decode_board;

/* This board's decoders. Asked for once: they do not change. */
const mr_board *mr_board_here(void);
/* MR_OK if there is any. MR_ERROR_UNAVAILABLE with the reason. */
int mr_board_check(void);
/* MR_OK if the board can decode these packets, as far as the plan knows them; *decoder is then set. Otherwise
 * MR_ERROR_UNAVAILABLE with the reason. Any thread. */
int mr_board_suits(const mr_format_set *packets, const mr_board_decoder **decoder);
/* Whether it is a libavcodec decoder that uses V4L2. */
bool mr_board_is(const AVCodec *decoder);

/* `able`: false if the stage's options need what only software can do. */
void mr_decode_board_init(mr_decode_board *board, const mr_stage *self, mr_hardware hardware, bool able);
/* Chooses the libavcodec decoder to open for a media; NULL: software. `hurried`: packets have deadlines.
 * MR_ERROR_UNAVAILABLE if the board is required and cannot decode it. */
int mr_decode_board_choose(mr_decode_board *board, const mr_media *media, bool hurried, const AVCodec **decoder);
/* Prepares the chosen decoder before it is opened. */
void mr_decode_board_attach(mr_decode_board *board, AVCodecContext *codec);
/* The chosen decoder did not start, or cannot continue: logs why. */
void mr_decode_board_fail(mr_decode_board *board, const char *why);

/* Numbers a packet that is sent to a board's decoder. */
void mr_decode_board_number(AVPacket *packet, int64_t number);
/* Sets reordered_opaque to the number of a picture that a board's decoder gave, and replaces what its driver says. */
void mr_decode_board_describe(const mr_decode_board *board, const AVCodecContext *codec, AVFrame *picture);

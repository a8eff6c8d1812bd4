/* Lets a decoder write pictures directly into our buffers.
 *
 * FFmpeg calls get_buffer2 for memory, also from its threads. It gets one buffer for all planes, with the strides and
 * padding that the decoder needs. An emitted picture shares the buffer with the decoder, which can still predict from
 * it. The buffer returns to the pool when both have released it. If no buffer is free, or the decoder allocates memory
 * itself, FFmpeg's memory is wrapped instead. Decoding therefore never fails for lack of buffers.
 *
 * All sizes share one pool, which never exceeds the planned bytes. Unused buffers make room for others, and the next
 * packet waits until the largest picture would fit. If pictures become so large that too few buffers remain for
 * consumers, the pool warns and takes more memory. Shared memory has slots of one size: there a new size opens a new
 * pool, and the old one is freed with its last buffer. */
#pragma once

#include <libavcodec/avcodec.h>

#include "millrace/stage.h"
#include "stages/decode/device/decode_log.h"

typedef struct mr_picture_pool mr_picture_pool;

/* Memory and buffer count come from the plan for the stage's first output. `patches`: pictures that a decoder had to
 * conceal are used, so missing parts in stills must be 0. */
int mr_picture_pool_create(mr_picture_pool **pool, const mr_stage *stage, bool patches);
/* All decoders that use it must be freed first; emitted frames stay valid. */
void mr_picture_pool_destroy(mr_picture_pool **pool);

/* Makes an unopened decoder write to the pool, if it can. */
void mr_picture_pool_attach(mr_picture_pool *pool, AVCodecContext *codec);

/* The damage log for all attached decoders; valid as long as the pool. */
mr_decode_log *mr_picture_pool_log(mr_picture_pool *pool);
/* The same for a decoder, or for one thread's copy; NULL: it has no pool. */
mr_decode_log *mr_picture_pool_log_of(const AVCodecContext *codec);

/* Gives `to` (its format must be set) a decoded picture's planes; the frame then holds references. */
int mr_picture_pool_give(mr_picture_pool *pool, const AVFrame *picture, mr_frame *to);

/* The pool that must get room before the next packet is decoded. NULL if there is room, or if waiting could last
 * forever, because the decoder holds too many buffers for consumers to continue. */
mr_pool *mr_picture_pool_full(mr_picture_pool *pool);

/* Pictures that a decoder writes straight into buffers of ours.
 *
 * FFmpeg asks for memory through get_buffer2, from its own threads too. It gets one buffer for all planes, with the
 * strides and the padding that its decoders need. A picture that is given out shares that buffer with the decoder,
 * which may still predict from it; the buffer goes back to the pool when both have dropped it. If no buffer is left, or
 * the decoder brings memory of its own, FFmpeg's memory is wrapped instead, so that decoding never fails for lack of
 * room.
 *
 * All sizes share one pool, which takes no more bytes than planned: buffers that are not in use make room for others,
 * and the next packet waits for room for the largest picture. If pictures become so much larger than planned that too
 * few fit for the consumers, there is a warning, and more memory. Only in shared memory, whose slots are of one size, a
 * change of size opens a new pool; the old one dies with its last buffer. */
#ifndef MILLRACE_STAGES_DECODE_DEVICE_DECODE_POOL_H
#define MILLRACE_STAGES_DECODE_DEVICE_DECODE_POOL_H

#include <libavcodec/avcodec.h>

#include "millrace/stage.h"
#include "stages/decode/device/decode_heard.h"

typedef struct mr_picture_pool mr_picture_pool;

/* Memory and number of buffers are those planned for the first output of `stage`. `patches`: pictures that a decoder
 * had to patch up are used, so that the missing parts of stills are to be 0. */
int mr_picture_pool_create(mr_picture_pool **pool, const mr_stage *stage, bool patches);
/* Only after every decoder that uses it was freed; frames given out live on. */
void mr_picture_pool_destroy(mr_picture_pool **pool);

/* Most bytes of one buffer for pictures of `pictures`, as a decoder of that name (NULL: any) has them laid out. Sizes
 * that are open count as a square of `max_pixels`. */
size_t mr_picture_pool_bytes(const char *codec, const mr_format_set *pictures, int64_t max_pixels);

/* Whether decoders of a codec of that name (NULL: any) write into memory that they are given. */
bool mr_picture_pool_suits(const char *codec);

/* Makes the decoder (not yet opened) write into the pool, if it can. */
void mr_picture_pool_attach(mr_picture_pool *pool, AVCodecContext *codec);

/* What the decoders that are attached say of damage; as long as the pool. */
mr_heard *mr_picture_pool_heard(mr_picture_pool *pool);
/* The same of a decoder, which may be that of a thread; NULL: no pool is attached to it. */
mr_heard *mr_picture_pool_heard_of(const AVCodecContext *codec);

/* Gives `to`, whose format is set, the planes of a decoded picture; the frame then holds references. */
int mr_picture_pool_give(mr_picture_pool *pool, const AVFrame *picture, mr_frame *to);

/* The pool to wait for before the next packet may be decoded; NULL if there is room, or if waiting might be in vain,
 * because the decoder itself holds so many buffers that consumers have too few to go on. */
mr_pool *mr_picture_pool_full(mr_picture_pool *pool);

#endif

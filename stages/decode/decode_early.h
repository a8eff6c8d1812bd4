/* Decodes still pictures before their turn. Calls overlap, each with a separate decoder. Results are then taken in
 * packet order, as if one decoder had decoded all packets. This needs a decoder that answers each packet at once, with
 * a picture or without; other packets wait for their turn.
 *
 * mr_early_decode: any thread, one at a time per entry. All others: only the call in turn. */
#pragma once

#include "stages/decode/decode_codec.h"

typedef struct mr_early mr_early;

/* `entries`: how many calls can overlap. MR_ERROR_MEMORY. */
int mr_early_create(mr_early **early, int entries);
void mr_early_destroy(mr_early **early);
/* Frees the decoders, which must happen before their memory is freed. Later packets get new ones. Accepts NULL. */
void mr_early_close(mr_early *early);

/* Decodes a still picture's packet, unless this call has done so or the packet must wait for its turn. Sets
 * params->scale: from mr_reduced_scale if `reduces`, else 0. MR_ERROR_AGAIN: the pool must get room first. */
int mr_early_decode(mr_early *early, mr_codec_params *params, const mr_stage *stage, const mr_frame *frame,
                    bool reduces);

/* Begins and ends a call's turn. `done`: the packet needs no further call. */
void mr_early_begin_turn(mr_early *early, int entry);
void mr_early_end_turn(mr_early *early, bool done);
/* Whether the packet in turn was decoded early. Accepts NULL. */
bool mr_early_is_present(const mr_early *early);
/* After mr_early_send: the decoder; NULL: the packet was not decoded early. Accepts NULL. */
const AVCodecContext *mr_early_codec(const mr_early *early);
/* Whether that decoder concealed errors. */
bool mr_early_patched(const mr_early *early);
/* Like mr_codec_decode; also gives the scale. */
int mr_early_send(mr_early *early, int64_t number, int *scale);
/* As mr_codec_receive. */
int mr_early_receive(mr_early *early, AVFrame *picture);

/* The part of decode that has still pictures. Each packet is one picture and depends on no other: it is decoded at
 * once, in parallel if calls overlap, and settled in turn. */
#pragma once

#include "stages/decode/decode_output.h"

typedef struct mr_stills mr_stills;

/* `output` must stay valid. MR_ERROR_MEMORY. */
int mr_stills_create(mr_stills **stills, mr_decode_output *output);
/* Accepts a half-made one and NULL. */
void mr_stills_destroy(mr_stills **stills);

/* Decodes the call's input unless its turn must come first. Any thread, one at a time per entry. MR_ERROR_AGAIN: the
 * pool must get room first. */
int mr_stills_decode_early(mr_stills *stills, mr_io *io);
/* Settles the call's input, and decodes it before if that was not done. Only in turn. */
int mr_stills_process(mr_stills *stills, mr_io *io);
/* Call at the source's end: logs counts and frees the decoders. Later packets get new ones. */
void mr_stills_end(mr_stills *stills);

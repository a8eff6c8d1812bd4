/* One source's decoded pictures on the way out: their memory, formats and numbers, and the messages about them. Videos
 * (decode_video.h) and still pictures (stills.h) share it. One thread at a time. */
#pragma once

#include "stages/decode/device/target.h"
#include "stages/decode/report.h"
#include "stages/decode/stream.h"
#include "stages/media/still/orientation.h"

typedef struct mr_decode_output {
    mr_stage *self;
    mr_decode_target target;
    mr_decode_stream stream;
    mr_decode_report report;
    bool outgrown; /* a picture was larger than announced; reported */
    bool refused;  /* the device's decoder can neither continue nor be replaced */
} mr_decode_output;

/* How an arriving packet must be settled before it is decoded; all zero: it is to be decoded. */
typedef struct mr_decode_admission {
    bool skipped;       /* an option skips it */
    const char *reason; /* it is dropped, also if an option skips it; NULL: it is not, or is unusable */
    bool unusable;      /* it must be reported as damaged, and is dropped for the reason that the report gives */
} mr_decode_admission;

int mr_decode_output_open(mr_decode_output *output, mr_stage *self);
/* Returns the buffers; emitted frames stay valid. All decoders must be freed first. */
void mr_decode_output_close(mr_decode_output *output);
/* All work must be done. */
void mr_decode_output_fini(mr_decode_output *output);

/* Whether a packet is to be decoded, as far as the packet shows: no option skips it, and libavcodec takes its size. */
bool mr_decode_output_is_decodable(const mr_decode_output *output, const mr_frame *packet);
/* Decides about an arriving packet. The caller must settle it unless it is to be decoded. */
mr_decode_admission mr_decode_output_admit(mr_decode_output *output, const mr_frame *packet);
/* Makes a frame from the picture that comes next in the stream, and emits it; the packet's receipt passes to the frame.
 * `upright`: a still picture's orientation; NULL: the packet's media has it. MR_ERROR_AGAIN as mr_io_acquire. */
int mr_decode_output_emit(mr_decode_output *output, mr_io *io, AVFrame *picture, const AVCodecContext *codec,
                          const mr_frame *packet, const mr_upright *upright);
/* Fails the source, once, if the device's decoder has refused it. */
void mr_decode_output_check(mr_decode_output *output, mr_io *io);

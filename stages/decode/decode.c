/* decode: compressed packets -> pictures, by libavcodec, straight into pool buffers if the decoder can.
 *
 * A packet's receipt ends here in one of three ways. Emitted: the picture is a frame. Absorbed: "skip", "not selected"
 * (decoded or not), "not shown" (edit list), "second field", "no picture". Dropped: "corrupt", "no key frame" (nothing
 * could be decoded yet), "stopped" (the picture's number is unknown, because earlier pictures were no longer read).
 *
 * A packet goes to one of two parts: videos (decode_video.h) or still pictures (stills.h). */
#include "stages/decode/decode_options.h"
#include "stages/decode/decode_video.h"
#include "stages/decode/stills.h"
#include "stages/list.h"
#include "stages/media/media_input.h"

typedef struct decode_state {
    mr_decode_output output;
    mr_decode_video video;
    mr_stills *stills;
} decode_state;

static const mr_format_set packets[] = {{.payload = MR_PAYLOAD_PACKET}, {.payload = MR_PAYLOAD_ANY}};
static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {
    {.name = "packets", .help = "compressed packets in decode order", .accepts = packets}, {.name = NULL}};
static const mr_port outputs[] = {
    {.name = "pictures", .help = "pictures in presentation order", .accepts = pictures}, {.name = NULL}};

static int open_decode(mr_stage *self) {
    decode_state *state = self->state;
    mr_av_log_capture();
    int status = mr_decode_output_open(&state->output, self);
    if (!status)
        status = mr_decode_video_open(&state->video, &state->output);
    return status ? status : mr_stills_create(&state->stills, &state->output);
}

static void close_decode(mr_stage *self) {
    decode_state *state = self->state;
    mr_decode_video_fini(&state->video);
    mr_stills_destroy(&state->stills);
    mr_decode_output_fini(&state->output);
}

static int process_still(decode_state *state, mr_io *io) {
    int answer = mr_stills_decode_early(state->stills, io);
    if (!answer)
        answer = mr_io_await_turn(io);
    if (!answer)
        answer = mr_decode_video_end(&state->video, io, false);
    return answer ? answer : mr_stills_process(state->stills, io);
}

static int process(mr_stage *self, mr_io *io) {
    decode_state *state = self->state;
    const mr_media *media = mr_io_input(io)->media;
    const int answer = media && media->codec && media->still ? process_still(state, io)
                                                             : mr_decode_video_process(&state->video, io);
    mr_decode_output_check(&state->output, io);
    return answer;
}

static int flush(mr_stage *self, mr_io *io, uint32_t source) {
    decode_state *state = self->state;
    const bool cut_short = mr_io_cut_short(io);
    int answer = mr_io_await_turn(io);
    if (!answer)
        answer = mr_decode_video_end(&state->video, io, cut_short);
    if (answer)
        return answer;
    const int failure = mr_decode_report_end(&state->output.report);
    mr_decode_video_close(&state->video);
    mr_stills_end(state->stills);
    mr_decode_output_close(&state->output);
    /* If the source was asked to end, undamaged pictures may have been left. */
    if (failure && !state->output.refused && !cut_short)
        mr_io_fail_source(io, source, failure);
    return MR_DONE;
}

const mr_stage_type mr_decode_stage = {
    .name = "decode",
    .summary = "decodes packets into pictures",
    .help = "Decodes with libavcodec what media reads. Pictures come in presentation order. They are numbered from 0 "
            "in each epoch; number 0 is the first picture after `start`, and pictures that duration, every or fps "
            "skip have numbers too. A picture keeps the stream's matrix, range, chroma siting, sample aspect ratio "
            "and rotation. A still picture has its rotation in EXIF (JPEG, PNG, WebP), XMP (PNG, WebP), TIFF's tag or "
            "HEIF's properties. Interlaced pictures are not deinterlaced, and HDR values are not mapped. In H.264, "
            "HEVC, VP9 and MPEG video, pictures that are not wanted, and on which no wanted picture depends, are not "
            "decoded. They count as \"not selected\", even if they are damaged. Pictures coded as fields, raw streams "
            "without times, and sources with a deadline whose pictures are reordered are all decoded. A plan takes "
            "sizes and memory from the container. If a stream changes to larger pictures, they get new buffers, which "
            "is logged once; a live source's larger pictures are dropped as \"too large\".",
    .inputs = inputs,
    .outputs = outputs,
    .options = mr_decode_options,
    .options_bytes = sizeof(mr_decode_choices),
    .state_bytes = sizeof(decode_state),
    .entry = MR_ENTRY_PER_SOURCE,
    .converts = true,
    .streams = true,
    .cuda = true,
    .negotiate = mr_decode_negotiate,
    .check_device = mr_decode_check,
    .check_input = mr_decode_check_input,
    .open = open_decode,
    .process = process,
    .flush = flush,
    .close = close_decode,
};

#include "stages/decode/stills.h"

#include "engine/base/memory.h"
#include "stages/decode/decode_options.h"
#include "stages/decode/selection.h"
#include "stages/decode/still_decoder.h"
#include "stages/decode/still_report.h"
#include "stages/media/media_input.h"

/* One call's packet. */
typedef struct entry {
    mr_still_decoder decoder;
    bool placed; /* in the stream, with what happens to the picture: */
    bool wanted, dropped;
} entry;

struct mr_stills {
    mr_decode_output *output;
    mr_selection selection;
    mr_still_report report;
    const void *codec; /* the last packet's, to compare */
    int count;
    entry entries[];
};

int mr_stills_create(mr_stills **result, mr_decode_output *output) {
    const int count = output->self->entries > 1 ? output->self->entries : 1;
    mr_stills *stills = mr_calloc(1, sizeof *stills + (size_t)count * sizeof *stills->entries);
    *result = stills;
    if (!stills)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    stills->output = output;
    mr_selection_begin(&stills->selection);
    int status = MR_OK;
    while (!status && stills->count < count)
        status = mr_still_decoder_init(&stills->entries[stills->count++].decoder);
    return status;
}

void mr_stills_destroy(mr_stills **stills) {
    for (int i = 0; *stills && i < (*stills)->count; i++)
        mr_still_decoder_fini(&(*stills)->entries[i].decoder);
    mr_free(*stills);
    *stills = NULL;
}

void mr_stills_end(mr_stills *stills) {
    mr_still_report_end(&stills->report, stills->output->self);
    for (int i = 0; i < stills->count; i++)
        mr_still_decoder_close(&stills->entries[i].decoder);
}

/* ---- before the turn --------------------------------------------------------------------------------------------- */

static int decode(mr_stills *stills, mr_io *io, entry *one) {
    return mr_still_decode(&one->decoder, stills->output->self, &stills->output->target, io);
}

/* A decoder that does not open is reported in turn. */
int mr_stills_decode_early(mr_stills *stills, mr_io *io) {
    entry *one = &stills->entries[mr_io_entry(io)];
    const mr_frame *packet = mr_io_input(io);
    if (stills->count == 1 || one->decoder.done || !mr_decode_output_is_decodable(stills->output, packet))
        return MR_OK;
    return decode(stills, io, one) == MR_ERROR_AGAIN ? MR_ERROR_AGAIN : MR_OK;
}

/* ---- in turn ----------------------------------------------------------------------------------------------------- */

static void drop_damaged(mr_stills *stills, mr_io *io, const mr_frame *packet) {
    mr_io_drop(io, packet, mr_still_report_damaged(&stills->output->report, packet));
}

/* True if the packet is settled without a decoder. */
static bool settle_undecoded(mr_stills *stills, mr_io *io, const mr_frame *packet) {
    const mr_decode_admission found = mr_decode_output_admit(stills->output, packet);
    if (found.unusable)
        drop_damaged(stills, io, packet);
    else if (found.reason)
        mr_io_drop(io, packet, found.reason);
    else if (found.skipped)
        mr_io_absorb(io, packet, "skip");
    else
        return false;
    return true;
}

static void begin(mr_stills *stills, mr_io *io, const mr_frame *packet) {
    mr_decode_output *output = stills->output;
    if (!mr_decode_stream_is_at(&output->stream, packet->identity.epoch)) {
        const mr_identity rest = mr_decode_stream_begin(&output->stream, packet->identity.epoch);
        mr_io_skip(io, rest.epoch, rest.seq, true);
        mr_selection_begin(&stills->selection);
    }
    if (stills->codec != packet->media->codec)
        mr_decode_report_note(&output->report, MR_DECODE_DECODER);
    stills->codec = packet->media->codec;
}

/* Places the decoded picture in the stream and decides what happens to it. */
static void judge(mr_stills *stills, entry *one, const mr_frame *packet) {
    mr_decode_output *output = stills->output;
    AVFrame *picture = one->decoder.picture;
    if (one->decoder.patched || picture->decode_error_flags || packet->flags & MR_FRAME_CORRUPT)
        picture->flags |= AV_FRAME_FLAG_CORRUPT;
    const bool damaged = picture->flags & AV_FRAME_FLAG_CORRUPT;
    one->dropped = damaged && ((const mr_decode_choices *)output->self->options)->damaged == MR_DAMAGED_DROP;
    mr_decode_report_note(&output->report, one->dropped ? MR_DECODE_DAMAGED : MR_DECODE_PICTURE);
    const int64_t time_ns = mr_decode_stream_place(&output->stream, NULL, packet, 0);
    one->wanted = mr_selection_wants(&stills->selection, packet->media, time_ns) && !one->dropped;
    one->placed = true;
}

/* Settles a packet whose decoder cannot be opened; other errors fail the stage. */
static int settle_unopened(mr_stills *stills, mr_io *io, const mr_frame *packet, int status) {
    if (status != MR_ERROR_DATA && status != MR_ERROR_UNAVAILABLE)
        return status;
    mr_decode_report_note(&stills->output->report, MR_DECODE_PACKET);
    mr_io_fail_source(io, packet->identity.source, status);
    mr_io_drop(io, packet, "no decoder");
    return MR_DONE;
}

/* Looks at what the decoder gave. Settles a packet without a picture. */
static void take_picture(mr_stills *stills, mr_io *io, entry *one, const mr_frame *packet) {
    mr_decode_output *output = stills->output;
    mr_decode_report_note(&output->report, MR_DECODE_PACKET);
    mr_decode_report_scale(&output->report, one->decoder.scale);
    mr_still_report_rest(&stills->report, output->self, packet);
    mr_av_recall(one->decoder.complaint);
    if (one->decoder.error)
        mr_decode_report_error(&output->report, one->decoder.error);
    if (one->decoder.picture->buf[0])
        judge(stills, one, packet);
    else
        drop_damaged(stills, io, packet);
}

static mr_upright upright_of(const mr_frame *packet, const AVFrame *picture) {
    const AVCodecParameters *codec = packet->media->codec;
    const AVDictionaryEntry *profile = av_dict_get(picture->metadata, "Raw profile type exif", NULL,
                                                   AV_DICT_MATCH_CASE);
    const mr_upright found = mr_still_upright(codec->codec_id, packet->plane[0].data, packet->plane[0].bytes);
    return profile && !found.rotation && !found.flip ? mr_upright_of_profile(profile->value) : found;
}

/* Settles a picture that is placed. After MR_ERROR_AGAIN, call again. */
static int settle(mr_stills *stills, mr_io *io, entry *one, const mr_frame *packet) {
    mr_decode_output *output = stills->output;
    const mr_still_decoder *from = &one->decoder;
    int status = MR_OK;
    if (one->wanted) {
        const mr_upright upright = upright_of(packet, from->picture);
        status = mr_decode_output_emit(output, io, from->picture, from->codec[from->scale], packet, &upright);
    }
    if (status == MR_ERROR_AGAIN)
        return status;
    if (mr_decode_stream_settle(&output->stream, one->wanted && !status)) {
        const mr_identity left_out = mr_decode_stream_skip(&output->stream);
        mr_io_skip(io, left_out.epoch, left_out.seq, false);
    }
    if (one->dropped)
        drop_damaged(stills, io, packet);
    else if (!one->wanted)
        mr_io_absorb(io, packet, "not selected");
    else if (status)
        mr_io_drop(io, packet, status == MR_ERROR_DEVICE ? "device error" : "cannot be carried");
    return MR_OK;
}

static int process(mr_stills *stills, mr_io *io, entry *one) {
    const mr_frame *packet = mr_io_input(io);
    if (!one->placed) {
        if (settle_undecoded(stills, io, packet))
            return MR_DONE;
        begin(stills, io, packet);
        const int status = one->decoder.done ? MR_OK : decode(stills, io, one);
        if (status)
            return settle_unopened(stills, io, packet, status);
        take_picture(stills, io, one, packet);
    }
    return one->placed ? settle(stills, io, one, packet) : MR_DONE;
}

int mr_stills_process(mr_stills *stills, mr_io *io) {
    entry *one = &stills->entries[mr_io_entry(io)];
    const int answer = process(stills, io, one);
    if (answer == MR_ERROR_AGAIN)
        return answer;
    mr_still_decoder_settle(&one->decoder);
    one->placed = false;
    return answer;
}

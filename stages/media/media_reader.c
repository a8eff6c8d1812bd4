#include "stages/media/media_reader.h"

#include <libavcodec/avcodec.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/references.h"
#include "stages/media/media_codec.h"

int mr_packet_room(mr_packet *packet, size_t bytes) {
    packet->buffer = mr_buffer_alloc(bytes + AV_INPUT_BUFFER_PADDING_SIZE);
    if (!packet->buffer)
        return MR_ERROR_MEMORY;
    packet->data = packet->buffer->data;
    packet->bytes = bytes;
    memset(packet->data + bytes, 0, AV_INPUT_BUFFER_PADDING_SIZE);
    return MR_OK;
}

int mr_packet_take(mr_packet *packet, AVPacket *from, mr_media *media) {
    mr_plane payload;
    int status = mr_packet_keep(from, &payload);
    if (status)
        return status;
    packet->buffer = payload.buffer;
    packet->data = payload.data;
    packet->bytes = payload.bytes;
    status = mr_side_pack(from, &packet->side);
    if (status)
        mr_buffer_unref(&packet->buffer);
    else
        packet->media = mr_media_ref(media);
    return status;
}

void mr_packet_drop(mr_packet *packet) {
    mr_buffer_unref(&packet->buffer);
    mr_buffer_unref(&packet->side);
    mr_media_unref(&packet->media);
    packet->data = NULL;
    packet->bytes = 0;
}

int mr_reader_read(mr_reader *reader, mr_packet *packet) {
    *packet = (mr_packet){.pts_ns = MR_NO_TIME, .dts_ns = MR_NO_TIME, .captured_ns = MR_NO_TIME,
                          .arrived_ns = MR_NO_TIME};
    return reader->type->read(reader, packet);
}

int mr_reader_survey(mr_reader *reader, mr_survey *survey) {
    *survey = (mr_survey){.set = {.payload = MR_PAYLOAD_PACKET}};
    return reader->type->survey(reader, survey);
}

int mr_reader_rewind(mr_reader *reader) {
    return reader->type->rewind(reader);
}

void mr_reader_destroy(mr_reader **reader) {
    if (*reader)
        (*reader)->type->destroy(*reader);
    *reader = NULL;
}

static void release_media(mr_media *media) {
    AVCodecParameters *codec = media->codec;
    avcodec_parameters_free(&codec);
    mr_free(media->label);
    mr_free(media->path);
    mr_free(media);
}

mr_media *mr_reader_describe(const mr_reader_params *params, const char *path, const AVCodecParameters *codec) {
    mr_media *media = mr_calloc(1, sizeof *media);
    AVCodecParameters *copy = avcodec_parameters_alloc();
    char *path_copy = mr_strdup(path), *label = params->label ? mr_strdup(params->label) : NULL;
    if (!media || !copy || !path_copy || (params->label && !label) || avcodec_parameters_copy(copy, codec) < 0) {
        avcodec_parameters_free(&copy);
        mr_free(label);
        mr_free(path_copy);
        mr_free(media);
        return NULL;
    }
    *media = (mr_media){.path = path_copy, .label = label,
                        .label_index = label ? params->label_index : -1, .codec = copy, .start_ns = params->start_ns,
                        .end_ns = params->end_ns, .every = params->every, .fps = params->fps,
                        .release = release_media};
    mr_references_begin(&media->references);
    return media;
}

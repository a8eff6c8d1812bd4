#include "stages/decode/decode_options.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "stages/decode/device/picture_layout.h"
#include "stages/decode/device/nvdec.h"
#include "stages/decode/device/target.h"
#include "stages/decode/jpeg/decode_reduced.h"
#include "stages/media/media_cuda.h"

enum { MOST_THREADS = 64, MOST_REFERENCES = 20 };

#define FIELD(name) offsetof(mr_decode_choices, name)
static const char *const skip_choices[] = {"none", "nonref", "nonkey", NULL};
static const char *const damaged_choices[] = {"drop", "keep", "mark", NULL};
/* Same order as mr_background. */
static const char *const background_choices[] = {"none", "white", "black", "contrast", NULL};
static const char *const reduced_choices[] = {"off", "auto", NULL};
/* Same order as mr_matrix and mr_range, where ANY is auto. */
static const char *const matrix_choices[] = {"auto", "bt601", "bt709", "bt2020", NULL};
static const char *const range_choices[] = {"auto", "limited", "full", NULL};
static const mr_option untagged_fields[] = {
    {.name = "matrix", .kind = MR_OPTION_ENUM, .offset = FIELD(untagged.matrix) - FIELD(untagged), .fallback = "auto",
     .choices = matrix_choices,
     .help = "the matrix of Y'CbCr; auto: bt709 from 1280 columns or 720 lines on, else bt601, as players do"},
    {.name = "range", .kind = MR_OPTION_ENUM, .offset = FIELD(untagged.range) - FIELD(untagged), .fallback = "auto",
     .choices = range_choices,
     .help = "whether black is 16 and white 235 of 255, or black 0 and white 255; auto: limited, but full for JPEG "
             "and for gray pictures outside of H.264"},
    MR_OPTIONS_END};

const mr_option mr_decode_options[] = {
    {.name = "threads", .neutral = true, .kind = MR_OPTION_STRING, .offset = FIELD(threads), .fallback = "auto",
     .help = "decoding threads per source. auto: a single source has one thread more than there are workers, several "
             "have one each. If a source is live or has a deadline, its threads share each picture, so that no "
             "picture waits for the next. For still pictures on the processors it is the number that workers decode "
             "at once, without extra threads"},
    {.name = "skip", .neutral = true, .kind = MR_OPTION_ENUM, .offset = FIELD(skip), .fallback = "none",
     .choices = skip_choices,
     .help = "skip pictures before they are decoded: those that no other picture depends on, or all but key frames"},
    {.name = "damaged", .neutral = true, .kind = MR_OPTION_ENUM, .offset = FIELD(damaged), .fallback = "drop",
     .choices = damaged_choices,
     .help = "drop: pictures that the decoder finds damaged or that lack packets are dropped as corrupt. So are later "
             "pictures, up to the next one that needs none of the damaged or missing ones. If the stream shows that "
             "no other picture depends on a damaged one, only that one is dropped. keep: all are kept. mark: all are "
             "kept, and their records have `damaged`. The decoder cannot detect all damage: it misses a few bytes of "
             "H.264, and most noise in HEVC, VP9 and AV1. Samples that a still picture lacks are 0"},
    {.name = "reduced", .kind = MR_OPTION_ENUM, .offset = FIELD(reduced), .fallback = "off", .choices = reduced_choices,
     .help = "auto: on the processors, JPEG is decoded at 1/4 or 1/8 of its size. This needs that only preprocess "
             "stages read the pictures, that all of them average (bilinear or bicubic with antialias, or area), and "
             "that they shrink the result at least by two (area: by four). It is faster and changes results a little. "
             "off: JPEG is decoded at its full size"},
    {.name = "background", .kind = MR_OPTION_ENUM, .offset = FIELD(background), .fallback = "none",
     .choices = background_choices,
     .help = "what is behind the transparent pixels of still pictures (HEIC and AVIF need libheif1). none: they keep "
             "the colour that is stored for them, often black, and networks see that, as with OpenCV's imread and "
             "Pillow's convert(\"RGB\"). contrast: white behind what is dark on average, black behind what is light: "
             "for text"},
    {.name = "untagged", .kind = MR_OPTION_MAP, .offset = FIELD(untagged), .fields = untagged_fields,
     .brief = "matrix",
     .help = "colour matrix and range for streams that do not declare them; a declared value is kept"},
    {.name = "hardware", .neutral = true, .kind = MR_OPTION_ENUM, .offset = FIELD(hardware), .fallback = "auto",
     .choices = mr_hardware_choices,
     .help = "auto: on a CUDA device NVDEC decodes, and on the processors of an ARM64 board its V4L2 decoder, if it "
             "supports the stream; else software. off: software decodes. require: sources that the hardware cannot "
             "decode are refused. In all cases the pictures are in the device's memory. V4L2 is left out for "
             "interlaced streams, for sources with a deadline, and with `skip: nonref`. If it fails while it decodes, "
             "software continues; it does not report damage as software does"},
    {.name = "max_pixels", .neutral = true, .kind = MR_OPTION_INT, .offset = FIELD(max_pixels),
     .fallback = "67108864", .min = 1, .max = 2147483647, .unit = "px",
     .help = "packets with larger pictures count as corrupt"},
    MR_OPTIONS_END};

/* 0 if the text is neither "auto" nor a number in range. */
static int parse_threads(const char *text, const mr_negotiation *negotiation) {
    if (strcmp(text, "auto") == 0) {
        /* Frame threads sometimes wait for each other: one more thread than cores keeps the cores busy. */
        int threads = negotiation->sources > 1 || negotiation->workers < 2 ? 1 : negotiation->workers + 1;
        return threads > MOST_THREADS ? MOST_THREADS : threads;
    }
    char *end;
    errno = 0;
    long threads = strtol(text, &end, 10);
    return errno || end == text || *end || threads < 1 || threads > MOST_THREADS ? 0 : (int)threads;
}

/* Pictures that a decoder holds for prediction and reordering: what the source declares, or what any codec allows. Each
 * frame thread or still decoder adds two: the one it works on and the previous one. If the estimate is too low, FFmpeg
 * allocates memory itself: that costs speed, but no pictures. */
static int retained_by(const mr_planned_input *packets, int threads, int overlap) {
    const char *name = packets->set.codec;
    const AVCodecDescriptor *about = name ? avcodec_descriptor_get_by_name(name) : NULL;
    const AVCodec *decoder = about ? avcodec_find_decoder(about->id) : NULL;
    bool one = decoder && !(decoder->capabilities & AV_CODEC_CAP_FRAME_THREADS);
    int decoders = overlap > 1 ? overlap : one ? 1 : threads;
    return (packets->references ? packets->references : MOST_REFERENCES) + 2 * decoders;
}

/* Calls that can decode still pictures at once on the processors. Threads inside a decoder would not help there. */
static int overlap_of(const mr_negotiation *negotiation, int threads) {
    int most = threads < negotiation->workers ? threads : negotiation->workers;
    return negotiation->inputs[0].stills && strcmp(negotiation->device, "cpu") == 0 && most > 1 ? most : 1;
}

/* The mean size as part of the largest buffer, which holds `max_pixels` if sizes are open; 0 if all pictures have the
 * same size. */
static size_t mean_bytes(const mr_planned_input *packets, int64_t max_pixels, size_t largest_bytes) {
    double largest = (double)packets->set.width.max * (double)packets->set.height.max;
    double mean = (double)packets->mean_pixels;
    largest = largest > 0 ? largest : (double)max_pixels;
    return mean > 0 && mean < largest ? (size_t)(mean / largest * (double)largest_bytes) : 0;
}

/* Uses the format that the container announces. If the stream changes later, frames carry the new one. */
static void expect_pictures(mr_negotiation *negotiation) {
    const mr_decode_choices *from = negotiation->options;
    const mr_format_set *packet = &negotiation->inputs[0].set;
    mr_planned_output *output = &negotiation->outputs[0];
    output->set = *packet;
    output->set.payload = MR_PAYLOAD_PICTURE;
    output->set.codec = NULL;
    if (strcmp(negotiation->device, "cpu") != 0 && from->hardware != MR_HARDWARE_OFF)
        mr_nvdec_widen(&output->set);
    output->buffer_bytes = mr_picture_layout_bytes(packet->codec, &output->set, from->max_pixels);
    output->buffer_mean_bytes = mean_bytes(&negotiation->inputs[0], from->max_pixels, output->buffer_bytes);
    output->mean_pixels = negotiation->inputs[0].mean_pixels;
    output->own_pool = true;
    output->external = !mr_picture_layout_suits(packet->codec);
}

static int64_t reduced_side(int64_t side) {
    return (side + (1 << MR_REDUCED_MOST) - 1) >> MR_REDUCED_MOST;
}

/* Tells the plan what `reduced: auto` means here. */
static void plan_reduced(mr_negotiation *negotiation) {
    const mr_decode_choices *from = negotiation->options;
    const char *codec = negotiation->inputs[0].set.codec;
    mr_format_set *pictures = &negotiation->outputs[0].set;
    if (from->reduced == MR_REDUCED_OFF)
        return;
    if (codec && strcmp(codec, "mjpeg") != 0)
        mr_remark(negotiation, "decodes whole pictures: reduced: auto is for JPEG, and these are %s", codec);
    else if (strcmp(negotiation->device, "cpu") != 0)
        mr_remark(negotiation, "decodes whole pictures: reduced: auto is for device: cpu");
    else if (negotiation->whole_for)
        mr_remark(negotiation, "decodes whole pictures in spite of reduced: auto, since %s takes them whole",
                  negotiation->whole_for);
    else {
        pictures->width.min = reduced_side(pictures->width.min);
        pictures->height.min = reduced_side(pictures->height.min);
        mr_remark(negotiation, "decodes JPEG at 1/8 or 1/4 of its size where the stages after it make that at least %d "
                  "times smaller again", MR_REDUCED_LEAST);
    }
}

/* Whether samples may have more than eight bits. */
static bool is_deep(uint32_t pixels) {
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++)
        if (pixels & MR_IN_SET(pixel))
            return mr_pixel_describe((mr_pixel)pixel)->depth > 8;
    return false;
}

/* Counts NVDEC work under the names in mr_planned_work. */
static void count_work(mr_negotiation *n) {
    const mr_format_set *packet = &n->inputs[0].set;
    const bool deep = is_deep(packet->pixels);
    static const struct {
        const char *codec, *plain, *deep;
    } names[] = {{"h264", "h264", "h264 of 10 bits"}, {"hevc", "hevc", "hevc10"}, {"vp9", "vp9", "vp9_10"}};
    if (mr_nvdec_suits(packet->codec, packet)) {
        n->work.unknown = "NVDEC does not take it, so that the host's processors decode";
        return;
    }
    double pixels = (double)packet->width.max * (double)packet->height.max;
    n->work.codec = packet->codec ? packet->codec : "an unknown part";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (packet->codec && strcmp(packet->codec, names[i].codec) == 0)
            n->work.codec = deep ? names[i].deep : names[i].plain;
    n->work.decoded_pixels = n->inputs[0].mean_pixels > 0 ? (double)n->inputs[0].mean_pixels : pixels;
}

/* Whether a V4L2 decoder decodes. If the board has one for the codec, the plan says whether it does, and why not. */
static bool plan_board(mr_negotiation *negotiation) {
    const mr_decode_choices *from = negotiation->options;
    const mr_board_decoder *decoder;
    const bool wanted = from->hardware == MR_HARDWARE_REQUIRE ||
                        (from->hardware == MR_HARDWARE_AUTO && from->skip != MR_SKIP_NONREF);
    const char *codec = negotiation->inputs[0].set.codec;
    if (!wanted || strcmp(negotiation->device, "cpu") != 0 || !codec || !mr_board_decoder_for(mr_board_here(), codec))
        return false;
    if (mr_board_suits(&negotiation->inputs[0].set, &decoder)) {
        mr_remark(negotiation, "decodes by software (%s): %s", codec, mr_message());
        return false;
    }
    mr_remark(negotiation, "decodes with V4L2: %s (%s)", decoder->node, decoder->card);
    return true;
}

/* Whether `hardware: require` cannot be, as far as packets show; the message has the reason. */
static bool lacks_hardware(const mr_negotiation *negotiation) {
    const mr_decode_choices *from = negotiation->options;
    const mr_format_set *packet = &negotiation->inputs[0].set;
    const mr_board_decoder *decoder;
    if (from->hardware != MR_HARDWARE_REQUIRE)
        return false;
    if (strcmp(negotiation->device, "cpu") != 0)
        return mr_nvdec_suits(packet->codec, packet);
    return mr_board_here()->count > 0 && packet->codec && mr_board_suits(packet, &decoder);
}

int mr_decode_negotiate(mr_negotiation *negotiation) {
    const mr_decode_choices *from = negotiation->options;
    int threads = parse_threads(from->threads, negotiation);
    if (!threads)
        return mr_refuse(negotiation, "threads", "threads must be auto or 1 to %d, not \"%s\"", MOST_THREADS,
                         from->threads);
    if (lacks_hardware(negotiation))
        return mr_refuse(negotiation, "hardware", "hardware: require cannot be: %s; write hardware: auto",
                         mr_message());
    expect_pictures(negotiation);
    plan_reduced(negotiation);
    /* If FFmpeg has threads, the caller waits for them; without threads, a call only computes. */
    bool on_device = strcmp(negotiation->device, "cpu") != 0, on_board = plan_board(negotiation);
    /* The caller also waits for hardware. */
    int overlap = overlap_of(negotiation, threads);
    negotiation->overlap = overlap > 1 ? overlap : 0;
    negotiation->blocking = (threads > 1 && overlap == 1) || on_device || on_board;
    negotiation->threads = threads > 1 && overlap == 1 ? threads : 0;
    negotiation->retained = retained_by(&negotiation->inputs[0], threads, overlap);
    if (on_device && from->hardware != MR_HARDWARE_OFF)
        negotiation->library_bytes = mr_nvdec_bytes(&negotiation->outputs[0].set);
    /* A device decoder keeps its memory to itself. */
    if (on_device && strcmp(negotiation->device, "auto") != 0)
        negotiation->retained = 0;
    if (on_device && from->hardware != MR_HARDWARE_OFF)
        count_work(negotiation);
    /* Software-decoded pictures are copied there from pinned memory. */
    if (on_device)
        negotiation->pinned_bytes = negotiation->outputs[0].buffer_bytes;
    return MR_OK;
}

int64_t mr_decode_live_pixels(const mr_stage *self) {
    const int64_t allowed = ((const mr_decode_choices *)self->options)->max_pixels;
    const mr_format_set *planned = &self->inputs[0].set;
    const int64_t most = (int64_t)planned->width.max * planned->height.max;
    return most > 0 && most < allowed ? most : allowed;
}

int64_t mr_decode_most_pixels(const mr_stage *self, const mr_media *media) {
    return media->live ? mr_decode_live_pixels(self) : ((const mr_decode_choices *)self->options)->max_pixels;
}

int mr_decode_check(const void *own, const char *device) {
    const mr_hardware hardware = (mr_hardware)((const mr_decode_choices *)own)->hardware;
    if (hardware != MR_HARDWARE_REQUIRE || strcmp(device, "cpu") != 0)
        return mr_hardware_check(hardware, device, mr_nvdec_check);
    return mr_board_check() ? mr_fail(MR_ERROR_CONFIG, "hardware: require needs a CUDA device or a V4L2 decoder, and "
                                      "%s; write device: cuda:0, or hardware: auto", mr_message()) : MR_OK;
}

int mr_decode_check_input(const void *own, const mr_format_set *input, const char *device, bool *otherwise) {
    return mr_nvdec_check_input((mr_hardware)((const mr_decode_choices *)own)->hardware, input, device,
                                otherwise);
}

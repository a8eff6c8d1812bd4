/* Prints FFmpeg's codec parameters as text and parses them back. */
#include <string.h>

#include <libavcodec/avcodec.h>

#include "millrace/status.h"
#include "stages/media/media_codec.h"
#include "tests/support/suite.h"

static AVCodecParameters *parameters(void) {
    AVCodecParameters *made = avcodec_parameters_alloc();
    assert_non_null(made);
    made->codec_type = AVMEDIA_TYPE_VIDEO;
    made->codec_id = AV_CODEC_ID_H264;
    made->codec_tag = MKTAG('a', 'v', 'c', '1');
    made->extradata = av_mallocz(5 + AV_INPUT_BUFFER_PADDING_SIZE);
    assert_non_null(made->extradata);
    memcpy(made->extradata, "extra", 5);
    made->extradata_size = 5;
    made->format = AV_PIX_FMT_YUV420P10;
    made->width = 1920;
    made->height = 1080;
    made->sample_aspect_ratio = (AVRational){4, 3};
    made->field_order = AV_FIELD_TT;
    made->color_range = AVCOL_RANGE_MPEG;
    made->color_primaries = AVCOL_PRI_BT2020;
    made->color_trc = AVCOL_TRC_SMPTE2084;
    made->color_space = AVCOL_SPC_BT2020_NCL;
    made->chroma_location = AVCHROMA_LOC_TOPLEFT;
    made->bits_per_coded_sample = 24;
    made->video_delay = 2;
    made->profile = FF_PROFILE_UNKNOWN;
    made->level = 51;
    return made;
}

TEST(test_there_and_back) {
    AVCodecParameters *from = parameters(), *to;
    mr_codec_description description;
    void *made;
    mr_av_codec.describe(from, &description);
    assert_string_equal(description.name, "h264");
    assert_string_equal(description.pixel, "yuv420p10le");
    assert_int_equal(mr_av_codec.make(&description, &made), MR_OK);
    to = made;
    assert_int_equal(to->codec_type, AVMEDIA_TYPE_VIDEO);
    assert_int_equal(to->codec_id, AV_CODEC_ID_H264);
    assert_int_equal(to->codec_tag, from->codec_tag);
    assert_int_equal(to->extradata_size, 5);
    assert_memory_equal(to->extradata, "extra\0\0\0", 8);
    assert_int_equal(to->format, from->format);
    assert_int_equal(to->width, 1920);
    assert_int_equal(to->height, 1080);
    assert_int_equal(to->sample_aspect_ratio.num * 10 + to->sample_aspect_ratio.den, 43);
    assert_int_equal(to->field_order, from->field_order);
    assert_int_equal(to->color_range, from->color_range);
    assert_int_equal(to->color_primaries, from->color_primaries);
    assert_int_equal(to->color_trc, from->color_trc);
    assert_int_equal(to->color_space, from->color_space);
    assert_int_equal(to->chroma_location, from->chroma_location);
    assert_int_equal(to->bits_per_coded_sample, 24);
    assert_int_equal(to->video_delay, 2);
    assert_int_equal(to->profile, FF_PROFILE_UNKNOWN);
    assert_int_equal(to->level, 51);
    mr_av_codec.release(made);
    avcodec_parameters_free(&from);
}

static void assert_refused(const mr_codec_description *description, const char *words) {
    void *made;
    assert_int_equal(mr_av_codec.make(description, &made), MR_ERROR_DATA);
    assert_string_equal(mr_message(), words);
}

TEST(test_refused) {
    mr_codec_description good = {.name = "h264", .pixel = ""}, bad = good;
    void *made;
    assert_int_equal(mr_av_codec.make(&good, &made), MR_OK);
    mr_av_codec.release(made);
    bad.name = "aac";
    assert_refused(&bad, "packets of aac, which is not a known video codec");
    bad = good;
    bad.pixel = "yuv";
    assert_refused(&bad, "packets of h264 with an unknown pixel format");
    bad = good;
    bad.width = 1u << 31;
    assert_refused(&bad, "packets of h264 with sizes that are too large");
    bad = good;
    bad.transfer = 200;
    assert_refused(&bad, "packets of h264 with a colour or a field order that does not exist");
    bad = good;
    bad.extra_bytes = SIZE_MAX;
    assert_refused(&bad, "packets of h264 with a header that is too long");
}

RUN_TESTS(NULL, NULL)

/* Readers: supported files, the order and times of packets, and refused files. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>

#include "stages/media/media_input.h"
#include "stages/media/media_list.h"
#include "stages/source/media_open.h"
#include "tests/support/clips.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

static mr_reader_params params_for(const char *uri) {
    return (mr_reader_params){.uri = uri, .stream = -1, .loops = 1, .every = 1, .rate = 25,
                              .timeout_ns = 10000000000, .max_pixels = 8192 * 8192};
}

static void drop(mr_packet *packet) {
    mr_buffer_unref(&packet->buffer);
    mr_buffer_unref(&packet->side);
    mr_media_unref(&packet->media);
}

static void assert_refused(const char *uri, int status, const char *words) {
    mr_reader_params params = params_for(uri);
    mr_reader *reader;
    assert_int_equal(mr_reader_open(&reader, &params), status);
    assert_null(reader);
    expect_words(mr_message(), words);
}

static mr_reader *open_uri(const mr_reader_params *params) {
    mr_reader *reader;
    if (mr_reader_open(&reader, params))
        fail_msg("%s", mr_message());
    return reader;
}

static mr_reader *open_plain(const char *uri) {
    const mr_reader_params params = params_for(uri);
    return open_uri(&params);
}

/* ---- order ----------------------------------------------------------------------------------------------------- */

TEST(natural_order_takes_digits_as_numbers) {
    const char *const sorted[] = {"a1.png", "a2.png", "a02.png", "a10.png", "a10b.png", "a100.png", "b1.png"};
    for (size_t i = 0; i < sizeof sorted / sizeof *sorted; i++)
        for (size_t j = 0; j < sizeof sorted / sizeof *sorted; j++) {
            int order = mr_compare_natural(sorted[i], sorted[j]);
            /* 2 and 02 are the same number. Bytes decide, so "02" comes first. */
            if ((i == 1 && j == 2) || (i == 2 && j == 1))
                assert_int_equal(order > 0, i == 1);
            else
                assert_int_equal((order > 0) - (order < 0), (i > j) - (i < j));
        }
    assert_true(mr_compare_natural("18446744073709551616.png", "18446744073709551617.png") < 0);
}

/* ---- refusals -------------------------------------------------------------------------------------------------- */

static void write_file(char path[CLIP_PATH], const char *name, const char *text) {
    clip_shell("mkdir -p test-clips");
    clip_path(path, name);
    write_bytes(path, text, strlen(text));
}

TEST(a_file_that_is_not_media_is_refused) {
    char path[CLIP_PATH];
    assert_refused("/nowhere/none.mp4", MR_ERROR_NO_INPUT, "No such file");
    assert_refused("/nowhere/*.png", MR_ERROR_NO_INPUT, "no file matches");
    write_file(path, "text.mp4", "this is not a video\n");
    assert_refused(path, MR_ERROR_DATA, "is not a video or image");
    write_file(path, "empty.mp4", "");
    assert_refused(path, MR_ERROR_DATA, "is empty");
    write_file(path, "pipeline.yaml",
               "version: 1\n"
               "pipeline: own\n"
               "sources: {p: {uri: photos/IMG_2.jpeg}}\n"
               "stages:\n"
               "  decode: {input: p}\n"
               "  preprocess: {input: decode, normalize: imagenet}\n"
               "  infer: {input: preprocess, model: ext.onnx}\n"
               "  classify: {input: infer, labels: l.txt}\n"
               "  results: {type: jsonl, input: classify}\n");
    assert_refused(path, MR_ERROR_DATA, "is not a video or image");
    assert_refused("/dev/zero", MR_ERROR_DATA, "device");
    assert_refused("http://127.0.0.1/a.mp4", MR_ERROR_NO_INPUT, "only files");
    assert_refused("-", MR_ERROR_NO_INPUT, "standard input");
    clip_path(path, "fifo");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_refused(path, MR_ERROR_DATA, "FIFO");
    clip_shell("mkdir -p test-clips/no-images && touch test-clips/no-images/a.txt");
    assert_refused("test-clips/no-images", MR_ERROR_DATA, "no images");
}

TEST(references_to_other_files_are_not_followed) {
    char path[CLIP_PATH];
    write_file(path, "list.m3u8",
               "#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n");
    assert_refused(path, MR_ERROR_DATA, "not followed: join the files that it lists");
    write_file(path, "list.ffconcat", "ffconcat version 1.0\nfile /etc/passwd\n");
    assert_refused(path, MR_ERROR_DATA, "not followed");
    write_file(path, "list.sdp",
               "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 5004 RTP/AVP 96\n");
    assert_refused(path, MR_ERROR_DATA, "not followed");
    write_file(path, "picture.svg", "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"9\" height=\"9\"></svg>");
    assert_refused(path, MR_ERROR_DATA, "is not a video or image");
    assert_refused("lavfi:movie=/etc/passwd", MR_ERROR_CONFIG, "\"movie\"");
    assert_refused("lavfi:testsrc,subtitles=/etc/passwd", MR_ERROR_CONFIG, "\"subtitles\"");
    assert_refused("lavfi:color[a];amovie@x=/etc/passwd[b];[a]null", MR_ERROR_CONFIG, "\"amovie\"");
    assert_refused("lavfi:'mov'ie=/etc/passwd", MR_ERROR_CONFIG, "\"movie\"");
    assert_refused("lavfi:sws_flags=bilinear;testsrc", MR_ERROR_CONFIG, "\"sws_flags\"");
    assert_refused("lavfi:tetsrc,hflip", MR_ERROR_CONFIG, "\"tetsrc\"; did you mean \"testsrc\"?");
    assert_refused("lavfi:testsrc=size=20000x20000", MR_ERROR_DATA, "max_pixels");
    mr_av_log_capture();
    assert_refused("lavfi:testsrc=sise=64x48", MR_ERROR_CONFIG, "'sise'");
    assert_refused("lavfi:scale=8:8", MR_ERROR_CONFIG, "no open input");
}

/* An MP4 index comes after the pictures, unless the file was made for streaming. */
CLIP_TEST(the_message_names_a_missing_index) {
    char path[CLIP_PATH], cut[CLIP_PATH];
    clip_make(path, "whole.mp4",
              "-f lavfi -i testsrc2=size=160x120:rate=25 -frames:v 30 -c:v libx264 -pix_fmt yuv420p");
    clip_path(cut, "cut.mp4");
    clip_shell("s=$(stat -c %%s %s) && head -c $((s / 2)) %s > %s", path, path, cut);
    assert_refused(cut, MR_ERROR_DATA, "its index (moov) is missing");
    assert_refused(cut, MR_ERROR_DATA, "cut off");
    clip_shell("s=$(stat -c %%s %s) && head -c $((s - 200)) %s > %s", path, path, cut);
    assert_refused(cut, MR_ERROR_DATA, "its index (moov) is incomplete");
    /* An empty moov is a different fault. */
    write_file(cut, "hollow.mp4", "");
    clip_shell("printf '\\000\\000\\000\\020ftypisom\\000\\000\\002\\000\\000\\000\\000\\010moov' > %s", cut);
    assert_refused(cut, MR_ERROR_DATA, "");
    assert_null(strstr(mr_message(), "moov"));
}

CLIP_TEST(sound_alone_is_not_a_video) {
    char path[CLIP_PATH], cover[CLIP_PATH], command[2 * CLIP_PATH];
    clip_make(path, "tone.wav", "-f lavfi -i sine=duration=0.2");
    assert_refused(path, MR_ERROR_DATA, "sound but no video");
    clip_make(path, "cover.jpg", "-f lavfi -i testsrc=size=64x48 -frames:v 1");
    snprintf(command, sizeof command, "-f lavfi -i sine=duration=0.2 -i %s -map 0 -map 1 -c:v copy "
             "-disposition:v attached_pic -id3v2_version 3", path);
    clip_make(cover, "cover.mp3", command);
    assert_refused(cover, MR_ERROR_DATA, "stream: 1 takes the cover");
    mr_reader_params params = params_for(cover);
    params.stream = 1;
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_uri(&params);
    mr_packet packet;
    assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
    assert_int_equal(((AVCodecParameters *)packet.media->codec)->codec_id, AV_CODEC_ID_MJPEG);
    drop(&packet);
    assert_int_equal(mr_reader_read(reader, &packet), MR_END);
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

CLIP_TEST(packets_are_those_of_ffprobe) {
    char path[CLIP_PATH];
    clip_make(path, "packets.mp4", "-f lavfi -i testsrc2=size=160x120:rate=25 -frames:v 30 -c:v libx264 -bf 2 -g 12 "
              "-pix_fmt yuv420p");
    FILE *answer = clip_ask("ffprobe -v error -select_streams v:0 -show_entries packet=pts_time,dts_time,size,flags "
                            "-of default=nw=1 '%s'", path);
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_plain(path);
    double pts, dts;
    long size;
    char flags[8];
    int count = 0;
    mr_packet packet;
    while (fscanf(answer, "pts_time=%lf dts_time=%lf size=%ld flags=%7s ", &pts, &dts, &size, flags) == 4) {
        assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
        assert_true(llabs(packet.pts_ns - (int64_t)(pts * 1e9)) < 2000);
        assert_true(llabs(packet.dts_ns - (int64_t)(dts * 1e9)) < 2000);
        assert_int_equal(packet.bytes, size);
        assert_int_equal(packet.flags & MR_FRAME_KEY, flags[0] == 'K');
        assert_true(packet.buffer->bytes >= packet.bytes + AV_INPUT_BUFFER_PADDING_SIZE);
        assert_int_equal(packet.media->frames, 30);
        drop(&packet);
        count++;
    }
    pclose(answer);
    assert_int_equal(count, 30);
    assert_int_equal(mr_reader_read(reader, &packet), MR_END);
    assert_int_equal(mr_reader_rewind(reader), MR_OK);
    assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
    assert_true(packet.flags & MR_FRAME_KEY);
    assert_int_equal(packet.pts_ns, 0);
    drop(&packet);
}

CLIP_TEST(sizes_beyond_the_limit_are_refused) {
    char path[CLIP_PATH];
    clip_make(path, "packets.mp4", "-f lavfi -i testsrc2=size=160x120:rate=25 -frames:v 30 -c:v libx264 -bf 2 -g 12 "
              "-pix_fmt yuv420p");
    mr_reader_params params = params_for(path);
    params.max_pixels = 160 * 120 - 1;
    ENDED_BY(mr_reader_destroy) mr_reader *reader;
    assert_int_equal(mr_reader_open(&reader, &params), MR_ERROR_DATA);
    expect_words(mr_message(), "160x120");
    params.max_pixels = 160 * 120;
    reader = open_uri(&params);
}

/* ---- images ---------------------------------------------------------------------------------------------------- */

static void make_folder(void) {
    clip_shell("rm -rf test-clips/mixed && mkdir -p test-clips/mixed/b test-clips/mixed/a");
    static const char *const names[] = {"mixed/10.png", "mixed/9.jpg", "mixed/b/1.png", "mixed/a/2.png",
                                        "mixed/a/1.bmp"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        clip_shell("ffmpeg -nostdin -v error -y -f lavfi -i testsrc=size=%dx%d -frames:v 1 test-clips/%s",
                   40 + 10 * (int)i, 30 + 2 * (int)i, names[i]);
    clip_shell("echo text > test-clips/mixed/readme.txt && echo broken > test-clips/mixed/11.png && "
               "touch test-clips/mixed/12.png test-clips/mixed/.hidden.png");
}

static void assert_image(mr_reader *reader, const char *name, enum AVCodecID codec, int label, double seconds) {
    mr_packet packet;
    assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
    assert_string_equal(strrchr(packet.media->path, '/') + 1, name);
    assert_int_equal(((AVCodecParameters *)packet.media->codec)->codec_id, codec);
    assert_int_equal(packet.media->label_index, label);
    assert_true(packet.media->still);
    assert_true(llabs(packet.pts_ns - (int64_t)(seconds * 1e9)) < 2);
    drop(&packet);
}

CLIP_TEST(folders_are_read_in_natural_order) {
    make_folder();
    mr_reader_params params = params_for("test-clips/mixed");
    params.rate = 10;
    mr_reader *reader = open_uri(&params);
    assert_image(reader, "9.jpg", AV_CODEC_ID_MJPEG, -1, 0);
    assert_image(reader, "10.png", AV_CODEC_ID_PNG, -1, 0.1);
    assert_image(reader, "11.png", AV_CODEC_ID_PNG, -1, 0.2);
    mr_packet packet;
    assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
    assert_int_equal(packet.bytes, 0);
    assert_true(packet.flags & MR_FRAME_CORRUPT);
    assert_int_equal(packet.media->frames, 4);
    mr_packet end;
    assert_int_equal(mr_reader_read(reader, &end), MR_END);
    mr_reader_destroy(&reader);
    /* A packet can outlive the reader. */
    expect_words(packet.media->path, "12.png");
    drop(&packet);
}

/* A good picture that cannot be opened must not count as damaged. */
CLIP_TEST(no_descriptors_left_is_no_damage) {
    struct rlimit before;
    mr_packet packet;
    make_folder();
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_plain("test-clips/mixed");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    const struct rlimit none = {0, before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const int status = mr_reader_read(reader, &packet);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_int_equal(status, MR_ERROR_MEMORY);
    expect_words(mr_message(), "Too many open files");
}

CLIP_TEST(labels_are_folders_in_byte_order) {
    make_folder();
    mr_reader_params params = params_for("test-clips/mixed");
    params.labels = true;
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_uri(&params);
    mr_packet packet;
    assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
    assert_string_equal(packet.media->label, "a");
    expect_words(packet.media->path, "a/1.bmp");
    drop(&packet);
    assert_image(reader, "2.png", AV_CODEC_ID_PNG, 0, 0.04);
    assert_image(reader, "1.png", AV_CODEC_ID_PNG, 1, 0.08);
}

CLIP_TEST(globs_match_files) {
    make_folder();
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_plain("test-clips/mixed/*0.png");
    assert_image(reader, "10.png", AV_CODEC_ID_PNG, -1, 0);
    mr_packet packet;
    assert_int_equal(mr_reader_read(reader, &packet), MR_END);
    mr_reader_destroy(&reader);
    reader = open_plain("test-clips/mixed/9.jpg");
    assert_image(reader, "9.jpg", AV_CODEC_ID_MJPEG, -1, 0);
}

CLIP_TEST(images_reuse_their_media) {
    make_folder();
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_plain("test-clips/mixed/1?.png");
    mr_packet packet;
    const mr_media *first = NULL;
    const void *codec = NULL;
    for (int turn = 0; turn < 3; turn++) {
        assert_int_equal(mr_reader_read(reader, &packet), MR_OK);
        first = turn ? first : packet.media;
        codec = turn ? codec : packet.media->codec;
        assert_ptr_equal(packet.media, first);
        assert_ptr_equal(packet.media->codec, codec);
        drop(&packet);
    }
}

/* Images of one size count together, whatever their codec. */
CLIP_TEST(a_survey_counts_every_image) {
    enum { LARGE = 64 * 48, SMALL = 32 * 16 };
    clip_shell("rm -rf test-clips/sizes && mkdir -p test-clips/sizes && cd test-clips/sizes && "
               "ffmpeg -v error -f lavfi -i testsrc=size=64x48 -frames:v 1 -start_number 0 l%%d.jpg && "
               "ffmpeg -v error -f lavfi -i testsrc=size=32x16 -frames:v 3 -start_number 0 s%%d.jpg && "
               "ffmpeg -v error -f lavfi -i testsrc=size=32x16 -frames:v 2 -start_number 0 s%%d.png");
    ENDED_BY(mr_reader_destroy) mr_reader *reader = open_plain("test-clips/sizes");
    mr_survey found;
    assert_int_equal(mr_reader_survey(reader, &found), MR_OK);
    assert_int_equal(found.frames, 6);
    assert_int_equal(found.mean_pixels, (LARGE + 5 * SMALL) / 6);
    assert_int_equal(found.set.width.min, 32);
    assert_int_equal(found.set.width.max, 64);
}

/* The row where a list starts again, by the number of finished epochs. */
CLIP_TEST(each_video_of_a_list_is_an_epoch) {
    static const char *const rows[] = {"1.mp4", "1.png", "2.png", "2.mp4", "1.mp4"};
    static const size_t first[] = {0, 1, 3, 4};
    clip_shell("rm -rf test-clips/rows && mkdir -p test-clips/rows && cd test-clips/rows && "
               "ffmpeg -v error -f lavfi -i testsrc=size=32x16 -frames:v 3 -c:v mpeg4 1.mp4 && cp 1.mp4 2.mp4 && "
               "ffmpeg -v error -f lavfi -i testsrc=size=32x16 -frames:v 2 %%d.png && "
               "printf 'path,start\\n1.mp4,0.04\\n1.png,\\n2.png,\\n2.mp4,\\n1.mp4,\\n' > rows.csv");
    mr_reader_params params = params_for("test-clips/rows/rows.csv");
    for (size_t i = 0; i < sizeof first / sizeof *first; i++) {
        params.first_epoch = (uint32_t)i;
        ENDED_BY(mr_reader_destroy) mr_reader *reader = open_uri(&params);
        mr_packet packet;
        size_t epochs = 0, row = first[i] - 1;
        for (const char *path = ""; mr_reader_read(reader, &packet) == MR_OK; drop(&packet)) {
            const char *name = strrchr(packet.media->path, '/') + 1;
            row += strcmp(path, name) != 0 || packet.begins_epoch;
            path = rows[row];
            assert_string_equal(name, path);
            epochs += packet.begins_epoch;
        }
        assert_int_equal(epochs, 4 - i);
        assert_int_equal(row, 4);
    }
}

static int capture(void **state __attribute__((unused))) {
    mr_av_log_capture();
    return 0;
}

RUN_TESTS(capture, NULL)

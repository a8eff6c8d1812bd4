/* Card models: names, figures, files with measured figures, and simulated devices like a card. Times are calculated by
 * hand from the data sheets. */
#include <stdio.h>
#include <string.h>

#include "engine/device/device.h"
#include "engine/device/open/open.h"
#include "engine/device/sim/sim.h"
#include "millrace/status.h"
#include "tests/support/quiet.h"
#include "tests/support/suite.h"
#include "tests/support/temporary.h"

enum { MEGABYTE = 1000000 };

/* ---- names and figures ------------------------------------------------------------------------------------------- */

TEST(a_card_is_found_however_it_is_written) {
    static const char *const names[] = {"h100", "H100", "rtx-4090", "RTX 4090", "rtx_4090", "A100-40GB", "a10040gb"};
    mr_card card;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        assert_true(mr_card_find(names[i], &card));
    assert_string_equal(card.name, "a100-40gb");
    assert_false(mr_card_find("h10", &card));
    assert_false(mr_card_find("h1000", &card));
    assert_false(mr_card_find("", &card));
    for (size_t i = 0; mr_card_name(i); i++) {
        assert_true(mr_card_find(mr_card_name(i), &card));
        assert_string_equal(card.name, mr_card_name(i));
        assert_true(i == 0 || strcmp(mr_card_name(i - 1), mr_card_name(i)) < 0);
    }
}

static void close_to(double is, double should_be) {
    assert_true(is > should_be * 0.999 && is < should_be * 1.001);
}

/* H100 SXM5: 3.35 TB/s, PCIe 5.0 (63 GB/s each way after encoding), 67 and 989.5 TFLOPS, 132 multiprocessors with four
 * schedulers for 32 threads at 1.98 GHz, 7 Turing NVDEC (771 H.264 frames at 1860 MHz) at 1545 MHz. */
TEST(figures_are_those_of_the_sheet_and_a_share) {
    mr_card card;
    assert_true(mr_card_find("h100", &card));
    assert_string_equal(card.title, "NVIDIA H100 SXM5 80GB");
    assert_false(card.measured);
    assert_int_equal(card.memory_bytes, INT64_C(85899345920));
    close_to(card.memory_rate, 3.35e12 * 0.9);
    close_to(card.upload_rate, 63.015e9 * 0.8);
    close_to(card.download_rate, 63.015e9 * 0.8);
    close_to(card.f32_rate, 33.5e12);
    close_to(card.f16_rate, 296.85e12);
    assert_int_equal(card.decoders, 7);
    close_to(card.decode_fps[MR_CARD_H264], 640.43);
    close_to(card.decode_fps[MR_CARD_HEVC], 1093.1);
    assert_true(card.decode_fps[MR_CARD_AV1] == 0);
    /* 40 multiprocessors at 1.59 GHz, 64 cores each. */
    assert_true(mr_card_find("t4", &card));
    close_to(card.upload_rate, 15.754e9 * 0.8);
}

TEST(every_card_is_whole) {
    mr_card card;
    for (size_t i = 0; mr_card_name(i); i++) {
        assert_true(mr_card_find(mr_card_name(i), &card));
        assert_true(card.memory_bytes >= INT64_C(16) << 30 && card.memory_bytes <= INT64_C(141) << 30);
        assert_true(card.memory_rate > card.upload_rate && card.upload_rate > 1e10);
        assert_true(card.f16_rate > card.f32_rate / 2 && card.f32_rate > 1e12);
        assert_true(card.launch_ns > 0);
        assert_true(card.copy_engines == 2 && card.kernels == 128 && card.decoders >= 1 && card.decoders <= 7);
        assert_true(card.decode_fps[MR_CARD_HEVC] > 500);
    }
}

/* ---- files of figures -------------------------------------------------------------------------------------------- */

TEST_WITH(measured_figures_replace_those_of_a_sheet, make_temporary, remove_temporary) {
    mr_card card, sheet;
    write_temporary("{\"like\": \"h100\", \"name\": \"node7\", \"upload_bytes_s\": 53e9, \"launch_ns\": 2100,"
               " \"copy_engines\": 1, \"decode_fps\": {\"h264\": 600}}");
    assert_int_equal(mr_card_open(temporary_path, &card), MR_OK);
    assert_true(mr_card_find("h100", &sheet));
    assert_true(card.measured);
    assert_string_equal(card.title, "node7");
    assert_string_equal(card.name, temporary_path);
    assert_string_equal(card.source, "measured, else NVIDIA H100 data sheet");
    assert_true(card.upload_rate == 53e9 && card.launch_ns == 2100 && card.copy_engines == 1);
    assert_true(card.decode_fps[MR_CARD_H264] == 600);
    assert_true(card.memory_rate == sheet.memory_rate &&
                card.decode_fps[MR_CARD_HEVC] == sheet.decode_fps[MR_CARD_HEVC]);
}

/* Without a card model there are no invented figures. */
TEST_WITH(what_a_file_leaves_out_is_not_known, make_temporary, remove_temporary) {
    mr_card card;
    write_temporary("{\"memory_bytes_s\": 1e12, \"memory_bytes\": 1073741824}");
    assert_int_equal(mr_card_open(temporary_path, &card), MR_OK);
    assert_string_equal(card.source, "measured");
    assert_true(card.memory_rate == 1e12 && card.memory_bytes == 1 << 30);
    assert_true(card.upload_rate == 0 && card.f32_rate == 0 && card.launch_ns == 0 && card.decoders == 0);
}

TEST_WITH(a_wrong_file_is_refused, make_temporary, remove_temporary) {
    static const char *const wrong[][2] = {
        {"{", "is not JSON"},
        {"[1]", "is not a JSON object with figures of a card"},
        {"{\"like\": \"h10\"}", "\"like\" is not one of a10, a100"},
        {"{\"speed\": 1}", "a card has no figure \"speed\""},
        {"{\"upload_bytes_s\": \"53\"}", "\"upload_bytes_s\" is not a number above 0"},
        {"{\"upload_bytes_s\": 0}", "\"upload_bytes_s\" is not a number above 0"},
        {"{\"decoders\": 0.5}", "\"decoders\" is not a number above 0, up to 1024"},
        {"{\"memory_bytes\": 1e300}", "\"memory_bytes\" is not a number above 0"},
        {"{\"decode_fps\": 3}", "\"decode_fps\" is not an object"},
        {"{\"decode_fps\": {\"theora\": 3}}", "\"decode_fps\" has no codec \"theora\""},
        {"{\"name\": 3}", "\"name\" is not a text"}};
    mr_card card;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        write_temporary(wrong[i][0]);
        assert_int_equal(mr_card_open(temporary_path, &card), MR_ERROR_DATA);
        assert_non_null(strstr(mr_message(), wrong[i][1]));
        assert_non_null(strstr(mr_message(), temporary_path));
    }
    assert_int_equal(mr_card_open("/nowhere/h100.json", &card), MR_ERROR_NO_INPUT);
}

/* ---- simulated devices that are like one ------------------------------------------------------------------------- */

typedef struct fixture {
    mr_device *device;
    mr_stream *one, *other;
    void *host, *a, *b;
} fixture;

static void begin(fixture *f, const char *name) {
    assert_int_equal(mr_device_open(&f->device, name, 5, true), MR_OK);
    assert_int_equal(mr_stream_create(f->device, &f->one), MR_OK);
    assert_int_equal(mr_stream_create(f->device, &f->other), MR_OK);
    assert_int_equal(mr_device_allocate(f->device, MR_MEMORY_PINNED, MEGABYTE, &f->host), MR_OK);
    assert_int_equal(mr_device_allocate(f->device, MR_MEMORY_DEVICE, MEGABYTE, &f->a), MR_OK);
    assert_int_equal(mr_device_allocate(f->device, MR_MEMORY_DEVICE, MEGABYTE, &f->b), MR_OK);
}

/* When the last work ended. */
static int64_t end(fixture *f) {
    int64_t now = 0, next = 0;
    while ((next = mr_sim_advance(f->device, now)) != INT64_MAX)
        now = next;
    mr_stream_destroy(&f->one);
    mr_stream_destroy(&f->other);
    mr_device_free(f->device, MR_MEMORY_PINNED, f->host);
    mr_device_free(f->device, MR_MEMORY_DEVICE, f->a);
    mr_device_free(f->device, MR_MEMORY_DEVICE, f->b);
    mr_device_destroy(&f->device);
    return now;
}

static int nothing(void *arguments) {
    return MR_OK;
}

static void launch(mr_stream *stream, void *data) {
    assert_int_equal(mr_stream_submit(stream, nothing, &data, sizeof data), MR_OK);
}

/* Times for one megabyte up, for one each way, and for this many kernels on a megabyte each, in two streams in turn. */
static int64_t upload(const char *name) {
    fixture f;
    begin(&f, name);
    assert_int_equal(mr_stream_copy(f.one, f.a, f.host, MEGABYTE), MR_OK);
    return end(&f);
}

static int64_t both_ways(const char *name) {
    fixture f;
    begin(&f, name);
    assert_int_equal(mr_stream_copy(f.one, f.a, f.host, MEGABYTE), MR_OK);
    assert_int_equal(mr_stream_copy(f.other, f.host, f.b, MEGABYTE), MR_OK);
    return end(&f);
}

static int64_t kernels(const char *name, int count) {
    fixture f;
    begin(&f, name);
    for (int i = 0; i < count; i++)
        launch(i % 2 ? f.other : f.one, i % 2 ? f.b : f.a);
    return end(&f);
}

TEST(a_device_takes_the_times_of_its_card) {
    /* 10^6 bytes at 63.015 GB/s x 0.8 */
    assert_in_range(upload("sim:0?like=h100"), 19835, 19837);
    /* at 31.508 GB/s x 0.8 */
    assert_in_range(upload("sim:0?like=L4"), 39671, 39675);
    /* 3 us and 10^6 bytes at 3.35 TB/s x 0.9; at 300 GB/s x 0.9 */
    assert_in_range(kernels("sim:0?like=h100", 1), 3331, 3332);
    assert_in_range(kernels("sim:0?like=l4", 1), 6703, 6704);
}

/* Launches in two streams overlap, memory traffic does not: 3 us + 2 x 0.3317 us. In one stream, two launches follow
 * each other. */
TEST(kernels_of_two_streams_share_the_memory) {
    assert_in_range(kernels("sim:0?like=h100", 2), 3662, 3664);
    /* One stream's first kernel ends before the other's, and so does the second: 2 x 3 us + 3 x 0.3317 us. */
    assert_in_range(kernels("sim:0?like=h100", 4), 6993, 6996);
    assert_in_range(kernels("sim:0?like=h100&kernels=1", 2), 6662, 6664);
    assert_in_range(kernels("sim:0?like=h100&kernels=1000000000000", 2), 3662, 3664);
}

/* Eight pieces of work with one launch: the launch time counts once, and so do the shared buffer's bytes. */
TEST(pieces_of_one_launch_take_its_time_once) {
    fixture f;
    begin(&f, "sim:0?like=h100");
    for (int i = 0; i < 8; i++) {
        void *both[] = {f.a, f.b};
        f.one->joined = i > 0;
        assert_int_equal(mr_stream_submit(f.one, nothing, i < 4 ? &both[0] : both,
                                          i < 4 ? sizeof both[0] : sizeof both),
                         MR_OK);
    }
    f.one->joined = false;
    launch(f.one, f.a);
    assert_in_range(end(&f), 2 * 3000 + 3 * 331, 2 * 3000 + 3 * 332);
}

TEST(copies_share_one_engine_where_there_is_one) {
    assert_int_equal(both_ways("sim:0?copy=1GB/s"), 1000000);
    assert_int_equal(both_ways("sim:0?copy=1GB/s&copies=1"), 2000000);
    assert_in_range(both_ways("sim:0?like=h100&copies=2"), 19835, 19837);
    assert_in_range(both_ways("sim:0?like=h100&copies=1"), 39670, 39674);
}

/* Wherever it stands. */
TEST(what_is_written_beside_a_card_holds) {
    uint64_t bytes;
    mr_card card;
    assert_int_equal(mr_device_probe("sim:0?like=h100", &bytes), MR_OK);
    assert_int_equal(bytes, UINT64_C(80) << 30);
    assert_int_equal(mr_device_probe("sim:0?like=h100&memory=8GiB", &bytes), MR_OK);
    assert_int_equal(bytes, UINT64_C(8) << 30);
    assert_int_equal(mr_device_probe("sim:0?memory=8GiB&like=h100", &bytes), MR_OK);
    assert_int_equal(bytes, UINT64_C(8) << 30);
    assert_int_equal(upload("sim:0?upload=1GB/s&like=h100"), 1000000);
    assert_true(mr_device_card("sim:0?upload=1GB/s&like=h100&kernels=1", &card));
    assert_true(card.upload_rate == 1e9 && card.kernels == 1);
    close_to(card.memory_rate, 3.015e12);
    assert_false(mr_device_card("sim:0?upload=1GB/s", &card));
    assert_false(mr_device_card("cuda:0", &card));
    assert_false(mr_device_card("cpu", &card));
}

TEST_WITH(a_device_takes_the_times_of_a_file, make_temporary, remove_temporary) {
    char name[512];
    write_temporary("{\"upload_bytes_s\": 2e9, \"memory_bytes_s\": 1e9, \"launch_ns\": 500}");
    snprintf(name, sizeof name, "sim:0?like=%s", temporary_path);
    assert_int_equal(upload(name), 500000);
    assert_int_equal(kernels(name, 1), 1000500);
}

TEST(a_card_that_there_is_not_is_named_with_those_that_are) {
    char all[256], said[512];
    assert_int_equal(mr_device_check_name("sim:0?like=h101"), MR_ERROR_CONFIG);
    snprintf(said, sizeof said, "there is no model of a card \"h101\"; there are %s, and files of figures (FILE.json)",
             mr_card_list(all, sizeof all));
    assert_string_equal(mr_message(), said);
    assert_non_null(strstr(all, "t4"));
    assert_int_equal(mr_device_check_name("sim:0?like="), MR_ERROR_CONFIG);
}

RUN_TESTS(be_quiet, NULL)

/* preview: picture sizes, JPEGs, and the server, with viewers that join and leave beside 1 to 16 workers. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "millrace/log.h"
#include "millrace/millrace.h"
#include "stages/media/picture_format.h"
#include "stages/preview/page.h"
#include "stages/media/still/jpeg.h"
#include "stages/preview/shrink.h"
#include "tests/support/opened.h"
#include "tests/support/suite.h"

/* ---- pictures -------------------------------------------------------------------------------------------------- */

TEST(sizes_keep_the_shape) {
    static const struct {
        int32_t width, height, sar_num, sar_den, to, wide, high;
    } cases[] = {{1280, 720, 0, 0, 640, 640, 360}, {320, 240, 1, 1, 640, 320, 240}, {720, 576, 16, 15, 640, 640, 480},
                 {720, 576, 64, 45, 8192, 1024, 576}, {1080, 1920, 0, 0, 540, 540, 960}, {1, 1, 0, 0, 16, 1, 1},
                 {10, 30000, 0, 0, 100, 1, 400}, {30000, 10, 0, 0, 300, 300, 1}, {100, 100, 1, 1000000, 64, 1, 100}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = cases[i].width,
                                  .height = cases[i].height, .sar_num = cases[i].sar_num, .sar_den = cases[i].sar_den};
        mr_size size = mr_shrink_size(&format, cases[i].to);
        if (size.width != cases[i].wide || size.height != cases[i].high)
            fail_msg("case %zu: %dx%d", i, size.width, size.height);
    }
}

/* Fills a bright left half and a dark right half. The upper half is flat, the lower half rough. */
static void fill(uint8_t *data, int32_t width, int32_t height) {
    for (int32_t y = 0; y < height; y++)
        for (int32_t x = 0; x < width; x++)
            data[y * width + x] = (uint8_t)((x < width / 2 ? 200 : 50) + (y < height / 2 ? 0 : (x * 37 + y) % 50));
}

enum { WIDE = 96, HIGH = 64 };

static uint8_t *encoded(int quality, mr_upright upright, size_t *bytes) {
    static uint8_t data[WIDE * HIGH];
    mr_frame frame = {0};
    mr_jpeg_encoder encoder = {.quality = quality};
    mr_shrinker shrinker = {0};
    AVFrame *small = av_frame_alloc();
    assert_non_null(small);
    fill(data, WIDE, HIGH);
    frame.format = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = WIDE, .height = HIGH};
    frame.plane[0] = (mr_plane){.data = data, .stride = WIDE, .bytes = sizeof data};
    assert_int_equal(mr_shrink(&shrinker, &frame, WIDE / 2, small), MR_OK);
    assert_int_equal(small->width, WIDE / 2);
    assert_int_equal(small->height, HIGH / 2);
    assert_in_range(small->data[0][8 * small->linesize[0] + 8], 199, 201);
    assert_in_range(small->data[0][8 * small->linesize[0] + 40], 49, 51);
    uint8_t *first, *again;
    assert_int_equal(mr_jpeg_encode(&encoder, small, upright, 0, &first, bytes), MR_OK);
    assert_non_null(first);
    /* The same picture gives the same bytes, whatever came before. */
    size_t again_bytes;
    assert_int_equal(mr_jpeg_encode(&encoder, small, upright, 7, &again, &again_bytes), MR_OK);
    assert_int_equal(*bytes, again_bytes);
    assert_memory_equal(first, again + 7, *bytes);
    mr_free(again);
    av_frame_free(&small);
    mr_shrinker_close(&shrinker);
    mr_jpeg_encoder_close(&encoder);
    return first;
}

TEST(quality_costs_bytes) {
    size_t before = 0;
    for (int quality = 10; quality <= 90; quality += 40) {
        size_t bytes;
        mr_free(encoded(quality, (mr_upright){0}, &bytes));
        assert_true(bytes > before);
        before = bytes;
    }
}

/* JPEG is JFIF: it begins with SOI and ends with EOI. EXIF follows SOI if the picture needs turning, and is absent
 * otherwise. The values are from the table in the EXIF standard. */
TEST(turned_pictures_say_so) {
    static const struct {
        int16_t rotation;
        bool flip;
        uint8_t value;
    } cases[] = {{0, false, 1}, {90, false, 6}, {180, false, 3}, {270, false, 8}, {0, true, 2}, {90, true, 7},
                 {180, true, 4}, {270, true, 5}, {-90, false, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t bytes;
        uint8_t *data = encoded(75, (mr_upright){cases[i].rotation, cases[i].flip}, &bytes);
        assert_memory_equal(data, "\xff\xd8\xff", 3);
        assert_memory_equal(data + bytes - 2, "\xff\xd9", 2);
        if (cases[i].value == 1) {
            assert_int_equal(data[3], 0xe0);
        } else {
            assert_memory_equal(data + 3, "\xe1\0\x22" "Exif\0\0MM\0\x2a\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0", 28);
            assert_int_equal(data[31], cases[i].value);
            assert_memory_equal(data + 38, "\xff\xe0", 2);
        }
        mr_free(data);
    }
}

TEST(titles_are_text) {
    size_t bytes;
    FREED char *page = mr_page_make("<script>a & b</script>", &bytes);
    assert_non_null(page);
    assert_int_equal(strlen(page), bytes);
    expect_words(page, "<h1>&lt;script&gt;a &amp; b&lt;/script&gt;</h1>");
    /* The page must not load anything from elsewhere. */
    assert_null(strstr(page, "http:"));
    assert_null(strstr(page, "https:"));
}

/* ---- many at once ---------------------------------------------------------------------------------------------- */

enum { CLIENTS = 12, TURNS = 6 };

static _Atomic int heard_port;

static void hear_port(void *context, mr_log_level level, const char *line) {
    const char *at = strstr(line, "http://127.0.0.1:");
    if (at)
        heard_port = atoi(at + strlen("http://127.0.0.1:"));
}

static int connected(void) {
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)heard_port),
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)(const void *)&to, sizeof to), 0);
    return fd;
}

/* Sends a request and reads up to `most` bytes, then disconnects even if more would come. Returns the status code. */
static int ask(const char *path, size_t most) {
    char text[4096];
    int fd = connected(), code = 0;
    int length = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path);
    assert_int_equal(send(fd, text, (size_t)length, MSG_NOSIGNAL), length);
    size_t done = 0;
    ssize_t count;
    while (done < most && (count = recv(fd, text, sizeof text - 1, 0)) > 0) {
        text[count] = '\0';
        if (!done)
            sscanf(text, "HTTP/1.1 %d", &code);
        done += (size_t)count;
    }
    close(fd);
    return code;
}

static void *look(void *context) {
    static const char *const paths[] = {"/",        "/.json",   "/a.jpg", "/b.json",
                                        "/a.mjpeg", "/b.mjpeg", "/b.jpg", "/none.jpg"};
    unsigned at = *(unsigned *)context, wrong = 0;
    for (unsigned i = 0; i < TURNS; i++, at++) {
        const char *path = paths[at % (sizeof paths / sizeof *paths)];
        int code = ask(path, strstr(path, "mjpeg") ? 20000 : SIZE_MAX);
        wrong += code != (strstr(path, "none") ? 404 : 200) && code != 503; /* 503: the maximum number of viewers */
    }
    *(unsigned *)context = wrong;
    return NULL;
}

static mr_pipeline *running(int workers) {
    static const char text[] = "version: 1\npipeline: many\nsources:\n"
                               "  a: {uri: \"lavfi:testsrc2=size=160x120:rate=100\", realtime: true}\n"
                               "  b: {uri: \"lavfi:testsrc=size=96x64:rate=200\", realtime: true}\nstages:\n"
                               "  decode: {input: [a, b]}\n"
                               "  look: {type: preview, input: decode, listen: \"127.0.0.1:0\", fps: 50, width: 80, "
                               "viewers: 4, most_sources: 2}\n";
    const mr_pipeline_params params = {.types = mr_stage_types(), .path = "many.yaml", .text = text,
                                       .workers = workers};
    heard_port = 0;
    mr_pipeline *pipeline = opened(&params);
    assert_int_equal(mr_pipeline_start(pipeline), MR_OK);
    while (!heard_port)
        usleep(1000);
    while (ask("/a.jpg", SIZE_MAX) != 200 || ask("/b.jpg", SIZE_MAX) != 200)
        usleep(1000);
    return pipeline;
}

static void stop(mr_pipeline *pipeline) {
    mr_summary *summary;
    mr_pipeline_stop(pipeline, false);
    assert_int_equal(ended(pipeline), MR_OK);
    assert_int_equal(mr_pipeline_summarize(pipeline, &summary), MR_OK);
    assert_true(summary->balanced);
    assert_true(summary->delivered > 0);
    assert_int_equal(summary->delivered, summary->in);
    mr_summary_destroy(&summary);
    mr_pipeline_destroy(&pipeline);
}

TEST(many_look_at_once) {
    static const int workers[] = {1, 4, 16};
    for (size_t i = 0; i < sizeof workers / sizeof *workers; i++) {
        mr_pipeline *pipeline = running(workers[i]);
        pthread_t threads[CLIENTS];
        unsigned numbers[CLIENTS];
        for (unsigned n = 0; n < CLIENTS; n++) {
            numbers[n] = n;
            assert_int_equal(pthread_create(&threads[n], NULL, look, &numbers[n]), 0);
        }
        for (unsigned n = 0; n < CLIENTS; n++) {
            pthread_join(threads[n], NULL);
            assert_int_equal(numbers[n], 0);
        }
        stop(pipeline);
    }
}

/* The end of a run must not wait for a viewer, nor for a client that has sent no request. */
TEST(the_end_waits_for_nobody) {
    static const char request[] = "GET /a.mjpeg HTTP/1.1\r\nHost: localhost\r\n\r\n";
    mr_pipeline *pipeline = running(2);
    int viewer = connected(), silent = connected();
    char byte;
    assert_int_equal(send(viewer, request, sizeof request - 1, MSG_NOSIGNAL), sizeof request - 1);
    assert_int_equal(recv(viewer, &byte, 1, 0), 1);
    stop(pipeline);
    while (recv(viewer, &byte, 1, 0) > 0)
        continue;
    assert_true(recv(silent, &byte, 1, 0) <= 0);
    close(viewer);
    close(silent);
}

static int listen_to_log(void **state) {
    mr_log_set_level(MR_LOG_INFO);
    mr_log_to(hear_port, NULL);
    return 0;
}

RUN_TESTS(listen_to_log, NULL)

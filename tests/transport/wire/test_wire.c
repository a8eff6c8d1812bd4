/* Messages to bytes and back: every kind of message and frame, and what protobuf itself makes of the bytes
 * (tests/reference/wire.py, which also writes messages). */
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/wire_frames.h"

static void pass(wire_fixture *f, const mr_cut_message *message, mr_cut_message *came, bool aligned,
                 size_t *part_count) {
    const mr_wire_part *parts;
    mr_wire_part carried[MR_WIRE_BLOCKS + 1];
    size_t count;
    assert_int_equal(mr_wire_write(f->writer, message, NOW, &parts, &count), MR_OK);
    wire_carry(parts, count, carried, aligned);
    int status = mr_wire_read(f->reader, carried, count, LATER, came);
    if (status)
        print_error("%s\n", mr_message());
    assert_int_equal(status, MR_OK);
    wire_uncarry(carried, count, aligned);
    if (part_count)
        *part_count = count;
    assert_int_equal(came->kind, message->kind);
    assert_int_equal(came->session, message->session);
    assert_int_equal(came->number, message->number);
}

static void assert_same_planes(const mr_frame *a, const mr_frame *b) {
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        assert_int_equal(a->plane[i].buffer != NULL, b->plane[i].buffer != NULL);
        if (!a->plane[i].buffer)
            continue;
        size_t row_bytes = a->plane[i].bytes, rows = 1;
        if (a->format.payload == MR_PAYLOAD_PICTURE) {
            row_bytes = mr_plane_row_bytes(a->format.pixel, i, a->format.width);
            rows = (size_t)mr_plane_rows(a->format.pixel, i, a->format.height);
        }
        for (size_t y = 0; y < rows; y++)
            assert_memory_equal(a->plane[i].data + (ptrdiff_t)y * a->plane[i].stride,
                                b->plane[i].data + (ptrdiff_t)y * b->plane[i].stride, row_bytes);
    }
}

static void assert_same_format(const mr_format *a, const mr_format *b) {
    const int64_t fields[][2] = {
        {a->payload, b->payload}, {a->pixel, b->pixel}, {a->width, b->width}, {a->height, b->height},
        {a->matrix, b->matrix}, {a->range, b->range}, {a->siting, b->siting}, {a->sar_num, b->sar_num},
        {a->sar_den, b->sar_den}, {a->rotation, b->rotation}, {a->flip, b->flip}, {a->dtype, b->dtype},
        {a->layout, b->layout}, {a->rank, b->rank}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        assert_int_equal(fields[i][0], fields[i][1]);
    assert_memory_equal(a->dims, b->dims, sizeof a->dims);
}

static void assert_same_results(const mr_result *a, const mr_result *b) {
    for (; a && b; a = a->next, b = b->next) {
        assert_ptr_equal(a->kind, b->kind);
        assert_string_equal(a->stage, b->stage);
        if (a->kind == mr_kind_tensor()) {
            assert_string_equal(a->name, b->name);
            assert_same_format(&a->format, &b->format);
            assert_memory_equal(a->data, b->data, mr_tensor_bytes(&a->format));
            assert_int_equal((uintptr_t)b->data % 8, 0);
            continue;
        }
        assert_int_equal(a->count, b->count);
        for (size_t i = 0; i < a->count; i++) {
            assert_int_equal(a->classes[i].index, b->classes[i].index);
            assert_true(a->classes[i].score == b->classes[i].score);
            if (a->classes[i].label)
                assert_string_equal(a->classes[i].label, b->classes[i].label);
            else
                assert_null(b->classes[i].label);
        }
    }
    assert_null(a);
    assert_null(b);
}

static void assert_same_geometry(const mr_geometry *a, const mr_geometry *b) {
    assert_memory_equal(a->x, b->x, sizeof a->x);
    assert_memory_equal(a->y, b->y, sizeof a->y);
    assert_int_equal(a->width, b->width);
    assert_int_equal(a->height, b->height);
    assert_int_equal(a->source_width, b->source_width);
    assert_int_equal(a->source_height, b->source_height);
    assert_int_equal(a->rotation, b->rotation);
    assert_int_equal(a->flip, b->flip);
}

static void assert_same_frame(const mr_frame *a, const mr_frame *b) {
    assert_same_format(&a->format, &b->format);
    assert_same_geometry(&a->geometry, &b->geometry);
    assert_int_equal(mr_identity_compare(&a->identity, &b->identity), 0);
    assert_int_equal(a->pts_ns, b->pts_ns);
    assert_int_equal(a->dts_ns, b->dts_ns);
    assert_int_equal(a->duration_ns, b->duration_ns);
    assert_int_equal(NOW - a->born_ns, LATER - b->born_ns);
    assert_int_equal(a->deadline_ns - NOW, b->deadline_ns - LATER);
    assert_int_equal(a->flags, b->flags);
    assert_int_equal(mr_wire_frame_bytes(a), mr_wire_frame_bytes(b));
    assert_same_planes(a, b);
    assert_same_results(a->results, b->results);
}

/* Sends a frame, drops it, and asserts that it arrives unchanged. Returns the number of parts. */
static size_t assert_passes(wire_fixture *f, mr_frame *frame, bool aligned) {
    mr_cut_item item = {.kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = 17};
    mr_cut_message came, message = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST,
                                    .session = 99, .number = 5};
    size_t count;
    message.items.item = &item;
    message.items.count = 1;
    pass(f, &message, &came, aligned, &count);
    assert_int_equal(came.items.count, 1);
    assert_int_equal(came.items.item->position, 17);
    assert_int_equal(came.items.item->bytes, mr_wire_frame_bytes(frame));
    assert_same_frame(frame, came.items.item->frame);
    mr_frame_unref(&came.items.item->frame);
    mr_frame_unref(&frame);
    return count;
}

/* Frames with several formats and geometries in one message, more in turn than the writer looks back. Every tenth has
 * none. */
WIRE_TEST(test_formats_are_shared) {
    enum { FRAMES = 60, FORMATS = 12 };
    mr_cut_item item[FRAMES];
    mr_cut_message came;
    for (int i = 0; i < FRAMES; i++) {
        const int kind = i < FRAMES / 2 ? i % 3 : i % FORMATS;
        mr_frame *frame = wire_tensor(f, MR_DTYPE_F32, 2, (const int64_t[]){1 + kind, 3});
        frame->geometry.x[2] = i % 7;
        if (i % 10 == 9)
            frame->geometry = (mr_geometry){0};
        item[i] = (mr_cut_item){
            .kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = (uint64_t)i + 1};
    }
    pass(f, wire_items(item, FRAMES), &came, true, NULL);
    assert_int_equal(came.items.count, FRAMES);
    for (int i = 0; i < FRAMES; i++) {
        assert_same_frame(item[i].frame, came.items.item[i].frame);
        mr_frame_unref(&came.items.item[i].frame);
        mr_frame_unref(&item[i].frame);
    }
}

static void pass_all_kinds(mr_compression compression, bool checksum, bool aligned) {
    ENDED_BY(wire_close) wire_fixture f;
    wire_open(&f, compression, checksum);
    for (int pixel = MR_PIXEL_ANY + 1; pixel < MR_PIXEL_COUNT; pixel++) {
        assert_passes(&f, wire_picture(&f, (mr_pixel)pixel, 1, 1), aligned);
        assert_passes(&f, wire_picture(&f, (mr_pixel)pixel, 37, 19), aligned);
        assert_passes(&f, wire_picture(&f, (mr_pixel)pixel, 640, 360), aligned);
    }
    for (int dtype = MR_DTYPE_U8; dtype <= MR_DTYPE_I64; dtype++) {
        assert_passes(&f, wire_tensor(&f, (mr_dtype)dtype, 3, (const int64_t[]){3, 5, 7}), aligned);
        assert_passes(&f, wire_tensor(&f, (mr_dtype)dtype, 6, (const int64_t[]){1, 3, 20, 20, 2, 3}), aligned);
    }
    assert_passes(&f, wire_packet(&f, 100, 64, 0), aligned);
    assert_passes(&f, wire_packet(&f, 100, 0, 24), aligned);
    assert_passes(&f, wire_packet(&f, 100000, 64, 24), aligned);
    assert_passes(&f, wire_packet(&f, 100000, 0, 0), aligned);
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_frame(&f, &(mr_format){.payload = MR_PAYLOAD_RESULTS});
    wire_add_classes(&f, frame, "classify");
    wire_add_tensor(&f, frame, 256);
    wire_add_tensor(&f, frame, 100000);
    assert_passes(&f, frame, aligned);
    frame = wire_frame(&f, &(mr_format){.payload = MR_PAYLOAD_PACKET}); /* one that could not be read */
    frame->deadline_ns = 0;
    mr_cut_message came;
    pass(&f, wire_message(frame), &came, aligned, NULL);
    assert_null(came.items.item->frame->plane[0].buffer);
    assert_int_equal(came.items.item->frame->deadline_ns, 0);
    mr_frame_unref(&came.items.item->frame);
}

TEST(test_all_kinds_of_frames) {
    pass_all_kinds(MR_COMPRESSION_NONE, false, true);
    pass_all_kinds(MR_COMPRESSION_NONE, true, false);
}

TEST(test_compressed) {
    pass_all_kinds(MR_COMPRESSION_LZ4, true, true);
    pass_all_kinds(MR_COMPRESSION_ZSTD, true, false);
}

WIRE_TEST(test_planes_that_lie_oddly) {
    mr_frame *frame = wire_picture(f, MR_PIXEL_I420, 640, 360);
    for (int i = 0; i < 3; i++) { /* upside down */
        mr_plane *plane = &frame->plane[i];
        plane->data += plane->stride * (mr_plane_rows(MR_PIXEL_I420, i, 360) - 1);
        plane->stride = -plane->stride;
    }
    assert_int_equal(assert_passes(f, frame, true), 2);
    frame = wire_picture(f, MR_PIXEL_I420, 640, 360);
    ENDED_BY(mr_frame_unref) mr_frame *other = wire_picture(f, MR_PIXEL_I420, 640, 360); /* planes in several buffers */
    mr_plane plane = frame->plane[2];
    frame->plane[2] = other->plane[2];
    other->plane[2] = plane;
    assert_int_equal(assert_passes(f, frame, true), 4);
}

/* Gathers from a frame, and returns a reference to the memory used. */
static mr_wire_part gather(wire_fixture *f, mr_frame *frame) {
    const mr_wire_part *parts;
    size_t count;
    memset(frame->results->buffer->data, (int)frame->identity.seq, mr_tensor_bytes(&frame->results->format));
    assert_int_equal(mr_wire_write(f->writer, wire_message(frame), NOW, &parts, &count), MR_OK);
    assert_int_equal(count, 2);
    mr_buffer_ref(parts[1].buffer);
    return parts[1];
}

/* Small payloads in messages still in flight must not change; when those are out, nothing need be allocated for later
 * ones. */
WIRE_TEST(test_gathered_memory_is_used_again) {
    enum { MESSAGES = 40, BYTES = 1024 };
    mr_wire_part part[MESSAGES];
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_frame(f, &(mr_format){.payload = MR_PAYLOAD_RESULTS});
    wire_add_tensor(f, frame, BYTES / 4);
    for (int i = 0; i < MESSAGES; i++) {
        frame->identity.seq = (uint64_t)i;
        part[i] = gather(f, frame);
    }
    for (int i = 0; i < MESSAGES; i++) {
        assert_int_equal(part[i].bytes, BYTES);
        for (int at = 0; at < BYTES; at++)
            assert_int_equal(part[i].data[at], i);
        mr_buffer_unref(&part[i].buffer);
    }
    const uint64_t allocated = mr_allocation_count();
    for (int i = 0; i < MESSAGES; i++) {
        part[i] = gather(f, frame);
        mr_buffer_unref(&part[i].buffer);
    }
    assert_int_equal(mr_allocation_count(), allocated);
}

/* A large picture travels unchanged in one part, and is not copied on arrival. */
WIRE_TEST(test_pictures_are_not_copied) {
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_picture(f, MR_PIXEL_I420, 1920, 1080);
    mr_cut_message came;
    const mr_wire_part *parts;
    size_t count;
    assert_int_equal(mr_wire_write(f->writer, wire_message(frame), NOW, &parts, &count), MR_OK);
    assert_int_equal(count, 2);
    assert_ptr_equal(parts[1].data, frame->plane[0].data);
    assert_ptr_equal(parts[1].buffer, frame->plane[0].buffer);
    assert_int_equal(mr_wire_read(f->reader, parts, count, NOW, &came), MR_OK);
    assert_ptr_equal(came.items.item->frame->plane[2].data, frame->plane[2].data);
    mr_frame_unref(&came.items.item->frame);
}

WIRE_TEST(test_batches_and_marks) {
    mr_cut_item item[40] = {0};
    for (uint32_t i = 0; i < 36; i++) {
        mr_frame *frame = wire_frame(f, &(mr_format){.payload = MR_PAYLOAD_RESULTS});
        wire_add_classes(f, frame, "classify");
        wire_add_tensor(f, frame, 200 + i);
        item[i] = (mr_cut_item){
            .kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = i + 1};
    }
    item[36] = (mr_cut_item){.kind = MR_CUT_GAP, .identity = {1, 2, 3, 4}, .position = 37, .reason = "late"};
    item[37] = (mr_cut_item){.kind = MR_CUT_DISCONTINUITY, .identity = {.source = 2}, .position = 38};
    const mr_format format = mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_NHWC, 1, &(int64_t){7});
    item[38] = (mr_cut_item){.kind = MR_CUT_FORMAT, .position = 39, .format = &format};
    item[39] = (mr_cut_item){.kind = MR_CUT_END, .identity = {.source = 1}, .reason = "failed"};
    mr_cut_message came;
    size_t count;
    pass(f, wire_items(item, 40), &came, false, &count);
    assert_int_equal(count, 2);
    assert_int_equal(came.items.count, 40);
    for (int i = 0; i < 40; i++) {
        const mr_cut_item *got = &came.items.item[i];
        assert_int_equal(got->kind, item[i].kind);
        assert_int_equal(got->position, item[i].position);
        if (i < 36)
            assert_same_frame(item[i].frame, got->frame);
        mr_frame_unref(&item[i].frame);
        mr_frame_unref(&came.items.item[i].frame);
    }
    assert_string_equal(came.items.item[36].reason, "late");
    assert_int_equal(came.items.item[36].identity.sub, 4);
    assert_same_format(came.items.item[38].format, &format);
    assert_string_equal(came.items.item[39].reason, "failed");
    assert_int_equal(came.items.item[39].identity.source, 1);
}

WIRE_TEST(test_other_messages) {
    mr_cut_message came;
    mr_cut_message hello = {.kind = MR_MESSAGE_HELLO, .version = MR_PROTOCOL_NEWEST,
                            .hello = {1, 3, "center", UINT64_MAX, 4, {1, 2, 3}, "a->b", "pictures", "boot id", 77,
                                      (const uint32_t[]){5, UINT32_MAX}, 2}};
    pass(f, &hello, &came, true, NULL);
    assert_int_equal(came.hello.newest_version, 3);
    assert_string_equal(came.hello.name, "center");
    assert_int_equal(came.hello.incarnation, UINT64_MAX);
    assert_int_equal(came.hello.attempt, 4);
    assert_memory_equal(came.hello.digest, hello.hello.digest, MR_DIGEST_BYTES);
    assert_string_equal(came.hello.cut, "a->b");
    assert_string_equal(came.hello.formats, "pictures");
    assert_string_equal(came.hello.memory, "boot id");
    assert_int_equal(came.hello.refused, 77);
    assert_int_equal(came.hello.kind_count, 2);
    assert_memory_equal(came.hello.kinds, hello.hello.kinds, 2 * sizeof(uint32_t));
    static const uint32_t many[1025];
    hello.hello.kinds = many;
    hello.hello.kind_count = 1025;
    assert_int_equal(wire_cross(f, &hello, &came), MR_ERROR_PROTOCOL);
    mr_cut_message welcome = {.kind = MR_MESSAGE_WELCOME, .version = MR_PROTOCOL_NEWEST, .session = 8,
                              .welcome = {1, 4, 5, 6, 1000000000, true, "there", 0}};
    pass(f, &welcome, &came, true, NULL);
    assert_int_equal(came.welcome.incarnation, 5);
    assert_int_equal(came.welcome.run, 6);
    assert_int_equal(came.welcome.beat_ns, 1000000000);
    assert_true(came.welcome.live);
    assert_string_equal(came.welcome.memory, "there");
    welcome.welcome.incarnation = UINT64_MAX;
    assert_int_equal(wire_cross(f, &welcome, &came), MR_ERROR_PROTOCOL);
    mr_cut_item end = {.kind = MR_CUT_END};
    mr_cut_message items = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST, .session = 8, .number = 1,
                            .items = {.item = &end, .count = 1, .made_by = UINT64_MAX - 1}};
    pass(f, &items, &came, true, NULL);
    assert_true(came.items.made_by == UINT64_MAX - 1);
    items.items.made_by = UINT64_MAX;
    assert_int_equal(wire_cross(f, &items, &came), MR_ERROR_PROTOCOL);
    mr_cut_message reject = {.kind = MR_MESSAGE_REJECT, .version = MR_PROTOCOL_NEWEST,
                             .reject = {MR_REJECT_DIGEST, 4, "other"}};
    pass(f, &reject, &came, true, NULL);
    assert_int_equal(came.reject.reason, MR_REJECT_DIGEST);
    assert_string_equal(came.reject.text, "other");
    const mr_settled settled[] = {{1, 5, MR_NOTE_DELIVERED, NULL, NULL}, {6, 1, MR_NOTE_DROPPED, "s", "late"},
                                  {7, 2, MR_NOTE_ABSORBED, "s", "every"}, {9, 1, MR_NOTE_NONE, NULL, NULL}};
    const uint32_t ended[] = {2, 0};
    mr_cut_message report = {.kind = MR_MESSAGE_REPORT, .version = MR_PROTOCOL_NEWEST, .session = 8, .number = 1,
                             .report = {10, 20, 30, settled, 4, ended, 2, true}};
    pass(f, &report, &came, true, NULL);
    assert_int_equal(came.report.granted_frames, 10);
    assert_int_equal(came.report.granted_bytes, 20);
    assert_int_equal(came.report.progress, 30);
    assert_true(came.report.withdrawn);
    assert_int_equal(came.report.settled_count, 4);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(came.report.settled[i].first, settled[i].first);
        assert_int_equal(came.report.settled[i].count, settled[i].count);
        assert_int_equal(came.report.settled[i].outcome, settled[i].outcome);
    }
    assert_string_equal(came.report.settled[1].reason, "late");
    assert_ptr_equal(came.report.settled[1].stage, came.report.settled[2].stage);
    assert_int_equal(came.report.ended_count, 2);
    assert_memory_equal(came.report.ended, ended, sizeof ended);
    mr_cut_message beat = {.kind = MR_MESSAGE_BEAT, .version = MR_PROTOCOL_NEWEST,
                           .session = 8, .number = 2, .beat.progress = 77};
    pass(f, &beat, &came, true, NULL);
    assert_int_equal(came.beat.progress, 77);
    mr_cut_message bye = {.kind = MR_MESSAGE_BYE, .version = MR_PROTOCOL_NEWEST,
                          .session = 8, .number = 3, .bye = {"done"}};
    pass(f, &bye, &came, true, NULL);
    assert_string_equal(came.bye.text, "done");
}

/* ---- media ----------------------------------------------------------------------------------------------------- */

static void keep_media(mr_media *media) {
}

static void describe_codec(const void *codec, mr_codec_description *description) {
    *description = (mr_codec_description){.name = codec, .pixel = "", .extra = codec, .extra_bytes = 3, .level = -99,
                                          .width = 640};
}

static int make_codec(const mr_codec_description *description, void **codec) {
    if (strcmp(description->name, "h264") != 0 || description->level != -99 || description->width != 640 ||
        description->extra_bytes != 3 || memcmp(description->extra, "h26", 3) != 0)
        return mr_fail(MR_ERROR_DATA, "no such codec");
    *codec = strdup(description->name);
    return MR_OK;
}

WIRE_TEST(test_media) {
    static const mr_media_codec codec = {describe_codec, make_codec, free};
    /* The writer refers to it until the fixture ends. */
    static char path[] = "a.mp4", label[] = "", name[] = "h264";
    static mr_media media;
    media = (mr_media){.path = path, .is_file = true, .still = true, .live = true, .label = label, .label_index = -1,
                       .codec = name, .rate_num = 30000, .rate_den = 1001, .frames = 280, .rotation = 90, .flip = true,
                       .start_ns = 1, .end_ns = 2, .every = 3, .fps = 2.5, .x264_build = 142, .release = keep_media};
    media.references = 1;
    mr_wire_writer_destroy(&f->writer);
    mr_wire_reader_destroy(&f->reader);
    const mr_wire_writer_params writer = {.codec = &codec};
    const mr_wire_reader_params reader = {.source_count = 4, .names = f->names, .store = f->store, .codec = &codec};
    assert_int_equal(mr_wire_writer_create(&f->writer, &writer), MR_OK);
    assert_int_equal(mr_wire_reader_create(&f->reader, &reader), MR_OK);
    mr_media *first = NULL;
    for (int i = 0; i < 3; i++) {
        ENDED_BY(mr_frame_unref) mr_frame *frame = wire_packet(f, 10, 64, 0);
        frame->media = mr_media_ref(&media);
        mr_cut_item item[2] = {{.kind = MR_CUT_FRAME, .frame = frame, .position = 1},
                               {.kind = MR_CUT_FRAME, .frame = frame, .position = 2}};
        mr_cut_message came;
        pass(f, wire_items(item, 2), &came, true, NULL);
        mr_media *got = came.items.item[1].frame->media;
        assert_string_equal(got->path, "a.mp4");
        assert_string_equal(got->label, "");
        assert_string_equal(got->codec, "h264");
        assert_true(got->still && got->live && got->is_file && got->flip && got->fps == 2.5);
        assert_int_equal(got->rate_den, 1001);
        assert_int_equal(got->label_index, -1);
        assert_int_equal(got->rotation, 90);
        assert_int_equal(got->end_ns, 2);
        assert_int_equal(got->every, 3);
        assert_int_equal(got->x264_build, 142);
        assert_ptr_equal(got, came.items.item[0].frame->media);
        assert_true(!first || got == first); /* one stream has one media: decoders are opened for it */
        first = got;
        mr_frame_unref(&came.items.item[0].frame);
        mr_frame_unref(&came.items.item[1].frame);
    }
}

RUN_TESTS(NULL, NULL)

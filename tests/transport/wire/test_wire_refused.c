/* Bytes that are not messages: damage in every part, and messages that need more memory than allowed. Reading must
 * allocate nothing for a frame. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "millrace/status.h"
#include "tests/support/suite.h"
#include "tests/support/transport/wire_frames.h"

/* Reads a message with one picture and one tensor after `damage` changed the parts. */
static int read_damaged(void (*damage)(mr_wire_part *parts, size_t *count), char *words) {
    wire_fixture f;
    wire_open(&f, MR_COMPRESSION_NONE, true);
    mr_frame *frame = wire_picture(&f, MR_PIXEL_I420, 64, 64);
    wire_add_tensor(&f, frame, 5000);
    mr_cut_message came;
    const mr_wire_part *parts;
    mr_wire_part carried[4];
    size_t count;
    assert_int_equal(mr_wire_write(f.writer, wire_message(frame), NOW, &parts, &count), MR_OK);
    assert_int_equal(count, 3);
    wire_carry(parts, count, carried, false);
    mr_wire_part damaged[4];
    memcpy(damaged, carried, sizeof carried);
    size_t damaged_count = count;
    damage(damaged, &damaged_count);
    int status = mr_wire_read(f.reader, damaged, damaged_count, NOW, &came);
    snprintf(words, 200, "%s", mr_message());
    wire_uncarry(carried, count, false);
    mr_frame_unref(&frame);
    wire_close(&f);
    return status;
}

static void flip_bit(mr_wire_part *part) {
    ((uint8_t *)(uintptr_t)part->data)[9] ^= 4;
}

static void flip_a_bit_of_the_envelope(mr_wire_part *parts, size_t *count) {
    flip_bit(&parts[0]);
}
static void flip_a_bit_of_the_payload(mr_wire_part *parts, size_t *count) {
    flip_bit(&parts[1]);
}
static void lose_a_part(mr_wire_part *parts, size_t *count) {
    --*count;
}
static void shorten_a_part(mr_wire_part *parts, size_t *count) {
    parts[1].bytes--;
}
static void lose_the_envelope(mr_wire_part *parts, size_t *count) {
    --*count;
    memmove(parts, parts + 1, *count * sizeof *parts);
}
static void lose_all(mr_wire_part *parts, size_t *count) {
    *count = 0;
}

TEST(test_damage) {
    static const struct {
        void (*damage)(mr_wire_part *parts, size_t *count);
        const char *message;
    } cases[] = {{flip_a_bit_of_the_envelope, "an envelope whose checksum is wrong"},
                 {flip_a_bit_of_the_payload, "a payload whose checksum is wrong"},
                 {lose_a_part, "1 parts of payload, and the envelope has 2"},
                 {shorten_a_part, "a part of 8159 bytes in place of 8160"},
                 {lose_the_envelope, "an envelope whose checksum is wrong"},
                 {lose_all, "a message of 0 parts; it has 1 to 257"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char words[200];
        assert_int_equal(read_damaged(cases[i].damage, words), MR_ERROR_PROTOCOL);
        assert_string_equal(words, cases[i].message);
    }
}

WIRE_TEST(test_memory_is_bounded) {
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_tensor(f, MR_DTYPE_U8, 1, &(int64_t){50000});
    mr_cut_message came;
    const mr_wire_part *parts;
    size_t count;
    frame->plane[0].buffer->memory = MR_MEMORY_DEVICE;
    assert_int_equal(mr_wire_write(f->writer, wire_message(frame), NOW, &parts, &count), MR_ERROR_DATA);
    frame->plane[0].buffer->memory = MR_MEMORY_HOST;
    const mr_wire_reader_params small = {
        .source_count = 4, .names = f->names, .store = f->store, .most_bytes = 49999};
    mr_wire_reader_destroy(&f->reader);
    assert_int_equal(mr_wire_reader_create(&f->reader, &small), MR_OK);
    assert_int_equal(wire_cross(f, wire_message(frame), &came), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "a message with more payload than the 49999 bytes that are allowed");
}

/* Elements of a kind that both know arrive unchanged; a reader that does not know the kind refuses the message. */
static mr_frame *packet_with_mask(wire_fixture *f, size_t bytes) {
    mr_frame *frame = wire_packet(f, 10, 64, 0);
    mr_result *result;
    assert_int_equal(mr_store_result(f->store, mr_kind_objects(), 1, &result), MR_OK);
    mr_object *object = memset(result->data, 0, sizeof *object);
    result->stage = "detect";
    result->count = 1;
    assert_int_equal(mr_result_add_items(result, NULL, bytes / 4, 4, &object->mask), MR_OK);
    frame->results = result;
    return frame;
}

/* What is written can be read. Results with fields are no payload, whose bytes need credit. */
WIRE_TEST(test_envelopes_are_bounded) {
    enum { MOST = MR_WIRE_MOST_ENVELOPE };
    mr_cut_message came;
    const mr_wire_part *parts;
    size_t count;
    ENDED_BY(mr_frame_unref) mr_frame *frame = packet_with_mask(f, MOST - 1024);
    assert_int_equal(mr_wire_frame_bytes(frame), 10);
    assert_in_range(mr_wire_elements_bytes(frame), MOST - 1024, MOST);
    assert_int_equal(wire_cross(f, wire_message(frame), &came), MR_OK);
    assert_int_equal(came.items.item->bytes, 10);
    mr_frame_unref(&came.items.item->frame);
    mr_frame_unref(&frame);
    frame = packet_with_mask(f, MOST);
    assert_int_equal(mr_wire_write(f->writer, wire_message(frame), NOW, &parts, &count), MR_ERROR_DATA);
    assert_non_null(strstr(mr_message(), "at most 4194304 are allowed"));
}

WIRE_TEST(test_kinds_of_results) {
    typedef struct dot {
        int64_t at;
        bool large;
        const char *label;
    } dot;
    static const mr_field fields[] = {{.name = "at", .type = MR_FIELD_I64, .offset = offsetof(dot, at)},
                                      {.name = "large", .type = MR_FIELD_BOOL, .offset = offsetof(dot, large)},
                                      {.name = "label", .type = MR_FIELD_TEXT, .offset = offsetof(dot, label)},
                                      {0}};
    static const mr_result_kind dots = {
        .name = "dots", .help = "dots", .fields = fields, .element_bytes = sizeof(dot)};
    mr_kinds kinds = mr_kinds_built_in();
    assert_int_equal(mr_kinds_add(&kinds, (const mr_result_kind *const[]){&dots, NULL}), MR_OK);
    ENDED_BY(mr_wire_reader_destroy) mr_wire_reader *knows = NULL;
    const mr_wire_reader_params reading = {.source_count = 4, .names = f->names, .store = f->store, .kinds = &kinds};
    assert_int_equal(mr_wire_reader_create(&knows, &reading), MR_OK);
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_tensor(f, MR_DTYPE_U8, 1, &(int64_t){10});
    assert_int_equal(mr_store_result(f->store, &dots, 2, &frame->results), MR_OK);
    frame->results->stage = "dotter";
    dot *of = frame->results->data;
    of[0] = (dot){INT64_MIN, true, "owl"};
    of[1] = (dot){7, false, NULL};
    frame->results->count = 2;
    const mr_cut_message *message = wire_message(frame);
    mr_cut_message came;
    const mr_wire_part *parts;
    size_t count;
    assert_int_equal(mr_wire_write(f->writer, message, NOW, &parts, &count), MR_ERROR_DATA);
    mr_wire_writer_destroy(&f->writer);
    assert_int_equal(mr_wire_writer_create(&f->writer, &(mr_wire_writer_params){.kinds = &kinds}), MR_OK);
    assert_int_equal(mr_wire_write(f->writer, message, NOW, &parts, &count), MR_OK);
    assert_int_equal(mr_wire_read(f->reader, parts, count, NOW, &came), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "results of an unknown kind");
    assert_int_equal(mr_wire_read(knows, parts, count, NOW, &came), MR_OK);
    const mr_result *result = came.items.item[0].frame->results;
    const dot *got = result->data;
    assert_ptr_equal(result->kind, &dots);
    assert_int_equal(result->count, 2);
    assert_true(got[0].at == INT64_MIN && got[0].large && got[1].at == 7 && !got[1].large && !got[1].label);
    assert_string_equal(got[0].label, "owl");
    mr_frame_unref(&came.items.item[0].frame);
}

/* After some messages nothing is allocated for more, except buffers that frames hold. */
WIRE_TEST(test_nothing_is_allocated) {
    uint64_t before = 0;
    ENDED_BY(mr_frame_unref) mr_frame *frame = wire_picture(f, MR_PIXEL_I420, 640, 480);
    wire_add_classes(f, frame, "classify");
    for (int i = 0; i < 20; i++) {
        mr_cut_message came;
        if (i == 5)
            before = mr_allocation_count();
        assert_int_equal(wire_cross(f, wire_message(frame), &came), MR_OK);
        mr_frame_unref(&came.items.item->frame);
    }
    assert_int_equal(mr_allocation_count(), before);
}

/* ---- what is kept of what comes ---------------------------------------------------------------------------------- */

typedef struct parties {
    mr_names_share one, other;
} parties;

/* Sessions 1 and 2 belong to the two parties; there is no other. */
static mr_names_share *whose(void *context, uint64_t session) {
    parties *all = context;
    return session == 1 ? &all->one : session == 2 ? &all->other : NULL;
}

static void open_for(wire_fixture *f, parties *all, size_t most_items, size_t most_media_bytes) {
    const mr_wire_reader_params params = {.source_count = 4, .names = f->names, .store = f->store,
                                          .whose = all ? whose : NULL, .whose_context = all,
                                          .most_items = most_items, .most_media_bytes = most_media_bytes};
    mr_wire_reader_destroy(&f->reader);
    assert_int_equal(mr_wire_reader_create(&f->reader, &params), MR_OK);
}

/* A session's report with a word that nobody has used before. */
static int say(wire_fixture *f, uint64_t session, const char *word, mr_cut_message *came) {
    const mr_settled settled = {1, 1, MR_NOTE_DROPPED, "stage", word};
    const mr_cut_message report = {.kind = MR_MESSAGE_REPORT, .version = MR_PROTOCOL_NEWEST, .session = session,
                                   .number = 1, .report = {.settled = &settled, .settled_count = 1}};
    return wire_cross(f, &report, came);
}

/* The table accepts 1000 words with 10,000 bytes in total from each: one that uses up a share is refused, others are
 * not. */
WIRE_TEST(test_one_process_cannot_use_up_the_words_of_others) {
    parties all = {0};
    mr_cut_message came;
    char word[32];
    int status = MR_OK, said = 0;
    open_for(f, &all, 0, 0);
    for (; status == MR_OK && said < 5000; said++) {
        snprintf(word, sizeof word, "%d", said);
        status = say(f, 1, word, &came);
    }
    assert_int_equal(status, MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "that are kept of one process"));
    assert_int_equal(said, 1000); /* one is "stage" */
    assert_int_equal(say(f, 1, "7", &came), MR_OK);
    assert_string_equal(came.report.settled->reason, "7");
    for (int i = 0; i < 900; i++) {
        snprintf(word, sizeof word, "other %d", i);
        assert_int_equal(say(f, 2, word, &came), MR_OK);
        assert_string_equal(came.report.settled->reason, word);
    }
    assert_int_equal(all.other.count, 900);
    const char *kept;
    assert_int_equal(mr_names_keep(f->names, &all.other, "7", 1, &kept), MR_OK);
    assert_int_equal(all.other.count, 900);
}

/* The ledger needs both names. */
WIRE_TEST(test_a_frame_is_not_lost_without_a_reason) {
    parties all = {0};
    mr_cut_message came;
    open_for(f, &all, 0, 0);
    assert_int_equal(say(f, 1, NULL, &came), MR_ERROR_PROTOCOL);
    assert_non_null(strstr(mr_message(), "without a stage and a reason"));
}

WIRE_TEST(test_words_of_strangers_are_not_kept) {
    parties all = {0};
    mr_cut_message came;
    const char *kept;
    open_for(f, &all, 0, 0);
    assert_int_equal(say(f, 3, "strange", &came), MR_OK);
    assert_int_equal(came.kind, MR_MESSAGE_REPORT);
    assert_int_equal(came.session, 3);
    assert_int_equal(came.report.settled_count, 0);
    assert_int_equal(mr_names_keep(f->names, &all.one, "strange", 7, &kept), MR_OK);
    assert_int_equal(all.one.count, 1); /* it was not there yet */
}

WIRE_TEST(test_items_are_counted_before_they_are_made) {
    enum { MANY = 100 };
    mr_cut_item item[MANY];
    mr_cut_message came;
    for (int i = 0; i < MANY; i++)
        item[i] = (mr_cut_item){.kind = MR_CUT_GAP, .position = (uint64_t)i + 1, .reason = "late"};
    open_for(f, NULL, MANY, 0);
    assert_int_equal(wire_cross(f, wire_items(item, MANY), &came), MR_OK);
    assert_int_equal(came.items.count, MANY);
    open_for(f, NULL, MANY - 1, 0);
    assert_int_equal(wire_cross(f, wire_items(item, MANY), &came), MR_ERROR_PROTOCOL);
    assert_string_equal(mr_message(), "a message of 100 items; at most 99 are allowed");
}

/* Frame names as another version might send them. */
static int read_named(wire_fixture *f, const char *id, const char *file, const char *label) {
    mr_frame *frame = wire_picture(f, MR_PIXEL_GRAY8, 2, 2);
    mr_cut_message came;
    static char names[3 * 8192];
    char *to = names;
    const char *const given[] = {id, file, label};
    for (int i = 0; i < 3; i++)
        to = stpcpy(to, given[i]) + 1;
    assert_null(frame->names);
    frame->names = mr_buffer_wrap(names, sizeof names, NULL, NULL);
    int status = wire_cross(f, wire_message(frame), &came);
    if (!status) {
        const mr_frame *got = came.items.item[0].frame;
        assert_string_equal(mr_frame_id(got), id);
        assert_string_equal(mr_frame_file(got) ? mr_frame_file(got) : "", file);
        assert_string_equal(mr_frame_label(got) ? mr_frame_label(got) : "", label);
        mr_frame_unref(&came.items.item[0].frame);
    }
    mr_frame_unref(&frame);
    return status;
}

WIRE_TEST(test_names_of_frames_are_texts) {
    char longest[MR_FRAME_FILE + 2];
    memset(longest, 'x', sizeof longest);
    longest[MR_FRAME_FILE + 1] = '\0';
    const struct {
        const char *id, *file, *label;
        int status;
    } cases[] = {{"T\xc3\xbcr", "", "", MR_OK},
                 {"7", longest + 1, "dog", MR_OK},
                 {"7", longest, "dog", MR_ERROR_PROTOCOL},
                 {longest, "", "", MR_ERROR_PROTOCOL},
                 {"", "", longest, MR_ERROR_PROTOCOL},
                 {"T\xc3", "", "", MR_ERROR_PROTOCOL},
                 {"", "\xff", "", MR_ERROR_PROTOCOL},
                 {"", "", "\xff", MR_ERROR_PROTOCOL}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(read_named(f, cases[i].id, cases[i].file, cases[i].label), cases[i].status);
}

/* Times as a foreign process might send them: those out of bounds count as none. */
WIRE_TEST(test_times_are_bounded) {
    static const int64_t wild[] = {INT64_MAX, INT64_MIN, INT64_MIN + 1, INT64_MAX / 2, MR_MOST_TIME_NS, -1};
    for (size_t i = 0; i < sizeof wild / sizeof *wild; i++) {
        ENDED_BY(mr_frame_unref) mr_frame *frame = wire_picture(f, MR_PIXEL_GRAY8, 2, 2);
        mr_cut_message came;
        const int64_t time_ns = wild[i];
        frame->pts_ns = frame->dts_ns = frame->captured_ns = frame->duration_ns = time_ns;
        frame->born_ns = time_ns > 0 ? time_ns : NOW;
        frame->deadline_ns = NOW;
        assert_int_equal(wire_cross(f, wire_message(frame), &came), MR_OK);
        const mr_frame *got = came.items.item[0].frame;
        assert_int_equal(got->pts_ns, mr_time_bound(time_ns));
        assert_int_equal(got->dts_ns, mr_time_bound(time_ns));
        assert_int_equal(got->captured_ns, mr_time_bound(time_ns) == MR_NO_TIME ? 0 : time_ns);
        assert_int_equal(got->duration_ns, time_ns == MR_MOST_TIME_NS ? time_ns : 0);
        assert_int_equal(got->born_ns, time_ns == MR_MOST_TIME_NS ? time_ns : NOW);
        mr_frame_unref(&came.items.item[0].frame);
    }
}

static void keep_media(mr_media *media) {
}

/* The media that arrives with a frame from `media`; a reference. */
static mr_media *come(wire_fixture *f, mr_media *media) {
    mr_frame *frame = wire_packet(f, 10, 64, 0);
    frame->media = mr_media_ref(media);
    mr_cut_message came;
    const mr_wire_part *parts;
    mr_wire_part carried[4];
    size_t count;
    assert_int_equal(mr_wire_write(f->writer, wire_message(frame), NOW, &parts, &count), MR_OK);
    wire_carry(parts, count, carried, false);
    assert_int_equal(mr_wire_read(f->reader, carried, count, NOW, &came), MR_OK);
    mr_media *got = mr_media_ref(came.items.item->frame->media);
    assert_string_equal(got->path, media->path);
    mr_frame_unref(&came.items.item->frame);
    wire_uncarry(carried, count, false);
    mr_frame_unref(&frame);
    return got;
}

/* Whether this media arrives as the one that arrived before. */
static bool comes_again(wire_fixture *f, mr_media *media, const mr_media *before) {
    mr_media *again = come(f, media);
    const bool same = again == before;
    mr_media_unref(&again);
    return same;
}

/* Descriptions with some 300 bytes, where 1000 are kept: three fit. References keep addresses from being reused. */
WIRE_TEST(test_descriptions_of_media_are_bounded_in_bytes) {
    enum { KINDS = 4, LONG = 300 };
    /* The writer refers to them until the fixture ends. */
    static char paths[KINDS + 1][2 * LONG * LONG];
    static mr_media media[KINDS + 1];
    mr_media *first[KINDS + 1];
    open_for(f, NULL, 0, 1000);
    for (int i = 0; i <= KINDS; i++) {
        memset(paths[i], 'a' + i, i < KINDS ? LONG : 2000);
        media[i] = (mr_media){.path = paths[i], .rate_num = 25, .rate_den = 1, .release = keep_media};
        media[i].references = 1;
    }
    for (int i = 0; i < KINDS; i++) {
        first[i] = come(f, &media[i]);
        assert_true(i == 3 || comes_again(f, &media[i], first[i]));
    }
    assert_true(comes_again(f, &media[1], first[1]));
    assert_false(comes_again(f, &media[0], first[0])); /* the oldest has made room */
    first[4] = come(f, &media[4]); /* too large to keep: arrives anyway */
    assert_false(comes_again(f, &media[4], first[4]));
    assert_true(comes_again(f, &media[3], first[3]));
    for (int i = 0; i <= KINDS; i++)
        mr_media_unref(&first[i]);
}

/* Geometries with one impossible value each. */
WIRE_TEST(test_geometries_are_possible) {
    for (int wrong = 0; wrong < 7; wrong++) {
        ENDED_BY(mr_frame_unref) mr_frame *frame = wire_tensor(f, MR_DTYPE_U8, 1, &(int64_t){10});
        mr_geometry *geometry = &frame->geometry;
        mr_cut_message came;
        geometry->x[1] = wrong == 0 ? (double)NAN : geometry->x[1];
        geometry->y[2] = wrong == 1 ? (double)INFINITY : geometry->y[2];
        geometry->height = wrong == 2 ? 0 : geometry->height;
        geometry->width = wrong == 3 ? 65537 : geometry->width;
        geometry->source_width = wrong == 4 ? -1 : geometry->source_width;
        geometry->source_height = wrong == 5 ? 0 : geometry->source_height;
        geometry->rotation = wrong == 6 ? 45 : geometry->rotation;
        assert_int_equal(wire_cross(f, wire_message(frame), &came), MR_ERROR_PROTOCOL);
        assert_string_equal(mr_message(), "a geometry with an impossible value");
    }
}

RUN_TESTS(NULL, NULL)

/* Still picture orientation: generated files in each format, whole and cut at each byte. */
#include <stdio.h>
#include <string.h>

#include "stages/media/still/heif.h"
#include "stages/media/still/orientation.h"
#include "tests/support/suite.h"

/* ---- files ------------------------------------------------------------------------------------------------------- */

enum { ROOM = 1024 };
typedef struct made_file {
    uint8_t at[ROOM];
    size_t count;
} made_file;

static void put(made_file *to, const void *data, size_t count) {
    assert_true(to->count + count <= ROOM);
    memcpy(to->at + to->count, data, count);
    to->count += count;
}

static void put_big(made_file *to, uint64_t number, int count) {
    for (int i = count - 1; i >= 0; i--)
        put(to, &(uint8_t){(uint8_t)(number >> 8 * i)}, 1);
}

static void put_text(made_file *to, const char *text) {
    put(to, text, strlen(text));
}

/* A directory where another entry precedes the orientation. */
static made_file exif(bool big, uint8_t orientation) {
    static const uint8_t little[] = {'I', 'I', 42, 0, 8, 0, 0, 0, 2, 0,
                                     0x00, 0x01, 4, 0, 1, 0, 0, 0, 9, 0, 0, 0,
                                     0x12, 0x01, 3, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    static const uint8_t large[] = {'M', 'M', 0, 42, 0, 0, 0, 8, 0, 2,
                                    0x01, 0x00, 0, 4, 0, 0, 0, 1, 0, 0, 0, 9,
                                    0x01, 0x12, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0};
    made_file made = {.count = 0};
    put(&made, big ? large : little, sizeof little);
    made.at[big ? 31 : 30] = orientation;
    return made;
}

static made_file png(const made_file *inner) {
    made_file made = {.count = 0};
    put(&made, "\x89PNG\r\n\x1a\n\0\0\0\x01IDATx\1\2\3\4", 21);
    put_big(&made, inner->count, 4);
    put_text(&made, "eXIf");
    put(&made, inner->at, inner->count);
    put(&made, "\1\2\3\4\0\0\0\0IEND\xae\x42\x60\x82", 16);
    return made;
}

/* The tag begins with JPEG's marker; a chunk of odd length comes before it. */
static made_file webp(const made_file *inner) {
    made_file made = {.count = 0};
    put(&made, "RIFF\x7f\0\0\0WEBPVP8L\3\0\0\0abc\0EXIF", 28);
    put(&made, &(uint8_t){(uint8_t)(inner->count + 6)}, 1);
    put(&made, "\0\0\0Exif\0\0", 9);
    put(&made, inner->at, inner->count);
    return made;
}

static void expect(enum AVCodecID codec, const made_file *file, int rotation, bool flip) {
    const mr_upright found = mr_still_upright(codec, file->at, file->count);
    assert_int_equal(found.rotation, rotation);
    assert_int_equal(found.flip, flip);
}

/* ---- EXIF -------------------------------------------------------------------------------------------------------- */

/* TIFF 6.0: where row 0 and column 0 of the stored picture are displayed. */
static const struct {
    int rotation;
    bool flip;
} known[] = {{0, false}, {0, true}, {180, false}, {180, true}, {270, true}, {90, false}, {90, true}, {270, false}};

TEST(each_value_is_found_in_each_format) {
    for (uint8_t value = 1; value <= 8; value++)
        for (int big = 0; big < 2; big++) {
            const made_file tag = exif(big, value), in_png = png(&tag), in_webp = webp(&tag);
            const int rotation = known[value - 1].rotation;
            const bool flip = known[value - 1].flip;
            expect(AV_CODEC_ID_TIFF, &tag, rotation, flip);
            expect(AV_CODEC_ID_PNG, &in_png, rotation, flip);
            expect(AV_CODEC_ID_WEBP, &in_webp, rotation, flip);
            assert_int_equal(mr_upright_to_exif((mr_upright){(int16_t)rotation, flip}), value);
        }
}

/* Each prefix is in a separate block, so that a sanitizer sees any read past the end. */
static void read_prefixes(enum AVCodecID codec, const made_file *file) {
    for (size_t length = 0; length < file->count; length++) {
        uint8_t *copy = test_malloc(length + 1);
        memcpy(copy + 1, file->at, length);
        const mr_upright found = mr_still_upright(codec, copy + 1, length);
        assert_true(found.rotation == 0 || found.rotation == 90);
        mr_heif heif;
        mr_heif_read(copy + 1, length, &heif);
        assert_true(!heif.data || heif.data + heif.bytes <= copy + 1 + length);
        test_free(copy);
    }
}

/* An attribute in PNG, and an element in WebP, each after another text. EXIF wins over both. */
TEST(xmp_counts_where_exif_has_none) {
    static const char keyword[] = "XML:com.adobe.xmp", element[] = "<tiff:Orientation>8</tiff:Orientation>";
    static const char attribute[] = "\0\0\0\0\0<x tiff:Resolution='1' tiff:Orientation=\"6\"/>";
    const made_file none = exif(true, 0), half = exif(true, 3);
    made_file in_png = png(&none), both = png(&half), in_webp = {.count = 0};
    in_png.count -= 12;
    put(&in_png, "\0\0\0\x05iTXtother\1\2\3\4", 17);
    put_big(&in_png, sizeof keyword + sizeof attribute - 1, 4);
    put_text(&in_png, "iTXt");
    put(&in_png, keyword, sizeof keyword);
    put(&in_png, attribute, sizeof attribute - 1);
    put(&in_png, "\1\2\3\4\0\0\0\0IEND\xae\x42\x60\x82", 16);
    expect(AV_CODEC_ID_PNG, &in_png, 90, false);
    read_prefixes(AV_CODEC_ID_PNG, &in_png);
    both.count -= 12;
    put(&both, in_png.at + in_png.count - 16 - sizeof attribute - sizeof keyword - 7,
        sizeof attribute + sizeof keyword + 7 + 16);
    expect(AV_CODEC_ID_PNG, &both, 180, false);
    put(&in_webp, "RIFF\x7f\0\0\0WEBPVP8L\3\0\0\0abc\0XMP ", 28);
    put(&in_webp, &(uint8_t){sizeof element - 1}, 1);
    put(&in_webp, "\0\0\0", 3);
    put_text(&in_webp, element);
    expect(AV_CODEC_ID_WEBP, &in_webp, 270, false);
}

TEST(profiles_of_digits_are_read) {
    const made_file tag = exif(false, 7);
    char text[4 * ROOM] = "\nexif\n      44\n457869660000";
    for (size_t i = 0; i < tag.count; i++)
        snprintf(text + strlen(text), 4, "%s%02x", i % 30 ? "" : "\n", tag.at[i]);
    const mr_upright found = mr_upright_of_profile(text);
    assert_int_equal(found.rotation, 90);
    assert_true(found.flip);
    for (size_t length = strlen(text); length-- > 0;) {
        text[length] = '\0';
        mr_upright_of_profile(text);
    }
    assert_int_equal(mr_upright_of_profile("").rotation, 0);
}

TEST(other_values_and_files_are_upright) {
    for (int value = 0; value < 256; value++) {
        const made_file tag = exif(true, (uint8_t)value), in_png = png(&tag);
        if (value == 0 || value > 8)
            expect(AV_CODEC_ID_PNG, &in_png, 0, false);
        expect(AV_CODEC_ID_MJPEG, &in_png, 0, false);
        expect(AV_CODEC_ID_WEBP, &in_png, 0, false);
    }
    made_file beyond = exif(false, 6);
    for (int at = 4; at < 8; at++)
        beyond.at[at] = 0xff;
    expect(AV_CODEC_ID_TIFF, &beyond, 0, false);
    made_file many = exif(false, 6);
    many.at[8] = many.at[9] = 0xff;
    expect(AV_CODEC_ID_TIFF, &many, 90, false);
}

TEST(files_that_are_cut_off_are_read_to_their_end) {
    const made_file tag = exif(true, 6), in_png = png(&tag), in_webp = webp(&tag);
    read_prefixes(AV_CODEC_ID_TIFF, &tag);
    read_prefixes(AV_CODEC_ID_PNG, &in_png);
    read_prefixes(AV_CODEC_ID_WEBP, &in_webp);
}

/* All 64 pairs: a picture's corners must go where both transforms in turn would move them. */
TEST(transforms_follow_each_other) {
    for (unsigned first = 1; first <= 8; first++)
        for (unsigned then = 1; then <= 8; then++) {
            const mr_upright both[] = {mr_upright_of_exif(first), mr_upright_of_exif(then)};
            const mr_upright one = mr_upright_then(both[0], both[1]);
            for (int corner = 0; corner < 3; corner++) {
                int x = corner == 1 ? 1 : -1, y = corner == 2 ? 2 : -2, u = x, v = y;
                const mr_upright steps[] = {both[0], both[1], one};
                for (int step = 0; step < 3; step++) {
                    int *a = step < 2 ? &x : &u, *b = step < 2 ? &y : &v;
                    *a = steps[step].flip ? -*a : *a;
                    for (int turn = 0; turn < steps[step].rotation; turn += 90) {
                        const int old = *a;
                        *a = -*b;
                        *b = old;
                    }
                }
                assert_int_equal(x, u);
                assert_int_equal(y, v);
            }
        }
}

/* ---- HEIF -------------------------------------------------------------------------------------------------------- */

static size_t begin_box(made_file *to, const char *name) {
    const size_t at = to->count;
    put_big(to, 0, 4);
    put_text(to, name);
    return at;
}

static void end_box(made_file *to, size_t at) {
    const size_t size = to->count - at;
    to->at[at + 2] = (uint8_t)(size >> 8);
    to->at[at + 3] = (uint8_t)size;
}

typedef struct avif_choices {
    const char *type;
    int turns;        /* from irot; -1: none */
    int axis;         /* from imir; -1: none */
    bool wide, inside; /* long identifiers; data in `idat` */
    int pieces;
} avif_choices;

static void put_properties(made_file *to, const avif_choices *with) {
    const size_t iprp = begin_box(to, "iprp"), ipco = begin_box(to, "ipco"), ispe = begin_box(to, "ispe");
    put_big(to, 0, 4), put_big(to, 64, 4), put_big(to, 48, 4);
    end_box(to, ispe);
    const size_t av1c = begin_box(to, "av1C");
    put(to, "\x81\x04\x0c\0", 4);
    end_box(to, av1c);
    const size_t irot = begin_box(to, "irot");
    put_big(to, with->turns < 0 ? 0 : (uint64_t)with->turns, 1);
    end_box(to, irot);
    const size_t imir = begin_box(to, "imir");
    put_big(to, with->axis < 0 ? 0 : (uint64_t)with->axis, 1);
    end_box(to, imir);
    end_box(to, ipco);
    const size_t ipma = begin_box(to, "ipma");
    put_big(to, with->wide ? 0x01000001 : 0, 4), put_big(to, 1, 4), put_big(to, 7, with->wide ? 4 : 2);
    const int count = 2 + (with->turns >= 0) + (with->axis >= 0), bytes = with->wide ? 2 : 1;
    const uint64_t essential = with->wide ? 0x8000 : 0x80;
    put_big(to, (uint64_t)count, 1), put_big(to, 1, bytes), put_big(to, essential | 2, bytes);
    if (with->turns >= 0)
        put_big(to, essential | 3, bytes);
    if (with->axis >= 0)
        put_big(to, essential | 4, bytes);
    end_box(to, ipma);
    end_box(to, iprp);
}

static const char payload[] = "the picture";

static made_file avif(const avif_choices *with) {
    made_file made = {.count = 0};
    const int wide = with->wide ? 4 : 2;
    const size_t ftyp = begin_box(&made, "ftyp");
    put_text(&made, "avif"), put_big(&made, 0, 4), put_text(&made, "mif1");
    end_box(&made, ftyp);
    const size_t meta = begin_box(&made, "meta");
    put_big(&made, 0, 4);
    const size_t pitm = begin_box(&made, "pitm");
    put_big(&made, with->wide ? 0x01000000 : 0, 4), put_big(&made, 7, wide);
    end_box(&made, pitm);
    const size_t iinf = begin_box(&made, "iinf");
    put_big(&made, 0, 4), put_big(&made, 1, 2);
    const size_t infe = begin_box(&made, "infe");
    put_big(&made, with->wide ? 0x03000000 : 0x02000000, 4), put_big(&made, 7, wide), put_big(&made, 0, 2);
    put_text(&made, with->type), put_big(&made, 0, 1);
    end_box(&made, infe);
    end_box(&made, iinf);
    const size_t iloc = begin_box(&made, "iloc");
    put_big(&made, with->wide ? 0x02000000 : 0x01000000, 4), put_big(&made, 0x4400, 2), put_big(&made, 1, wide);
    put_big(&made, 7, wide), put_big(&made, with->inside, 2), put_big(&made, 0, 2);
    put_big(&made, (uint64_t)with->pieces, 2);
    const size_t offset = made.count;
    for (int i = 0; i < with->pieces; i++)
        put_big(&made, 0, 4), put_big(&made, sizeof payload, 4);
    end_box(&made, iloc);
    put_properties(&made, with);
    const size_t idat = with->inside ? begin_box(&made, "idat") : 0;
    if (with->inside) {
        put(&made, payload, sizeof payload);
        end_box(&made, idat);
    }
    end_box(&made, meta);
    if (!with->inside) {
        const size_t mdat = begin_box(&made, "mdat");
        made.at[offset + 2] = (uint8_t)(made.count >> 8);
        made.at[offset + 3] = (uint8_t)made.count;
        put(&made, payload, sizeof payload);
        end_box(&made, mdat);
    }
    return made;
}

TEST(the_picture_in_a_file_is_found) {
    for (int way = 0; way < 4; way++) {
        const avif_choices with = {"av01", -1, -1, way & 1, way & 2, 1};
        const made_file file = avif(&with);
        mr_heif heif;
        assert_true(mr_heif_read(file.at, file.count, &heif));
        assert_false(heif.animated || heif.parts || heif.gray);
        assert_string_equal(heif.type, "av01");
        assert_int_equal(heif.bytes, sizeof payload);
        assert_memory_equal(heif.data, payload, sizeof payload);
        assert_int_equal(heif.width, 64);
        assert_int_equal(heif.height, 48);
        assert_int_equal(heif.depth, 8);
        assert_true(heif.chroma_w && heif.chroma_h && heif.avif);
        read_prefixes(AV_CODEC_ID_NONE, &file);
    }
}

/* HEIF turns are anticlockwise; axis 1 swaps left and right. The mirror comes after the turn, as listed. */
TEST(turns_and_mirrors_are_exifs) {
    static const struct {
        int turns, axis, orientation;
    } cases[] = {{-1, -1, 1}, {0, 1, 2}, {-1, 1, 2}, {2, -1, 3}, {-1, 0, 4}, {1, 0, 5}, {3, -1, 6}, {3, 0, 7},
                 {1, -1, 8}, {1, 1, 7}, {3, 1, 5}, {2, 1, 4}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const avif_choices with = {"av01", cases[i].turns, cases[i].axis, i & 1, false, 1};
        const made_file file = avif(&with);
        mr_heif heif;
        assert_true(mr_heif_read(file.at, file.count, &heif));
        assert_int_equal(mr_upright_to_exif(heif.upright), cases[i].orientation);
        const bool across = cases[i].turns == 1 || cases[i].turns == 3;
        assert_int_equal(heif.width, across ? 48 : 64);
    }
}

TEST(pictures_of_parts_are_told) {
    const avif_choices grid = {"grid", -1, -1, false, false, 1}, pieces = {"av01", -1, -1, false, false, 2};
    const made_file of_tiles = avif(&grid), in_pieces = avif(&pieces);
    mr_heif heif;
    assert_true(mr_heif_read(of_tiles.at, of_tiles.count, &heif));
    assert_true(heif.parts && !heif.data);
    assert_true(mr_heif_read(in_pieces.at, in_pieces.count, &heif));
    assert_true(heif.parts && !heif.data);
    static const uint8_t video[] = "\0\0\0\x18" "ftypisom\0\0\0\0isomiso2\0\0\0\x0cmeta\0\0\0";
    assert_false(mr_heif_read(video, sizeof video, &heif));
}

RUN_TESTS(NULL, NULL)

#include <stdlib.h>

#include <libavutil/imgutils.h>
#include <libavutil/pixdesc.h>

#include "millrace/frame.h"
#include "tests/support/suite.h"

/* The same layouts as libavutil names them: the independent reference for the whole table. */
static const enum AVPixelFormat twins[MR_PIXEL_COUNT] = {
    [MR_PIXEL_GRAY8] = AV_PIX_FMT_GRAY8,         [MR_PIXEL_GRAY10] = AV_PIX_FMT_GRAY10LE,
    [MR_PIXEL_GRAY12] = AV_PIX_FMT_GRAY12LE,     [MR_PIXEL_GRAY16] = AV_PIX_FMT_GRAY16LE,
    [MR_PIXEL_YA8] = AV_PIX_FMT_YA8,             [MR_PIXEL_I420] = AV_PIX_FMT_YUV420P,
    [MR_PIXEL_I422] = AV_PIX_FMT_YUV422P,        [MR_PIXEL_I440] = AV_PIX_FMT_YUV440P,
    [MR_PIXEL_I444] = AV_PIX_FMT_YUV444P,        [MR_PIXEL_I420_10] = AV_PIX_FMT_YUV420P10LE,
    [MR_PIXEL_I422_10] = AV_PIX_FMT_YUV422P10LE, [MR_PIXEL_I444_10] = AV_PIX_FMT_YUV444P10LE,
    [MR_PIXEL_I420_12] = AV_PIX_FMT_YUV420P12LE, [MR_PIXEL_I422_12] = AV_PIX_FMT_YUV422P12LE,
    [MR_PIXEL_I444_12] = AV_PIX_FMT_YUV444P12LE, [MR_PIXEL_NV12] = AV_PIX_FMT_NV12,
    [MR_PIXEL_P010] = AV_PIX_FMT_P010LE,         [MR_PIXEL_RGB24] = AV_PIX_FMT_RGB24,
    [MR_PIXEL_BGR24] = AV_PIX_FMT_BGR24,         [MR_PIXEL_RGBA] = AV_PIX_FMT_RGBA,
    [MR_PIXEL_BGRA] = AV_PIX_FMT_BGRA,           [MR_PIXEL_ARGB] = AV_PIX_FMT_ARGB,
    [MR_PIXEL_ABGR] = AV_PIX_FMT_ABGR,           [MR_PIXEL_GBR] = AV_PIX_FMT_GBRP,
    [MR_PIXEL_GBR_10] = AV_PIX_FMT_GBRP10LE,     [MR_PIXEL_GBR_12] = AV_PIX_FMT_GBRP12LE,
};

TEST(every_layout_is_as_libavutil_has_it) {
    for (int i = MR_PIXEL_ANY + 1; i < MR_PIXEL_COUNT; i++) {
        const mr_pixel_info *ours = mr_pixel_describe((mr_pixel)i);
        const AVPixFmtDescriptor *theirs = av_pix_fmt_desc_get(twins[i]);
        int alpha = (theirs->flags & AV_PIX_FMT_FLAG_ALPHA) != 0;
        assert_non_null(ours->name);
        assert_int_equal(ours->planes, av_pix_fmt_count_planes(twins[i]));
        assert_int_equal(ours->components, theirs->nb_components - alpha);
        assert_int_equal(ours->chroma_w, theirs->log2_chroma_w);
        assert_int_equal(ours->chroma_h, theirs->log2_chroma_h);
        assert_int_equal(ours->rgb, (theirs->flags & AV_PIX_FMT_FLAG_RGB) != 0);
        assert_int_equal(ours->depth, theirs->comp[0].depth);
        assert_int_equal(ours->shift, theirs->comp[0].shift);
        for (int c = 0; c < ours->components; c++) {
            assert_int_equal(ours->component[c].plane, theirs->comp[c].plane);
            assert_int_equal(ours->component[c].step, theirs->comp[c].step);
            assert_int_equal(ours->component[c].offset, theirs->comp[c].offset);
        }
    }
}

TEST(plane_sizes_are_as_libavutil_computes_them) {
    static const int sizes[][2] = {{1, 1}, {2, 2}, {3, 5}, {640, 480}, {641, 479}, {1920, 1080}, {7, 1}};
    for (int i = MR_PIXEL_ANY + 1; i < MR_PIXEL_COUNT; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            int width = sizes[s][0], height = sizes[s][1];
            ptrdiff_t linesizes[4];
            size_t plane_bytes[4];
            for (int p = 0; p < 4; p++)
                linesizes[p] = av_image_get_linesize(twins[i], width, p);
            assert_int_equal(av_image_fill_plane_sizes(plane_bytes, twins[i], height, linesizes), 0);
            for (int p = 0; p < MR_MAX_PLANES; p++) {
                size_t row = mr_plane_row_bytes((mr_pixel)i, p, width);
                assert_int_equal(row, linesizes[p]);
                assert_int_equal(row * (size_t)mr_plane_rows((mr_pixel)i, p, height), plane_bytes[p]);
            }
        }
}

/* Walking every layout's rows gives libavutil's packed picture: both copies have the same bytes. */
TEST(rows_are_walked_as_libavutil_copies_them) {
    static const int sizes[][2] = {{1, 1}, {33, 17}, {64, 3}, {7, 1}};
    for (int i = MR_PIXEL_ANY + 1; i < MR_PIXEL_COUNT; i++)
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = (mr_pixel)i, .width = sizes[s][0],
                                      .height = sizes[s][1]};
            mr_frame frame = {.format = format};
            const uint8_t *planes[4];
            int strides[4];
            const size_t bytes = mr_format_bytes(&format), packed = mr_packed_bytes(&format);
            uint8_t *padded = malloc(bytes), *ours = malloc(packed), *theirs = malloc(packed), *back = calloc(1, bytes);
            for (size_t k = 0; k < bytes; k++)
                padded[k] = (uint8_t)(k * 2654435761U >> 16);
            assert_int_equal(mr_lay_out(&format, MR_ROW_ALIGNMENT, padded, frame.plane), bytes);
            for (int p = 0; p < MR_MAX_PLANES; p++) {
                planes[p] = frame.plane[p].data;
                strides[p] = (int)frame.plane[p].stride;
            }
            assert_int_equal(av_image_get_buffer_size(twins[i], format.width, format.height, 1), packed);
            assert_int_equal(av_image_copy_to_buffer(theirs, (int)packed, planes, strides, twins[i], format.width,
                                                     format.height, 1), packed);
            mr_frame_pack(&frame, ours);
            assert_memory_equal(ours, theirs, packed);
            mr_frame again = {.format = format}, dense = {.format = format};
            mr_lay_out(&format, MR_ROW_ALIGNMENT, back, again.plane);
            mr_lay_out(&format, 1, ours, dense.plane);
            mr_copy_rows(&format, again.plane, dense.plane);
            mr_frame_pack(&again, theirs);
            assert_memory_equal(ours, theirs, packed);
            free(padded);
            free(ours);
            free(theirs);
            free(back);
        }
}

TEST(layouts_that_cannot_be_have_no_bytes) {
    const mr_format none[] = {
        {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I444_12, .width = INT32_MAX, .height = INT32_MAX},
        {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_ANY, .width = 8, .height = 8},
        {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 8},
        {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = -8, .height = 8},
        {.payload = MR_PAYLOAD_PACKET},
        {.payload = MR_PAYLOAD_RESULTS}};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_int_equal(mr_format_bytes(&none[i]), 0);
}

TEST(tensors_have_a_size_only_when_all_is_fixed) {
    const int64_t image[] = {3, 224, 224}, open[] = {3, 0, 224}, huge[] = {INT64_MAX, 3};
    mr_format format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NCHW, 3, image);
    assert_int_equal(mr_tensor_count(&format), 150528);
    assert_int_equal(mr_tensor_bytes(&format), 602112);
    format = mr_tensor_format(MR_DTYPE_F16, MR_LAYOUT_NCHW, 3, open);
    assert_int_equal(mr_tensor_count(&format), 0);
    format = mr_tensor_format(MR_DTYPE_U8, MR_LAYOUT_FLAT, 2, huge);
    assert_int_equal(mr_tensor_count(&format), 0);
    format = mr_tensor_format(MR_DTYPE_I64, MR_LAYOUT_FLAT, 1, huge);
    assert_int_equal(mr_tensor_count(&format), INT64_MAX);
    assert_int_equal(mr_tensor_bytes(&format), 0);
    format.rank = 0;
    assert_int_equal(mr_tensor_bytes(&format), 0);
}

TEST(formats_read_well) {
    char text[MR_FORMAT_TEXT];
    const int64_t dims[] = {3, 224, 224}, open[] = {3, 0, 0};
    mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 1280, .height = 720};
    assert_string_equal(mr_format_print(&format, text, sizeof text), "picture I420 1280x720");
    format.pixel = MR_PIXEL_ANY;
    format.height = 0;
    assert_string_equal(mr_format_print(&format, text, sizeof text), "picture 1280x?");
    format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_NCHW, 3, dims);
    assert_string_equal(mr_format_print(&format, text, sizeof text), "tensor f32 3x224x224");
    format = mr_tensor_format(MR_DTYPE_ANY, MR_LAYOUT_NHWC, 3, open);
    assert_string_equal(mr_format_print(&format, text, sizeof text), "tensor 3x?x? NHWC");
    format = (mr_format){.payload = MR_PAYLOAD_PACKET};
    assert_string_equal(mr_format_print(&format, text, sizeof text), "packet");
    assert_string_equal(mr_format_print(&(mr_format){0}, text, sizeof text), "anything");
    format = (mr_format){.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420_10, .width = 4096, .height = 2160};
    assert_string_equal(mr_format_print(&format, text, 12), "picture I42");
}

RUN_TESTS(NULL, NULL)

#include "tests/support/suite.h"
#include "tests/support/transport/wire_frames.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"

void wire_open(wire_fixture *f, mr_compression compression, bool checksum) {
    const mr_wire_writer_params writer = {.compression = compression, .checksum = checksum};
    assert_int_equal(mr_store_create(&f->store), MR_OK);
    assert_int_equal(mr_names_create(&f->names, 1000, 10000), MR_OK);
    assert_int_equal(mr_wire_writer_create(&f->writer, &writer), MR_OK);
    const mr_wire_reader_params reader = {.source_count = 4, .names = f->names, .store = f->store};
    assert_int_equal(mr_wire_reader_create(&f->reader, &reader), MR_OK);
}

void wire_close(wire_fixture *f) {
    mr_wire_writer_destroy(&f->writer);
    mr_wire_reader_destroy(&f->reader);
    mr_store_release(&f->store);
    mr_names_destroy(&f->names);
}

static mr_buffer *buffer_of(size_t bytes, uint32_t seed) {
    uint8_t *data = malloc(bytes + 1);
    assert_non_null(data);
    for (size_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)(seed + i * 31 + (i >> 8));
    mr_buffer *buffer = mr_buffer_wrap(data, bytes, free, data);
    assert_non_null(buffer);
    return buffer;
}

mr_frame *wire_frame(wire_fixture *f, const mr_format *format) {
    mr_frame *frame;
    assert_int_equal(mr_store_frame(f->store, &frame), MR_OK);
    frame->format = *format;
    frame->identity = (mr_identity){.source = 3, .epoch = 2, .seq = UINT64_C(1) << 40, .sub = 9};
    frame->geometry = (mr_geometry){.x = {0, -1.0 / 3, 640}, .y = {2.5, 1e-9, -7}, .width = 224, .height = 100,
                                    .source_width = 640, .source_height = 481, .rotation = 270, .flip = true};
    frame->pts_ns = -40;
    frame->duration_ns = 33333333;
    frame->born_ns = NOW - 1000;
    frame->deadline_ns = NOW + 500;
    frame->flags = MR_FRAME_KEY | MR_FRAME_DISPOSABLE | MR_FRAME_CORRUPT | MR_FRAME_HIDDEN | MR_FRAME_SEAM |
                   MR_FRAME_AWAY;
    return frame;
}

mr_frame *wire_picture(wire_fixture *f, mr_pixel pixel, int32_t width, int32_t height) {
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = pixel, .width = width, .height = height,
                              .matrix = MR_MATRIX_BT709, .range = MR_RANGE_FULL, .siting = MR_SITING_LEFT,
                              .sar_num = 4, .sar_den = 3, .rotation = 270, .flip = true};
    mr_frame *frame = wire_frame(f, &format);
    mr_buffer *buffer = buffer_of(mr_format_bytes(&format), (uint32_t)width);
    mr_frame_place(frame, &format, buffer, 0, MR_ROW_ALIGNMENT);
    mr_buffer_unref(&buffer);
    return frame;
}

mr_frame *wire_tensor(wire_fixture *f, mr_dtype dtype, int32_t rank, const int64_t *dims) {
    const mr_format format = mr_tensor_format(dtype, MR_LAYOUT_NCHW, rank, dims);
    mr_frame *frame = wire_frame(f, &format);
    frame->plane[0].buffer = buffer_of(mr_tensor_bytes(&format), 5);
    frame->plane[0].data = frame->plane[0].buffer->data;
    frame->plane[0].bytes = frame->plane[0].buffer->bytes;
    return frame;
}

mr_frame *wire_packet(wire_fixture *f, size_t bytes, size_t zeros, size_t side) {
    mr_frame *frame = wire_frame(f, &(mr_format){.payload = MR_PAYLOAD_PACKET});
    mr_plane *plane = &frame->plane[0];
    plane->buffer = buffer_of(bytes + zeros, 77);
    plane->data = plane->buffer->data;
    plane->bytes = bytes;
    memset(plane->data + bytes, 0, zeros);
    frame->dts_ns = 12;
    if (side) {
        frame->plane[1].buffer = buffer_of(side, 78);
        frame->plane[1].data = frame->plane[1].buffer->data;
        frame->plane[1].bytes = side;
    }
    return frame;
}

void wire_add_classes(wire_fixture *f, mr_frame *frame, const char *stage) {
    static const char *const labels[] = {"cockatoo", "grey parrot", NULL};
    mr_result *result;
    assert_int_equal(mr_store_result(f->store, mr_kind_classes(), 3, &result), MR_OK);
    result->stage = stage;
    result->count = 3;
    for (int i = 0; i < 3; i++)
        result->classes[i] = (mr_class){.index = 89 - 300 * i, .score = 0.5F / (float)(i + 1), .label = labels[i]};
    result->next = frame->results;
    frame->results = result;
}

void wire_add_tensor(wire_fixture *f, mr_frame *frame, int64_t count) {
    mr_result *result;
    assert_int_equal(mr_store_result(f->store, mr_kind_tensor(), 0, &result), MR_OK);
    result->stage = "features";
    result->name = "embedding";
    result->format = mr_tensor_format(MR_DTYPE_F32, MR_LAYOUT_FLAT, 1, &count);
    result->buffer = buffer_of((size_t)count * 4, 3);
    result->data = result->buffer->data;
    result->next = frame->results;
    frame->results = result;
}

const mr_cut_message *wire_items(mr_cut_item *item, size_t count) {
    static mr_cut_message message;
    message = (mr_cut_message){.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST, .items = {item, count}};
    return &message;
}

const mr_cut_message *wire_message(mr_frame *frame) {
    static mr_cut_item item;
    item = (mr_cut_item){.kind = MR_CUT_FRAME, .identity = frame->identity, .frame = frame, .position = 1};
    return wire_items(&item, 1);
}

int wire_cross(wire_fixture *f, const mr_cut_message *message, mr_cut_message *came) {
    const mr_wire_part *parts;
    size_t count;
    assert_int_equal(mr_wire_write(f->writer, message, NOW, &parts, &count), MR_OK);
    return mr_wire_read(f->reader, parts, count, NOW, came);
}

void wire_carry(const mr_wire_part *parts, size_t count, mr_wire_part *carried, bool aligned) {
    for (size_t i = 0; i < count; i++) {
        uint8_t *data = malloc(parts[i].bytes + 1);
        assert_non_null(data);
        mr_buffer *buffer = aligned ? mr_buffer_wrap(data, parts[i].bytes, free, data) : NULL;
        memcpy(data + !aligned, parts[i].data, parts[i].bytes);
        carried[i] = (mr_wire_part){.data = data + !aligned, .bytes = parts[i].bytes, .buffer = buffer};
    }
}

void wire_uncarry(mr_wire_part *carried, size_t count, bool aligned) {
    for (size_t i = 0; i < count; i++)
        if (aligned)
            mr_buffer_unref(&carried[i].buffer);
        else
            free((void *)(uintptr_t)(carried[i].data - 1));
}

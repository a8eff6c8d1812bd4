/* Handmade frames of every kind, and conversion to bytes and back. */
#pragma once

#include "engine/transport/wire/wire.h"

enum { NOW = 5000000, LATER = 7000000 };

typedef struct wire_fixture {
    mr_store *store;
    mr_names *names;
    mr_wire_writer *writer;
    mr_wire_reader *reader;
} wire_fixture;

void wire_open(wire_fixture *f, mr_compression compression, bool checksum);
void wire_close(wire_fixture *f);
/* A test with such a fixture, `f`, which neither compresses nor sums. */
#define WIRE_TEST(name)                                                                                               \
    TEST_GIVEN(name, wire_fixture, f, wire_open(&made, MR_COMPRESSION_NONE, false), wire_close(&made))

/* A frame with this format and all metadata, without planes. The caller owns this and the following. */
mr_frame *wire_frame(wire_fixture *f, const mr_format *format);
mr_frame *wire_picture(wire_fixture *f, mr_pixel pixel, int32_t width, int32_t height);
mr_frame *wire_tensor(wire_fixture *f, mr_dtype dtype, int32_t rank, const int64_t *dims);
/* `zeros` bytes follow it, as decoders need them. */
mr_frame *wire_packet(wire_fixture *f, size_t bytes, size_t zeros, size_t side);
void wire_add_classes(wire_fixture *f, mr_frame *frame, const char *stage);
void wire_add_tensor(wire_fixture *f, mr_frame *frame, int64_t count);

/* A message with one frame, at position 1, or with items. It is valid until the next call. */
const mr_cut_message *wire_message(mr_frame *frame);
const mr_cut_message *wire_items(mr_cut_item *item, size_t count);
/* Writes a message, which must succeed, and reads it; returns the reader's status. */
int wire_cross(wire_fixture *f, const mr_cut_message *message, mr_cut_message *came);

/* Parts as a transport would deliver them: in separate memory, some at odd addresses and without a buffer. */
void wire_carry(const mr_wire_part *parts, size_t count, mr_wire_part *carried, bool aligned);
void wire_uncarry(mr_wire_part *carried, size_t count, bool aligned);

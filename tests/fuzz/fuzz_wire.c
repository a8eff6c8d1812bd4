/* Any bytes as a message between nodes. Nothing may crash, leak, or take much memory, and a message that was read can
 * be written and read again. The input is envelopes and payloads, each after a length in two bytes. The first
 * envelope's checksum is corrected, so that the fuzzer gets past it.
 *
 *     tests/fuzz/run 60 fuzz_wire */
#include <string.h>
#include <xxhash.h>

#include "engine/transport/wire/wire.h"
#include "millrace/status.h"
#include "tests/fuzz/fuzz.h"

enum { PARTS = 6, TAIL = 9 };

static void seal(uint8_t *envelope, size_t bytes) {
    uint64_t sum = XXH3_64bits(envelope, bytes - TAIL);
    envelope[bytes - TAIL] = 15 << 3 | 1;
    for (int i = 0; i < 8; i++)
        envelope[bytes - 8 + (size_t)i] = (uint8_t)(sum >> 8 * i);
}

static size_t split(uint8_t *data, size_t bytes, mr_wire_part *parts) {
    size_t count = 0;
    while (bytes >= 2 && count < PARTS) {
        size_t length = (size_t)data[0] | (size_t)data[1] << 8;
        data += 2;
        bytes -= 2;
        length = length < bytes ? length : bytes;
        if (count == 0 && length >= TAIL)
            seal(data, length);
        parts[count++] = (mr_wire_part){.data = data, .bytes = length};
        data += length;
        bytes -= length;
    }
    return count;
}

static void drop_frames(mr_cut_message *message) {
    for (size_t i = 0; message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++)
        mr_frame_unref(&message->items.item[i].frame);
}

static void touch(void *context, mr_field_type type, const void *a, const void *b) {
    size_t *sum = context;
    const char *text = type == MR_FIELD_TEXT ? *(const char *const *)a : NULL;
    *sum += text ? strlen(text) : *(const uint8_t *)a;
}

/* Reads all values, those of items too. */
static void check_elements(const mr_result *result) {
    size_t sum = 0;
    const mr_comparison all = {.values = touch, .context = &sum};
    const uint8_t *element = result->data;
    for (size_t i = 0; i < result->count; i++, element += result->kind->element_bytes)
        for (const mr_field *field = result->kind->fields; field->name; field++)
            mr_result_compare_field(field, result, element, result, element, &all);
}

static void check_payload(const mr_frame *frame) {
    volatile uint8_t sum = 0;
    for (int i = 0; i < MR_MAX_PLANES; i++)
        for (size_t k = 0; frame->plane[i].buffer && k < frame->plane[i].bytes; k++)
            sum = (uint8_t)(sum + frame->plane[i].data[k]);
    for (const mr_result *result = frame->results; result; result = result->next) {
        for (size_t k = 0; k < mr_result_bytes(result); k++)
            sum = (uint8_t)(sum + ((const uint8_t *)result->data)[k]);
        if (result->kind->fields)
            check_elements(result);
    }
}

/* What was read is written and read once more: all of it must fit. */
static void write_again(mr_wire_writer *writer, mr_wire_reader *reader, mr_cut_message *message) {
    mr_cut_message again;
    const mr_wire_part *parts;
    size_t count;
    message->version = MR_PROTOCOL_NEWEST;
    fault_if(mr_wire_write(writer, message, 1, &parts, &count));
    fault_if(mr_wire_read(reader, parts, count, 1, &again));
    fault_if(again.kind != message->kind);
    fault_if(again.kind == MR_MESSAGE_ITEMS && again.items.made_by != message->items.made_by);
    drop_frames(&again);
}

FUZZ(data, bytes) {
    mr_store *store = NULL;
    mr_names *names = NULL;
    mr_wire_reader *reader = NULL, *other = NULL;
    mr_wire_writer *writer = NULL;
    mr_wire_part parts[PARTS];
    mr_cut_message message;
    uint8_t *copy = fuzz_copy(data, bytes, 1);
    fault_if(mr_store_create(&store) || mr_names_create(&names, 4000, 100000));
    size_t count = split(copy, bytes, parts);
    const mr_wire_reader_params params = {
        .most_bytes = 1 << 20, .most_media = 4, .source_count = 3, .names = names, .store = store};
    const mr_wire_writer_params writing = {.compression = MR_COMPRESSION_NONE};
    fault_if(mr_wire_reader_create(&reader, &params) || mr_wire_reader_create(&other, &params) ||
             mr_wire_writer_create(&writer, &writing));
    int status = mr_wire_read(reader, parts, count, 0, &message);
    if (status == MR_OK) {
        for (size_t i = 0; message.kind == MR_MESSAGE_ITEMS && i < message.items.count; i++)
            if (message.items.item[i].frame)
                check_payload(message.items.item[i].frame);
        write_again(writer, other, &message);
        drop_frames(&message);
    } else if (status != MR_ERROR_PROTOCOL) {
        abort();
    }
    mr_wire_reader_destroy(&reader);
    mr_wire_reader_destroy(&other);
    mr_wire_writer_destroy(&writer);
    mr_store_release(&store);
    mr_names_destroy(&names);
    free(copy);
}

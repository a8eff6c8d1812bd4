/* Cut messages for wire.py. `write` writes some to standard output. `read` reads them from standard input and prints
 * them as text. A message is the number of parts, then the length and bytes for each part. Numbers have 32 bits, little
 * endian.
 *
 *   wire_messages write|read */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/transport/wire/wire.h"
#include "millrace/status.h"
#include "millrace/text.h"

enum { NOW = 1000 };

static void put_number(size_t number) {
    for (int i = 0; i < 4; i++)
        putchar((int)(number >> 8 * i & 255));
}

static int write_one(mr_wire_writer *writer, const mr_cut_message *message) {
    const mr_wire_part *parts;
    size_t count;
    int status = mr_wire_write(writer, message, NOW, &parts, &count);
    if (status)
        return status;
    put_number(count);
    for (size_t i = 0; i < count; i++) {
        put_number(parts[i].bytes);
        fwrite(parts[i].data, 1, parts[i].bytes, stdout);
    }
    return MR_OK;
}

static int write_text(mr_store *store, mr_result **text) {
    int status = mr_store_result(store, mr_kind_text(), 2, text);
    mr_text *read = status ? NULL : memset((*text)->data, 0, 2 * sizeof *read);
    if (status)
        return status;
    (*text)->stage = "ctc";
    (*text)->count = 2;
    read[1].score = 0.25F;
    return mr_result_add_items(*text, "K\xc3\xb6ln", 5, 1, &read[1].text);
}

static int write_items(mr_wire_writer *writer, mr_store *store) {
    static uint8_t pixels[16 * 8 * 3 / 2];
    mr_frame *frame;
    mr_result *classes;
    if (mr_store_frame(store, &frame) || mr_store_result(store, mr_kind_classes(), 2, &classes))
        return MR_ERROR_MEMORY;
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)i;
    frame->format = (mr_format){
        .payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = 16, .height = 8, .matrix = MR_MATRIX_BT601};
    frame->geometry = (mr_geometry){.x = {0, -1.5, 640}, .y = {2, 0, -7}, .width = 16, .height = 8,
                                    .source_width = 640, .source_height = 481, .rotation = 90, .flip = true};
    frame->pts_ns = -5;
    frame->born_ns = NOW - 70;
    frame->deadline_ns = NOW + 30;
    frame->flags = MR_FRAME_KEY;
    size_t offset = 0;
    for (int i = 0; i < 3; i++) {
        mr_plane *plane = &frame->plane[i];
        plane->stride = i ? 8 : 16;
        plane->bytes = i ? 32 : 128;
        plane->data = pixels + offset;
        plane->buffer = mr_buffer_wrap(plane->data, plane->bytes, NULL, NULL);
        offset += plane->bytes;
    }
    classes->stage = "classify";
    classes->count = 2;
    classes->classes[0] = (mr_class){.index = 89, .score = 0.75F, .label = "cockatoo"};
    classes->classes[1] = (mr_class){.index = -1, .score = 0.125F};
    frame->results = classes;
    if (write_text(store, &classes->next))
        return MR_ERROR_MEMORY;
    mr_cut_item item[2] = {
        {.kind = MR_CUT_FRAME, .identity = {1, 2, UINT64_C(1) << 40, 4}, .frame = frame, .position = 300},
        {.kind = MR_CUT_GAP, .identity = {1, 2, 9, 0}, .position = 301, .reason = "late"}};
    mr_cut_message items = {.kind = MR_MESSAGE_ITEMS, .version = MR_PROTOCOL_NEWEST,
                            .session = 8, .number = 2, .items = {item, 2, UINT64_C(3) << 60}};
    int status = write_one(writer, &items);
    mr_frame_unref(&frame);
    return status;
}

static int write_all(mr_wire_writer *writer, mr_store *store) {
    const mr_cut_message hello = {.kind = MR_MESSAGE_HELLO, .version = MR_PROTOCOL_NEWEST,
                                  .hello = {1, 2, "center", UINT64_MAX, 3, {0, 1, 2}, "a->b", "pictures", "", 0, NULL,
                                            0}};
    const mr_settled settled[] = {{1, 5, MR_NOTE_DELIVERED, NULL, NULL}, {6, 1, MR_NOTE_DROPPED, "s", "late"}};
    const uint32_t ended[] = {2, 0};
    const mr_cut_message report = {.kind = MR_MESSAGE_REPORT, .version = MR_PROTOCOL_NEWEST,
                                   .session = 8, .number = 1,
                                   .report = {10, UINT64_C(1) << 50, 30, settled, 2, ended, 2, true}};
    int status = write_one(writer, &hello);
    if (!status)
        status = write_one(writer, &report);
    return status ? status : write_items(writer, store);
}

static size_t get_number(void) {
    size_t number = 0;
    for (int i = 0; i < 4; i++)
        number |= (size_t)(getchar() & 255) << 8 * i;
    return number;
}

static void tell_frame(const mr_frame *frame) {
    char text[MR_FORMAT_TEXT];
    printf(" frame %s pts %" PRId64 " age %" PRId64 " media %s", mr_format_print(&frame->format, text, sizeof text),
           frame->pts_ns, NOW - frame->born_ns, frame->media ? frame->media->path : "none");
    if (frame->geometry.width)
        printf(" at %g,%g of %dx%d", frame->geometry.x[2], frame->geometry.y[2], frame->geometry.source_width,
               frame->geometry.source_height);
    for (int i = 0; i < MR_MAX_PLANES && frame->plane[i].buffer; i++)
        printf(" plane %zu:%02x..%02x", frame->plane[i].bytes, frame->plane[i].data[0],
               frame->plane[i].data[frame->plane[i].bytes - 1]);
    for (const mr_result *result = frame->results; result; result = result->next) {
        printf(" by %s", result->stage);
        for (size_t i = 0; result->kind == mr_kind_classes() && i < result->count; i++)
            printf(" %d %g %s", result->classes[i].index, (double)result->classes[i].score,
                   result->classes[i].label ? result->classes[i].label : "-");
        for (size_t i = 0; result->kind == mr_kind_text() && i < result->count; i++) {
            const mr_text *read = (const mr_text *)result->data + i;
            const char *characters = mr_result_items(result, read->text);
            printf(" %u %s %g", read->text.count, characters ? characters : "-", (double)read->score);
        }
        if (result->kind == mr_kind_tensor())
            printf(" %s %s %g", result->name, mr_format_print(&result->format, text, sizeof text),
                   (double)((const float *)(const void *)result->data)[1]);
    }
}

static void tell(mr_cut_message *message) {
    printf("kind %d session %" PRIu64 " number %" PRIu64, (int)message->kind, message->session, message->number);
    if (message->kind == MR_MESSAGE_WELCOME)
        printf(" run %" PRIu64 " live %d", message->welcome.run, message->welcome.live);
    if (message->kind == MR_MESSAGE_ITEMS)
        printf(" by %" PRIu64, message->items.made_by);
    for (size_t i = 0; message->kind == MR_MESSAGE_ITEMS && i < message->items.count; i++) {
        mr_cut_item *item = &message->items.item[i];
        printf(" [%d %" PRIu64 " %u/%u/%" PRIu64 "/%u %s", (int)item->kind, item->position, item->identity.source,
               item->identity.epoch, item->identity.seq, item->identity.sub, item->reason ? item->reason : "-");
        if (item->frame)
            tell_frame(item->frame);
        printf("]");
        mr_frame_unref(&item->frame);
    }
    printf("\n");
}

static int read_all(mr_wire_reader *reader) {
    size_t count;
    int status = MR_OK;
    while ((count = get_number()) != UINT32_MAX && count <= 16) {
        mr_wire_part parts[16];
        mr_cut_message message;
        for (size_t i = 0; i < count; i++) {
            parts[i] = (mr_wire_part){.bytes = get_number()};
            uint8_t *data = malloc(parts[i].bytes + 1);
            if (!data || fread(data, 1, parts[i].bytes, stdin) != parts[i].bytes)
                return MR_ERROR_IO;
            parts[i].data = data;
        }
        if (mr_wire_read(reader, parts, count, NOW, &message))
            printf("refused: %s\n", mr_message());
        else
            tell(&message);
        for (size_t i = 0; i < count; i++)
            free((void *)(uintptr_t)parts[i].data);
    }
    return status;
}

int main(int count, char **words) {
    mr_store *store = NULL;
    mr_names *names = NULL;
    mr_wire_writer *writer = NULL;
    mr_wire_reader *reader = NULL;
    if (count != 2 || mr_store_create(&store) || mr_names_create(&names, 100, 10000))
        return 64;
    const mr_wire_reader_params params = {.source_count = 4, .names = names, .store = store};
    int status = mr_wire_writer_create(&writer, &(mr_wire_writer_params){.checksum = true});
    if (!status)
        status = mr_wire_reader_create(&reader, &params);
    if (!status)
        status = strcmp(words[1], "write") == 0 ? write_all(writer, store) : read_all(reader);
    if (status)
        fprintf(stderr, "wire_messages: %s\n", mr_message());
    mr_wire_writer_destroy(&writer);
    mr_wire_reader_destroy(&reader);
    mr_store_release(&store);
    mr_names_destroy(&names);
    return status ? EXIT_FAILURE : EXIT_SUCCESS;
}

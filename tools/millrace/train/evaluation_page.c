/* An evaluation's page: evaluation_page.html with the evaluation's JSON and the pictures of wrong rows in it. */
#include "tools/millrace/train/evaluation_page.h"

#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "millrace/log.h"

/* RFC 4648 */
static void put_base64(char *to, const uint8_t *data, size_t bytes) {
    static const char signs[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < bytes; i += 3) {
        const size_t left = bytes - i;
        uint32_t three =
            (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);
        *to++ = signs[three >> 18];
        *to++ = signs[three >> 12 & 63];
        *to++ = left > 1 ? signs[three >> 6 & 63] : '=';
        *to++ = left > 2 ? signs[three & 63] : '=';
    }
    *to = 0;
}

/* Little-endian. */
static void put_number(uint8_t *at, uint32_t value) {
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

/* Writes a bitmap with rows from the top, which needs a negative height. */
const char *mr_evaluation_page_picture(const mr_thumbnail *from) {
    enum { FILE_HEADER = 14, HEADER = 40, BEFORE = FILE_HEADER + HEADER, BITS = 24 };
    enum { BYTES = BEFORE + MR_THUMBNAIL_BYTES };
    static const char start[] = "data:image/bmp;base64,";
    static char text[sizeof start + (BYTES + 2) / 3 * 4];
    uint8_t bitmap[BYTES] = "BM";
    if (!from->pixels)
        return "";
    put_number(bitmap + 2, sizeof bitmap);
    put_number(bitmap + 10, BEFORE);
    put_number(bitmap + FILE_HEADER, HEADER);
    put_number(bitmap + FILE_HEADER + 4, MR_THUMBNAIL_SIDE);
    put_number(bitmap + FILE_HEADER + 8, -(uint32_t)MR_THUMBNAIL_SIDE);
    bitmap[FILE_HEADER + 12] = 1; /* planes */
    bitmap[FILE_HEADER + 14] = BITS;
    memcpy(bitmap + BEFORE, from->pixels, MR_THUMBNAIL_BYTES);
    memcpy(text, start, sizeof start);
    put_base64(text + sizeof start - 1, bitmap, sizeof bitmap);
    return text;
}

static int make_thumbnails(const mr_evaluation *e, mr_thumbnail *thumbnail) {
    size_t count = 0;
    for (; !e->vectors && count < e->judgement.wrong_count && count < MR_PAGE_PICTURES; count++) {
        const size_t row = e->judgement.wrong[count].row;
        const mr_listed_file *file = &e->set.list->files[e->row[row]];
        thumbnail[count] = (mr_thumbnail){.path = file->path, .video = file->video, .at_ns = e->at_ns[row]};
    }
    int status = mr_thumbnails_make(thumbnail, count, e->extraction.choice.stream);
    if (!status || status == MR_ERROR_CANCELLED || status == MR_ERROR_MEMORY)
        return status;
    mr_log(MR_LOG_WARNING, "the page has no pictures: %s", mr_message());
    return MR_OK;
}

/* In JSON, < stands only in texts. Nothing in them can end the script element. */
static void put_data(FILE *page, const char *json) {
    for (; *json; json++)
        if (*json == '<')
            fputs("\\u003c", page);
        else
            fputc(*json, page);
}

static int print_page(FILE *page, const mr_evaluation *e, const mr_thumbnail *thumbnail) {
    static const char mark[] = "@DATA@";
    char *json = NULL;
    size_t bytes = 0;
    FILE *stream = open_memstream(&json, &bytes);
    int status = stream ? mr_evaluation_put(e, thumbnail, stream) : MR_ERROR_MEMORY;
    if (stream && fclose(stream))
        status = MR_ERROR_MEMORY;
    const char *place = strstr(mr_evaluation_page_template, mark);
    if (!status) {
        fwrite(mr_evaluation_page_template, 1, (size_t)(place - mr_evaluation_page_template), page);
        put_data(page, json);
        fputs(place + sizeof mark - 1, page);
    }
    free(json);
    return status;
}

static int write_page(const mr_evaluation *e, const char *path, const mr_thumbnail *thumbnail) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *page = open_memstream(&text, &bytes);
    int status = page ? print_page(page, e, thumbnail) : MR_ERROR_MEMORY;
    if (page && fclose(page))
        status = MR_ERROR_MEMORY;
    if (status)
        mr_fail(status, "no memory for the page");
    else if (mr_file_replace(path, text, bytes))
        status = mr_file_fail("write", path);
    free(text);
    return status;
}

int mr_evaluation_page_write(const mr_evaluation *e, const char *path) {
    mr_thumbnail thumbnail[MR_PAGE_PICTURES] = {0};
    int status = make_thumbnails(e, thumbnail);
    if (!status)
        status = write_page(e, path, thumbnail);
    for (size_t i = 0; i < MR_PAGE_PICTURES; i++)
        free(thumbnail[i].pixels);
    return status;
}

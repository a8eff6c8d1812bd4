#include "stages/video/video_hls.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "engine/base/memory.h"
#include "millrace/status.h"

static void forget_first(mr_hls_files *hls) {
    hls->breaks += hls->entries[0].discontinuity;
    hls->count--;
    hls->sequence++;
    memmove(hls->entries, hls->entries + 1, hls->count * sizeof *hls->entries);
}

int mr_hls_add(mr_hls_files *hls, const mr_hls_entry *entry) {
    size_t most = hls->most ? hls->most : MR_HLS_MOST;
    if (hls->count == most)
        forget_first(hls);
    if (!mr_grow((void **)&hls->entries, hls->count, &hls->room, sizeof *hls->entries))
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    hls->entries[hls->count++] = *entry;
    return MR_OK;
}

void mr_hls_fini(mr_hls_files *hls) {
    mr_free(hls->entries);
    *hls = (mr_hls_files){0};
}

/* ---- the text ---------------------------------------------------------------------------------------------------- */

enum { LINE_BYTES = MR_OUTPUT_NAME + 160 };

typedef struct text {
    char *bytes;
    size_t count, room;
} text;

static void print(text *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print(text *to, const char *format, ...) {
    va_list values;
    va_start(values, format);
    to->count += (size_t)vsnprintf(to->bytes + to->count, to->room - to->count, format, values);
    va_end(values);
}

int mr_hls_write(const mr_hls_files *hls, const char *path, bool ended) {
    text to = {.room = LINE_BYTES * (hls->count + 1)};
    char date[MR_DATE_TEXT];
    int64_t longest = 1;
    to.bytes = mr_alloc(to.room);
    if (!to.bytes)
        return mr_fail(MR_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < hls->count; i++)
        if (hls->entries[i].duration_ns > longest * 1000000000)
            longest = (hls->entries[i].duration_ns + 499999999) / 1000000000;
    print(&to, "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:%" PRId64 "\n", longest);
    print(&to, "#EXT-X-MEDIA-SEQUENCE:%" PRIu64 "\n", hls->sequence);
    if (hls->breaks)
        print(&to, "#EXT-X-DISCONTINUITY-SEQUENCE:%" PRIu64 "\n", hls->breaks);
    if (!hls->most)
        print(&to, "#EXT-X-PLAYLIST-TYPE:EVENT\n");
    for (size_t i = 0; i < hls->count; i++) {
        const mr_hls_entry *entry = &hls->entries[i];
        if (entry->discontinuity)
            print(&to, "#EXT-X-DISCONTINUITY\n");
        print(&to, "#EXT-X-PROGRAM-DATE-TIME:%s\n", mr_date_text(date, entry->begun_ns));
        print(&to, "#EXTINF:%" PRId64 ".%06" PRId64 ",\n%s\n", entry->duration_ns / 1000000000,
              entry->duration_ns / 1000 % 1000000, entry->name);
    }
    if (ended)
        print(&to, "#EXT-X-ENDLIST\n");
    int status = mr_file_replace(path, to.bytes, to.count);
    mr_free(to.bytes);
    return status;
}

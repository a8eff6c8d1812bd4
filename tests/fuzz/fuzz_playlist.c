/* HLS playlists: each gives variants, segments or an error. A zero separates the next version, in which the reader's
 * position is looked up. */
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/url.h"
#include "stages/live/web/hls_position.h"
#include "tests/fuzz/fuzz.h"

/* All that is named can be read, and be made an address of HTTP. */
static void look(const char *uri) {
    char url[MR_URL_BYTES];
    fault_if(strlen(uri) > MR_PLAYLIST_MOST_ADDRESS || !mr_url_resolve("http://h/a/b?c", uri, url, sizeof url) ||
             (!mr_url_has_scheme(url, "http") && !mr_url_has_scheme(url, "https")));
}

static void walk(mr_hls_position *place, const mr_playlist *list) {
    size_t index = 0;
    for (int i = 0; i < 4; i++) {
        const mr_hls_step step = mr_hls_position_next(place, list, i == 0, &index);
        if (step >= MR_HLS_WAIT)
            return;
        fault_if(index >= list->count);
        mr_hls_position_take(place, list, index);
    }
}

static void read_list(mr_hls_position *place, const uint8_t *data, size_t bytes) {
    char *text = mr_alloc(bytes + 1);
    mr_playlist list;
    memcpy(text, data, bytes);
    if (mr_playlist_parse(&list, "name", text, bytes))
        return;
    for (size_t i = 0; i < list.count; i++) {
        const mr_segment *segment = &list.segments[i];
        look(segment->uri);
        fault_if(segment->key > list.key_count || segment->map > list.map_count || segment->first < 0 ||
                 segment->bytes < 0);
    }
    for (size_t i = 0; i < list.key_count; i++)
        look(list.keys[i].uri);
    for (size_t i = 0; i < list.map_count; i++)
        look(list.maps[i].uri);
    for (size_t i = 0; i < list.variant_count; i++)
        look(list.variants[i].uri);
    mr_playlist_choose(&list, "name", 1000000, -1);
    walk(place, &list);
    mr_playlist_fini(&list);
}

FUZZ(data, size) {
    const uint8_t *zero = size ? memchr(data, 0, size) : NULL;
    const size_t first = zero ? (size_t)(zero - data) : size;
    mr_hls_position place = {0};
    read_list(&place, data, first);
    if (zero)
        read_list(&place, zero + 1, size - first - 1);
}

#include "stages/video/record_cache.h"

#include <string.h>

#include "engine/base/memory.h"

/* FFmpeg's readers need it after the payload. */
enum { PADDING = 64 };

static int copy_plane(const mr_plane *from, mr_plane *to) {
    if (!from->data)
        return MR_OK;
    mr_buffer *buffer = mr_buffer_alloc(from->bytes + PADDING);
    if (!buffer)
        return MR_ERROR_MEMORY;
    memcpy(buffer->data, from->data, from->bytes);
    memset(buffer->data + from->bytes, 0, PADDING);
    *to = (mr_plane){.buffer = buffer, .data = buffer->data, .bytes = from->bytes};
    return MR_OK;
}

static size_t bytes_of(const mr_cached *packet) {
    return sizeof *packet + packet->frame.plane[0].bytes + packet->frame.plane[1].bytes + 2 * PADDING;
}

static void release(mr_cached *packet) {
    mr_buffer_unref(&packet->frame.plane[0].buffer);
    mr_buffer_unref(&packet->frame.plane[1].buffer);
    mr_media_unref(&packet->frame.media);
    mr_free(packet);
}

static bool is_key(const mr_cached *packet) {
    return packet->frame.flags & MR_FRAME_KEY;
}

static const mr_cached *next_key(const mr_cached *packet) {
    for (packet = packet->next; packet && !is_key(packet);)
        packet = packet->next;
    return packet;
}

static void drop_group(mr_record_cache *cache, const mr_cached *end) {
    while (cache->first != end) {
        mr_cached *gone = cache->first;
        cache->first = gone->next;
        cache->bytes -= bytes_of(gone);
        release(gone);
    }
    if (!cache->first)
        cache->last = NULL;
}

/* The newest group stays, however long it is. If it exceeds the byte limit, all of it must go. */
static void shrink(mr_record_cache *cache) {
    int64_t newest_ns = cache->last->time_ns;
    while (cache->first) {
        const mr_cached *key = next_key(cache->first);
        bool old = key && newest_ns - key->time_ns >= cache->keep_ns, large = cache->bytes > cache->most_bytes;
        if (!old && !large)
            return;
        cache->cut_short |= !old;
        drop_group(cache, key);
    }
}

int mr_record_cache_add(mr_record_cache *cache, const mr_frame *packet, mr_cached **added) {
    int64_t time_ns = packet->dts_ns != MR_NO_TIME ? packet->dts_ns : packet->pts_ns;
    *added = NULL;
    if (!cache->first && !(packet->flags & MR_FRAME_KEY))
        return MR_OK;
    mr_cached *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory to keep a packet");
    int status = copy_plane(&packet->plane[0], &made->frame.plane[0]);
    if (!status)
        status = copy_plane(&packet->plane[1], &made->frame.plane[1]);
    if (status) {
        release(made);
        return status;
    }
    made->frame.format = packet->format;
    made->frame.identity = packet->identity;
    made->frame.pts_ns = packet->pts_ns;
    made->frame.dts_ns = packet->dts_ns;
    made->frame.duration_ns = packet->duration_ns;
    made->frame.flags = packet->flags;
    made->frame.media = mr_media_ref(packet->media);
    made->time_ns = time_ns != MR_NO_TIME ? time_ns : cache->last ? cache->last->time_ns : 0;
    if (cache->last)
        cache->last->next = made;
    else
        cache->first = made;
    cache->last = made;
    cache->bytes += bytes_of(made);
    shrink(cache);
    *added = cache->last;
    return MR_OK;
}

mr_cached *mr_record_cache_start(const mr_record_cache *cache, int64_t time_ns) {
    mr_cached *best = NULL;
    for (mr_cached *packet = cache->first; packet; packet = packet->next)
        if (is_key(packet) && !packet->written && (!best || packet->frame.pts_ns <= time_ns))
            best = packet;
    return best;
}

void mr_record_cache_clear(mr_record_cache *cache) {
    drop_group(cache, NULL);
}

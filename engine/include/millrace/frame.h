/* Buffers and frames, the data that stages exchange.
 *
 * A buffer is a reference-counted block of memory. It comes from a pool or wraps foreign memory. A frame has planes in
 * buffers, a format and metadata. Any thread may take and drop references. A frame is immutable once it is emitted: a
 * stage that changes anything must make a new frame (mr_io_derive in stage.h). */
#ifndef MILLRACE_FRAME_H
#define MILLRACE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"
#include "millrace/format.h"
#include "millrace/geometry.h"
#include "millrace/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_device mr_device;
typedef struct mr_event mr_event;
typedef struct mr_receipt mr_receipt;
typedef struct mr_pool mr_pool;

/* SHARED: host memory that other processes on this host can map. Memory received from another process also has this
 * kind, and must not be written. */
typedef enum mr_memory {
    MR_MEMORY_HOST,
    MR_MEMORY_PINNED,
    MR_MEMORY_DEVICE,
    MR_MEMORY_SHARED,
    MR_MEMORY_KINDS
} mr_memory;

/* ---- buffers ------------------------------------------------------------------------------------------------- */

typedef struct mr_buffer {
    uint8_t *data;
    size_t bytes;
    mr_memory memory;
    mr_device *device; /* for pinned and device memory; NULL for host and shared memory */
    /* private */
    int references; /* changed by mr_buffer_ref and _unref, from any thread */
    mr_pool *pool;
    struct mr_buffer *next;
    uint64_t contents; /* names bytes that a former user of the pool left in it, for the next one; 0: none */
    void (*release)(void *context);
    void *context;
} mr_buffer;

MR_API mr_buffer *mr_buffer_ref(mr_buffer *buffer);
/* Drops *buffer and sets it to NULL; NULL is allowed. */
MR_API void mr_buffer_unref(mr_buffer **buffer);

/* Allocates host memory, aligned to 64 bytes, with undefined contents. NULL: out of memory; mr_message says so. */
MR_API mr_buffer *mr_buffer_alloc(size_t bytes);
/* Wraps host memory that the caller owns. The thread that drops the last reference calls release(context), once. On
 * failure returns NULL (out of memory) and calls nothing; the caller still owns the memory. */
MR_API mr_buffer *mr_buffer_wrap(void *data, size_t bytes, void (*release)(void *context), void *context);

/* ---- pools --------------------------------------------------------------------------------------------------- */

/* Creates a pool of up to `count` buffers with `bytes` bytes each, aligned to 64 bytes. The pool allocates buffers when
 * they are first needed and keeps them. It lives until you have called mr_pool_release and the last buffer has come
 * back. */
MR_API int mr_pool_create(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count);
MR_API void mr_pool_release(mr_pool **pool);
/* Allocates all buffers that are not allocated yet. MR_ERROR_MEMORY, MR_ERROR_DEVICE: the buffers that could be
 * allocated stay. `made` is optional and receives the number of buffers allocated so far. */
MR_API int mr_pool_fill(mr_pool *pool, int *made);

/* Takes a buffer. Never blocks. MR_ERROR_AGAIN: all are in use. MR_ERROR_MEMORY. Any thread. */
MR_API int mr_pool_acquire(mr_pool *pool, mr_buffer **buffer);

/* The number of buffers that can still be taken. Any thread; other threads may take some before the caller does. */
MR_API int mr_pool_free_count(const mr_pool *pool);
MR_API size_t mr_pool_buffer_bytes(const mr_pool *pool);

/* ---- media: the stream of packets and pictures --------------------------------------------------------------- */

/* Describes the stream that packets and pictures belong to: codec, time base, and the file in an image folder. It is
 * shared and immutable, and owns what the pointers point to. It holds decoder parameters but must not depend on a
 * decoder's library. */
typedef struct mr_media {
    int references;    /* 1 after creation; then only mr_media_ref and _unref may change it */
    char *path;        /* the file or URL that was read */
    bool is_file;      /* path names a file; records then have it */
    bool still;        /* Each frame is an independent picture, not part of a stream. A picture from a file is the
                          whole file. */
    bool live;         /* From a camera or stream: no picture may be held back until later packets arrive. */
    char *label;       /* class in a labelled folder; else NULL */
    int32_t label_index; /* index of the label among the folder's classes; else -1 */
    void *codec;       /* the reader's codec description (AVCodecParameters in stages/media) */
    int32_t rate_num, rate_den;  /* frames per second; 0/0: not known */
    int64_t frames;    /* number of frames that the container announces; 0: not known */
    int32_t x264_build; /* H.264 from x264: the build, which the first packet states; 0: not known */
    int16_t rotation;  /* degrees clockwise for display */
    bool flip;
    /* Selects pictures. Applied after decoding, since packets depend on each other. */
    int64_t start_ns, end_ns;    /* presentation times; end 0: to the end */
    int32_t every;     /* keeps every n-th picture; 0 or 1: all */
    double fps;        /* most pictures per second, by presentation time; 0: all */
    void (*release)(struct mr_media *media); /* must free codec, path, label and the struct */
} mr_media;

/* A decoder's parameters before the first packet, in a form that can pass between processes. Strings and numbers have
 * the meaning of message Codec in proto/millrace.proto. The caller that fills it in owns the pointers. */
typedef struct mr_codec_description {
    const char *name, *pixel; /* pixel "": not known */
    const uint8_t *extra;
    size_t extra_bytes;
    uint32_t tag, width, height, sar_num, sar_den, field_order, range, primaries, transfer, matrix, siting, bits, delay;
    int32_t profile, level;
} mr_codec_description;

/* Passes a reader's codec description (mr_media.codec) between processes. The source's stage type provides it. */
typedef struct mr_media_codec {
    void (*describe)(const void *codec, mr_codec_description *description);
    /* MR_ERROR_DATA: unknown codec or impossible parameters. MR_ERROR_MEMORY. */
    int (*make)(const mr_codec_description *description, void **codec);
    void (*release)(void *codec);
} mr_media_codec;

/* The time between two pictures, from the rate, but at most a day. 0: not known. */
MR_API int64_t mr_media_interval_ns(const mr_media *media);
MR_API mr_media *mr_media_ref(mr_media *media);
MR_API void mr_media_unref(mr_media **media);

/* ---- frames -------------------------------------------------------------------------------------------------- */

/* Identifies a frame. Order, joins and deduplication depend on it. */
typedef struct mr_identity {
    uint32_t source; /* position of the source in the pipeline */
    uint32_t epoch;  /* increases on loop, seek and reconnect */
    uint64_t seq;    /* Packets: decode order. Pictures: presentation order. Starts at 0 in each epoch. */
    uint32_t sub;    /* number among frames derived from one frame */
} mr_identity;

/* Returns < 0, 0 or > 0 if a comes before, equals or comes after b. Sources are compared last. */
MR_API int mr_identity_compare(const mr_identity *a, const mr_identity *b);
/* Writes identities without the source: "17, 18.2, 3 of epoch 1 and 4 more" if `all` is `count` and 4. The number after
 * the dot is mr_identity.sub. The text is cut to `bytes`. Returns `text`. */
MR_API const char *mr_identities_print(const mr_identity *frames, size_t count, uint64_t all, char *text, size_t bytes);

#define MR_NO_TIME INT64_MIN
/* The largest distance from 0, 97 years, for times from files, cameras and other programs. A sum or difference of three
 * such times fits in 64 bits. */
#define MR_MOST_TIME_NS (INT64_MAX / 3)
/* Returns the time, or MR_NO_TIME if it is outside that range. */
MR_API int64_t mr_time_bound(int64_t time_ns);
/* Returns mr_time_bound of time_ns + count * step_ns. No argument needs to be in range. MR_NO_TIME stays MR_NO_TIME. */
MR_API int64_t mr_time_step(int64_t time_ns, int64_t count, int64_t step_ns);

/* The reason for a frame that is dropped only because the run is ending. The frame is not settled: its producer keeps
 * it, and a later run sends it again. */
#define MR_REASON_STOPPED "stopped"
/* The reason for a frame that is absorbed because it came again and was settled before. This happens if the source was
 * read again. */
#define MR_REASON_DONE_BEFORE "done before"
/* The reason for a frame that is absorbed because the process for which it was made has been replaced: the new one has
 * it made again. */
#define MR_REASON_MADE_AGAIN "made again"

typedef struct mr_plane {
    mr_buffer *buffer; /* the frame holds a reference */
    uint8_t *data;     /* points into the buffer */
    ptrdiff_t stride;  /* bytes from row to row; not used for tensors and packets */
    size_t bytes;      /* packets and tensors: payload size; pictures: readable bytes from `data`, or if the stride is
                          negative from the last row */
} mr_plane;

/* Lays a picture or a tensor out in one block: plane after plane, with rows aligned to `alignment` bytes (1: without
 * gaps). Sets data, stride and bytes of the planes, and their buffers to NULL. `plane` may be NULL; then `data` is not
 * used. Returns the block's bytes. 0: the format is not fixed or has no such layout, or the bytes overflow. */
MR_API size_t mr_lay_out(const mr_format *format, size_t alignment, uint8_t *data, mr_plane plane[MR_MAX_PLANES]);
static inline size_t mr_packed_bytes(const mr_format *format) {
    return mr_lay_out(format, 1, NULL, NULL);
}

/* Walks the rows of a picture in any pixel layout, plane by plane from the top:
 *
 *     for (mr_row row = {0}; mr_next_row(&frame->format, &row);)
 *         fwrite(mr_row_at(frame->plane, &row), 1, row.bytes, file); */
typedef struct mr_row {
    int plane;
    int32_t y, rows; /* the row, and the number of rows in the plane; subsampled planes have fewer */
    size_t bytes;    /* of each row in the plane, without padding */
} mr_row;
/* Moves to the next row, or to the first row of the next plane. False: there is none; *row can be used no more. */
MR_API bool mr_next_row(const mr_format *format, mr_row *row);
MR_API bool mr_next_plane(const mr_format *format, mr_row *row);
static inline uint8_t *mr_row_at(const mr_plane plane[], const mr_row *row) {
    return plane[row->plane].data + row->y * plane[row->plane].stride;
}
/* Copies all rows of a picture in host memory. */
MR_API void mr_copy_rows(const mr_format *format, const mr_plane to[], const mr_plane from[]);

/* KEY and DISPOSABLE: for packets. CORRUPT: a packet with missing data; or a frame made from damaged pictures, if
 * decode was asked to mark them. HIDDEN: a packet that only other packets need; the picture must not be shown (an edit
 * list). SEAM: a packet before or in which the stream was interrupted, by joined recordings or a missing part. AWAY: a
 * packet with a picture that does not come from the stream, but shows since when the stream is away. Frames made from
 * it have the flag too, except encode's. */
enum {
    MR_FRAME_KEY = 1,
    MR_FRAME_DISPOSABLE = 2,
    MR_FRAME_CORRUPT = 4,
    MR_FRAME_HIDDEN = 8,
    MR_FRAME_SEAM = 16,
    MR_FRAME_AWAY = 32
};

typedef struct mr_frame {
    mr_format format;
    mr_plane plane[MR_MAX_PLANES];
    mr_identity identity;
    int64_t pts_ns;      /* presentation time; MR_NO_TIME: not known */
    int64_t dts_ns;      /* packets: decoding time */
    int64_t duration_ns; /* 0: not known */
    int64_t born_ns;     /* when the source emitted the frame, on the pipeline's clock */
    int64_t captured_ns; /* Capture time from the camera, or arrival time, depending on the source's options: ns since
                            1970 (UTC). 0: not known. */
    int64_t deadline_ns; /* on the pipeline's clock: no work begins on the frame after it; 0: none */
    uint32_t flags;
    mr_geometry geometry; /* where the pixels lie in the source's picture */
    mr_buffer *names;    /* Optional. Names from the program that sent the frame (mr_frame_name). */
    mr_media *media;     /* Optional. */
    mr_result *results;  /* Optional. Newest first. */
    mr_event *ready;     /* NULL: the payload can be read now. Else it must not be read until the event is done. */
    /* private */
    mr_receipt *receipt;
    int references;
    struct mr_store *store;
    struct mr_frame *next;
} mr_frame;

MR_API mr_frame *mr_frame_ref(mr_frame *frame);
/* Drops *frame and sets it to NULL; NULL is allowed. */
MR_API void mr_frame_unref(mr_frame **frame);

/* A frame's time for windows and intervals: the presentation time, or when the source emitted it. */
static inline int64_t mr_frame_time_ns(const mr_frame *frame) {
    return frame->pts_ns == MR_NO_TIME ? frame->born_ns : frame->pts_ns;
}

/* Gives a frame its payload: a picture or tensor in `buffer`, from byte `at`, as mr_lay_out does. Each plane takes a
 * reference. The frame must have no payload before. */
MR_API void mr_frame_place(mr_frame *frame, const mr_format *format, mr_buffer *buffer, size_t at, size_t alignment);
/* Copies a picture or tensor in host memory to `to`, without gaps: mr_packed_bytes of its format. */
MR_API void mr_frame_pack(const mr_frame *frame, uint8_t *to);

/* The most bytes of each name in mr_frame_names. */
enum { MR_FRAME_ID = 255, MR_FRAME_FILE = 4095, MR_FRAME_LABEL = 255 };
/* Names from the program that sent a frame: its id, the picture's file and the true class. "": none. */
typedef struct mr_frame_names {
    const char *id, *file, *label;
} mr_frame_names;
/* Replaces a frame's names. Frames made from it afterwards have the same names. Each name is cut before the first byte
 * that is not valid UTF-8, or to the most bytes. MR_ERROR_MEMORY: the old names stay. */
MR_API int mr_frame_name(mr_frame *frame, const mr_frame_names *names);
/* Returns the given names; they live as long as the frame. */
MR_API mr_frame_names mr_frame_given_names(const mr_frame *frame);
/* The names for the frame's records: the given names, else those from the media. NULL: none. */
MR_API const char *mr_frame_id(const mr_frame *frame);
MR_API const char *mr_frame_file(const mr_frame *frame);
MR_API const char *mr_frame_label(const mr_frame *frame);

/* The vector in a frame that `classify` takes. With `tensor`, it is the newest tensor with this name among the results.
 * With NULL, it is the payload if that is a vector, else the newest tensor that is a vector. */
typedef struct mr_frame_vector {
    const float *data;       /* in the payload or the result; may be device memory */
    size_t length;
    const mr_buffer *buffer; /* the buffer that holds it; NULL: the result itself holds it */
} mr_frame_vector;
/* MR_ERROR_NO_INPUT: the frame has none. MR_ERROR_DATA: the vector's type is not f32. */
MR_API int mr_frame_find_vector(const mr_frame *frame, const char *tensor, mr_frame_vector *found);
/* The length of a tensor that is a vector, whatever its rank. 0: it is not a vector, or the size is not known. */
MR_API size_t mr_vector_length(const mr_format *format);

/* The newest result with that kind and, if `stage` is not NULL, from that stage. NULL: there is none. */
MR_API const mr_result *mr_frame_result(const mr_frame *frame, const mr_result_kind *kind,
                                        const char *stage);

#ifdef __cplusplus
}
#endif
#endif

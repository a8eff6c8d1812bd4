/* Buffers and frames, the data that stages exchange.
 *
 * A buffer is a reference-counted block of memory; it comes from a pool or wraps foreign memory. A frame holds planes
 * in buffers, its own format, and metadata. Reference counts may be taken and dropped from any thread. Once a frame has
 * been emitted it is immutable: a stage that changes anything writes a new frame (mr_io_derive in stage.h). */
#ifndef MILLRACE_FRAME_H
#define MILLRACE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"
#include "millrace/format.h"
#include "millrace/result.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct mr_device mr_device;
typedef struct mr_event mr_event;
typedef struct mr_receipt mr_receipt;
typedef struct mr_pool mr_pool;

/* SHARED: host memory that other processes of this host may map. Memory received from another process is of this kind
 * too, and is read-only. */
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
    mr_device *device; /* of pinned and device memory; NULL for host and shared memory */
    /* private */
    int references; /* counted by mr_buffer_ref and _unref, from any thread */
    mr_pool *pool;
    struct mr_buffer *next;
    void (*release)(void *context);
    void *context;
} mr_buffer;

MR_API mr_buffer *mr_buffer_ref(mr_buffer *buffer);
/* Drops *buffer and sets it to NULL; NULL is allowed. */
MR_API void mr_buffer_unref(mr_buffer **buffer);

/* Wraps host memory that the caller owns; `release(context)` is called once, from the thread that drops the last
 * reference. On failure (NULL, out of memory) nothing is called and the caller still owns the memory. */
MR_API mr_buffer *mr_buffer_wrap(void *data, size_t bytes, void (*release)(void *context), void *context);

/* ---- pools --------------------------------------------------------------------------------------------------- */

/* A pool of up to `count` buffers of `bytes` bytes each, 64-byte aligned, allocated as they are first needed and
 * kept. It lives until mr_pool_release was called and its last buffer came back. */
MR_API int mr_pool_create(mr_pool **pool, mr_device *device, mr_memory memory, size_t bytes, int count);
MR_API void mr_pool_release(mr_pool **pool);
/* Allocates all buffers that are not allocated yet, so that none is later. MR_ERROR_MEMORY, MR_ERROR_DEVICE: those that
 * could be allocated stay, and *made (may be NULL) is their number. */
MR_API int mr_pool_fill(mr_pool *pool, int *made);

/* Takes a buffer; never blocks. MR_ERROR_AGAIN if all are in use, MR_ERROR_MEMORY. Any thread. */
MR_API int mr_pool_acquire(mr_pool *pool, mr_buffer **buffer);

/* Buffers that can still be taken. Any thread; other threads may take some before the caller does. */
MR_API int mr_pool_free_count(const mr_pool *pool);
MR_API size_t mr_pool_buffer_bytes(const mr_pool *pool);

/* ---- media: the stream behind packets and pictures ----------------------------------------------------------- */

/* Describes the stream that packets and pictures belong to: codec, time base, and for image folders the file. Shared
 * and immutable; all pointers belong to it. It holds a decoder's parameters without naming a decoder's library. */
typedef struct mr_media {
    int references;    /* 1 when it is created; then only mr_media_ref and _unref touch it */
    char *path;        /* file or URL it was read from */
    bool is_file;      /* path names a file: records say which */
    bool still;        /* each frame is a picture by itself, not of a stream; one of a file is all of it */
    bool live;         /* of a camera or stream: no picture is held back until packets behind it come */
    char *label;       /* class of a labelled folder; NULL elsewhere */
    int32_t label_index; /* position of the label among the folder's classes; -1 elsewhere */
    void *codec;       /* the reader's own description (AVCodecParameters in stages/media) */
    int32_t rate_num, rate_den;  /* frames a second; 0/0 unknown */
    int64_t frames;    /* number of frames that the container announces; 0 unknown */
    int32_t x264_build; /* of H.264 by x264: its build, which the first packet tells; 0 unknown */
    int16_t rotation;  /* degrees clockwise for display */
    bool flip;
    /* Selects pictures; applied when they are decoded, since packets depend on each other. */
    int64_t start_ns, end_ns;    /* presentation times; end 0: to the end */
    int32_t every;     /* one of so many pictures; 0 or 1: all */
    double fps;        /* at most so many pictures a second, by presentation time; 0: all */
    void (*release)(struct mr_media *media); /* frees codec, path and label, and the struct */
} mr_media;

/* A decoder's parameters before the first packet, in a form that passes between processes: strings and numbers mean the
 * same as in message Codec of proto/millrace.proto. The caller that fills it in owns the pointers. */
typedef struct mr_codec_description {
    const char *name, *pixel; /* pixel "": not known */
    const uint8_t *extra;
    size_t extra_bytes;
    uint32_t tag, width, height, sar_num, sar_den, field_order, range, primaries, transfer, matrix, siting, bits, delay;
    int32_t profile, level;
} mr_codec_description;

/* Passes a reader's own description of codecs (mr_media.codec) between processes. A source's type names it. */
typedef struct mr_media_codec {
    void (*describe)(const void *codec, mr_codec_description *description);
    /* MR_ERROR_DATA (unknown codec, or impossible parameters), MR_ERROR_MEMORY. */
    int (*make)(const mr_codec_description *description, void **codec);
    void (*release)(void *codec);
} mr_media_codec;

/* From one picture to the next, by the rate, but no more than a day; 0: not known. */
MR_API int64_t mr_media_interval_ns(const mr_media *media);
MR_API mr_media *mr_media_ref(mr_media *media);
MR_API void mr_media_unref(mr_media **media);

/* ---- frames -------------------------------------------------------------------------------------------------- */

/* The identity of a frame. Order, joins and deduplication rest on it. */
typedef struct mr_identity {
    uint32_t source; /* position of the source in the pipeline */
    uint32_t epoch;  /* rises on loop, seek and reconnect */
    uint64_t seq;    /* packets in decode order; pictures in presentation order; from 0 in each epoch */
    uint32_t sub;    /* frames derived from one */
} mr_identity;

/* < 0, 0 or > 0 if a comes before, is, or comes after b; sources are compared last. */
MR_API int mr_identity_compare(const mr_identity *a, const mr_identity *b);
/* As text, without their source: "17, 18.2, 3 of epoch 1 and 4 more", if `all` is `count` and 4. A frame derived from
 * another has its own number behind that frame's. Cut off if `bytes` do not suffice. Returns `text`. */
MR_API const char *mr_identities_print(const mr_identity *frames, size_t count, uint64_t all, char *text, size_t bytes);

#define MR_NO_TIME INT64_MIN
/* Times of files, cameras and other programs are at most so far from 0, 97 years: a sum or difference of three of them
 * fits in 64 bits. */
#define MR_MOST_TIME_NS (INT64_MAX / 3)
/* The time, or MR_NO_TIME if it is further away. */
MR_API int64_t mr_time_bound(int64_t time_ns);
/* As mr_time_bound, of time_ns + count * step_ns, none of which needs to be within bounds. */
MR_API int64_t mr_time_step(int64_t time_ns, int64_t count, int64_t step_ns);

/* The reason of a frame that is dropped only because the run is being ended: it is not settled, so its producer keeps
 * it, and a later run sends it again. */
#define MR_REASON_STOPPED "stopped"
/* The reason of a frame that is absorbed because it came again, from a source that was read anew, and was settled
 * before. */
#define MR_REASON_DONE_BEFORE "done before"

typedef struct mr_plane {
    mr_buffer *buffer; /* the frame holds a reference */
    uint8_t *data;     /* inside the buffer */
    ptrdiff_t stride;  /* bytes from row to row; tensors and packets: unused */
    size_t bytes;      /* packets and tensors: payload size; pictures: readable bytes from data on */
} mr_plane;

/* CORRUPT: of a packet, something of it is missing; of what is made of pictures, that these are damaged, if decode was
 * asked to mark them. HIDDEN: a packet that only other packets need, its picture is not
 * shown (an edit list). SEAM: of a packet, the stream was interrupted before it, or within it: recordings were joined,
 * or a part is missing. AWAY: of a packet, and of all that is made of its picture, but for what encode gives: not of
 * the stream, but a picture that says since when it is away. */
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
    int64_t pts_ns;      /* presentation time; MR_NO_TIME unknown */
    int64_t dts_ns;      /* packets: decoding time */
    int64_t duration_ns; /* 0 unknown */
    int64_t born_ns;     /* when the source emitted it, on the pipeline's clock */
    int64_t captured_ns; /* when its camera took it, or it arrived, as its source was asked to say: ns since 1970 (UTC);
                            0: not known */
    int64_t deadline_ns; /* on the same clock: no work is begun on the frame after it; 0: none */
    uint32_t flags;
    mr_buffer *names;    /* what the program that sent it calls it (mr_frame_name); NULL: nothing */
    mr_media *media;     /* may be NULL */
    mr_result *results;  /* newest first; may be NULL */
    mr_event *ready;     /* NULL: payload may be read. Else it may be read once the event is done */
    /* private */
    mr_receipt *receipt;
    int references;
    struct mr_store *store;
    struct mr_frame *next;
} mr_frame;

MR_API mr_frame *mr_frame_ref(mr_frame *frame);
/* Drops *frame and sets it to NULL; NULL is allowed. */
MR_API void mr_frame_unref(mr_frame **frame);

/* The most bytes of a frame's names. */
enum { MR_FRAME_ID = 255, MR_FRAME_FILE = 4095, MR_FRAME_LABEL = 255 };
/* What the program that sent a frame calls it, the file that the picture is from, and its true class. "": none. */
typedef struct mr_frame_names {
    const char *id, *file, *label;
} mr_frame_names;
/* Gives a frame names, in place of those it had; frames that are made of it afterwards have them, too. Characters of
 * UTF-8 are kept up to the first that is none, or that does not fit. MR_ERROR_MEMORY: the frame keeps its names. */
MR_API int mr_frame_name(mr_frame *frame, const mr_frame_names *names);
/* They live as long as the frame. */
MR_API mr_frame_names mr_frame_given_names(const mr_frame *frame);
/* The names that its records have: those it was given, else those of its media. NULL: none. */
MR_API const char *mr_frame_id(const mr_frame *frame);
MR_API const char *mr_frame_file(const mr_frame *frame);
MR_API const char *mr_frame_label(const mr_frame *frame);

/* The vector of a frame that `classify` takes: the newest tensor among the results that has the name `tensor`; without
 * a name (NULL) the payload if that is a vector, else the newest tensor that is one. */
typedef struct mr_frame_vector {
    const float *data;       /* where the payload or the result lies: it may be a device's memory */
    size_t length;
    const mr_buffer *buffer; /* of the payload, or of the result; NULL: in the result itself */
} mr_frame_vector;
/* MR_ERROR_NO_INPUT if the frame has none; MR_ERROR_DATA if it is not of f32. */
MR_API int mr_frame_find_vector(const mr_frame *frame, const char *tensor, mr_frame_vector *found);
/* Numbers in a tensor that is a vector, whatever its rank; 0 if it is not one or its size is not known. */
MR_API size_t mr_vector_length(const mr_format *format);

/* The newest result of that kind (and, if `stage` is given, of that stage); NULL if there is none. */
MR_API const mr_result *mr_frame_result(const mr_frame *frame, const mr_result_kind *kind,
                                        const char *stage);

#ifdef __cplusplus
}
#endif
#endif

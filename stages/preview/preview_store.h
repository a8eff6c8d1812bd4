/* Keeps each source's newest picture for viewers: streams, and requests for one still.
 *
 * The stage shows each frame (mr_preview_store_show). If the source has viewers, the frame is shrunk and kept as often
 * as `fps` allows; otherwise once a second, so that a stopped source still has a still. One thread encodes JPEGs, only
 * for sources with viewers. A newer picture replaces one that is not encoded yet. A slow stream gets the newest picture
 * after it has taken the previous one. Nothing can wait for a viewer.
 *
 * Memory: two small pictures, a JPEG and a record for each of `most_sources` sources. Each viewer may hold one older
 * JPEG. If more sources come, the source without viewers whose picture is oldest must make room.
 *
 * Threads: the stage calls show and end; the server's thread calls all viewer functions; the store has an encoder
 * thread. There is one lock, held no longer than it takes to copy a record. `resume` is called with the lock held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yajl/yajl_gen.h>

#include "millrace/stage.h"

typedef struct mr_preview_store mr_preview_store;

/* A reference-counted JPEG: each one from mr_preview_store_next must be dropped once. */
typedef struct mr_jpeg {
    mr_preview_store *store;
    uint64_t number;   /* picture number, from 1 */
    size_t bytes;
    size_t references; /* under the store's lock */
    uint8_t data[];
} mr_jpeg;

typedef struct mr_preview_store_params {
    const mr_stage *stage;
    int32_t width;
    int quality, most_sources, most_streams;
    int64_t interval_ns; /* between a source's pictures */
} mr_preview_store_params;

/* Starts the encoder's thread. MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_preview_store_create(mr_preview_store **store, const mr_preview_store_params *params);
/* Resumes all waiting viewers, which then find the store closed. From now on none can wait. */
void mr_preview_store_close(mr_preview_store *store);
/* No viewer may be left. Sets the pointer to NULL; NULL is allowed. */
void mr_preview_store_destroy(mr_preview_store **store);

/* ---- the stage's side ------------------------------------------------------------------------------------------- */

/* Shows a source's newest picture. One that cannot be shrunk is skipped, with a warning in the log. */
void mr_preview_store_show(mr_preview_store *store, const mr_frame *frame);
/* Call when a source ends: streams get the last picture, and the end. */
void mr_preview_store_end(mr_preview_store *store, uint32_t source);

/* ---- viewers ---------------------------------------------------------------------------------------------------- */

typedef struct mr_viewer {
    bool stream;       /* wants every picture; otherwise one */
    bool waiting;      /* used by the store: resume will be called */
    bool again;        /* used by the store: send the same picture again */
    int slot;
    uint64_t sent;     /* last picture that it was given */
    int64_t since_ns;  /* when it asked, or got that picture */
    void (*resume)(struct mr_viewer *viewer);
    struct mr_viewer *next, **link; /* the store's */
} mr_viewer;

typedef enum mr_preview_status {
    MR_PREVIEW_PICTURE,  /* *jpeg is the picture */
    MR_PREVIEW_WAIT,     /* `resume` will be called once */
    MR_PREVIEW_END,      /* no picture will come */
    MR_PREVIEW_UNKNOWN,  /* no source with that name has given a picture */
    MR_PREVIEW_FULL      /* too many watch already */
} mr_preview_status;

/* Starts to watch a source: MR_PREVIEW_WAIT (continue with mr_preview_store_next), or UNKNOWN, FULL, END, after which
 * the store does not know the viewer. The caller must set `stream` and `resume`. */
mr_preview_status mr_preview_store_watch(mr_preview_store *store, const char *id, mr_viewer *viewer);
/* Returns PICTURE with the next picture, WAIT or END. A stream gets each picture once. If the source has stopped, it
 * gets the last one again every few seconds: a client that is gone can then be noticed. May be called before
 * `resume`. */
mr_preview_status mr_preview_store_next(mr_preview_store *store, mr_viewer *viewer, mr_jpeg **jpeg);
/* Drops *jpeg and sets it to NULL. */
void mr_jpeg_drop(mr_jpeg **jpeg);
/* Call when the viewer leaves. */
void mr_preview_store_leave(mr_preview_store *store, mr_viewer *viewer);

/* The newest picture's record, as jsonl writes it; NULL with *status UNKNOWN, or END without memory. The caller must
 * free it with mr_free. */
char *mr_preview_store_record(mr_preview_store *store, const char *id, mr_preview_status *status);
/* Writes the sources that have pictures as array members, in pipeline order. */
void mr_preview_store_list(mr_preview_store *store, yajl_gen json);

/* Keeps each source's newest picture for its lookers: streams (viewers), and requests for one still.
 *
 * The stage shows each frame (mr_gallery_show). If the source has lookers, the frame is shrunk and kept as often as
 * `fps` allows; otherwise once a second, so that a stopped source still has a still. One thread encodes JPEGs, only for
 * sources with lookers. A newer picture replaces one that is not encoded yet. A slow viewer gets the newest picture
 * after it has taken the previous one. Nothing can wait for a viewer.
 *
 * Memory: two small pictures, a JPEG and a record for each of `most_sources` sources. Each looker may hold one older
 * JPEG. If more sources come, the source without lookers whose picture is oldest must make room.
 *
 * Threads: the stage calls show and end; the server's thread calls all looker functions; the gallery has an encoder
 * thread. There is one lock, held no longer than it takes to copy a record. `resume` is called with the lock held. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yajl/yajl_gen.h>

#include "millrace/stage.h"

typedef struct mr_gallery mr_gallery;

/* A reference-counted JPEG: each one from mr_gallery_next must be dropped once. */
typedef struct mr_jpeg {
    mr_gallery *gallery;
    uint64_t number;   /* picture number, from 1 */
    size_t bytes;
    size_t references; /* under the gallery's lock */
    uint8_t data[];
} mr_jpeg;

typedef struct mr_gallery_params {
    const mr_stage *stage;
    int32_t width;
    int quality, most_sources, most_viewers;
    int64_t interval_ns; /* between a source's pictures */
} mr_gallery_params;

/* Starts the encoder's thread. MR_ERROR_MEMORY, MR_ERROR_UNAVAILABLE. */
int mr_gallery_create(mr_gallery **gallery, const mr_gallery_params *params);
/* Resumes all waiting lookers, which then find the gallery closed. From now on none can wait. */
void mr_gallery_close(mr_gallery *gallery);
/* No looker may be left. Sets the pointer to NULL; NULL is allowed. */
void mr_gallery_destroy(mr_gallery **gallery);

/* ---- the stage's side ------------------------------------------------------------------------------------------- */

/* Shows a source's newest picture. One that cannot be shrunk is skipped, with a warning in the log. */
void mr_gallery_show(mr_gallery *gallery, const mr_frame *frame);
/* Call when a source ends: viewers get the last picture, and the end. */
void mr_gallery_end(mr_gallery *gallery, uint32_t source);

/* ---- lookers ---------------------------------------------------------------------------------------------------- */

typedef struct mr_looker {
    bool stream;       /* wants every picture; otherwise one */
    bool waiting;      /* used by the gallery: resume will be called */
    bool again;        /* used by the gallery: send the same picture again */
    int slot;
    uint64_t sent;     /* last picture that it was given */
    int64_t since_ns;  /* when it asked, or got that picture */
    void (*resume)(struct mr_looker *looker);
    struct mr_looker *next, **link; /* the gallery's */
} mr_looker;

typedef enum mr_look {
    MR_LOOK_PICTURE,  /* *jpeg is the picture */
    MR_LOOK_WAIT,     /* `resume` will be called once */
    MR_LOOK_END,      /* no picture will come */
    MR_LOOK_UNKNOWN,  /* no source with that name has given a picture */
    MR_LOOK_FULL      /* too many watch already */
} mr_look;

/* Starts to look at a source: MR_LOOK_WAIT (continue with mr_gallery_next), or UNKNOWN, FULL, END, after which the
 * gallery does not know the looker. The caller must set `stream` and `resume`. */
mr_look mr_gallery_look(mr_gallery *gallery, const char *id, mr_looker *looker);
/* Returns PICTURE with the next picture, WAIT or END. A stream gets each picture once. If the source has stopped, it
 * gets the last one again every few seconds: a viewer that is gone can then be noticed. May be called before
 * `resume`. */
mr_look mr_gallery_next(mr_gallery *gallery, mr_looker *looker, mr_jpeg **jpeg);
/* Drops *jpeg and sets it to NULL. */
void mr_jpeg_drop(mr_jpeg **jpeg);
/* Call when the looker leaves. */
void mr_gallery_leave(mr_gallery *gallery, mr_looker *looker);

/* The newest picture's record, as jsonl writes it; NULL with *look UNKNOWN, or END without memory. The caller must free
 * it with mr_free. */
char *mr_gallery_record(mr_gallery *gallery, const char *id, mr_look *look);
/* Writes the sources that have pictures as array members, in pipeline order. */
void mr_gallery_list(mr_gallery *gallery, yajl_gen json);

/* Recordings of one source: files that hold the packets around triggers, each packet once, with a JSON file beside
 * each.
 *
 * A trigger at a time wants packets from `before` it to `after` it. Triggers whose stretches meet share a file: it
 * stays open until no trigger to come can reach back to its end. A trigger that comes later than that begins a file
 * with the first key frame that was not written. One thread. All zero, with the members of the first part set, is
 * idle. */
#pragma once

#include "stages/video/record_cache.h"
#include "stages/video/video_file.h"
#include "stages/sink/keep.h"

enum { MR_TRIGGERS_LISTED = 4096 };

/* A trigger, as it is written into the JSON file. */
typedef struct mr_trigger {
    mr_identity frame;
    int64_t pts_ns;
    const char *stage, *label; /* of the class that was seen; NULL: none. They live as long as the pipeline */
    double score;
} mr_trigger;

typedef struct mr_recording {
    const mr_stage *self;
    mr_container container;
    int64_t before_ns, after_ns, longest_ns;
    mr_record_cache cache;
    mr_keep keep;
    mr_full full;

    mr_cached *held;           /* the packet of the call that is to be repeated; it is in the cache */
    mr_muxer *muxer;           /* NULL: no file is open */
    mr_video_file file;
    bool writes;               /* packets are written as they come; else the file waits for another trigger */
    int64_t end_ns;            /* packets are wanted up to this time */
    int64_t start_ns;          /* of decoding: of the file's first packet */
    int64_t first_ns, last_ns; /* presentation times in the file */
    int64_t begun_ns;          /* on the wall clock: of its first packet */
    uint64_t number, files, packets;
    mr_identity first, last;   /* packets of the file */
    mr_trigger *triggers;      /* of the file: room for MR_TRIGGERS_LISTED */
    size_t trigger_count;      /* more may not be listed */
    bool broken;               /* the disk was full between two files that follow each other */
    bool noted;                /* the JSON file has all triggers */
} mr_recording;

/* MR_ERROR_MEMORY. */
int mr_recording_open(mr_recording *recording);
/* A packet of the stream has come. MR_ERROR_AGAIN: the disk is full, it is to be called again with the same packet.
 * MR_ERROR_DATA: no file can hold it. */
int mr_recording_add(mr_recording *recording, const mr_frame *packet);
/* The same for a trigger. */
int mr_recording_trigger(mr_recording *recording, const mr_trigger *trigger);
/* Writes the bytes that wait. MR_ERROR_AGAIN: the disk is full, and nothing may be added until this is MR_OK. */
int mr_recording_put(mr_recording *recording);
/* The stream ends, or another begins: the file is ended, which mr_recording_put finishes, and the cache is emptied. */
int mr_recording_end(mr_recording *recording);
/* Without waiting for room. */
void mr_recording_close(mr_recording *recording);

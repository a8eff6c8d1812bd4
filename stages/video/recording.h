/* One source's recordings: files with the packets around triggers, each packet once, and a JSON file for each.
 *
 * A trigger at time t asks for packets from t - `before` to t + `after`. Triggers whose spans touch share a file. It
 * stays open until no later trigger can reach back to its end. A later trigger begins a file at the first unwritten key
 * frame. One thread. All zero, with the first part's members set, is idle. */
#pragma once

#include "stages/video/record_cache.h"
#include "stages/video/video_file.h"
#include "stages/sink/keep.h"

enum { MR_TRIGGERS_LISTED = 4096 };

/* A trigger as the JSON file describes it. */
typedef struct mr_trigger {
    mr_identity frame;
    int64_t pts_ns;
    const char *stage, *label; /* class that was seen; NULL: none. They live as long as the pipeline */
    double score;
    const char *event, *zone;  /* the event that happened there; NULL: none */
} mr_trigger;

typedef struct mr_recording {
    const mr_stage *self;
    mr_container container;
    int64_t before_ns, after_ns, longest_ns;
    mr_record_cache cache;
    mr_keep keep;
    mr_full full;

    mr_cached *held;           /* the packet whose call must be repeated; it is in the cache */
    mr_muxer *muxer;           /* NULL: no file is open */
    mr_video_file file;
    bool writes;               /* packets are written as they come; otherwise the file waits for another trigger */
    int64_t end_ns;            /* packets are wanted up to this time */
    int64_t start_ns;          /* decoding time of the file's first packet */
    int64_t first_ns, last_ns; /* presentation times in the file */
    int64_t begun_ns;          /* wall clock time of its first packet */
    uint64_t number, files, packets;
    mr_identity first, last;   /* the file's first and last packet */
    mr_trigger *triggers;      /* the file's; room for MR_TRIGGERS_LISTED */
    size_t trigger_count;      /* more may not be listed */
    bool broken;               /* the disk was full between two consecutive files */
    bool noted;                /* the JSON file has all triggers */
} mr_recording;

/* MR_ERROR_MEMORY. */
int mr_recording_open(mr_recording *recording);
/* Call for each packet in the stream. MR_ERROR_AGAIN: the disk is full, call again with the same packet. MR_ERROR_DATA:
 * no file can hold it. */
int mr_recording_add(mr_recording *recording, const mr_frame *packet);
/* The same for a trigger. */
int mr_recording_trigger(mr_recording *recording, const mr_trigger *trigger);
/* Writes waiting bytes. MR_ERROR_AGAIN: the disk is full, and nothing may be added until it returns MR_OK. */
int mr_recording_put(mr_recording *recording);
/* Call when the stream ends or another begins: ends the file, which mr_recording_put must finish, and empties the
 * cache. */
int mr_recording_end(mr_recording *recording);
/* Without waiting for room. */
void mr_recording_close(mr_recording *recording);

/* Follows the objects of one source from frame to frame.
 *
 * Association in two stages as in Zhang et al., "ByteTrack: Multi-Object Tracking by Associating Every Detection Box",
 * ECCV 2022: sure detections are assigned to all tracks by overlap and score, then the less sure ones to the tracks
 * that are left. Between frames a Kalman filter with constant velocity predicts each box (centre, aspect ratio,
 * height). Its noise is ByteTrack's at 30 frames a second and grows with time, so that the frame rate does not matter.
 *
 * A track gets its id if it was found in all frames for `confirm_ns`. If it is not found, it is lost, and can be found
 * again for `lost_ns`. A lost track that nearly coincides with a found one ends as its double, but not before new
 * tracks got their ids: theirs may be its own. Ids never repeat.
 *
 * With features (appearance.h), a sure detection continues a track that it overlaps only if it looks alike: the cost is
 * the mean of both distances, each as a share of its limit. A detection that looks otherwise continues a track that was
 * found in the last frame, if no other does and they overlap by half: objects turn, and are half hidden. When a new
 * track would get an id, it gets that of a lost track that looks alike, if the object can have come so far. Lost tracks
 * are remembered for this for `remember_ns`. Where a track or a detection has no features, overlap alone decides; so it
 * does for detections that another one covers by more than half, whose pictures show both.
 *
 * Memory: bounded by `most`. One thread at a time. Errors: MR_ERROR_MEMORY. */
#pragma once

#include "millrace/objects.h"
#include "stages/objects/appearance.h"

typedef struct mr_tracker_params {
    float low, high, begin; /* scores of less sure and of sure detections, and of those that begin a track */
    int64_t confirm_ns, lost_ns;
    bool by_class;          /* detections are assigned to tracks of their class only */
    size_t most;            /* tracks */
    int64_t first_id;       /* at least 1 */
    double dissimilar;      /* cosine distance from which objects do not look alike; 0: without features */
    double reach;           /* how far objects come in a second, in the longer sides of their boxes */
    int64_t remember_ns;    /* how long lost tracks are recognised by their features; at least lost_ns */
} mr_tracker_params;

typedef struct mr_tracker mr_tracker;

int mr_tracker_create(mr_tracker **tracker, const mr_tracker_params *params);
void mr_tracker_destroy(mr_tracker **tracker);
/* Forgets all tracks. Later ids are at least `first_id`. */
void mr_tracker_restart(mr_tracker *tracker, int64_t first_id);

/* Assigns the frame's objects and sets their `track`: 0 if an object has none. Times must not decrease. `features` may
 * be NULL: the objects have none. MR_ERROR_DATA: vectors have another length than earlier ones. */
int mr_tracker_update(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t count,
                      const mr_looks *features);
/* For a frame in which no objects were searched: writes where those of confirmed tracks should be, and returns their
 * number, at most `room`. */
size_t mr_tracker_predict(mr_tracker *tracker, int64_t now_ns, mr_object *objects, size_t room);
/* After that, or after mr_tracker_update: writes where the objects of lost tracks should be that were found in the last
 * `most_ns`, and returns their number, at most `room`. */
size_t mr_tracker_missed(const mr_tracker *tracker, int64_t most_ns, mr_object *objects, size_t room);
/* The number of tracks, lost and remembered ones included. */
size_t mr_tracker_count(const mr_tracker *tracker);
/* How often an object began no track since there were as many as may be. */
uint64_t mr_tracker_without_room(const mr_tracker *tracker);
/* How many feature vectors were zero or not finite, and did not count. */
uint64_t mr_tracker_odd_features(const mr_tracker *tracker);

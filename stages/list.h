/* The built-in stage types, in the order of `millrace list`. A new one needs one line here.
 *
 * A name can appear twice: for a source (no inputs) and for a stage. Keys in `sources:` and `stages:` are looked up
 * separately. */
#pragma once

#include "millrace/stage.h"

#define MR_STAGE_TYPES(one)                                                                                            \
    one(mr_media_source)                                                                                               \
    one(mr_null_source)                                                                                                \
    one(mr_push_source)                                                                                                \
    one(mr_zmq_pull_source)                                                                                            \
    one(mr_zmq_sub_source)                                                                                             \
    one(mr_blur_stage)                                                                                                 \
    one(mr_callback_stage)                                                                                             \
    one(mr_classify_stage)                                                                                             \
    one(mr_crop_stage)                                                                                                 \
    one(mr_tile_stage)                                                                                                 \
    one(mr_segment_stage)                                                                                              \
    one(mr_csv_stage)                                                                                                  \
    one(mr_ctc_stage)                                                                                                  \
    one(mr_decode_stage)                                                                                               \
    one(mr_detect_stage)                                                                                               \
    one(mr_draw_stage)                                                                                                 \
    one(mr_encode_stage)                                                                                               \
    one(mr_features_stage)                                                                                             \
    one(mr_filter_stage)                                                                                               \
    one(mr_histogram_stage)                                                                                            \
    one(mr_gather_stage)                                                                                               \
    one(mr_hog_stage)                                                                                                  \
    one(mr_infer_stage)                                                                                                \
    one(mr_images_stage)                                                                                               \
    one(mr_join_stage)                                                                                                 \
    one(mr_jsonl_stage)                                                                                                \
    one(mr_motion_stage)                                                                                               \
    one(mr_mqtt_stage)                                                                                                 \
    one(mr_null_stage)                                                                                                 \
    one(mr_phash_stage)                                                                                                \
    one(mr_postgres_stage)                                                                                             \
    one(mr_preprocess_stage)                                                                                           \
    one(mr_preview_stage)                                                                                              \
    one(mr_record_stage)                                                                                               \
    one(mr_sharpness_stage)                                                                                            \
    one(mr_sqlite_stage)                                                                                               \
    one(mr_straighten_stage)                                                                                           \
    one(mr_track_stage)                                                                                                \
    one(mr_video_stage)                                                                                                \
    one(mr_webhook_stage)                                                                                              \
    one(mr_zones_stage)                                                                                                \
    one(mr_zmq_pub_stage)                                                                                              \
    one(mr_zmq_push_stage)

#define MR_DECLARE_TYPE(type) extern const mr_stage_type type;
MR_STAGE_TYPES(MR_DECLARE_TYPE)

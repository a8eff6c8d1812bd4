/* The built-in stage types. A new one must be declared here and needs one line in list.c.
 *
 * A name can appear twice: for a source (no inputs) and for a stage. Keys in `sources:` and `stages:` are looked up
 * separately. */
#pragma once

#include "millrace/stage.h"

extern const mr_stage_type mr_media_source;
extern const mr_stage_type mr_null_source;
extern const mr_stage_type mr_push_source;
extern const mr_stage_type mr_zmq_pull_source;
extern const mr_stage_type mr_zmq_sub_source;

extern const mr_stage_type mr_blur_stage;
extern const mr_stage_type mr_callback_stage;
extern const mr_stage_type mr_classify_stage;
extern const mr_stage_type mr_ctc_stage;
extern const mr_stage_type mr_csv_stage;
extern const mr_stage_type mr_crop_stage;
extern const mr_stage_type mr_tile_stage;
extern const mr_stage_type mr_segment_stage;
extern const mr_stage_type mr_decode_stage;
extern const mr_stage_type mr_draw_stage;
extern const mr_stage_type mr_encode_stage;
extern const mr_stage_type mr_features_stage;
extern const mr_stage_type mr_filter_stage;
extern const mr_stage_type mr_histogram_stage;
extern const mr_stage_type mr_gather_stage;
extern const mr_stage_type mr_hog_stage;
extern const mr_stage_type mr_detect_stage;
extern const mr_stage_type mr_infer_stage;
extern const mr_stage_type mr_images_stage;
extern const mr_stage_type mr_join_stage;
extern const mr_stage_type mr_jsonl_stage;
extern const mr_stage_type mr_motion_stage;
extern const mr_stage_type mr_mqtt_stage;
extern const mr_stage_type mr_null_stage;
extern const mr_stage_type mr_phash_stage;
extern const mr_stage_type mr_postgres_stage;
extern const mr_stage_type mr_preprocess_stage;
extern const mr_stage_type mr_preview_stage;
extern const mr_stage_type mr_record_stage;
extern const mr_stage_type mr_sharpness_stage;
extern const mr_stage_type mr_sqlite_stage;
extern const mr_stage_type mr_straighten_stage;
extern const mr_stage_type mr_track_stage;
extern const mr_stage_type mr_video_stage;
extern const mr_stage_type mr_webhook_stage;
extern const mr_stage_type mr_zones_stage;
extern const mr_stage_type mr_zmq_pub_stage;
extern const mr_stage_type mr_zmq_push_stage;

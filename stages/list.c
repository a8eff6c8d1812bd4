#include "stages/list.h"

#include "millrace/millrace.h"

static const mr_stage_type *const types[] = {
    /* sources */
    &mr_media_source,
    &mr_null_source,
    &mr_push_source,
    &mr_zmq_pull_source,
    &mr_zmq_sub_source,
    /* stages */
    &mr_blur_stage,
    &mr_callback_stage,
    &mr_classify_stage,
    &mr_crop_stage,
    &mr_tile_stage,
    &mr_segment_stage,
    &mr_csv_stage,
    &mr_ctc_stage,
    &mr_decode_stage,
    &mr_detect_stage,
    &mr_draw_stage,
    &mr_encode_stage,
    &mr_features_stage,
    &mr_filter_stage,
    &mr_histogram_stage,
    &mr_gather_stage,
    &mr_hog_stage,
    &mr_infer_stage,
    &mr_images_stage,
    &mr_join_stage,
    &mr_jsonl_stage,
    &mr_motion_stage,
    &mr_mqtt_stage,
    &mr_null_stage,
    &mr_phash_stage,
    &mr_postgres_stage,
    &mr_preprocess_stage,
    &mr_preview_stage,
    &mr_record_stage,
    &mr_sharpness_stage,
    &mr_sqlite_stage,
    &mr_straighten_stage,
    &mr_track_stage,
    &mr_video_stage,
    &mr_webhook_stage,
    &mr_zones_stage,
    &mr_zmq_pub_stage,
    &mr_zmq_push_stage,
    NULL,
};

const mr_stage_type *const *mr_stage_types(void) {
    return types;
}

#include "engine/text/synonyms.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "engine/text/options.h"
#include "engine/text/value.h"

#define SOURCE(words_, instead_, write_, note_)                                                                      \
    {.kind = MR_SYNONYM_SOURCE, .words = words_, .instead = instead_, .write = write_, .note = note_}
#define STAGE(words_, instead_, write_, note_)                                                                       \
    {.kind = MR_SYNONYM_STAGE, .words = words_, .instead = instead_, .write = write_, .note = note_}
#define KEY(words_, instead_, write_, note_)                                                                         \
    {.kind = MR_SYNONYM_KEY, .words = words_, .instead = instead_, .write = write_, .note = note_}
#define SAME(words_, instead_, write_)                                                                               \
    {.kind = MR_SYNONYM_KEY, .words = words_, .instead = instead_, .write = write_, .carry = true}
#define CHOICE(key_, words_, write_)                                                                                 \
    {.kind = MR_SYNONYM_CHOICE, .words = words_, .instead = key_, .write = write_}
#define URI(words_, write_, note_) {.kind = MR_SYNONYM_URI, .words = words_, .write = write_, .note = note_}
#define FOREIGN(words_, whose_) {.kind = MR_SYNONYM_FILE, .words = words_, .instead = whose_}

static const mr_synonym table[] = {
    /* ---- sources ---- */
    SOURCE("filesrc urisourcebin uridecodebin uridecodebin3 nvurisrcbin nvmultiurisrcbin multifilesrc splitfilesrc "
           "VideoCapture cv2.VideoCapture VideoReader cv::VideoCapture file videofile ffmpeg opencv decord "
           "image picture pictures folder directory ImageFolder DataLoader imread glob path uri",
           "media", "{type: media, uri: lobby.mp4}", NULL),
    SOURCE("videotestsrc testsrc lavfi audiotestsrc", "media", "{type: media, uri: \"lavfi:testsrc=duration=10\"}",
           NULL),
    SOURCE("fakesrc nullsrc", "null", "{type: \"null\", frames: 100}", NULL),
    SOURCE("appsrc", "push", "{type: push, format: RGB24 640x480}", "for programs that embed the library"),
    SOURCE("zmqsrc zmq socket tcpserversrc shmsrc", "zmq.pull", "{type: zmq.pull, endpoint: \"tcp://127.0.0.1:5555\"}",
           NULL),
    SOURCE("v4l2src v4l2 camera webcam usbcam libcamerasrc nvarguscamerasrc nvv4l2camerasrc avfvideosrc ksvideosrc "
           "dshow avfoundation",
           "media", "{type: media, uri: /dev/video0}", NULL),
    SOURCE("rtspsrc rtsp stream livestream nvrtspsrc", "media", "{type: media, uri: \"rtsp://10.0.0.7/stream1\"}",
           NULL),
    SOURCE("rtmp rtmpsrc rtmp2src", "media", "{type: media, uri: \"rtmp://10.0.0.9/live/lobby\"}", NULL),
    SOURCE("hls hlsdemux souphttpsrc http https mjpeg", "media",
           "{type: media, uri: \"http://10.0.0.9/lobby.m3u8\"}", NULL),
    SOURCE("udpsrc rtp", "media", "{type: media, uri: \"udp://0.0.0.0:5004\"}", NULL),
    SOURCE("srtsrc srt", "media", "{type: media, uri: \"srt://10.0.0.9:7001\"}", NULL),
    SOURCE("dash dashdemux", NULL, NULL, "DASH is not read: give the address of its HLS playlist, or RTSP"),
    SOURCE("webrtc ndi", NULL, NULL,
           "a server such as MediaMTX turns it into RTSP, which a source of type media reads"),
    SOURCE("kafka mqtt amqp redis", NULL, NULL,
           "brokers are not supported yet: push their messages to a source of type zmq.pull"),
    /* ---- stages ---- */
    STAGE("decodebin decodebin3 decoder videodecoder video_decoder avdec_h264 avdec_h265 nvv4l2decoder nvh264dec "
          "nvh265dec vaapih264dec vah264dec v4l2h264dec jpegdec nvjpegdec pngdec imdecode av1dec dav1ddec",
          "decode", "{type: decode, input: lobby}", NULL),
    STAGE("videoconvert videoscale videoconvertscale videocrop videoflip nvvideoconvert nvvidconv nvdspreprocess "
          "tensor_converter tensor_transform autovideoconvert glcolorconvert capsfilter swscale resize rescale scale "
          "crop CenterCrop RandomResizedCrop normalize ToTensor Compose transform transforms blobFromImage cvtColor "
          "letterbox imresize pad convert",
          "preprocess", "{type: preprocess, input: decode, size: 224x224}", NULL),
    STAGE("nvinfer nvinferserver tensor_filter gvainference gvadetect onnxinference onnx onnxruntime inference "
          "network model torch pytorch tensorrt openvino triton tritonclient dnn readNetFromONNX net forward detect "
          "detector yolo predict",
          "infer", "{type: infer, input: preprocess, model: models/lite0.onnx}", NULL),
    STAGE("embed embedding embeddings extractor feature_extractor backbone encoder", "features",
          "{type: features, input: preprocess, model: models/lite0-features.onnx, tensor: features}", NULL),
    STAGE("gvaclassify tensor_decoder softmax argmax classifier linear head topk", "classify",
          "{type: classify, input: infer, labels: models/imagenet.txt}", NULL),
    STAGE("filesink jsonsink json jsonlines ndjson gvametapublish nvmsgconv metapublish print stdout console writer "
          "output file log",
          "jsonl", "{type: jsonl, input: decode, path: results.jsonl}", NULL),
    STAGE("csvsink csvwriter table excel tsv", "csv", "{type: csv, input: decode, path: results.csv}", NULL),
    STAGE("imwrite cv2.imwrite multifilesink pngenc jpegenc imagesink imagewriter image_writer png save_image",
          "images", "{type: images, input: decode, path: pictures}", NULL),
    STAGE("fakesink fakevideosink nullsink identity devnull", "null", "{type: \"null\", input: decode}", NULL),
    STAGE("appsink", "callback", "{type: callback, input: decode}", "for programs that embed the library"),
    STAGE("nvmsgbroker zmqsink kafka mqtt publish broker tcpserversink", "zmq.pub",
          "{type: zmq.pub, input: decode, endpoint: \"tcp://127.0.0.1:5556\"}", NULL),
    STAGE("webhook http_post http post email mail telegram slack homeassistant home_assistant", NULL, NULL,
          "millrace calls no web address: read its results from jsonl or zmq.pub in a program that does"),
    STAGE("alarm alert notify notification condition select where when", "filter",
          "{type: filter, input: classify, classes: [person], again: 1m}",
          "what comes through goes to jsonl, images or zmq.push"),
    STAGE("event events trigger snapshot", "record", "{type: record, input: [lobby, classify], path: events}",
          "with classes: [person] it keeps the video of them"),
    STAGE("absdiff motiondetect motion_detector framediff motioncells backgroundsubtractor", "motion",
          "{type: motion, input: decode}", NULL),
    STAGE("HOGDescriptor", "hog", "{type: hog, input: decode}", NULL),
    STAGE("calcHist", "histogram", "{type: histogram, input: decode}", NULL),
    STAGE("imagehash dhash ahash", "phash", "{type: phash, input: decode}", NULL),
    STAGE("tee", NULL, NULL, "any number of stages may have the same `input`"),
    STAGE("queue queue2 multiqueue buffer", NULL, NULL, "every stage has a queue; write queue: 8 in the next stage"),
    STAGE("nvstreammux streammux nvstreamdemux streamdemux funnel input-selector mux merge", NULL, NULL,
          "write input: [one, other] in the next stage, and batch: 8 there"),
    STAGE("batch batcher", NULL, NULL, "write batch: 8 in the stage that takes them together"),
    STAGE("qtdemux matroskademux demux demuxer h264parse h265parse parsebin videoparse", NULL, NULL,
          "a source of type media does that"),
    STAGE("videorate fps framerate", NULL, NULL, "write fps: 10 in the source"),
    STAGE("tensor_aggregator smooth smoothing vote", NULL, NULL, "write window: 8 in the stage of type classify"),
    STAGE("nvtracker gvatrack tracker track sort deepsort bytetrack", NULL, NULL,
          "tracking is not part of millrace; write the output of infer with jsonl, and track in your own program"),
    STAGE("nvdsosd nvosd overlay textoverlay gvawatermark draw rectangle putText nvmultistreamtiler tiler compositor",
          NULL, NULL, "millrace draws nothing into pictures"),
    STAGE("x264enc x265enc nvv4l2h264enc nvv4l2h265enc vp9enc av1enc openh264enc encoder_h264 h264enc transcode",
          "encode", "{type: encode, input: decode}", "a stage of type video writes its packets"),
    STAGE("VideoWriter cv2.VideoWriter mp4mux matroskamux mpegtsmux splitmuxsink hlssink hlssink2", "video",
          "{type: video, input: lobby, path: recordings}",
          "it takes packets: of a source, or of a stage of type encode"),
    STAGE("rtspclientsink rtmpsink rtmp2sink srtsink", "video",
          "{type: video, input: lobby, url: \"rtsp://127.0.0.1:8554/lobby\"}",
          "it takes packets: of a source, or of a stage of type encode"),
    STAGE("autovideosink xvimagesink ximagesink nveglglessink glimagesink imshow cv2.imshow display show window",
          "preview", "{type: preview, input: decode}", "a page in the browser"),
    STAGE("nms non_max_suppression", NULL, NULL,
          "boxes are not part of millrace; write the output of infer with jsonl and tensors: true"),
    /* ---- keys ---- */
    SAME("name title", "pipeline", "pipeline: classify-lobby"),
    KEY("name id label title", NULL, NULL, "the key before the colon is its name"),
    SAME("threads num_threads n_threads thread_count max_threads num_workers", "workers", "workers: 4"),
    SAME("num_threads n_threads thread_count max_threads", "threads", "threads: 4"),
    KEY("workers num_workers", NULL, NULL, "it is a key of the whole file: workers: 4"),
    SAME("n_jobs max_open parallel_sources", "jobs", "jobs: 4"),
    KEY("jobs n_jobs", NULL, NULL, "it is a key of the whole file: jobs: 4"),
    KEY("inputs streams cameras videos source", "sources", "sources: {lobby: {uri: lobby.mp4}}", NULL),
    KEY("elements steps pipeline_stages ops operators graph modules filters tasks stage sinks transforms outputs "
        "processors sink transform", "stages",
        "stages: {decode: {input: lobby}}", NULL),
    SAME("location file filename filepath file_path path url src source video input address", "uri", "uri: lobby.mp4"),
    SAME("address url uri host listen connect bind_address broker conn_str", "endpoint",
         "endpoint: \"tcp://127.0.0.1:5555\""),
    SAME("location file filename filepath file_path uri output output_path out dest destination target save_path",
         "path", "path: results.jsonl"),
    SAME("upstream from src source sources previous prev after parent link", "input", "input: decode"),
    SAME("element factory op kind module class plugin stage", "type", "type: decode"),
    SAME("model_path modelpath model_file model_name onnx onnx_file onnx_path network net model_engine_file engine "
         "weights weights_path checkpoint ckpt graph",
         "model", "model: models/lite0.onnx"),
    SAME("weights_path weights_file coefficients coef matrix", "weights", "weights: models/lite0-head.npy"),
    SAME("labels_path labels_file label_path label_file labelfile_path label_file_path class_names classes names "
         "class_labels labelmap",
         "labels", "labels: models/imagenet.txt"),
    KEY("class_names classes class_labels use_labels with_labels", "labels", "labels: true", NULL),
    SAME("frame_rate max_rate max_fps target_fps", "fps", "fps: 10"),
    SAME("framerate frame_rate fps max_rate", "rate", "rate: 25"),
    KEY("interval frame_interval drop_frame_interval vid_stride stride frame_skip skip_frames skip sample_every "
        "sampling nth",
        "every", "every: 5", "only each Nth picture"),
    KEY("sync is_live live live_source re do_timestamp", "realtime", "realtime: true", NULL),
    KEY("ss seek start_time offset begin", "start", "start: 10s", NULL),
    KEY("t to end stop length max_duration", "duration", "duration: 30s", "counted from `start`"),
    KEY("num_buffers max_frames num_frames n_frames vframes limit", "frames", "frames: 100", NULL),
    KEY("num_buffers max_frames num_frames n_frames vframes frames limit", "duration", "duration: 30s",
        "sources end by time"),
    SAME("stream_loop repeat file_loop looping loops", "loop", "loop: 2"),
    SAME("resize resize_to dim dims imgsz img_size image_size input_size target_size infer_dims input_shape shape "
         "resolution",
         "size", "size: 224x224"),
    KEY("width height w h", "size", "size: 224x224", "width x height"),
    KEY("scale scalefactor scale_factor net_scale_factor rescale divide div factor", "std", "std: 255",
        "a value becomes (value - mean) / std"),
    KEY("offsets mean_values means subtract mean_pixel", "mean", "mean: [123.675, 116.28, 103.53]",
        "of values in 0..255"),
    KEY("stds stddev std_values stdev variance", "std", "std: [58.395, 57.12, 57.375]", "of values in 0..255"),
    {.kind = MR_SYNONYM_KEY,
     .words = "swapRB swap_channels bgr2rgb",
     .value = "false",
     .instead = "order",
     .write = "order: bgr"},
    KEY("swapRB swap_channels bgr2rgb rgb", "order", "order: rgb", "which is the default"),
    KEY("bgr rgb2bgr", "order", "order: bgr", NULL),
    {.kind = MR_SYNONYM_KEY,
     .carry = true,
     .instead = "order",
     .write = "order: bgr",
     .words = "color colour colors color_format colorformat colorspace color_space color_mode color_order channels "
              "channel_order model_color_format pixel_format pix_fmt format mode"},
    KEY("normalise normalization normalisation norm", "normalize", "normalize: imagenet", NULL),
    KEY("normalise normalization normalisation norm l2", "normalize", "normalize: l2", NULL),
    SAME("data_type datatype precision network_mode fp16 half input_dtype", "dtype", "dtype: f32"),
    SAME("data_format tensor_format network_input_order input_order memory_format", "layout", "layout: nchw"),
    KEY("crop region rect roi_rect crop_box bbox process_mode", "roi", "roi: {x: 0, y: 0, width: 224, height: 224}",
        NULL),
    KEY("letterbox maintain_aspect_ratio symmetric_padding keep_ratio keep_aspect_ratio aspect add_borders "
        "resize_mode",
        "fit", "fit: letterbox", NULL),
    KEY("center_crop centre_crop crop_size", "fit", "fit: center-crop", NULL),
    KEY("method filter resample interp interpolation_mode scaling_filter flags", "interpolation",
        "interpolation: bilinear", NULL),
    SAME("pad_value padding padding_color pad_color border border_value fill", "pad", "pad: 114"),
    KEY("gpu_id gpu gpus device_id cuda cuda_device use_gpu gpu_index accelerator", "device", "device: cuda:0", NULL),
    SAME("batch_size batchsize bs max_batch max_batch_size minibatch", "batch", "batch: 8"),
    KEY("batched_push_timeout max_latency batch_timeout", "batch", "batch: {size: 8, timeout: 20ms}", NULL),
    SAME("max_size_buffers queue_size queue_len queuesize buffer_size buffers buffer", "queue", "queue: 8"),
    KEY("leaky drop drop_on_latency qos", "queue", "queue: {size: 8, when_full: drop-oldest}", NULL),
    SAME("topk top top_n topn k n max_results", "top_k", "top_k: 5"),
    SAME("conf confidence confidence_threshold conf_threshold conf_thres score_threshold min_score min_confidence "
         "classifier_threshold probability_threshold",
         "threshold", "threshold: 0.5"),
    SAME("layer output_layer output output_name output_blob_names blob node layer_name", "tensor", "tensor: features"),
    SAME("output output_names output_layers output_tensors output_blob_names", "outputs", "outputs: [boxes, scores]"),
    KEY("execution_provider providers ep backend framework", "provider", "provider: auto", NULL),
    KEY("parallel instances num_instances copies replicas", NULL, NULL,
        "a stage runs on as many workers as are free; processes are replicas of a node, under `nodes`"),
    KEY("enable enabled disabled active", NULL, NULL, "remove a stage that is not wanted"),
    KEY("config config_file config_file_path properties params parameters args kwargs options settings", NULL, NULL,
        "write the options beside `type` and `input`"),
    KEY("description comment notes doc", NULL, NULL, "write it as a comment, after #"),
    /* ---- values ---- */
    CHOICE("normalize", "true yes on 0-1 0..1 255 1/255 minmax", "normalize: unit"),
    CHOICE("normalize", "false no off", "normalize: none"),
    CHOICE("normalize", "-1..1 tf inception", "normalize: signed"),
    CHOICE("normalize", "torch torchvision", "normalize: imagenet"),
    CHOICE("interpolation", "linear INTER_LINEAR cv2.INTER_LINEAR triangle", "interpolation: bilinear"),
    CHOICE("interpolation", "cubic INTER_CUBIC cv2.INTER_CUBIC", "interpolation: bicubic"),
    CHOICE("interpolation", "INTER_AREA cv2.INTER_AREA box", "interpolation: area"),
    CHOICE("interpolation", "INTER_NEAREST cv2.INTER_NEAREST nearest-neighbour nearest-neighbor",
           "interpolation: nearest"),
    CHOICE("fit", "pad contain keep preserve maintain scale", "fit: letterbox"),
    CHOICE("fit", "cover crop centercrop centre-crop", "fit: center-crop"),
    CHOICE("fit", "fill squash resize none", "fit: stretch"),
    CHOICE("order", "RGBA RGBX RGB24 RGB888", "order: rgb"),
    CHOICE("order", "BGRA BGRX BGR24 BGR888", "order: bgr"),
    CHOICE("order", "grey grayscale greyscale luma y mono gray8 l", "order: gray"),
    CHOICE("dtype", "float float32 fp32 single torch.float32", "dtype: f32"),
    CHOICE("dtype", "float16 fp16 half torch.float16", "dtype: f16"),
    CHOICE("dtype", "uint8 byte int8 ubyte torch.uint8", "dtype: u8"),
    CHOICE("layout", "chw channels_first planar", "layout: nchw"),
    CHOICE("layout", "hwc channels_last packed", "layout: nhwc"),
    CHOICE("when_full", "drop leaky downstream oldest", "when_full: drop-oldest"),
    CHOICE("when_full", "upstream newest", "when_full: drop-newest"),
    CHOICE("when_full", "wait no", "when_full: block"),
    CHOICE("on_error", "skip continue ignore", "on_error: drop"),
    CHOICE("on_error", "stop abort raise exit", "on_error: fail"),
    CHOICE("device", "gpu cuda nvidia 0 gpu:0 cuda0 gpu0", "device: cuda:0"),
    CHOICE("device", "host none x86", "device: cpu"),
    CHOICE("provider", "CUDAExecutionProvider gpu", "provider: cuda"),
    CHOICE("provider", "CPUExecutionProvider", "provider: cpu"),
    CHOICE("provider", "TensorrtExecutionProvider trt", "provider: tensorrt"),
    CHOICE("hardware", "true nvdec cuda yes on gpu", "hardware: require"),
    CHOICE("hardware", "false no none cpu", "hardware: off"),
    CHOICE("activation", "logits raw false linear", "activation: none"),
    CHOICE("activation", "true", "activation: softmax"),
    CHOICE("codec", "h265 x265 libx265 265 hvc1 hevc_nvenc", "codec: hevc"),
    CHOICE("codec", "x264 libx264 264 avc avc1 mp4 h264_nvenc", "codec: h264"),
    CHOICE("codec", "vp09 libvpx-vp9 webm", "codec: vp9"),
    CHOICE("codec", "av01 svtav1 libsvtav1 aom libaom-av1 av1_nvenc", "codec: av1"),
    CHOICE("codec", "jpeg jpg mjpg", "codec: mjpeg"),
    CHOICE("pool", "avg mean gap global true", "pool: average"),
    /* ---- paths and URIs ---- */
    URI("tcp:// mms:// hls:// whep:// webrtc://", NULL,
        "streams are read by rtsp, rtmp, srt, udp, rtp, http and https (MJPEG, HLS)"),
    URI("v4l2:// v4l2:", "", NULL),
    URI("%USERPROFILE%", "${HOME}", NULL),
    URI("s3:// gs:// az:// abfs:// hdfs://", NULL,
        "object stores are not supported: mount the bucket, or copy the "
        "files"),
    /* ---- whole files ---- */
    FOREIGN("primary-gie secondary-gie0 secondary-gie1 tiled-display streammux source-list osd sink0 source0 property",
            "DeepStream"),
    FOREIGN("[application] [property] [source0] [primary-gie] [tiled-display]", "DeepStream"),
    FOREIGN("gst-launch-1.0 gst-launch filesrc uridecodebin videotestsrc rtspsrc v4l2src", "GStreamer"),
    FOREIGN("ffmpeg ffplay", "FFmpeg"),
    FOREIGN("import from #!/usr/bin/env", "Python"),
    FOREIGN("%YAML:1.0", "OpenCV"),
    FOREIGN("opencv_storage", "OpenCV"),
    FOREIGN("apiVersion", "Kubernetes"),
    FOREIGN("services", "Docker Compose"),
    FOREIGN("nc backbone train val", "Ultralytics"),
    FOREIGN("node input_stream", "MediaPipe"),
    FOREIGN("platform max_batch_size instance_group", "Triton"),
    {0},
};

const mr_synonym *mr_synonyms(void) {
    return table;
}

/* ---- comparing ------------------------------------------------------------------------------------------------ */

static bool is_filler(char c) {
    return c == '-' || c == '_' || c == '.';
}

/* Whether the first `length` bytes of `a` are the word `b`. */
static bool same_word(const char *a, size_t length, const char *b) {
    const char *end = a + length;
    for (;;) {
        while (a < end && is_filler(*a))
            a++;
        while (is_filler(*b))
            b++;
        if (a == end || !*b)
            return a == end && !*b;
        if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++))
            return false;
    }
}

/* The words of a row one by one; NULL behind the last. Begins with *at = row->words. */
static const char *next_word(const char **at, size_t *length) {
    *at += strspn(*at, " ");
    const char *word = *at;
    *length = strcspn(word, " ");
    *at += *length;
    return *length ? word : NULL;
}

static bool has_word(const mr_synonym *row, const char *wanted) {
    const char *at = row->words, *word;
    size_t length;
    while ((word = next_word(&at, &length)))
        if (same_word(word, length, wanted))
            return true;
    return false;
}

/* How much of `text` is one of the row's words, letter by letter; 0: it begins with none. */
static size_t begins_with(const mr_synonym *row, const char *text) {
    const char *at = row->words, *word;
    size_t length;
    while ((word = next_word(&at, &length)))
        if (strncmp(text, word, length) == 0)
            return length;
    return 0;
}

/* ---- types ---------------------------------------------------------------------------------------------------- */

static bool is_type(const mr_stage_type *const *types, bool is_source, const char *name) {
    for (; types && *types; types++)
        if (((*types)->inputs == NULL) == is_source && strcmp((*types)->name, name) == 0)
            return true;
    return false;
}

const char *mr_synonym_type(const mr_stage_type *const *types, bool is_source, const char *word, char *text,
                            size_t bytes) {
    for (const mr_synonym *row = table; row->words; row++) {
        if (row->kind != (is_source ? MR_SYNONYM_SOURCE : MR_SYNONYM_STAGE) || !has_word(row, word))
            continue;
        if (!row->instead)
            snprintf(text, bytes, "remove it: %s", row->note);
        else if (is_type(types, is_source, row->instead))
            snprintf(text, bytes, "write type: %s, as in %s%s%s", row->instead, row->write, row->note ? "; " : "",
                     row->note ? row->note : "");
        else
            continue;
        return text;
    }
    return NULL;
}

const char *mr_synonym_sink(const mr_stage_type *const *types, const char *word) {
    for (const mr_synonym *row = table; row->words; row++)
        if (row->kind == MR_SYNONYM_STAGE && row->instead && has_word(row, word) &&
            is_type(types, false, row->instead))
            return row->instead;
    return NULL;
}

/* ---- keys ----------------------------------------------------------------------------------------------------- */

/* The meaning of the given value for the option that was meant; NULL if the option would not accept it. */
static const char *carried(const mr_option *option, const mr_yaml *value) {
    int64_t whole;
    double number;
    if (value->kind != MR_YAML_SCALAR || mr_yaml_is_null(value) || strlen(value->text) > 80 ||
        strpbrk(value->text, "{}[],#&*!|>'\"%@`:? \n"))
        return NULL;
    switch (option->kind) {
    case MR_OPTION_INT:
        return mr_value_int(value->text, &whole) && (double)whole >= option->min && (double)whole <= option->max
                   ? value->text
                   : NULL;
    case MR_OPTION_DOUBLE:
    case MR_OPTION_DOUBLES:
        return mr_value_double(value->text, &number) ? value->text : NULL;
    case MR_OPTION_RATE:
        return mr_value_rate(value->text, &number) ? value->text : NULL;
    case MR_OPTION_MAP:
        /* batch and queue, which may be their size alone */
        return option->brief && mr_value_int(value->text, &whole) && whole > 0 ? value->text : NULL;
    case MR_OPTION_ENUM:
        for (const char *const *choice = option->choices; *choice; choice++)
            if (same_word(value->text, strlen(value->text), *choice))
                return *choice;
        return NULL;
    case MR_OPTION_STRING:
    case MR_OPTION_STRINGS:
    case MR_OPTION_PATH:
    case MR_OPTION_URI:
        return value->text;
    default:
        return NULL;
    }
}

static void write_key(const mr_synonym *row, const mr_option *option, const mr_yaml *entry, char *text, size_t bytes) {
    const char *value = row->carry ? carried(option, entry) : NULL;
    if (value)
        snprintf(text, bytes, "write %s: %s", row->instead, value);
    else
        snprintf(text, bytes, "write %s%s%s", row->write, row->note ? "; " : "", row->note ? row->note : "");
}

static bool fits_value(const mr_synonym *row, const mr_yaml *entry) {
    return !row->value || (entry->kind == MR_YAML_SCALAR && strcmp(entry->text, row->value) == 0);
}

/* Whether "key: value" has one of the choices as its value. */
static bool is_choice(const char *written, const char *const *choices) {
    const char *value = strchr(written, ' ') + 1;
    for (; choices && *choices; choices++)
        if (strcmp(*choices, value) == 0)
            return true;
    return !choices;
}

/* Whether the words of an option are all that it takes. */
static bool has_only_words(const mr_option *option) {
    return option->kind == MR_OPTION_ENUM && option->choices;
}

/* Whether the example is for an option of that kind: `labels` is a file for one type and a switch for another. */
static bool suits(const mr_synonym *row, const mr_option *option) {
    const char *value = strchr(row->write, ':') + 2;
    bool is_switch = strcmp(value, "true") == 0 || strcmp(value, "false") == 0;
    bool is_map = option->kind == MR_OPTION_MAP || option->kind == MR_OPTION_MAPS;
    return (option->kind == MR_OPTION_BOOL) == is_switch && (*value != '{' || is_map) &&
           (!has_only_words(option) || is_choice(row->write, option->choices));
}

const char *mr_synonym_key(const mr_option *options, const mr_option *known, const mr_yaml *map, const mr_yaml *entry,
                           char *text, size_t bytes) {
    for (const mr_synonym *row = table; row->words; row++) {
        if (row->kind != MR_SYNONYM_KEY || !has_word(row, entry->key) || !fits_value(row, entry))
            continue;
        if (!row->instead) {
            snprintf(text, bytes, "remove it: %s", row->note);
            return text;
        }
        const mr_option *option = mr_option_find(options, row->instead);
        option = option ? option : mr_option_find(known, row->instead);
        if (!option || !suits(row, option))
            continue;
        const mr_yaml *there = mr_yaml_get(map, row->instead);
        if (there && there->kind == MR_YAML_MAP && entry->kind == MR_YAML_MAP)
            snprintf(text, bytes, "move its entries to `%s`%s", row->instead,
                     strcmp(row->instead, "stages") == 0 ? ", which holds all that is not a source" : "");
        else if (there)
            snprintf(text, bytes, "remove it: `%s` exists already", row->instead);
        else if (entry->kind == MR_YAML_MAP && entry->first && strcmp(row->instead, "stages") == 0)
            snprintf(text, bytes, "rename it: `stages` holds all that is not a source");
        else
            write_key(row, option, entry, text, bytes);
        return text;
    }
    return NULL;
}

bool mr_synonym_means(const mr_yaml *entry, const char *name) {
    for (const mr_synonym *row = table; row->words; row++)
        if (row->kind == MR_SYNONYM_KEY && row->instead && strcmp(row->instead, name) == 0 && has_word(row, entry->key))
            return true;
    return false;
}

/* ---- values --------------------------------------------------------------------------------------------------- */

const char *mr_synonym_choice(const char *key, const char *const *choices, const char *value, char *text,
                              size_t bytes) {
    for (const mr_synonym *row = table; row->words; row++)
        if (row->kind == MR_SYNONYM_CHOICE && strcmp(row->instead, key) == 0 && has_word(row, value) &&
            is_choice(row->write, choices)) {
            snprintf(text, bytes, "write %s", row->write);
            return text;
        }
    return NULL;
}

const char *mr_synonym_uri(const char *value, char *text, size_t bytes) {
    for (const mr_synonym *row = table; row->words; row++) {
        size_t length = row->kind == MR_SYNONYM_URI ? begins_with(row, value) : 0;
        if (!length)
            continue;
        if (row->write)
            snprintf(text, bytes, "write \"%s%s\"", row->write, value + length);
        else
            snprintf(text, bytes, "%s", row->note);
        return text;
    }
    return NULL;
}

/* ---- whole files ---------------------------------------------------------------------------------------------- */

const mr_synonym *mr_synonym_file(const mr_yaml *root) {
    for (const mr_yaml *entry = root->first; entry; entry = entry->next)
        for (const mr_synonym *row = table; row->words; row++)
            if (row->kind == MR_SYNONYM_FILE && has_word(row, entry->key))
                return row;
    return NULL;
}

/* A word that a colon follows is a key, which mr_synonym_file knows. */
const mr_synonym *mr_synonym_text(const char *text) {
    text += strspn(text, " \t\r\n");
    for (const mr_synonym *row = table; row->words; row++) {
        size_t length = row->kind == MR_SYNONYM_FILE ? begins_with(row, text) : 0;
        if (length && strchr(" \t\r\n=", text[length]))
            return row;
    }
    return NULL;
}

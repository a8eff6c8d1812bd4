/* The fields of the summary. */
#include "millrace/summary_fields.h"

#include <string.h>

#include "millrace/millrace.h"

#define PART_OF(type, table) {table, sizeof(type)}
#define AT(type, member) .offset = offsetof(type, member)
/* A list with a length. */
#define LIST_AT(type, member, number) .offset = offsetof(type, member), .count = offsetof(type, number)
#define ARRAY_AT(type, member, number)                                                                                \
    LIST_AT(type, member, number), .most = sizeof((type){0}.member) / sizeof *(type){0}.member

/* ---- names ------------------------------------------------------------------------------------------------------- */

const char *mr_device_state_name(mr_device_state state) {
    static const char *const names[] = {[MR_DEVICE_WORKS] = "works",
                                        [MR_DEVICE_RESERVED] = "in reserve",
                                        [MR_DEVICE_DISABLED] = "disabled",
                                        [MR_DEVICE_FAILED] = "failed"};
    return names[state];
}

static const char *device_state(int value) {
    return value <= MR_DEVICE_FAILED ? mr_device_state_name((mr_device_state)value) : NULL;
}

static const char *link_state(int value) {
    return value <= MR_LINK_ENDED ? mr_link_state_name((mr_link_state)value) : NULL;
}

/* ---- durations --------------------------------------------------------------------------------------------------- */

static const mr_summary_field durations_fields[] = {
    {"count", MR_SUMMARY_U64, AT(mr_durations, count), NULL, "how many durations were measured", .rises = true},
    {"sum_s", MR_SUMMARY_NS, AT(mr_durations, sum_ns), "s", "the sum of the durations", .rises = true},
    {"buckets", MR_SUMMARY_BUCKETS, AT(mr_durations, bucket), NULL,
     "durations per bucket: the first counts those below 2^14 ns, the second those from there to 2^15 ns, and so on; "
     "the last counts the rest",
     .rises = true},
    {0}};
static const mr_summary_part durations = PART_OF(mr_durations, durations_fields);

/* ---- ledger ------------------------------------------------------------------------------------------------------ */

static const mr_summary_field line_fields[] = {
    {"stage", MR_SUMMARY_TEXT, AT(mr_ledger_line, stage), NULL, "id of the stage"},
    {"reason", MR_SUMMARY_TEXT, AT(mr_ledger_line, reason), NULL, "the reason"},
    {"frames", MR_SUMMARY_U64, AT(mr_ledger_line, frames), NULL, "how many frames", .rises = true},
    {0}};
static const mr_summary_part line = PART_OF(mr_ledger_line, line_fields);

static bool is_dropped(const void *base) {
    return ((const mr_ledger_line *)base)->outcome == MR_OUTCOME_DROPPED;
}

static bool is_absorbed(const void *base) {
    return ((const mr_ledger_line *)base)->outcome == MR_OUTCOME_ABSORBED;
}

static void set_dropped(void *base) {
    ((mr_ledger_line *)base)->outcome = MR_OUTCOME_DROPPED;
}

static void set_absorbed(void *base) {
    ((mr_ledger_line *)base)->outcome = MR_OUTCOME_ABSORBED;
}

/* Rows that the run's ledger and each source's ledger have in common. */
#define LEDGER(type, metric_in, metric_in_flight)                                                                     \
    {"in", MR_SUMMARY_U64, AT(type, in), NULL, "frames that came in", .rises = true, .metric = metric_in},            \
    {"delivered", MR_SUMMARY_U64, AT(type, delivered), NULL, "frames that reached all sinks", .rises = true},         \
    {"dropped", MR_SUMMARY_LIST, LIST_AT(type, lines, line_count), .help = "lost frames, by stage and reason",        \
     .part = &line, .has = is_dropped, .set = set_dropped},                                                           \
    {"absorbed", MR_SUMMARY_LIST, LIST_AT(type, lines, line_count),                                                   \
     .help = "frames that the pipeline left out on purpose", .part = &line, .has = is_absorbed,                       \
     .set = set_absorbed},                                                                                            \
    {"in_flight", MR_SUMMARY_U64, AT(type, in_flight), NULL, "frames between sources and sinks",                      \
     .metric = metric_in_flight}

static const mr_summary_field object_line_fields[] = {
    {"stage", MR_SUMMARY_TEXT, AT(mr_ledger_line, stage), NULL, "id of the stage"},
    {"reason", MR_SUMMARY_TEXT, AT(mr_ledger_line, reason), NULL, "the reason"},
    {"objects", MR_SUMMARY_U64, AT(mr_ledger_line, frames), NULL, "how many objects", .rises = true},
    {0}};
static const mr_summary_part object_line = PART_OF(mr_ledger_line, object_line_fields);

static const mr_summary_field objects_fields[] = {
    {"in", MR_SUMMARY_U64, AT(mr_object_summary, in), NULL, "objects for which a stage made a frame", .rises = true},
    {"delivered", MR_SUMMARY_U64, AT(mr_object_summary, delivered), NULL,
     "objects that reached a sink, alone or on their frame", .rises = true},
    {"dropped", MR_SUMMARY_LIST, LIST_AT(mr_object_summary, lines, line_count),
     .help = "lost objects, by stage and reason", .part = &object_line, .has = is_dropped, .set = set_dropped},
    {"absorbed", MR_SUMMARY_LIST, LIST_AT(mr_object_summary, lines, line_count),
     .help = "objects that the pipeline left out on purpose", .part = &object_line, .has = is_absorbed,
     .set = set_absorbed},
    {"in_flight", MR_SUMMARY_U64, AT(mr_object_summary, in_flight), NULL, "objects that are not settled yet"},
    {"balanced", MR_SUMMARY_NONE, AT(mr_object_summary, unaccounted), NULL, "every object is accounted for"},
    {0}};
static const mr_summary_part objects = PART_OF(mr_object_summary, objects_fields);

static bool has_objects(const void *base) {
    return ((const mr_source_summary *)base)->objects.in > 0;
}

static bool any_objects(const void *base) {
    return ((const mr_summary *)base)->objects.in > 0;
}

/* ---- sources ----------------------------------------------------------------------------------------------------- */

static const mr_summary_field frame_fields[] = {
    {"epoch", MR_SUMMARY_U32, AT(mr_identity, epoch), NULL, "number of the turn in a loop, or of the connection"},
    {"seq", MR_SUMMARY_U64, AT(mr_identity, seq), NULL, "number of the frame within its epoch"},
    {"sub", MR_SUMMARY_U32, AT(mr_identity, sub), NULL, "number among the frames that were derived from one"},
    {0}};
static const mr_summary_part frame = PART_OF(mr_identity, frame_fields);

static const mr_summary_field class_fields[] = {
    {"index", MR_SUMMARY_INT, AT(mr_class_count, index), NULL, "number of the class"},
    {"label", MR_SUMMARY_TEXT, AT(mr_class_count, label), NULL, "label of the class"},
    {"frames", MR_SUMMARY_U64, AT(mr_class_count, frames), NULL, "frames with this as the best class", .rises = true},
    {"mean_score", MR_SUMMARY_F64, AT(mr_class_count, mean_score), NULL, "mean score in these frames"},
    {0}};
static const mr_summary_part class_part = PART_OF(mr_class_count, class_fields);

static const mr_summary_field truth_fields[] = {
    {"index", MR_SUMMARY_INT, AT(mr_truth_count, index), NULL, "number of the folder"},
    {"label", MR_SUMMARY_TEXT, AT(mr_truth_count, label), NULL, "name of the folder"},
    {"frames", MR_SUMMARY_U64, AT(mr_truth_count, frames), NULL, "frames with this label", .rises = true},
    {"right", MR_SUMMARY_U64, AT(mr_truth_count, right), NULL,
     "frames among these whose best class it is", .rises = true},
    {"listed", MR_SUMMARY_U64, AT(mr_truth_count, listed), NULL, "frames among these with this class at any rank",
     .rises = true},
    {0}};
static const mr_summary_part truth = PART_OF(mr_truth_count, truth_fields);

static const mr_summary_field accuracy_fields[] = {
    {"frames", MR_SUMMARY_U64, AT(mr_source_summary, labelled), NULL, "frames with both classes and a label",
     .rises = true},
    {"top_1", MR_SUMMARY_RATIO, AT(mr_source_summary, right), .count = offsetof(mr_source_summary, labelled),
     .help = "share of these frames whose best class is the label"},
    {"top_k", MR_SUMMARY_RATIO, AT(mr_source_summary, listed), .count = offsetof(mr_source_summary, labelled),
     .help = "share of these frames with the label among the k best classes"},
    {"k", MR_SUMMARY_U64, AT(mr_source_summary, longest), NULL, "the most classes that a frame had"},
    {"right", MR_SUMMARY_U64, AT(mr_source_summary, right), NULL, "frames whose best class is the label",
     .rises = true},
    {"listed", MR_SUMMARY_U64, AT(mr_source_summary, listed), NULL, "frames with the label at any rank",
     .rises = true},
    {"classes", MR_SUMMARY_LIST, LIST_AT(mr_source_summary, truths, truth_count), .help = "counts for each label",
     .part = &truth},
    {0}};
static const mr_summary_part accuracy = PART_OF(mr_source_summary, accuracy_fields);

static bool has_labels(const void *base) {
    return ((const mr_source_summary *)base)->labelled > 0;
}

static const mr_summary_field connection_fields[] = {
    {"state", MR_SUMMARY_NAME, AT(mr_source_report, phase), NULL,
     "connecting, live, stalled, away, failed or ended", .name_of = link_state},
    {"since", MR_SUMMARY_DATE, AT(mr_source_report, since_ns), NULL, "when this state began"},
    {"why", MR_SUMMARY_CHARS, AT(mr_source_report, why), NULL, "why the source is not live", .most = MR_REPORT_WHY},
    {"next_try", MR_SUMMARY_DATE, AT(mr_source_report, next_ns), NULL, "when it connects again"},
    {"tries", MR_SUMMARY_U64, AT(mr_source_report, tries), NULL, "attempts to connect", .rises = true,
     .metric = "source_connection_tries"},
    {"connections", MR_SUMMARY_U64, AT(mr_source_report, connections), NULL, "attempts that succeeded", .rises = true,
     .metric = "source_connections"},
    {"packets", MR_SUMMARY_U64, AT(mr_source_report, packets), NULL, "packets received", .rises = true,
     .metric = "source_received_packets"},
    {"bytes", MR_SUMMARY_U64, AT(mr_source_report, bytes), "bytes", "bytes received", .rises = true,
     .metric = "source_received_bytes"},
    {"lost", MR_SUMMARY_U64, AT(mr_source_report, lost), NULL, "packets that did not arrive in time", .rises = true,
     .metric = "source_lost_packets"},
    {"late", MR_SUMMARY_U64, AT(mr_source_report, late), NULL, "lost packets that arrived later", .rises = true,
     .metric = "source_late_packets"},
    {"stills", MR_SUMMARY_U64, AT(mr_source_report, stills), NULL, "pictures that stood in for the absent source",
     .rises = true, .metric = "source_stills"},
    {"jitter_ms", MR_SUMMARY_NS_F64, AT(mr_source_report, jitter_ns), "ms",
     "jitter of the packets' arrival (RFC 3550, 6.4.1)", .metric = "source_jitter_seconds"},
    {0}};
static const mr_summary_part connection = PART_OF(mr_source_report, connection_fields);

static bool is_connected(const void *base) {
    return ((const mr_source_summary *)base)->report.phase != MR_LINK_UNREPORTED;
}

static const mr_summary_field stay_fields[] = {
    {"first_epoch", MR_SUMMARY_U32, AT(mr_source_stay, first_epoch), NULL,
     "epoch of the first frame since the source was added"},
    {"last_epoch", MR_SUMMARY_U32, AT(mr_source_stay, last_epoch), NULL, "epoch of the last frame"},
    {"leaving", MR_SUMMARY_BOOL, AT(mr_source_stay, leaving), NULL,
     "the source was removed, and some of its frames are still in flight"},
    {"removed", MR_SUMMARY_BOOL, AT(mr_source_stay, removed), NULL,
     "the source was removed, and all its frames are settled"},
    {0}};
static const mr_summary_part stay = PART_OF(mr_source_stay, stay_fields);

static bool may_leave(const void *base) {
    return ((const mr_source_summary *)base)->stay.changes;
}

static void set_may_leave(void *base) {
    ((mr_source_summary *)base)->stay.changes = true;
}

static bool is_known(const void *base) {
    return ((const mr_source_summary *)base)->expected > 0;
}

static bool has_frame(const void *base) {
    return ((const mr_source_summary *)base)->last_frame_ns > 0;
}

static bool has_failed(const void *base) {
    return ((const mr_source_summary *)base)->status;
}

static const mr_summary_field source_fields[] = {
    {"id", MR_SUMMARY_TEXT, AT(mr_source_summary, id), NULL,
     "id of the source; \"\" for all sources that were removed long ago"},
    {"elsewhere", MR_SUMMARY_BOOL, AT(mr_source_summary, elsewhere), NULL,
     "another node reads the source; this row counts the frames that arrived from there"},
    LEDGER(mr_source_summary, "source_frames", "source_in_flight_frames"),
    {"balanced", MR_SUMMARY_NONE, AT(mr_source_summary, unaccounted), NULL, "every frame is accounted for"},
    {"unsettled", MR_SUMMARY_ARRAY, ARRAY_AT(mr_source_summary, unsettled, unsettled_count),
     .help = "frames that are unaccounted for, then frames in flight; at most 16", .part = &frame},
    {"objects", MR_SUMMARY_PART, AT(mr_source_summary, objects), NULL,
     "objects for which crop made frames in this process; they are counted beside the frames", .part = &objects,
     .has = has_objects, .omitted = true},
    {"expected", MR_SUMMARY_U64, AT(mr_source_summary, expected), NULL, "how many frames the file announces",
     .has = is_known},
    {"unread", MR_SUMMARY_U64, AT(mr_source_summary, unread), NULL,
     "announced frames that are missing because the file ends early", .metric = "source_unread_frames"},
    {"seams", MR_SUMMARY_U64, AT(mr_source_summary, seams), NULL,
     "seams in the stream: joined recordings and missing parts", .rises = true, .metric = "source_seams"},
    {"connection", MR_SUMMARY_PART, AT(mr_source_summary, report), NULL, "for cameras and servers",
     .part = &connection, .has = is_connected, .omitted = true},
    {"note", MR_SUMMARY_TEXT, AT(mr_source_summary, note), NULL, "a remark from the plan"},
    {"last_frame", MR_SUMMARY_DATE, AT(mr_source_summary, last_frame_ns), NULL,
     "when the last frame was there; as exact as the status is frequent, half a second in a run", .has = has_frame,
     .metric = "source_last_frame_timestamp_seconds"},
    {"ended", MR_SUMMARY_BOOL, AT(mr_source_summary, ended), NULL, "no more frames come from the source",
     .metric = "source_ended"},
    {"exit_code", MR_SUMMARY_STATUS, AT(mr_source_summary, status), NULL, "0, or the exit code for the failure"},
    {"error", MR_SUMMARY_TEXT, AT(mr_source_summary, message), NULL, "why the source failed", .has = has_failed},
    {"classified", MR_SUMMARY_U64, AT(mr_source_summary, classified), NULL, "delivered frames with classes",
     .rises = true, .metric = "source_classified_frames"},
    {"classes", MR_SUMMARY_ARRAY, ARRAY_AT(mr_source_summary, classes, class_count),
     .help = "the most frequent classes, at most 5", .part = &class_part},
    {"accuracy", MR_SUMMARY_PART, .offset = 0, .help = "for sources whose pictures have labels", .part = &accuracy,
     .has = has_labels},
    {"", MR_SUMMARY_INLINE, AT(mr_source_summary, stay), .help = "", .part = &stay, .has = may_leave,
     .set = set_may_leave, .omitted = true},
    {0}};
static const mr_summary_part source = PART_OF(mr_source_summary, source_fields);

/* ---- stages ------------------------------------------------------------------------------------------------------ */

static const mr_summary_field share_fields[] = {
    {"name", MR_SUMMARY_TEXT, AT(mr_share_summary, device), NULL, "name of the device"},
    {"state", MR_SUMMARY_NAME, AT(mr_share_summary, state), NULL, "works, in reserve, disabled or failed",
     .name_of = device_state},
    {"frames", MR_SUMMARY_U64, AT(mr_share_summary, frames), NULL, "frames that the device processed", .rises = true,
     .metric = "stage_device_frames"},
    {"busy_s", MR_SUMMARY_NS, AT(mr_share_summary, busy_ns), "s",
     "time during which a call was in progress", .rises = true, .metric = "stage_device_busy_seconds"},
    {"cost_ms", MR_SUMMARY_NS, AT(mr_share_summary, cost_ns), "ms", "time per frame in the last calls",
     .metric = "stage_device_cost_seconds"},
    {0}};
static const mr_summary_part share = PART_OF(mr_share_summary, share_fields);

#define SERVICE(key, member, unit, help)                                                                              \
    {key, MR_SUMMARY_U64, AT(mr_service_report, member), unit, help, .rises = true, .metric = "service_" key}

static const mr_summary_field service_fields[] = {
    {"state", MR_SUMMARY_NAME, AT(mr_service_report, phase), NULL, "connecting, live, away, failed or ended",
     .name_of = link_state},
    {"since", MR_SUMMARY_DATE, AT(mr_service_report, since_ns), NULL, "when this state began"},
    {"why", MR_SUMMARY_CHARS, AT(mr_service_report, why), NULL,
     "why the service is away, or has refused frames of the last batch", .most = MR_REPORT_WHY},
    {"next_try", MR_SUMMARY_DATE, AT(mr_service_report, next_ns), NULL, "when the stage tries again"},
    {"last", MR_SUMMARY_DATE, AT(mr_service_report, last_ns), NULL, "when the service acknowledged the last batch"},
    SERVICE("tries", tries, NULL, "attempts to connect"),
    SERVICE("connections", connections, NULL, "attempts that succeeded"),
    SERVICE("batches", batches, NULL, "acknowledged batches"),
    SERVICE("frames", frames, NULL, "frames in these batches"),
    SERVICE("bytes", bytes, "bytes", "bytes of their records"),
    SERVICE("again", again, NULL, "batches that were sent again"),
    SERVICE("dropped", dropped, NULL, "frames that were dropped: the queue was full, or the service refused them"),
    {"waiting", MR_SUMMARY_U64, AT(mr_service_report, waiting), NULL, "frames that are not acknowledged",
     .metric = "service_waiting_frames"},
    {"waiting_bytes", MR_SUMMARY_U64, AT(mr_service_report, waiting_bytes), "bytes", "memory of their records"},
    {0}};
static const mr_summary_part service = PART_OF(mr_service_report, service_fields);

static bool has_service(const void *base) {
    return ((const mr_stage_summary *)base)->service.phase != MR_LINK_UNREPORTED;
}

static const mr_summary_field stage_fields[] = {
    {"id", MR_SUMMARY_TEXT, AT(mr_stage_summary, id), NULL, "id of the stage, or of the end of a cut"},
    {"type", MR_SUMMARY_TEXT, AT(mr_stage_summary, type), NULL, "type of the stage"},
    {"device", MR_SUMMARY_TEXT, AT(mr_stage_summary, device), NULL, "device or devices of the stage"},
    {"is_source", MR_SUMMARY_BOOL, AT(mr_stage_summary, is_source), NULL,
     "whether this row is the source with this id"},
    {"instances", MR_SUMMARY_INT, AT(mr_stage_summary, instances), NULL, "how many instances the stage has",
     .metric = "stage_instances"},
    {"in", MR_SUMMARY_U64, AT(mr_stage_summary, in), NULL, "frames that entered", .rises = true,
     .metric = "stage_in_frames"},
    {"out", MR_SUMMARY_U64, AT(mr_stage_summary, out), NULL, "frames that left", .rises = true,
     .metric = "stage_out_frames"},
    {"queued", MR_SUMMARY_U64, AT(mr_stage_summary, queued), NULL, "frames that wait in the queue now",
     .metric = "queue_frames"},
    {"queue_peak", MR_SUMMARY_INT, AT(mr_stage_summary, queue_peak), NULL,
     "the most frames of one source that waited in the queue", .metric = "queue_peak_frames"},
    {"batch_peak", MR_SUMMARY_INT, AT(mr_stage_summary, batch_peak), NULL, "the most frames in one call",
     .metric = "stage_batch_peak_frames"},
    {"calls", MR_SUMMARY_U64, AT(mr_stage_summary, calls), NULL, "calls of the stage", .rises = true,
     .metric = "stage_calls"},
    {"busy_s", MR_SUMMARY_NS, AT(mr_stage_summary, busy_ns), "s", "time inside the stage, summed over its instances",
     .rises = true, .metric = "stage_busy_seconds"},
    {"p50_ms", MR_SUMMARY_NS, AT(mr_stage_summary, p50_ns), "ms",
     "median time from entering the queue to leaving the stage"},
    {"p99_ms", MR_SUMMARY_NS, AT(mr_stage_summary, p99_ns), "ms", "the time that 99 of 100 frames stay below"},
    {"latency", MR_SUMMARY_PART, AT(mr_stage_summary, latency), NULL,
     "distribution of that time over all frames", .part = &durations, .metric = "stage_seconds"},
    {"service", MR_SUMMARY_PART, AT(mr_stage_summary, service), NULL, "for sinks that deliver to a service",
     .part = &service, .has = has_service, .omitted = true},
    {"untaken", MR_SUMMARY_U64, AT(mr_stage_summary, untaken), NULL,
     "for sinks that send to programs: frames that none has taken yet", .metric = "stage_untaken_frames"},
    {"devices", MR_SUMMARY_LIST, LIST_AT(mr_stage_summary, shares, share_count), .label = "device",
     .help = "the work of each device; empty for a stage that runs only on processors", .part = &share},
    {0}};
static const mr_summary_part stage = PART_OF(mr_stage_summary, stage_fields);

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

#define COUNT(key, member, help)                                                                                      \
    {key, MR_SUMMARY_U64, AT(mr_cut_summary, member), NULL, help, .rises = true, .metric = "cut_" key}

static const mr_summary_field cut_fields[] = {
    {"id", MR_SUMMARY_TEXT, AT(mr_cut_summary, id), NULL,
     "\"decode->worker\"; at the consumer \"decode->worker:in\""},
    COUNT("frames", frames, "frames sent or received, each once"),
    COUNT("again", again, "frames sent or received again after a loss"),
    COUNT("set_aside", set_aside, "frames that a consumer refused, or that may have crashed one"),
    COUNT("sessions", sessions, "sessions that were opened"),
    {"peers", MR_SUMMARY_U64, AT(mr_cut_summary, peers), NULL, "processes at the other end that are connected now",
     .metric = "cut_peers"},
    {"absent", MR_SUMMARY_BOOL, AT(mr_cut_summary, absent), NULL, "none is, and this end still needs one"},
    COUNT("stale", stale, "messages from ended sessions, which are ignored"),
    COUNT("malformed", malformed, "messages that violated the protocol"),
    COUNT("rejected", rejected, "greetings that were refused"),
    COUNT("refused", refused, "connections that were refused because of their key, their number or their silence"),
    {0}};
static const mr_summary_part cut = PART_OF(mr_cut_summary, cut_fields);

/* ---- the run ----------------------------------------------------------------------------------------------------- */

static const mr_summary_field forced_fields[] = {
    {"stage", MR_SUMMARY_TEXT, AT(mr_forced_summary, stage), NULL, "id of the stage"},
    {"why", MR_SUMMARY_TEXT, AT(mr_forced_summary, why), NULL, "the difference that was accepted"},
    {0}};
static const mr_summary_part forced = PART_OF(mr_forced_summary, forced_fields);

static const mr_summary_field ledger_fields[] = {
    LEDGER(mr_summary, NULL, NULL),
    {"balanced", MR_SUMMARY_BOOL, AT(mr_summary, balanced), NULL,
     "whether in = delivered + dropped + absorbed + in_flight for every source, and for its objects"},
    {0}};
static const mr_summary_part ledger = PART_OF(mr_summary, ledger_fields);

static const mr_summary_field device_fields[] = {
    {"name", MR_SUMMARY_TEXT, AT(mr_device_summary, name), NULL, "name of the device"},
    {"bytes", MR_SUMMARY_U64, AT(mr_device_summary, bytes), "bytes", "the most bytes in buffers on the device",
     .metric = "device_memory_peak_bytes"},
    {"held_bytes", MR_SUMMARY_U64, AT(mr_device_summary, held_bytes), "bytes", "the bytes in buffers on the device now",
     .metric = "device_memory_bytes"},
    {0}};
static const mr_summary_part device = PART_OF(mr_device_summary, device_fields);

static const mr_summary_field buffers_fields[] = {
    {"host_bytes", MR_SUMMARY_U64, AT(mr_summary, host_bytes), "bytes", "the most bytes in buffers in host memory",
     .metric = "buffers_host_peak_bytes"},
    {"pinned_bytes", MR_SUMMARY_U64, AT(mr_summary, pinned_bytes), "bytes",
     "the most bytes in buffers in pinned memory", .metric = "buffers_pinned_peak_bytes"},
    {"shared_bytes", MR_SUMMARY_U64, AT(mr_summary, shared_bytes), "bytes",
     "the most bytes in buffers in shared memory", .metric = "buffers_shared_peak_bytes"},
    {"devices", MR_SUMMARY_LIST, LIST_AT(mr_summary, devices, device_count),
     .label = "device", .help = "the devices", .part = &device},
    {0}};
static const mr_summary_part buffers = PART_OF(mr_summary, buffers_fields);

static bool any_spans(const void *base) {
    return ((const mr_summary *)base)->spans.ended > 0;
}

static const mr_summary_field spans_fields[] = {
    {"ended", MR_SUMMARY_U64, AT(mr_span_counts, ended), NULL, "how many have ended", .rises = true,
     .metric = "spans"},
    {"lost", MR_SUMMARY_U64, AT(mr_span_counts, lost), NULL,
     "those that found no room, or that no collector has taken", .rises = true, .metric = "lost_spans"},
    {0}};
static const mr_summary_part spans = PART_OF(mr_span_counts, spans_fields);

static const mr_summary_field fields[] = {
    {"pipeline", MR_SUMMARY_TEXT, AT(mr_summary, pipeline), NULL, "name of the pipeline"},
    {"digest", MR_SUMMARY_TEXT, AT(mr_summary, digest), NULL,
     "SHA-256 of the pipeline's content, with overrides and variables, without layout and comments"},
    {"forced", MR_SUMMARY_LIST, LIST_AT(mr_summary, forced, forced_count),
     .help = "differences that `force` accepted: results may be worse than they look", .part = &forced,
     .omitted = true},
    {"ledger", MR_SUMMARY_PART, .offset = 0, .help = "the frames of all sources", .part = &ledger},
    {"objects", MR_SUMMARY_PART, AT(mr_summary, objects), NULL, "the objects of all sources", .part = &objects,
     .has = any_objects, .omitted = true},
    {"sources", MR_SUMMARY_LIST, LIST_AT(mr_summary, sources, source_count),
     .label = "source", .help = "the sources", .part = &source},
    {"stages", MR_SUMMARY_LIST, LIST_AT(mr_summary, stages, stage_count),
     .label = "stage", .help = "the stages and sources", .part = &stage},
    {"cuts", MR_SUMMARY_LIST, LIST_AT(mr_summary, cuts, cut_count),
     .label = "cut", .help = "the ends of cuts in this process", .part = &cut},
    {"wall_s", MR_SUMMARY_F64, AT(mr_summary, wall_s), "s", "time since the start", .metric = "run_seconds"},
    {"first_s", MR_SUMMARY_F64, AT(mr_summary, first_s), "s", "time from the start to the first delivered frame"},
    {"cpu_s", MR_SUMMARY_F64, AT(mr_summary, cpu_s), "s", "CPU time of the process", .rises = true,
     .metric = "cpu_seconds"},
    {"peak_bytes", MR_SUMMARY_U64, AT(mr_summary, peak_bytes), "bytes", "the most resident memory of the process",
     .metric = "resident_memory_peak_bytes"},
    {"buffers", MR_SUMMARY_PART, .offset = 0, .help = "memory for which `millrace plan` gives a bound",
     .part = &buffers},
    {"p50_ms", MR_SUMMARY_NS, AT(mr_summary, latency_p50_ns), "ms", "median time from source to sink"},
    {"p99_ms", MR_SUMMARY_NS, AT(mr_summary, latency_p99_ns), "ms", "the time that 99 of 100 frames stay below"},
    {"latency", MR_SUMMARY_PART, AT(mr_summary, latency), NULL,
     "distribution of that time over all frames, once for each sink",
     .part = &durations, .metric = "latency_seconds"},
    {"allocations", MR_SUMMARY_U64, AT(mr_summary, allocations), NULL,
     "memory blocks that millrace has allocated since the start; blocks of libraries do not count", .rises = true,
     .metric = "allocations"},
    {"spans", MR_SUMMARY_PART, AT(mr_summary, spans), NULL, "the spans of frames that are followed", .part = &spans,
     .has = any_spans, .omitted = true},
    {0}};

const mr_summary_part *mr_summary_fields(void) {
    static const mr_summary_part whole = PART_OF(mr_summary, fields);
    return &whole;
}

const mr_summary_field *mr_summary_field_find(const mr_summary_part *part, const char *name) {
    const mr_summary_field *field = part->fields;
    while (field->name && strcmp(field->name, name) != 0)
        field++;
    return field->name ? field : NULL;
}

const void *mr_summary_list(const mr_summary_field *field, const void *base) {
    const char *at = (const char *)base + field->offset;
    return field->type == MR_SUMMARY_LIST ? *(const void *const *)(const void *)at : at;
}

size_t mr_summary_count(const mr_summary_field *field, const void *base) {
    return *(const size_t *)(const void *)((const char *)base + field->count);
}

double mr_summary_scale(const mr_summary_field *field) {
    return strcmp(field->unit, "ms") == 0 ? 1e-6 : 1e-9;
}

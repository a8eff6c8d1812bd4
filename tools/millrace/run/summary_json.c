#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "tools/millrace/run/summary.h"

static void put_lines(yajl_gen json, const char *key, mr_outcome outcome, const mr_ledger_line *lines, size_t count) {
    mr_json_open_array(json, key);
    for (size_t i = 0; i < count; i++) {
        if (lines[i].outcome != outcome)
            continue;
        mr_json_open_map(json, NULL);
        mr_json_text(json, "stage", lines[i].stage);
        mr_json_text(json, "reason", lines[i].reason);
        mr_json_integer(json, "frames", (int64_t)lines[i].frames);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_ledger(yajl_gen json, const mr_summary *summary) {
    mr_json_open_map(json, "ledger");
    mr_json_integer(json, "in", (int64_t)summary->in);
    mr_json_integer(json, "delivered", (int64_t)summary->delivered);
    put_lines(json, "dropped", MR_OUTCOME_DROPPED, summary->lines, summary->line_count);
    put_lines(json, "absorbed", MR_OUTCOME_ABSORBED, summary->lines, summary->line_count);
    mr_json_integer(json, "in_flight", (int64_t)summary->in_flight);
    mr_json_bool(json, "balanced", summary->balanced);
    yajl_gen_map_close(json);
}

static void put_classes(yajl_gen json, const mr_source_summary *source) {
    mr_json_open_array(json, "classes");
    for (size_t i = 0; i < source->class_count; i++) {
        const mr_class_count *class = &source->classes[i];
        mr_json_open_map(json, NULL);
        mr_json_integer(json, "index", class->index);
        mr_json_text(json, "label", class->label);
        mr_json_integer(json, "frames", (int64_t)class->frames);
        mr_json_number(json, "mean_score", class->mean_score);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

bool mr_accuracy_open_json(yajl_gen json, uint64_t labelled, uint64_t right, uint64_t listed, size_t longest) {
    mr_json_key(json, "accuracy");
    if (!labelled) {
        yajl_gen_null(json);
        return false;
    }
    yajl_gen_map_open(json);
    mr_json_integer(json, "frames", (int64_t)labelled);
    mr_json_number(json, "top_1", (double)right / (double)labelled);
    mr_json_number(json, "top_k", (double)listed / (double)labelled);
    mr_json_integer(json, "k", (int64_t)longest);
    mr_json_integer(json, "right", (int64_t)right);
    mr_json_integer(json, "listed", (int64_t)listed);
    return true;
}

static void put_accuracy(yajl_gen json, const mr_source_summary *source) {
    if (!mr_accuracy_open_json(json, source->labelled, source->right, source->listed, source->longest))
        return;
    mr_json_open_array(json, "classes");
    for (size_t i = 0; i < source->truth_count; i++) {
        const mr_truth_count *truth = &source->truths[i];
        mr_json_open_map(json, NULL);
        mr_json_integer(json, "index", truth->index);
        mr_json_text(json, "label", truth->label);
        mr_json_integer(json, "frames", (int64_t)truth->frames);
        mr_json_integer(json, "right", (int64_t)truth->right);
        mr_json_integer(json, "listed", (int64_t)truth->listed);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

/* The frames that are unaccounted for, or in flight; at most some of them. */
static void put_unsettled(yajl_gen json, const mr_source_summary *source) {
    mr_json_open_array(json, "unsettled");
    for (size_t i = 0; i < source->unsettled_count; i++) {
        mr_json_open_map(json, NULL);
        mr_json_integer(json, "epoch", source->unsettled[i].epoch);
        mr_json_integer(json, "seq", (int64_t)source->unsettled[i].seq);
        mr_json_integer(json, "sub", source->unsettled[i].sub);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_date(yajl_gen json, const char *key, int64_t since_1970_ns) {
    char text[MR_DATE_TEXT];
    mr_json_text(json, key, since_1970_ns ? mr_date_text(text, since_1970_ns) : NULL);
}

/* Of a source that connects to a camera or server. */
static void put_connection(yajl_gen json, const mr_source_report *report) {
    mr_json_open_map(json, "connection");
    mr_json_text(json, "state", mr_link_state_name(report->phase));
    put_date(json, "since", report->since_ns);
    mr_json_text(json, "why", *report->why ? report->why : NULL);
    put_date(json, "next_try", report->next_ns);
    mr_json_integer(json, "tries", (int64_t)report->tries);
    mr_json_integer(json, "connections", (int64_t)report->connections);
    mr_json_integer(json, "packets", (int64_t)report->packets);
    mr_json_integer(json, "bytes", (int64_t)report->bytes);
    mr_json_integer(json, "lost", (int64_t)report->lost);
    mr_json_integer(json, "late", (int64_t)report->late);
    mr_json_integer(json, "stills", (int64_t)report->stills);
    mr_json_number(json, "jitter_ms", report->jitter_ns * 1e-6);
    yajl_gen_map_close(json);
}

/* Only of sources that come and go. */
static void put_stay(yajl_gen json, const mr_source_stay *stay) {
    mr_json_integer(json, "first_epoch", stay->first_epoch);
    mr_json_integer(json, "last_epoch", stay->last_epoch);
    mr_json_bool(json, "leaving", stay->leaving);
    mr_json_bool(json, "removed", stay->removed);
}

static void put_source(yajl_gen json, const mr_source_summary *source, const mr_source_stay *stay) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "id", source->id);
    mr_json_bool(json, "elsewhere", source->elsewhere);
    mr_json_integer(json, "in", (int64_t)source->in);
    mr_json_integer(json, "delivered", (int64_t)source->delivered);
    put_lines(json, "dropped", MR_OUTCOME_DROPPED, source->lines, source->line_count);
    put_lines(json, "absorbed", MR_OUTCOME_ABSORBED, source->lines, source->line_count);
    mr_json_integer(json, "in_flight", (int64_t)source->in_flight);
    mr_json_bool(json, "balanced", source->unaccounted == 0);
    put_unsettled(json, source);
    mr_json_key(json, "expected");
    if (source->expected)
        yajl_gen_integer(json, source->expected);
    else
        yajl_gen_null(json);
    mr_json_integer(json, "unread", (int64_t)source->unread);
    mr_json_integer(json, "seams", (int64_t)source->seams);
    if (source->report.phase)
        put_connection(json, &source->report);
    mr_json_text(json, "note", source->note);
    mr_json_bool(json, "ended", source->ended);
    mr_json_integer(json, "exit_code", mr_status_exit_code(source->status));
    mr_json_text(json, "error", source->status ? source->message : NULL);
    mr_json_integer(json, "classified", (int64_t)source->classified);
    put_classes(json, source);
    put_accuracy(json, source);
    if (stay)
        put_stay(json, stay);
    yajl_gen_map_close(json);
}

/* The share of each device; nothing for a stage that runs on the processors only. */
static void put_shares(yajl_gen json, const mr_stage_summary *stage) {
    mr_json_open_array(json, "devices");
    for (size_t i = 0; i < stage->share_count; i++) {
        const mr_share_summary *share = &stage->shares[i];
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", share->device);
        mr_json_text(json, "state", mr_device_state_name(share->state));
        mr_json_integer(json, "frames", (int64_t)share->frames);
        mr_json_number(json, "busy_s", (double)share->busy_ns * 1e-9);
        mr_json_number(json, "cost_ms", (double)share->cost_ns * 1e-6);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_stage(yajl_gen json, const mr_stage_summary *stage) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "id", stage->id);
    mr_json_text(json, "type", stage->type);
    mr_json_text(json, "device", stage->device);
    mr_json_integer(json, "instances", stage->instances);
    mr_json_integer(json, "in", (int64_t)stage->in);
    mr_json_integer(json, "out", (int64_t)stage->out);
    mr_json_integer(json, "queue_peak", stage->queue_peak);
    mr_json_integer(json, "batch_peak", stage->batch_peak);
    mr_json_integer(json, "calls", (int64_t)stage->calls);
    mr_json_number(json, "busy_s", (double)stage->busy_ns * 1e-9);
    mr_json_number(json, "p50_ms", (double)stage->p50_ns * 1e-6);
    mr_json_number(json, "p99_ms", (double)stage->p99_ns * 1e-6);
    put_shares(json, stage);
    yajl_gen_map_close(json);
}

static void put_cut(yajl_gen json, const mr_cut_summary *cut) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "id", cut->id);
    mr_json_integer(json, "frames", (int64_t)cut->frames);
    mr_json_integer(json, "again", (int64_t)cut->again);
    mr_json_integer(json, "set_aside", (int64_t)cut->set_aside);
    mr_json_integer(json, "sessions", (int64_t)cut->sessions);
    mr_json_integer(json, "stale", (int64_t)cut->stale);
    mr_json_integer(json, "malformed", (int64_t)cut->malformed);
    mr_json_integer(json, "rejected", (int64_t)cut->rejected);
    mr_json_integer(json, "refused", (int64_t)cut->refused);
    yajl_gen_map_close(json);
}

/* The peak memory of buffers, for which `millrace plan` prints the bound. */
static void put_memory(yajl_gen json, const mr_summary *summary) {
    mr_json_open_map(json, "buffers");
    mr_json_integer(json, "host_bytes", (int64_t)summary->host_bytes);
    mr_json_integer(json, "pinned_bytes", (int64_t)summary->pinned_bytes);
    mr_json_integer(json, "shared_bytes", (int64_t)summary->shared_bytes);
    mr_json_open_array(json, "devices");
    for (size_t i = 0; i < summary->device_count; i++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", summary->devices[i].name);
        mr_json_integer(json, "bytes", (int64_t)summary->devices[i].bytes);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

static void put_run(yajl_gen json, const mr_summary *summary) {
    mr_json_number(json, "wall_s", summary->wall_s);
    mr_json_number(json, "first_s", summary->first_s);
    mr_json_number(json, "cpu_s", summary->cpu_s);
    mr_json_integer(json, "peak_bytes", (int64_t)summary->peak_bytes);
    put_memory(json, summary);
    mr_json_number(json, "p50_ms", (double)summary->latency_p50_ns * 1e-6);
    mr_json_number(json, "p99_ms", (double)summary->latency_p99_ns * 1e-6);
    mr_json_integer(json, "allocations", (int64_t)summary->allocations);
}

static void put_head(yajl_gen json, const mr_summary *summary) {
    mr_json_text(json, "pipeline", summary->pipeline);
    mr_json_text(json, "digest", summary->digest);
    if (!summary->forced_count)
        return;
    mr_json_open_array(json, "forced");
    for (size_t i = 0; i < summary->forced_count; i++) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "stage", summary->forced[i].stage);
        mr_json_text(json, "why", summary->forced[i].why);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_rest(yajl_gen json, const mr_summary *summary) {
    put_ledger(json, summary);
    mr_json_open_array(json, "sources");
    for (size_t i = 0; i < summary->source_count; i++)
        put_source(json, &summary->sources[i], summary->stays ? &summary->stays[i] : NULL);
    yajl_gen_array_close(json);
    mr_json_open_array(json, "stages");
    for (size_t i = 0; i < summary->stage_count; i++)
        put_stage(json, &summary->stages[i]);
    yajl_gen_array_close(json);
    mr_json_open_array(json, "cuts");
    for (size_t i = 0; i < summary->cut_count; i++)
        put_cut(json, &summary->cuts[i]);
    yajl_gen_array_close(json);
    put_run(json, summary);
}

void mr_summary_put_json(yajl_gen json, const mr_summary *summary) {
    put_head(json, summary);
    put_rest(json, summary);
}

int mr_summary_print_json(const mr_summary *summary, bool finished, int status, const char *error, FILE *stream) {
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_json_open_map(json, NULL);
    put_head(json, summary);
    if (finished) {
        mr_json_integer(json, "exit_code", mr_status_exit_code(status));
        mr_json_text(json, "error", error ? error : status ? mr_status_words(status) : NULL);
    }
    put_rest(json, summary);
    yajl_gen_map_close(json);
    return mr_json_finish(json, stream);
}

#include "tools/millrace/hub/hub_json.h"

#include <inttypes.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "millrace/version.h"

static void put_count(yajl_gen json, const char *key, uint64_t value) {
    mr_json_integer(json, key, (int64_t)value);
}

static void put_seconds(yajl_gen json, const char *key, int64_t ns) {
    mr_json_number(json, key, (double)ns * 1e-9);
}

/* An empty text is null. */
static void put_text(yajl_gen json, const char *key, const char *text) {
    mr_json_text(json, key, *text ? text : NULL);
}

/* ---- the hub ----------------------------------------------------------------------------------------------------- */

void mr_hub_put_status(yajl_gen json, const mr_hub_shown *shown, int64_t now_ns) {
    const mr_hub_registry *registry = &shown->registry;
    const mr_hub_sums all = mr_hub_registry_sum(registry);
    char date[MR_DATE_TEXT];
    mr_json_text(json, "host", shown->host);
    mr_json_text(json, "program", MILLRACE_VERSION);
    mr_json_text(json, "time", mr_date_text(date, mr_clock_date_ns()));
    put_seconds(json, "uptime_s", now_ns - shown->began_ns);
    put_count(json, "version", registry->version);
    put_seconds(json, "lost_after_s", registry->lost_ns);
    put_count(json, "most_runs", registry->most);
    MR_JSON_MAP(json, "runs") {
        for (int i = 0; i < MR_HUB_STATES; i++)
            put_count(json, mr_hub_state_name((mr_hub_state)i), all.states[i]);
        put_count(json, "failed", all.failed);
        put_count(json, "unwell", all.unwell);
    }
    mr_json_number(json, "delivered_per_s", all.delivered);
    mr_json_number(json, "dropped_per_s", all.dropped);
    put_count(json, "peers", shown->peers);
    put_count(json, "refused", shown->refused);
    MR_JSON_MAP(json, "messages")
        for (int i = 0; i < MR_HUB_FATES; i++)
            put_count(json, mr_hub_fate_name((mr_hub_fate)i), registry->messages[i]);
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */

static void put_devices(yajl_gen json, const mr_hub_run *run) {
    MR_JSON_ARRAY(json, "devices")
        for (size_t i = 0; i < run->report->n_devices; i++)
            MR_JSON_MAP(json, NULL) {
                const Millrace__Hub__Device *device = run->report->devices[i];
                mr_json_text(json, "name", device->name);
                mr_json_text(json, "state", device->state);
                put_count(json, "bytes", device->bytes);
                mr_json_number(json, "busy", run->busy[i]);
                put_count(json, "frames", device->frames);
            }
}

static void put_processes(yajl_gen json, const mr_hub_report *report) {
    MR_JSON_ARRAY(json, "processes")
        for (size_t i = 0; i < report->n_processes; i++)
            MR_JSON_MAP(json, NULL) {
                const Millrace__Hub__Process *process = report->processes[i];
                put_text(json, "name", process->name);
                mr_json_text(json, "state", process->state);
                mr_json_integer(json, "pid", process->pid);
                mr_json_integer(json, "restarts", process->restarts);
            }
    mr_json_integer(json, "processes_left_out", report->processes_left_out);
}

static void put_frames(yajl_gen json, const mr_hub_run *run) {
    const mr_hub_report *report = run->report;
    MR_JSON_MAP(json, "ledger") {
        put_count(json, "in", report->in);
        put_count(json, "delivered", report->delivered);
        put_count(json, "dropped", report->dropped);
        put_count(json, "absorbed", report->absorbed);
        put_count(json, "in_flight", report->in_flight);
    }
    mr_json_number(json, "delivered_per_s", run->delivered);
    mr_json_number(json, "dropped_per_s", run->dropped);
    mr_json_number(json, "cores", run->cores);
    MR_JSON_MAP(json, "sources") {
        mr_json_integer(json, "all", report->sources);
        mr_json_integer(json, "up", report->sources_up);
        mr_json_integer(json, "failed", report->sources_failed);
    }
}

void mr_hub_put_run(yajl_gen json, const mr_hub_run *run, int64_t now_ns, bool whole) {
    const mr_hub_report *report = run->report;
    const int64_t silent_ns = now_ns - run->heard_ns, elapsed_ns = (int64_t)report->elapsed_ns;
    char id[24], date[MR_DATE_TEXT];
    snprintf(id, sizeof id, "%016" PRIx64, report->id);
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", id);
        mr_json_text(json, "state", mr_hub_state_name(run->state));
        if (run->state == MR_HUB_ENDED)
            mr_json_integer(json, "exit_code", report->exit_code);
        else
            mr_json_text(json, "exit_code", NULL);
        mr_json_text(json, "host", report->host);
        mr_json_text(json, "pipeline", report->pipeline);
        mr_json_text(json, "digest", report->digest);
        put_text(json, "run", report->run);
        put_text(json, "node", report->node);
        mr_json_integer(json, "pid", report->pid);
        mr_json_text(json, "program", report->program);
        put_text(json, "page", report->page);
        mr_json_bool(json, "well", report->well);
        put_text(json, "why", report->why);
        mr_json_text(json, "started", mr_date_text(date, mr_clock_date_ns() - silent_ns - elapsed_ns));
        put_seconds(json, "elapsed_s", elapsed_ns);
        put_seconds(json, "silent_s", silent_ns);
        put_frames(json, run);
        put_devices(json, run);
        if (whole)
            put_processes(json, report);
        else
            put_count(json, "processes", report->n_processes + report->processes_left_out);
    }
}

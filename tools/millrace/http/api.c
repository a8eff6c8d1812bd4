#include "tools/millrace/http/api.h"

#include <string.h>

#include "engine/base/clock.h"
#include "engine/base/json.h"
#include "millrace/format_set.h"
#include "tools/millrace/summary/summary.h"

static void put_ledger(yajl_gen json, const mr_observed_ledger *sum) {
    mr_json_integer(json, "in", (int64_t)sum->in);
    mr_json_integer(json, "delivered", (int64_t)sum->delivered);
    mr_json_integer(json, "dropped", (int64_t)sum->dropped);
    mr_json_integer(json, "absorbed", (int64_t)sum->absorbed);
    mr_json_integer(json, "in_flight", (int64_t)sum->in_flight);
}

static void put_health(yajl_gen json, const mr_run_http *web) {
    static const char *const names[] = {"alive", "ready", "well"};
    char why[MR_HEALTH_WHY], first[MR_HEALTH_WHY] = "";
    for (int kind = MR_HEALTH_ALIVE; kind <= MR_HEALTH_WELL; kind++) {
        mr_json_bool(json, names[kind], mr_run_http_is(web, (mr_health_kind)kind, why));
        if (!*first)
            memcpy(first, why, sizeof first);
    }
    mr_json_text(json, "why", *first ? first : NULL);
}

static void put_date(yajl_gen json, const char *key, int64_t date_ns) {
    char date[MR_DATE_TEXT];
    mr_json_text(json, key, mr_date_text(date, date_ns));
}

static void put_process_head(yajl_gen json, const mr_observed_process *process) {
    mr_json_text(json, "name", process->name);
    mr_json_text(json, "node", process->node);
    mr_json_integer(json, "replica", process->replica);
    mr_json_text(json, "state", process->state);
    mr_json_integer(json, "pid", process->pid);
    mr_json_integer(json, "restarts", process->restarts);
    if (process->done)
        mr_json_integer(json, "exit_code", process->exit_code);
    else
        mr_json_text(json, "exit_code", NULL);
}

/* ---- the whole -------------------------------------------------------------------------------------------------- */

static void put_otlp(yajl_gen json, const mr_run_http *web) {
    mr_otlp_state states[MR_OTLP_SIGNALS];
    const size_t count = mr_otlp_state_of(web->otlp, states);
    MR_JSON_ARRAY(json, "otlp")
        for (size_t i = 0; i < count; i++)
            MR_JSON_MAP(json, NULL) {
                mr_json_text(json, "signal", states[i].signal);
                mr_json_text(json, "endpoint", states[i].url);
                mr_json_bool(json, "up", states[i].up);
                mr_json_integer(json, "sent", (int64_t)states[i].sent);
                mr_json_integer(json, "rejected", (int64_t)states[i].rejected);
                mr_json_integer(json, "failures", (int64_t)states[i].failures);
                mr_json_text(json, "message", *states[i].message ? states[i].message : NULL);
            }
}

static void put_head(yajl_gen json, const mr_run_http *web) {
    const mr_observed_ledger sum = mr_observed_sum(&web->now);
    mr_json_text(json, "pipeline", web->plan->name);
    mr_json_text(json, "digest", web->plan->digest);
    put_date(json, "started", web->started_ns);
    put_date(json, "time", mr_clock_date_ns());
    put_health(json, web);
    mr_json_bool(json, "ending", web->now.ending);
    MR_JSON_MAP(json, "ledger")
        put_ledger(json, &sum);
    put_otlp(json, web);
}

mr_http_reply mr_run_http_answer_status(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->lock);
    MR_JSON_MAP(json, NULL) {
        put_head(json, web);
        MR_JSON_ARRAY(json, "processes")
            for (size_t i = 0; i < web->now.count; i++)
                MR_JSON_MAP(json, NULL) {
                    const mr_observed_process *process = &web->now.process[i];
                    put_process_head(json, process);
                    if (process->summary)
                        MR_JSON_MAP(json, "summary")
                            mr_summary_put_json(json, process->summary);
                    else
                        mr_json_text(json, "summary", NULL);
                }
    }
    pthread_mutex_unlock(&web->lock);
    return mr_http_send_json(request, json);
}

/* ---- parts of it ------------------------------------------------------------------------------------------------ */

/* A list of the summary, over all processes; each element has the process's name too. */
static void put_list(yajl_gen json, const mr_run_http *web, const char *name) {
    MR_JSON_ARRAY(json, NULL)
        for (size_t i = 0; i < web->now.count; i++)
            if (web->now.process[i].summary)
                mr_summary_put_list(json, web->now.process[i].summary, name, "process", web->now.process[i].name);
}

static void put_processes(yajl_gen json, const mr_run_http *web) {
    MR_JSON_ARRAY(json, NULL)
        for (size_t i = 0; i < web->now.count; i++)
            MR_JSON_MAP(json, NULL)
                put_process_head(json, &web->now.process[i]);
}

mr_http_reply mr_run_http_answer_part(mr_http_request *request, void *context) {
    static const char *const lists[] = {"sources", "stages", "cuts", "devices"};
    mr_run_http *web = context;
    const char *rest = mr_http_rest(request);
    size_t at = 0;
    while (at < sizeof lists / sizeof *lists && strcmp(lists[at], rest) != 0)
        at++;
    const bool listed = at < sizeof lists / sizeof *lists;
    if (!listed && strcmp(rest, "processes") != 0)
        return mr_http_say(request, 404, "not found: /api/v1/openapi.json describes the API\n");
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->lock);
    if (listed)
        put_list(json, web, lists[at]);
    else
        put_processes(json, web);
    pthread_mutex_unlock(&web->lock);
    return mr_http_send_json(request, json);
}

/* ---- events ----------------------------------------------------------------------------------------------------- */

static void put_stage(yajl_gen json, const mr_observed_process *process, const mr_stage_summary *stage) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "process", process->name);
        mr_json_text(json, "id", stage->id);
        mr_json_integer(json, "in", (int64_t)stage->in);
        mr_json_integer(json, "out", (int64_t)stage->out);
        mr_json_integer(json, "queued", (int64_t)stage->queued);
        mr_json_integer(json, "instances", stage->instances);
        mr_json_number(json, "busy_s", (double)stage->busy_ns * 1e-9);
    }
}

static void put_stages(yajl_gen json, const mr_observed *now) {
    MR_JSON_ARRAY(json, "stages")
        for (size_t i = 0; i < now->count; i++)
            for (size_t k = 0; now->process[i].summary && k < now->process[i].summary->stage_count; k++)
                if (!now->process[i].summary->stages[k].is_source)
                    put_stage(json, &now->process[i], &now->process[i].summary->stages[k]);
}

/* How many sources there are, are up, and have failed. */
static void put_source_counts(yajl_gen json, const mr_observed *now) {
    int64_t all = 0, up = 0, failed = 0;
    for (size_t i = 0; i < now->count; i++)
        for (size_t k = 0; now->process[i].summary && k < now->process[i].summary->source_count; k++) {
            const mr_source_summary *source = &now->process[i].summary->sources[k];
            all += mr_observed_counts(source);
            up += mr_observed_counts(source) && mr_observed_is_up(&now->process[i], source);
            failed += mr_observed_counts(source) && source->status;
        }
    MR_JSON_MAP(json, "sources") {
        mr_json_integer(json, "all", all);
        mr_json_integer(json, "up", up);
        mr_json_integer(json, "failed", failed);
    }
}

void mr_run_http_put_event(yajl_gen json, const mr_run_http *web) {
    put_head(json, web);
    put_source_counts(json, &web->now);
    put_stages(json, &web->now);
}

/* ---- history, log, graph ---------------------------------------------------------------------------------------- */

mr_http_reply mr_run_http_answer_history(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->lock);
    const uint64_t first = web->point_count > MR_RUN_HTTP_POINTS ? web->point_count - MR_RUN_HTTP_POINTS : 0;
    MR_JSON_ARRAY(json, NULL)
        for (uint64_t i = first; i < web->point_count; i++)
            MR_JSON_MAP(json, NULL) {
                const mr_run_http_point *point = &web->points[i % MR_RUN_HTTP_POINTS];
                put_date(json, "time", point->date_ns);
                put_ledger(json, &point->sum);
                mr_json_number(json, "cpu_s", point->cpu_s);
            }
    pthread_mutex_unlock(&web->lock);
    return mr_http_send_json(request, json);
}

void mr_run_http_put_line(yajl_gen json, const mr_run_http_line *line) {
    MR_JSON_MAP(json, NULL) {
        mr_json_integer(json, "number", (int64_t)line->number);
        put_date(json, "time", line->date_ns);
        mr_json_text(json, "line", line->text);
    }
}

mr_http_reply mr_run_http_answer_log(mr_http_request *request, void *context) {
    mr_run_http *web = context;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    pthread_mutex_lock(&web->log_lock);
    const uint64_t first = web->line_count > MR_RUN_HTTP_LINES ? web->line_count - MR_RUN_HTTP_LINES : 0;
    MR_JSON_ARRAY(json, NULL)
        for (uint64_t i = first; i < web->line_count; i++)
            mr_run_http_put_line(json, &web->lines[i % MR_RUN_HTTP_LINES]);
    pthread_mutex_unlock(&web->log_lock);
    return mr_http_send_json(request, json);
}

static void put_planned_stage(yajl_gen json, const mr_plan_view *plan, const mr_view_stage *stage) {
    static const char *const roles[] = {"stage", "source", "upload", "download", "peer", "cut out", "cut in"};
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", stage->id);
        mr_json_text(json, "type", stage->type->name);
        mr_json_text(json, "role", roles[stage->role]);
        mr_json_text(json, "node", plan->node_count ? plan->nodes[stage->node].id : NULL);
        mr_json_text(json, "device", stage->devices.names);
        mr_json_integer(json, "queue", stage->queue);
        mr_json_text(json, "when_full", stage->when_full);
    }
}

static void put_link(yajl_gen json, const mr_plan_view *plan, const mr_view_link *link) {
    char text[MR_FORMAT_SET_TEXT];
    const mr_view_stage *from = &plan->stages[link->from], *to = &plan->stages[link->to];
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "from", from->id);
        mr_json_text(json, "to", to->id);
        mr_json_text(json, "format", mr_format_set_print(&from->outputs[link->from_port].set, text, sizeof text));
    }
}

mr_http_reply mr_run_http_answer_graph(mr_http_request *request, void *context) {
    const mr_run_http *web = context;
    const mr_plan_view *plan = web->plan;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return MR_HTTP_END;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "pipeline", plan->name);
        MR_JSON_ARRAY(json, "stages")
            for (size_t i = 0; i < plan->stage_count; i++)
                put_planned_stage(json, plan, &plan->stages[i]);
        MR_JSON_ARRAY(json, "links")
            for (size_t i = 0; i < plan->link_count; i++)
                put_link(json, plan, &plan->links[i]);
    }
    return mr_http_send_json(request, json);
}

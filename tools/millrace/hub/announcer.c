#include "tools/millrace/hub/announcer.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "millrace/channel.h"
#include "millrace/log.h"
#include "millrace/version.h"
#include "tools/millrace/http/health.h"
#include "tools/millrace/hub/hub_report.h"

static const int64_t EVERY_NS = 2000000000;
/* How long the first connection may take before there is a warning. */
static const int64_t PATIENCE_NS = 5000000000;
enum { LINGER_MS = 500, TRY_US = 10000 };
/* A run that ends so soon after its start gets this time to connect, so that its end is known. */
static const int64_t WAIT_NS = 500000000;

/* The texts of a process or a device. */
typedef struct named {
    char name[MR_HUB_NAME], state[MR_HUB_WORD];
} named;

struct mr_announcer {
    mr_channel *channel;
    const mr_plan_view *plan;
    mr_movement movement;
    int64_t began_ns, sent_ns; /* sent_ns: the last report; 0: none yet */
    bool connected, warned;
    mr_hub_report report;      /* the last one; its texts and lists are the next fields */
    char host[MR_HUB_NAME], pipeline[MR_HUB_NAME], digest[MR_HUB_WORD], run[MR_HUB_WORD], node[MR_HUB_NAME];
    char page[MR_HUB_PAGE], why[MR_HUB_WHY];
    Millrace__Hub__Process processes[MR_HUB_LIST], *process_list[MR_HUB_LIST];
    Millrace__Hub__Device devices[MR_HUB_LIST], *device_list[MR_HUB_LIST];
    named process_texts[MR_HUB_LIST], device_texts[MR_HUB_LIST];
    mr_device_state worst[MR_HUB_LIST];
};

/* Copies a text, which may be NULL, as people see it: so it is printable. */
static void copy(char *to, size_t room, const char *from) {
    mr_print_into(to, room, "%s", from ? from : "");
}
#define COPY(to, from) copy(to, sizeof(to), from)

/* ---- the report -------------------------------------------------------------------------------------------------- */

static void add_process(mr_announcer *a, const mr_observed_process *process) {
    if (a->report.n_processes == MR_HUB_LIST) {
        a->report.processes_left_out++;
        return;
    }
    const size_t at = a->report.n_processes++;
    named *texts = &a->process_texts[at];
    COPY(texts->name, process->name);
    COPY(texts->state, process->state);
    a->processes[at] = (Millrace__Hub__Process)MILLRACE__HUB__PROCESS__INIT;
    a->processes[at].name = texts->name;
    a->processes[at].state = texts->state;
    a->processes[at].pid = process->pid;
    a->processes[at].restarts = (uint32_t)process->restarts;
}

/* The entry of a device; NULL: the list is full. */
static Millrace__Hub__Device *find_device(mr_announcer *a, const char *name) {
    named wanted;
    size_t at = 0;
    COPY(wanted.name, name);
    while (at < a->report.n_devices && strcmp(a->device_texts[at].name, wanted.name) != 0)
        at++;
    if (at < a->report.n_devices)
        return &a->devices[at];
    if (at == MR_HUB_LIST)
        return NULL;
    a->report.n_devices++;
    memcpy(a->device_texts[at].name, wanted.name, sizeof wanted.name);
    a->devices[at] = (Millrace__Hub__Device)MILLRACE__HUB__DEVICE__INIT;
    a->devices[at].name = a->device_texts[at].name;
    a->worst[at] = MR_DEVICE_WORKS;
    return &a->devices[at];
}

static void add_share(mr_announcer *a, const mr_share_summary *share) {
    Millrace__Hub__Device *device = find_device(a, share->device);
    if (!device)
        return;
    mr_device_state *worst = &a->worst[device - a->devices];
    *worst = share->state > *worst ? share->state : *worst;
    device->busy_ns += (uint64_t)share->busy_ns;
    device->frames += share->frames;
}

static void add_devices(mr_announcer *a, const mr_summary *summary) {
    for (size_t i = 0; i < summary->stage_count; i++)
        for (size_t k = 0; k < summary->stages[i].share_count; k++)
            add_share(a, &summary->stages[i].shares[k]);
    for (size_t i = 0; i < summary->device_count; i++) {
        Millrace__Hub__Device *device = find_device(a, summary->devices[i].name);
        if (device)
            device->bytes += summary->devices[i].held_bytes;
    }
}

static void add_sources(mr_hub_report *report, const mr_observed_process *process) {
    for (size_t i = 0; i < process->summary->source_count; i++) {
        const mr_source_summary *source = &process->summary->sources[i];
        if (!mr_observed_counts(source))
            continue;
        report->sources++;
        report->sources_up += mr_observed_is_up(process, source);
        report->sources_failed += source->status != MR_OK;
    }
}

static void look_at_processes(mr_announcer *a, const mr_observed *now) {
    mr_hub_report *report = &a->report;
    double cpu_s = 0;
    report->n_processes = report->n_devices = 0;
    report->processes_left_out = 0;
    report->sources = report->sources_up = report->sources_failed = 0;
    for (size_t i = 0; i < now->count; i++) {
        add_process(a, &now->process[i]);
        if (!now->process[i].summary)
            continue;
        add_sources(report, &now->process[i]);
        add_devices(a, now->process[i].summary);
        cpu_s += now->process[i].summary->cpu_s;
    }
    for (size_t i = 0; i < report->n_devices; i++) {
        COPY(a->device_texts[i].state, mr_device_state_name(a->worst[i]));
        a->devices[i].state = a->device_texts[i].state;
    }
    report->cpu_ns = (uint64_t)(cpu_s * 1e9);
}

static void look(mr_announcer *a, const mr_observed *now, int64_t now_ns) {
    mr_hub_report *report = &a->report;
    const mr_observed_ledger sum = mr_observed_sum(now);
    mr_observed as_if_running = *now; /* a run that ends is not ready, but may be well */
    as_if_running.ending = false;
    const mr_health health = {.now = &as_if_running, .movement = &a->movement, .opened_ns = a->began_ns,
                              .shown_ns = now_ns, .stall_ns = mr_plan_view_http(a->plan)->stall_ns};
    char why[MR_HEALTH_WHY];
    mr_movement_look(&a->movement, &sum, mr_observed_any_is_held_up(now), now_ns);
    report->well = mr_health_is(&health, MR_HEALTH_WELL, now_ns, why);
    COPY(a->why, why);
    report->state = now->ending ? MILLRACE__HUB__STATE__DRAINS : MILLRACE__HUB__STATE__RUNS;
    report->elapsed_ns = (uint64_t)(now_ns - a->began_ns);
    report->in = sum.in;
    report->delivered = sum.delivered;
    report->dropped = sum.dropped;
    report->absorbed = sum.absorbed;
    report->in_flight = sum.in_flight;
    look_at_processes(a, now);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Logs that the hub is there, or is not. */
static void note(mr_announcer *a, bool connected, int64_t now_ns) {
    const char *endpoint = mr_plan_view_hub(a->plan)->endpoint;
    if (connected && !a->connected)
        mr_log(MR_LOG_INFO, "the hub at %s is connected", endpoint);
    else if (!connected && !a->warned && (a->connected || now_ns - a->began_ns > PATIENCE_NS))
        mr_log(MR_LOG_WARNING, "the hub at %s is not connected%s, so it does not show this run; the run continues and "
                               "tries to connect", endpoint,
               mr_plan_view_hub(a->plan)->key ? ", or does not allow the run's key" : "");
    a->warned = !connected && (a->warned || a->connected || now_ns - a->began_ns > PATIENCE_NS);
    a->connected = connected;
}

/* A report that was not sent is made anew at the next look. */
static void send_report(mr_announcer *a, int64_t now_ns) {
    unsigned char data[MR_HUB_MESSAGE];
    const size_t bytes = mr_hub_report_write(&a->report, data);
    const bool sent = bytes && mr_channel_send(a->channel, data, bytes) == MR_OK;
    a->sent_ns = sent ? now_ns : 0;
    note(a, sent, now_ns);
}

void mr_announcer_show(mr_announcer *a, const mr_observed *now) {
    const int64_t now_ns = mr_now_ns();
    if (!a || (a->sent_ns && now_ns - a->sent_ns < EVERY_NS && !now->final &&
               now->ending == (a->report.state != MILLRACE__HUB__STATE__RUNS)))
        return;
    look(a, now, now_ns);
    send_report(a, now_ns);
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int fill_head(mr_announcer *a, const char *page) {
    const mr_plan_view *plan = a->plan;
    mr_hub_report *report = &a->report;
    const char *given = mr_plan_view_hub(plan)->page;
    static char program[] = MILLRACE_VERSION;
    char name[MR_HUB_NAME] = "";
    uint64_t id = 0;
    while (!id)
        if (getrandom(&id, sizeof id, 0) != (ssize_t)sizeof id)
            return mr_fail(MR_ERROR_INTERNAL, "there are no random numbers");
    *report = (mr_hub_report)MILLRACE__HUB__REPORT__INIT;
    gethostname(name, sizeof name - 1);
    COPY(a->host, name);
    COPY(a->pipeline, plan->name);
    COPY(a->digest, plan->digest);
    COPY(a->run, getenv("MILLRACE_RUN"));
    COPY(a->node, plan->node_count && plan->node >= 0 ? plan->nodes[plan->node].id : NULL);
    COPY(a->page, given ? given : page);
    for (int i = 0; i < MR_HUB_LIST; i++) {
        a->process_list[i] = &a->processes[i];
        a->device_list[i] = &a->devices[i];
    }
    report->version = 1;
    report->id = id;
    report->host = a->host;
    report->pipeline = a->pipeline;
    report->digest = a->digest;
    report->run = a->run;
    report->node = a->node;
    report->page = a->page;
    report->why = a->why;
    report->program = program;
    report->pid = getpid();
    report->processes = a->process_list;
    report->devices = a->device_list;
    return MR_OK;
}

int mr_announcer_open(mr_announcer **result, const mr_plan_view *plan, const char *page) {
    const mr_view_hub *hub = mr_plan_view_hub(plan);
    *result = NULL;
    if (!hub->endpoint)
        return MR_OK;
    mr_announcer *made = calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for reports to the hub");
    *made = (mr_announcer){.plan = plan, .began_ns = mr_now_ns()};
    int status = fill_head(made, page);
    if (!status)
        status = mr_channel_connect(&made->channel, hub->endpoint, hub->key, hub->server);
    if (status)
        free(made);
    else
        *result = made;
    return status;
}

void mr_announcer_close(mr_announcer **announcer, int exit_code) {
    mr_announcer *gone = *announcer;
    if (!gone)
        return;
    gone->report.state = MILLRACE__HUB__STATE__ENDED;
    gone->report.exit_code = exit_code;
    gone->report.elapsed_ns = (uint64_t)(mr_now_ns() - gone->began_ns);
    const int64_t until_ns = gone->began_ns + WAIT_NS;
    for (send_report(gone, mr_now_ns()); !gone->sent_ns && mr_now_ns() < until_ns; send_report(gone, mr_now_ns()))
        usleep(TRY_US);
    mr_channel_close(&gone->channel, gone->sent_ns ? LINGER_MS : 0);
    free(gone);
    *announcer = NULL;
}

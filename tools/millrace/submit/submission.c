#include "tools/millrace/submit/submission.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/clock.h"

const char *mr_job_word(int state) {
    static const char *const words[] = {"queued", "running", "ended", "failed", "cancelled", "unknown"};
    return state >= 0 && state < (int)(sizeof words / sizeof *words) ? words[state] : NULL;
}

static int count_processes(const mr_deployment *of) {
    size_t nodes;
    int count = 0;
    const mr_view_node *node = mr_deploy_nodes(of->plan, &nodes);
    for (size_t n = 0; n < nodes; n++)
        count += node[n].replicas;
    return count;
}

int mr_submission_init(mr_submission *one, const mr_deployment *of) {
    size_t nodes;
    const mr_view_node *node = mr_deploy_nodes(of->plan, &nodes);
    *one = (mr_submission){.target = of->target, .name = of->name, .pipeline = of->path, .run = of->run,
                           .submitted_ns = mr_clock_date_ns(), .job.code = -1};
    one->job.process = calloc((size_t)count_processes(of), sizeof *one->job.process);
    if (!one->job.process)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a submission");
    for (size_t n = 0; n < nodes; n++)
        for (int r = 0; r < node[n].replicas; r++)
            one->job.process[one->job.count++] = (mr_job_process){.node = node[n].id, .replica = r, .code = -1};
    return MR_OK;
}

void mr_submission_fini(mr_submission *one) {
    mr_words_fini(&one->files);
    mr_words_fini(&one->options);
    free(one->job.process);
    yajl_tree_free(one->tree);
    *one = (mr_submission){0};
}

int mr_job_blank(const mr_job *like, mr_job *job) {
    *job = (mr_job){.code = -1, .count = like->count, .process = calloc(like->count + 1, sizeof *job->process)};
    if (!job->process)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a submission");
    for (size_t i = 0; i < like->count; i++)
        job->process[i] = (mr_job_process){.node = like->process[i].node, .replica = like->process[i].replica,
                                           .code = -1};
    return MR_OK;
}

/* A failure that the program has reported tells more than the signal that then ended the others. */
static bool tells_more(int code, int than) {
    return than < 0 || (than > 128 && code <= 128);
}

void mr_job_judge(mr_job *job) {
    size_t in[MR_JOB_UNKNOWN + 1] = {0};
    for (size_t i = 0; i < job->count; i++) {
        const mr_job_process *one = &job->process[i];
        in[one->state]++;
        if (one->state == MR_JOB_FAILED && tells_more(one->code, job->code)) {
            job->code = one->code;
            snprintf(job->why, sizeof job->why, "%s", one->why);
        }
    }
    job->state = in[MR_JOB_RUNNING]                ? MR_JOB_RUNNING
                 : in[MR_JOB_FAILED]               ? MR_JOB_FAILED
                 : in[MR_JOB_UNKNOWN]              ? MR_JOB_UNKNOWN
                 : in[MR_JOB_QUEUED]               ? MR_JOB_QUEUED
                                                   : MR_JOB_ENDED;
    if (job->state == MR_JOB_ENDED)
        job->code = 0;
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static void put_text(yajl_gen json, const char *key, const char *text) {
    mr_json_text(json, key, *text ? text : NULL);
}

static void put_code(yajl_gen json, int code) {
    if (code < 0)
        mr_json_text(json, "exit_code", NULL);
    else
        mr_json_integer(json, "exit_code", code);
}

static void put_process(yajl_gen json, const mr_job_process *one) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "node", one->node);
        mr_json_integer(json, "replica", one->replica);
        mr_json_text(json, "state", mr_job_word((int)one->state));
        put_text(json, "host", one->host);
        mr_json_integer(json, "restarts", one->restarts);
        put_code(json, one->code);
        put_text(json, "reason", one->why);
    }
}

static void put_words(yajl_gen json, const char *key, const mr_words *words) {
    MR_JSON_ARRAY(json, key)
        for (size_t i = 0; i < words->count; i++)
            mr_json_text(json, NULL, words->item[i]);
}

void mr_submission_put(yajl_gen json, const mr_submission *one) {
    static const char *const targets[] = {"slurm", "kubernetes", "systemd"};
    char date[MR_DATE_TEXT];
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "id", one->id);
        mr_json_text(json, "target", targets[one->target]);
        put_text(json, "site_id", one->site_id);
        mr_json_text(json, "name", one->name);
        mr_json_text(json, "pipeline", one->pipeline);
        mr_json_text(json, "run", one->run);
        mr_json_text(json, "submitted_at", mr_date_text(date, one->submitted_ns));
        mr_json_text(json, "submitted_on", one->host);
        mr_json_bool(json, "cancelled", one->cancelled);
        mr_json_text(json, "state", mr_job_word((int)one->job.state));
        put_text(json, "reason", one->job.why);
        put_text(json, "hosts", one->job.hosts);
        put_code(json, one->job.code);
        MR_JSON_ARRAY(json, "processes")
            for (size_t i = 0; i < one->job.count; i++)
                put_process(json, &one->job.process[i]);
        mr_json_text(json, "folder", one->folder);
        put_words(json, "files", &one->files);
        put_words(json, "options", &one->options);
        mr_json_integer(json, "submitted_ns", one->submitted_ns);
    }
}

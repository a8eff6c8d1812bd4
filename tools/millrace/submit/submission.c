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
    for (size_t i = 0; i < job->count && job->state == MR_JOB_UNKNOWN && !*job->why; i++)
        if (job->process[i].state == MR_JOB_UNKNOWN)
            snprintf(job->why, sizeof job->why, "%s", job->process[i].why);
}

static const char *const targets[] = {"slurm", "kubernetes", "systemd", NULL};

/* ---- writing --------------------------------------------------------------------------------------------------- */

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
        mr_json_integer(json, "ended_ns", one->ended_ns);
    }
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

static const char *text_of(yajl_val of, const char *key) {
    const char *text = YAJL_GET_STRING(mr_json_member(of, key, yajl_t_string));
    return text ? text : "";
}

static int64_t integer_of(yajl_val of, const char *key, int64_t otherwise) {
    yajl_val value = mr_json_member(of, key, yajl_t_number);
    return YAJL_IS_INTEGER(value) ? YAJL_GET_INTEGER(value) : otherwise;
}

static int word_of(yajl_val of, const char *key, const char *const *words, int otherwise) {
    const char *text = text_of(of, key);
    for (int i = 0; words[i]; i++)
        if (strcmp(words[i], text) == 0)
            return i;
    return otherwise;
}

static mr_job_state state_of(yajl_val of) {
    const char *words[MR_JOB_UNKNOWN + 2];
    for (int i = 0; i <= MR_JOB_UNKNOWN + 1; i++)
        words[i] = mr_job_word(i);
    return (mr_job_state)word_of(of, "state", words, MR_JOB_UNKNOWN);
}

static int read_words(yajl_val of, const char *key, mr_words *words) {
    yajl_val list = mr_json_member(of, key, yajl_t_array);
    int status = MR_OK;
    for (size_t i = 0; list && i < list->u.array.len && !status; i++)
        if (YAJL_IS_STRING(list->u.array.values[i]))
            status = mr_words_add(words, YAJL_GET_STRING(list->u.array.values[i]));
    return status;
}

static int read_processes(yajl_val of, mr_job *job) {
    yajl_val list = mr_json_member(of, "processes", yajl_t_array);
    job->process = calloc((list ? list->u.array.len : 0) + 1, sizeof *job->process);
    if (!job->process)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a record");
    for (size_t i = 0; list && i < list->u.array.len; i++) {
        yajl_val from = list->u.array.values[i];
        mr_job_process *to = &job->process[job->count++];
        *to = (mr_job_process){.node = text_of(from, "node"), .replica = (int)integer_of(from, "replica", 0),
                               .state = state_of(from), .code = mr_job_code(integer_of(from, "exit_code", -1)),
                               .restarts = (int)integer_of(from, "restarts", 0)};
        snprintf(to->host, sizeof to->host, "%s", text_of(from, "host"));
        snprintf(to->why, sizeof to->why, "%s", text_of(from, "reason"));
    }
    return MR_OK;
}

static int refuse(const mr_submission *one) {
    return mr_fail(MR_ERROR_DATA, "%s/record.json is not a record of a submission", one->folder);
}

/* Each submission has files and processes: the calls of sites name them. */
static bool is_whole(const mr_submission *one) {
    for (size_t i = 0; i < one->files.count; i++)
        if (*one->files.item[i] != '/')
            return false;
    return one->files.count && one->job.count;
}

static int read_fields(mr_submission *one) {
    yajl_val tree = one->tree;
    one->target = (mr_deploy_target)word_of(tree, "target", targets, MR_DEPLOY_TARGETS);
    one->name = text_of(tree, "name");
    one->pipeline = text_of(tree, "pipeline");
    one->run = text_of(tree, "run");
    one->host = text_of(tree, "submitted_on");
    one->submitted_ns = integer_of(tree, "submitted_ns", 0);
    one->ended_ns = integer_of(tree, "ended_ns", 0);
    one->cancelled = YAJL_IS_TRUE(mr_json_member(tree, "cancelled", yajl_t_any));
    one->job.state = state_of(tree);
    one->job.code = mr_job_code(integer_of(tree, "exit_code", -1));
    snprintf(one->site_id, sizeof one->site_id, "%s", text_of(tree, "site_id"));
    snprintf(one->job.hosts, sizeof one->job.hosts, "%s", text_of(tree, "hosts"));
    snprintf(one->job.why, sizeof one->job.why, "%s", text_of(tree, "reason"));
    if (one->target == MR_DEPLOY_TARGETS || !*one->name || !*one->run)
        return refuse(one);
    int status = read_words(tree, "files", &one->files);
    if (!status)
        status = read_words(tree, "options", &one->options);
    if (!status)
        status = read_processes(tree, &one->job);
    return status || is_whole(one) ? status : refuse(one);
}

int mr_submission_parse(mr_submission *one, const char *text) {
    char wrong[128];
    one->job = (mr_job){.code = -1};
    one->tree = mr_json_parse(text, wrong, sizeof wrong);
    int status = one->tree ? read_fields(one)
                           : mr_fail(MR_ERROR_DATA, "%s/record.json: %s", one->folder, wrong);
    if (status)
        mr_submission_fini(one);
    return status;
}

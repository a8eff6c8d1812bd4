/* Kubernetes, through kubectl: a Job for each node, and its pods. */
#include <stdlib.h>
#include <string.h>

#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "tools/millrace/submit/sites.h"

static const char *const kept[] = {"namespace", "context", "kubeconfig", "cluster", "user", "server", "as", "as-group",
                                   "as-uid", "certificate-authority", "client-certificate", "client-key",
                                   "insecure-skip-tls-verify", "tls-server-name", NULL};
/* Other objects or another output, and secrets, which every user of the machine could read in the list of processes. */
static const char *const refused[] = {"filename", "kustomize", "recursive", "output", "dry-run", "prune", "selector",
                                      "all", "wait", "template", "token", "username", "password", "help", NULL};

static mr_site_words begin(const mr_submission *one, const char *verb) {
    mr_site_words words = {0};
    mr_site_add(&words, "kubectl");
    mr_site_add(&words, "%s", verb);
    mr_site_add_all(&words, &one->options);
    return words;
}

static int hand_over(mr_submission *one, const mr_words *options) {
    mr_site_words words = {0};
    char *out;
    snprintf(one->site_id, sizeof one->site_id, "%s", one->name);
    mr_site_add(&words, "kubectl");
    mr_site_add(&words, "apply");
    mr_site_add_all(&words, options);
    mr_site_add(&words, "--filename=%s", one->files.item[0]);
    int status = mr_site_call(one, &words, &out);
    mr_free(out);
    one->left = words.doubtful;
    return status ? mr_site_withdraw(one, status) : MR_OK; /* kubectl may have applied some of the objects */
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

static yajl_val at(yajl_val of, const char *key) {
    return mr_json_member(of, key, yajl_t_any);
}

static const char *text_at(yajl_val of, const char *key) {
    const char *text = YAJL_GET_STRING(at(of, key));
    return text ? text : "";
}

static int integer_at(yajl_val of, const char *key) {
    yajl_val value = at(of, key);
    return YAJL_IS_INTEGER(value) ? (int)YAJL_GET_INTEGER(value) : 0;
}

/* The condition of that type that is so; NULL: none. */
static yajl_val condition(yajl_val object, const char *type, const char *so) {
    yajl_val list = at(at(object, "status"), "conditions");
    for (size_t i = 0; YAJL_IS_ARRAY(list) && i < list->u.array.len; i++)
        if (strcmp(text_at(list->u.array.values[i], "type"), type) == 0 &&
            strcmp(text_at(list->u.array.values[i], "status"), so) == 0)
            return list->u.array.values[i];
    return NULL;
}

static void say(mr_job_process *one, yajl_val of) {
    const char *reason = text_at(of, "reason"), *message = text_at(of, "message");
    mr_print_into(one->why, sizeof one->why, "%s%s%s", reason, *reason && *message ? ": " : "", message);
}

/* The pod's only container. A container that waits to be started again still tells how it ended. */
static void read_container(yajl_val pod, mr_job_process *one) {
    yajl_val list = at(at(pod, "status"), "containerStatuses");
    if (!YAJL_IS_ARRAY(list) || !list->u.array.len)
        return;
    yajl_val container = list->u.array.values[0], state = at(container, "state"), waiting = at(state, "waiting"),
             ended = at(state, "terminated"), last = at(at(container, "lastState"), "terminated");
    one->restarts = integer_at(container, "restartCount");
    if (waiting)
        say(one, waiting);
    if (ended) {
        one->code = mr_job_code(integer_at(ended, "exitCode"));
        if (one->code)
            say(one, ended);
    } else if (waiting && last)
        mr_print_into(one->why, sizeof one->why, "%s; last exit code %d", text_at(waiting, "reason"),
                      integer_at(last, "exitCode"));
}

static void read_pod(yajl_val pod, mr_job_process *one) {
    const char *phase = text_at(at(pod, "status"), "phase");
    const mr_job_process before = *one;
    *one = (mr_job_process){.node = before.node, .replica = before.replica, .code = -1};
    mr_print_into(one->host, sizeof one->host, "%s", text_at(at(pod, "spec"), "nodeName"));
    yajl_val unscheduled = condition(pod, "PodScheduled", "False");
    if (unscheduled)
        say(one, unscheduled);
    read_container(pod, one);
    one->state = strcmp(phase, "Running") == 0     ? MR_JOB_RUNNING
                 : strcmp(phase, "Succeeded") == 0 ? MR_JOB_ENDED
                 : strcmp(phase, "Failed") == 0    ? MR_JOB_FAILED
                 : strcmp(phase, "Pending") == 0   ? MR_JOB_QUEUED
                                                   : MR_JOB_UNKNOWN;
    if ((one->state == MR_JOB_FAILED || one->state == MR_JOB_UNKNOWN) && !*one->why)
        say(one, at(pod, "status"));
}

/* After the pods. Pods of a Job that has ended may have been removed. A Job replaces a pod that was evicted or whose
 * machine is lost: only the Job's condition is an end. */
static void read_job(yajl_val object, mr_job_process *one) {
    yajl_val failed = condition(object, "Failed", "True");
    const bool complete = condition(object, "Complete", "True");
    if (one->state == MR_JOB_RUNNING || one->state == MR_JOB_ENDED)
        return;
    one->state = failed ? MR_JOB_FAILED : complete ? MR_JOB_ENDED : MR_JOB_QUEUED;
    if (failed && !*one->why)
        say(one, failed);
    if (!failed)
        one->code = complete ? 0 : -1;
    if (complete)
        *one->why = 0;
}

/* The pod's number in its Job. */
static int replica_of(yajl_val pod) {
    long long replica;
    const char *text = text_at(at(at(pod, "metadata"), "annotations"), "batch.kubernetes.io/job-completion-index");
    return mr_parse_integer(text, 0, INT_MAX, &replica) ? (int)replica : 0;
}

/* Applies one object: pods, the oldest first, then Jobs (`pods` false). */
static void read_object(const mr_submission *one, yajl_val object, bool pods, mr_job *job) {
    if (strcmp(text_at(object, "kind"), pods ? "Pod" : "Job") != 0)
        return;
    yajl_val metadata = at(object, "metadata");
    const char *node = pods ? text_at(at(metadata, "labels"), "millrace/node") : text_at(metadata, "name");
    for (size_t i = 0; i < job->count; i++) {
        char *name = mr_deploy_object_name(one->name, job->process[i].node);
        const bool is = name && strcmp(name, node) == 0;
        free(name);
        if (is && !pods)
            read_job(object, &job->process[i]);
        else if (is && replica_of(object) == job->process[i].replica)
            read_pod(object, &job->process[i]);
    }
}

static int by_age(const void *a, const void *b) {
    yajl_val const *left = a, *right = b;
    return strcmp(text_at(at(*left, "metadata"), "creationTimestamp"),
                  text_at(at(*right, "metadata"), "creationTimestamp"));
}

static void list_hosts(mr_job *job) {
    size_t bytes = 0;
    for (size_t i = 0; i < job->count; i++) {
        bool again = !*job->process[i].host;
        for (size_t before = 0; before < i; before++)
            again |= strcmp(job->process[before].host, job->process[i].host) == 0;
        if (!again && bytes < sizeof job->hosts)
            bytes += (size_t)snprintf(job->hosts + bytes, sizeof job->hosts - bytes, "%s%s", bytes ? "," : "",
                                      job->process[i].host);
    }
}

static int read_list(const mr_submission *one, yajl_val tree, mr_job *job) {
    yajl_val list = mr_json_member(tree, "items", yajl_t_array);
    if (!list)
        return mr_fail(MR_ERROR_PROTOCOL, "kubectl prints no list of objects");
    if (list->u.array.len)
        qsort(list->u.array.values, list->u.array.len, sizeof *list->u.array.values, by_age);
    for (size_t i = 0; i < job->count; i++)
        job->process[i].state = MR_JOB_UNKNOWN;
    for (int pods = 1; pods >= 0; pods--)
        for (size_t i = 0; i < list->u.array.len; i++)
            read_object(one, list->u.array.values[i], pods, job);
    for (size_t i = 0; i < job->count; i++)
        if (job->process[i].state == MR_JOB_UNKNOWN && !*job->process[i].why)
            snprintf(job->process[i].why, sizeof job->process[i].why, "the Job is gone");
    mr_job_judge(job);
    list_hosts(job);
    return MR_OK;
}

static int read_answer(const mr_submission *one, char *answer, mr_job *job) {
    char wrong[128];
    yajl_val tree = mr_json_parse(answer, wrong, sizeof wrong);
    int status = tree ? read_list(one, tree, job) : mr_fail(MR_ERROR_PROTOCOL, "kubectl prints no JSON: %s", wrong);
    yajl_tree_free(tree);
    return status;
}

static int ask(const mr_submission *one, mr_job *job) {
    char *out;
    mr_site_words words = begin(one, "get");
    mr_site_add(&words, "jobs,pods");
    mr_site_add(&words, "--selector=millrace/run=%s", one->run);
    mr_site_add(&words, "--output=json");
    int status = mr_site_call(one, &words, &out);
    if (status)
        return status;
    status = read_answer(one, out, job);
    mr_free(out);
    return status;
}

/* Objects that another run has replaced stay. */
static int cancel(const mr_submission *one) {
    char *out;
    mr_site_words words = begin(one, "delete");
    mr_site_add(&words, "jobs,services,configmaps");
    mr_site_add(&words, "--selector=millrace/run=%s", one->run);
    mr_site_add(&words, "--ignore-not-found");
    mr_site_add(&words, "--timeout=50s");
    int status = mr_site_call(one, &words, &out);
    mr_free(out);
    return status;
}

static void print_log(const mr_submission *one, FILE *to) {
    mr_print(to, "kubectl logs --selector millrace/run=%s --prefix", one->run);
    for (size_t i = 0; i < one->options.count; i++)
        mr_print(to, " %s", one->options.item[i]);
}

const mr_site mr_site_kubernetes = {"kubectl (kubernetes.io/docs/tasks/tools)", kept, refused, hand_over, ask,
                                    read_answer, cancel, print_log};

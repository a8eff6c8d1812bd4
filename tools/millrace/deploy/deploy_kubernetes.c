/* Writes manifests: a ConfigMap with the pipeline, and for each node an indexed Job, with a headless Service that
 * resolves the process names. A Secret provides the keys, another the variables that the pipeline names. */
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "engine/base/url.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/deploy/deploy_targets.h"

#define HOME "/etc/millrace"
#define STATE "/var/lib/millrace"

/* How many times a node may be restarted, all processes together, before Kubernetes gives up. */
/* The group of the image's user (tools/image), which may read keys and write to volumes. */
enum { RESTARTS = 1000, GRACE_S = 30, GROUP = 65532 };

/* The deployment, and the names in the manifests: jobs and services, all processes, and the secret. */
typedef struct manifests {
    const mr_deployment *of;
    const mr_view_node *nodes;
    size_t count;
    char **name;
    char *hosts, *secret, *environment;
    FILE *to;
    bool argued; /* the node's command has an argument */
} manifests;

/* ---- names ----------------------------------------------------------------------------------------------------- */

/* Makes a DNS label (RFC 1035), as service and host names must be. */
enum { MOST_LABEL = 63 };

static bool is_label(const char *name, size_t room) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz", all[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t length = strlen(name);
    return length <= room && strspn(name, letters) > 0 && strspn(name, all) == length && name[length - 1] != '-';
}

static int check_pipeline(const mr_deployment *of) {
    if (is_label(of->name, MOST_LABEL))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG,
                   "pipeline: objects of \"%s\" would be called \"%s\" in Kubernetes, where a name has at "
                   "most %d small letters, digits and -, begins with a letter and does not end in -: give it another",
                   of->plan->name, of->name, MOST_LABEL);
}

/* A job's pods are hosts; a dash and the process number end each name. */
static int check_node(const manifests *m, int n) {
    const mr_view_node *node = &m->nodes[n];
    char *const *name = m->name;
    int number = snprintf(NULL, 0, "-%d", node->replicas - 1);
    if (!is_label(name[n], MOST_LABEL - (size_t)number))
        return mr_fail(MR_ERROR_CONFIG,
                       "nodes.%s: it would be called \"%s\" in Kubernetes, where a name has at most %d "
                       "small letters, digits and -, with the number of the process after it, and does not end in -: "
                       "give it, or the pipeline, another", node->id, name[n], MOST_LABEL);
    for (int other = 0; other < n; other++)
        if (strcmp(name[other], name[n]) == 0)
            return mr_fail(MR_ERROR_CONFIG,
                           "nodes.%s and nodes.%s would both be called \"%s\" in Kubernetes, which knows "
                           "small letters, digits and - only: give one of them another name",
                           m->nodes[other].id, node->id, name[n]);
    return MR_OK;
}

static int name_nodes(manifests *m) {
    const mr_deployment *of = m->of;
    int status = check_pipeline(of);
    m->name = calloc(m->count, sizeof *m->name);
    if (!m->name)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    for (int n = 0; n < (int)m->count && !status; n++) {
        m->name[n] = mr_deploy_object_name(of->name, m->nodes[n].id);
        status = m->name[n] ? check_node(m, n) : mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    }
    return status;
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

static void put_quoted(FILE *to, const char *text) {
    fputc('"', to);
    for (; *text; text++)
        if ((unsigned char)*text < 0x20)
            fprintf(to, "\\u%04x", (unsigned)*text);
        else
            fprintf(to, strchr("\"\\", *text) ? "\\%c" : "%c", *text);
    fputc('"', to);
}

/* Prints JSON, with ' for " in the format: %q is a quoted text, %d a number. */
static void put(FILE *to, const char *format, ...) {
    va_list list;
    va_start(list, format);
    for (; *format; format++)
        if (strncmp(format, "%q", 2) == 0)
            put_quoted(to, va_arg(list, const char *)), format++;
        else if (strncmp(format, "%d", 2) == 0)
            fprintf(to, "%d", va_arg(list, int)), format++;
        else
            fputc(*format == '\'' ? '"' : *format, to);
    va_end(list);
}

static void put_head(const manifests *m, const char *version, const char *kind, const char *name) {
    put(m->to, "  {'apiVersion': %q, 'kind': %q,\n"
               "   'metadata': {'name': %q, 'labels': {'app.kubernetes.io/name': 'millrace',\n"
               "                                      'app.kubernetes.io/instance': %q, 'millrace/run': %q}},\n",
        version, kind, name, m->of->name, m->of->run);
}

static void put_argument(manifests *m, const char *text) {
    put(m->to, m->argued ? ", %q" : "%q", text);
    m->argued = true;
}

/* Writes an argument. $(NAME) would be a variable, and $$ is a dollar sign. */
static int put_word(void *context, const char *word) {
    manifests *m = context;
    char *text = calloc(2, strlen(word) + 1), *to = text;
    for (; text && *word; *to++ = *word++)
        if (*word == '$')
            *to++ = '$';
    if (text)
        put_argument(m, text);
    free(text);
    return text ? 0 : MR_ERROR_MEMORY;
}

/* All process names, in order. NULL with a message. */
static char *list_hosts(const manifests *m) {
    char *text = NULL;
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t n = 0; n < m->count && stream; n++)
        for (int r = 0; r < m->nodes[n].replicas; r++)
            fprintf(stream, "%s%s-%d.%s", n || r ? "," : "", m->name[n], r, m->name[n]);
    if (!stream || fclose(stream))
        mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    return text;
}

/* ---- a node ---------------------------------------------------------------------------------------------------- */

/* Needs no address: it resolves to the node's processes. */
static void put_service(const manifests *m, int n) {
    put(m->to, ",\n");
    put_head(m, "v1", "Service", m->name[n]);
    put(m->to, "   'spec': {'clusterIP': 'None', 'publishNotReadyAddresses': true,\n"
               "            'selector': {'millrace/node': %q}}}", m->name[n]);
}

/* The last arguments continue an interrupted run or fit. Without --image, the images are those of tools/image. */
static int put_command(manifests *m, int n) {
    char image[64];
    snprintf(image, sizeof image, "millrace:%s%s", mr_version(), mr_deploy_gpus(m->of->plan, n) ? "-cuda" : "");
    put(m->to, "      'containers': [{'name': 'millrace', 'image': %q,\n"
               "       'command': ['millrace'],\n"
               "       'args': [", m->of->image ? m->of->image : image);
    m->argued = false;
    int status = mr_deploy_words(m->of, HOME "/pipeline.yaml", put_word, m);
    const bool resumes = mr_plan_resumes(m->of->plan, n);
    if (resumes && m->of->trains)
        put_argument(m, "--resume=" STATE "/checkpoint");
    else if (resumes || m->of->trains)
        put_argument(m, "--resume");
    if (resumes && !m->of->trains)
        put_argument(m, STATE "/checkpoint");
    put(m->to, "],\n");
    return status;
}

/* The port of `http`, if pods can be asked there; else 0. */
static int http_port(const mr_deployment *of) {
    const char *listen = mr_plan_view_http(of->plan)->listen;
    const char *digits = listen && mr_plan_view_http(of->plan)->certificate ? strrchr(listen, ':') : NULL;
    return digits ? (int)strtol(digits + 1, NULL, 10) : 0;
}

/* A run that plans, or waits for other nodes, is not ended; one that stands still is. */
static void put_probes(const manifests *m) {
    static const struct {
        const char *name, *path;
        int period_s, failures;
    } probes[] = {{"startupProbe", "/livez", 10, 60}, {"livenessProbe", "/livez", 30, 3},
                  {"readinessProbe", "/readyz", 10, 1}};
    const int port = http_port(m->of);
    if (!port)
        return;
    put(m->to, "       'ports': [{'name': 'http', 'containerPort': %d}],\n", port);
    for (size_t i = 0; i < sizeof probes / sizeof *probes; i++)
        put(m->to, "       %q: {'httpGet': {'path': %q, 'port': 'http', 'scheme': 'HTTPS'}, 'periodSeconds': %d,\n"
                   "        'failureThreshold': %d},\n",
            probes[i].name, probes[i].path, probes[i].period_s, probes[i].failures);
}

static void put_resources(const manifests *m, int n) {
    char cpus[16], gpus[16];
    snprintf(cpus, sizeof cpus, "%d", m->of->plan->asked_workers ? m->of->plan->asked_workers : 1);
    snprintf(gpus, sizeof gpus, "%d", mr_deploy_gpus(m->of->plan, n));
    put(m->to, "       'resources': {'requests': {'cpu': %q}", cpus);
    if (strcmp(gpus, "0") != 0)
        put(m->to, ", 'limits': {'nvidia.com/gpu': %q}", gpus);
    put(m->to, "},\n");
}

/* The checkpoint's folder lives as long as the pod, so a restarted container continues from where it was. */
static void put_volumes(const manifests *m, int n) {
    const mr_deployment *of = m->of;
    const bool key = m->nodes[n].key || http_port(of), resumes = mr_plan_resumes(of->plan, n);
    put(m->to, "       'volumeMounts': [\n");
    if (key)
        put(m->to, "        {'name': 'keys', 'mountPath': '" HOME "/keys', 'readOnly': true},\n");
    if (resumes)
        put(m->to, "        {'name': 'state', 'mountPath': '" STATE "', 'readOnly': false},\n");
    if (of->claim)
        put(m->to, "        {'name': 'shared', 'mountPath': %q, 'readOnly': false},\n", of->mount);
    put(m->to, "        {'name': 'pipeline', 'mountPath': '" HOME "', 'readOnly': true}]}],\n"
               "      'volumes': [\n");
    if (key)
        put(m->to, "       {'name': 'keys', 'secret': {'secretName': %q, 'defaultMode': 256}},\n", m->secret);
    if (resumes)
        put(m->to, "       {'name': 'state', 'emptyDir': {}},\n");
    if (of->claim)
        put(m->to, "       {'name': 'shared', 'persistentVolumeClaim': {'claimName': %q}},\n", of->claim);
    put(m->to, "       {'name': 'pipeline', 'configMap': {'name': %q}}]}}}}", of->name);
}

static int put_job(manifests *m, int n) {
    const mr_view_node *node = &m->nodes[n];
    put(m->to, ",\n");
    put_head(m, "batch/v1", "Job", m->name[n]);
    put(m->to, "   'spec': {'completionMode': 'Indexed', 'completions': %d, 'parallelism': %d, 'backoffLimit': %d,\n"
               "    'template': {'metadata': {'labels': {'millrace/node': %q, 'millrace/run': %q}}, 'spec': {\n"
               "      'subdomain': %q, 'restartPolicy': 'OnFailure', 'terminationGracePeriodSeconds': %d,\n"
               "      'securityContext': {'fsGroup': %d, 'fsGroupChangePolicy': 'OnRootMismatch'},\n",
        node->replicas, node->replicas, RESTARTS, m->name[n], m->of->run, m->name[n], GRACE_S, GROUP);
    int status = put_command(m, n);
    put(m->to, "       'env': [");
    if (m->of->plan->node_count)
        put(m->to, "{'name': 'MILLRACE_NODE', 'value': %q},\n"
                   "               {'name': 'MILLRACE_HOSTS', 'value': %q},\n               ", node->id, m->hosts);
    put(m->to, "{'name': 'MILLRACE_RUN', 'value': %q}],\n", m->of->run);
    put(m->to, "       'envFrom': [{'secretRef': {'name': %q, 'optional': true}}],\n", m->environment);
    put_probes(m);
    put_resources(m, n);
    put_volumes(m, n);
    return status;
}

/* ---- all manifests --------------------------------------------------------------------------------------------- */

/* Pods share no folder and have separate addresses. Reports all nodes that do not fit at once. */
static int check(const mr_deployment *of) {
    char wrong[1024] = "";
    size_t at = 0;
    for (size_t n = 0; n < of->plan->node_count; n++) {
        const mr_view_node *node = &of->plan->nodes[n];
        if (node->listen && strncmp(node->listen, "tcp://*:", 8) != 0 && at < sizeof wrong)
            at += (size_t)snprintf(wrong + at, sizeof wrong - at, "%snodes.%s (%s)", at ? ", " : "", node->id,
                                   node->listen);
    }
    if (!at)
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG, "%s: pods reach each other by name only: write listen: tcp://*:7001, without "
                                    "`address`, and a key, in each of them", wrong);
}

static int put_manifests(manifests *m, const char *pipeline) {
    int status = MR_OK;
    put(m->to, "{'apiVersion': 'v1', 'kind': 'List', 'items': [\n");
    put_head(m, "v1", "ConfigMap", m->of->name);
    put(m->to, "   'data': {'pipeline.yaml': %q}}", pipeline);
    for (int n = 0; n < (int)m->count && !status; n++) {
        if (m->of->plan->node_count)
            put_service(m, n);
        status = put_job(m, n);
    }
    put(m->to, "]}\n");
    return status;
}

/* The pipeline's text becomes part of a manifest, where others can read it. */
static void warn_of_secrets(const manifests *m, const char *text) {
    char line[MR_URL_BYTES];
    for (int number = 1; *text; number++) {
        const size_t length = strcspn(text, "\n");
        snprintf(line, sizeof line, "%.*s", (int)(length < INT_MAX ? length : INT_MAX), text);
        if (mr_deploy_shows_secret(line))
            mr_print(stderr, "%s:%d: warning: whoever may read the ConfigMap sees this user or password\n"
                             "    hint: name a variable, such as ${CAMERA}, and set it in the Secret %s\n",
                     m->of->path, number, m->environment);
        text += length + (text[length] == '\n');
    }
}

static int write_manifests(manifests *m) {
    enum { MOST_BYTES = 1 << 20 }; /* of a ConfigMap */
    mr_file_bytes pipeline;
    mr_deploy_file file;
    int status = mr_file_read("the pipeline", m->of->path, MOST_BYTES, 0, &pipeline);
    if (status)
        return status;
    warn_of_secrets(m, (const char *)pipeline.data);
    status = mr_deploy_open(m->of, &file, "%s.json", m->of->name);
    if (!status) {
        m->to = file.stream;
        status = put_manifests(m, (const char *)pipeline.data);
        const int closed = mr_deploy_close(&file);
        status = status ? status : closed;
    }
    mr_free(pipeline.data);
    return status;
}

static int make(manifests *m) {
    int status = name_nodes(m);
    if (status)
        return status;
    m->hosts = list_hosts(m);
    if (!m->hosts || asprintf(&m->secret, "%s-keys", m->of->name) < 0 ||
        asprintf(&m->environment, "%s-environment", m->of->name) < 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    return write_manifests(m);
}

int mr_deploy_kubernetes(const mr_deployment *of) {
    manifests m = {.of = of};
    m.nodes = mr_deploy_nodes(of->plan, &m.count);
    int status = check(of);
    if (!status)
        status = make(&m);
    for (size_t n = 0; m.name && n < m.count; n++)
        free(m.name[n]);
    free(m.name);
    free(m.hosts);
    free(m.secret);
    free(m.environment);
    return status;
}

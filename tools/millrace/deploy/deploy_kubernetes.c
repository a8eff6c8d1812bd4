/* Manifests: a ConfigMap with the pipeline, and for each node an indexed Job, with a headless Service that resolves the
 * process names. Keys come from a Secret. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/deploy/deploy.h"

#define HOME "/etc/millrace"
#define STATE "/var/lib/millrace"

/* How often a node is restarted, all processes together, before it is given up. */
enum { RESTARTS = 1000, GRACE_S = 30 };

/* The deployment, and the names written for it: nodes' jobs and services, all processes, and the secret. */
typedef struct manifests {
    const mr_deployment *of;
    char **name;
    char *pipeline, *hosts, *secret;
} manifests;

/* ---- names ----------------------------------------------------------------------------------------------------- */

/* A DNS label (RFC 1035), the form for service and host names. */
enum { MOST_LABEL = 63 };

static bool is_label(const char *name, size_t room) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz", all[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t length = strlen(name);
    return length <= room && strspn(name, letters) > 0 && strspn(name, all) == length && name[length - 1] != '-';
}

/* Small letters, digits and -. */
static char *name_node(const mr_deployment *of, const mr_view_node *node) {
    char *name = NULL;
    if (asprintf(&name, "%s-%s", of->name, node->id) < 0)
        return NULL;
    for (char *at = name; *at; at++)
        *at = *at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
    return name;
}

static int check_pipeline(const mr_deployment *of) {
    if (is_label(of->name, MOST_LABEL))
        return MR_OK;
    return mr_fail(MR_ERROR_CONFIG,
                   "pipeline: objects of \"%s\" would be called \"%s\" in Kubernetes, where a name has at "
                   "most %d small letters, digits and -, begins with a letter and does not end in -: give it another",
                   of->plan->name, of->name, MOST_LABEL);
}

/* A job's pods are hosts; each name ends in a dash and the process number. */
static int check_node(const mr_deployment *of, int n, char *const *name) {
    const mr_view_node *node = &of->plan->nodes[n];
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
                           of->plan->nodes[other].id, node->id, name[n]);
    return MR_OK;
}

static int name_nodes(manifests *m) {
    const mr_deployment *of = m->of;
    int status = check_pipeline(of);
    m->name = calloc(of->plan->node_count, sizeof *m->name);
    if (!m->name)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    for (int n = 0; n < (int)of->plan->node_count && !status; n++) {
        m->name[n] = name_node(of, &of->plan->nodes[n]);
        status = m->name[n] ? check_node(of, n, m->name) : mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    }
    return status;
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void begin(yajl_gen json, const char *version, const char *kind, const char *name, const mr_deployment *of) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "apiVersion", version);
    mr_json_text(json, "kind", kind);
    MR_JSON_MAP(json, "metadata") {
        mr_json_text(json, "name", name);
        MR_JSON_MAP(json, "labels") {
            mr_json_text(json, "app.kubernetes.io/name", "millrace");
            mr_json_text(json, "app.kubernetes.io/instance", of->name);
        }
    }
    mr_json_open_map(json, strcmp(kind, "ConfigMap") == 0 ? "data" : "spec");
}

static void end(yajl_gen json) {
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
}

static void put_labels(yajl_gen json, const char *key, const char *name) {
    MR_JSON_MAP(json, key)
        mr_json_text(json, "millrace/node", name);
}

static void put_config(yajl_gen json, const mr_deployment *of, const char *text) {
    begin(json, "v1", "ConfigMap", of->name, of);
    mr_json_text(json, "pipeline.yaml", text);
    end(json);
}

/* Needs no address: it resolves to the processes that it stands for. */
static void put_service(yajl_gen json, const manifests *m, int n) {
    begin(json, "v1", "Service", m->name[n], m->of);
    mr_json_text(json, "clusterIP", "None");
    mr_json_bool(json, "publishNotReadyAddresses", true);
    put_labels(json, "selector", m->name[n]);
    end(json);
}

static void put_variable(yajl_gen json, const char *name, const char *value) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", name);
        mr_json_text(json, "value", value);
    }
}

/* All process names, in order. NULL with a message. */
static char *list_hosts(const manifests *m) {
    char *text = NULL;
    size_t bytes;
    const mr_plan_view *plan = m->of->plan;
    FILE *stream = open_memstream(&text, &bytes);
    for (size_t n = 0; n < plan->node_count && stream; n++)
        for (int r = 0; r < plan->nodes[n].replicas; r++)
            fprintf(stream, "%s%s-%d.%s", n || r ? "," : "", m->name[n], r, m->name[n]);
    if (!stream || fclose(stream))
        mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    return text;
}

/* ---- a node ---------------------------------------------------------------------------------------------------- */

/* An argument: $(NAME) would be a variable in it, and $$ is a dollar sign. */
static int put_word(void *context, const char *word) {
    char *text = calloc(2, strlen(word) + 1), *to = text;
    for (; text && *word; *to++ = *word++)
        if (*word == '$')
            *to++ = '$';
    if (text)
        mr_json_text((yajl_gen)context, NULL, text);
    free(text);
    return text ? 0 : MR_ERROR_MEMORY;
}

static void put_mount(yajl_gen json, const char *name, const char *path, bool writable) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", name);
        mr_json_text(json, "mountPath", path);
        mr_json_bool(json, "readOnly", !writable);
    }
}

static void put_resources(yajl_gen json, const mr_deployment *of, int n) {
    char text[32];
    int gpus = mr_deploy_gpus(of->plan, n);
    MR_JSON_MAP(json, "resources") {
        if (gpus) {
            snprintf(text, sizeof text, "%d", gpus);
            MR_JSON_MAP(json, "limits")
                mr_json_text(json, "nvidia.com/gpu", text);
        }
        snprintf(text, sizeof text, "%d", of->plan->asked_workers ? of->plan->asked_workers : 1);
        MR_JSON_MAP(json, "requests")
            mr_json_text(json, "cpu", text);
    }
}

static int put_container(yajl_gen json, const manifests *m, int n) {
    const mr_deployment *of = m->of;
    const mr_view_node *node = &of->plan->nodes[n];
    const bool resumes = mr_plan_resumes(of->plan, n);
    int status = MR_OK;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", "millrace");
        mr_json_text(json, "image", of->image);
        MR_JSON_ARRAY(json, "command")
            mr_json_text(json, NULL, "millrace");
        MR_JSON_ARRAY(json, "args") {
            status = mr_deploy_words(of, HOME "/pipeline.yaml", put_word, json);
            if (resumes && of->trains) {
                mr_json_text(json, NULL, "--resume=" STATE "/checkpoint");
            } else if (resumes) {
                mr_json_text(json, NULL, "--resume");
                mr_json_text(json, NULL, STATE "/checkpoint");
            } else if (of->trains) { /* the fit */
                mr_json_text(json, NULL, "--resume");
            }
        }
        MR_JSON_ARRAY(json, "env") {
            put_variable(json, "MILLRACE_NODE", node->id);
            put_variable(json, "MILLRACE_HOSTS", m->hosts);
            put_variable(json, "MILLRACE_RUN", of->run);
        }
        put_resources(json, of, n);
        MR_JSON_ARRAY(json, "volumeMounts") {
            put_mount(json, "pipeline", HOME, false);
            if (node->key)
                put_mount(json, "keys", HOME "/keys", false);
            if (resumes)
                put_mount(json, "state", STATE, true);
            if (of->claim)
                put_mount(json, "shared", of->mount, true);
        }
    }
    return status;
}

static void put_volume(yajl_gen json, const char *name, const char *kind, const char *key, const char *text) {
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "name", name);
        MR_JSON_MAP(json, kind) {
            if (key)
                mr_json_text(json, key, text);
            if (strcmp(kind, "secret") == 0)
                mr_json_integer(json, "defaultMode", 0400);
        }
    }
}

static void put_volumes(yajl_gen json, const mr_deployment *of, int n, const char *secret) {
    MR_JSON_ARRAY(json, "volumes") {
        put_volume(json, "pipeline", "configMap", "name", of->name);
        if (of->plan->nodes[n].key)
            put_volume(json, "keys", "secret", "secretName", secret);
        /* It lives as long as the pod: a container that failed and is restarted continues where it was. */
        if (mr_plan_resumes(of->plan, n))
            put_volume(json, "state", "emptyDir", NULL, NULL);
        if (of->claim)
            put_volume(json, "shared", "persistentVolumeClaim", "claimName", of->claim);
    }
}

static int put_job(yajl_gen json, const manifests *m, int n) {
    const mr_deployment *of = m->of;
    const mr_view_node *node = &of->plan->nodes[n];
    int status = MR_OK;
    begin(json, "batch/v1", "Job", m->name[n], of);
    mr_json_text(json, "completionMode", "Indexed");
    mr_json_integer(json, "completions", node->replicas);
    mr_json_integer(json, "parallelism", node->replicas);
    mr_json_integer(json, "backoffLimit", RESTARTS);
    MR_JSON_MAP(json, "template") {
        MR_JSON_MAP(json, "metadata")
            put_labels(json, "labels", m->name[n]);
        MR_JSON_MAP(json, "spec") {
            mr_json_text(json, "subdomain", m->name[n]);
            mr_json_text(json, "restartPolicy", "OnFailure");
            mr_json_integer(json, "terminationGracePeriodSeconds", GRACE_S);
            MR_JSON_ARRAY(json, "containers")
                status = put_container(json, m, n);
            put_volumes(json, of, n, m->secret);
        }
    }
    end(json);
    return status;
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/* Pods share no folder, and each has a separate address. All nodes that do not fit are named at once. */
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

static char *read_pipeline(const char *path) {
    enum { MOST = 1024 * 1024 + 1 }; /* a pipeline has at most a MiB */
    FILE *file = fopen(path, "re");
    char *text = calloc(1, MOST + 1);
    size_t got = file && text ? fread(text, 1, MOST, file) : 0;
    if (file)
        fclose(file);
    if (got > 0)
        return text;
    mr_fail(MR_ERROR_IO, "cannot read %s: %s", path, strerror(errno));
    free(text);
    return NULL;
}

static int put_manifests(yajl_gen json, const manifests *m) {
    const mr_deployment *of = m->of;
    int status = MR_OK;
    MR_JSON_MAP(json, NULL) {
        mr_json_text(json, "apiVersion", "v1");
        mr_json_text(json, "kind", "List");
        MR_JSON_ARRAY(json, "items") {
            put_config(json, of, m->pipeline);
            for (int n = 0; n < (int)of->plan->node_count && !status; n++) {
                put_service(json, m, n);
                status = put_job(json, m, n);
            }
        }
    }
    return status;
}

static int write_manifests(const manifests *m) {
    yajl_gen json = mr_json_create(true);
    if (!json)
        return MR_ERROR_MEMORY;
    mr_deploy_file file;
    int status = put_manifests(json, m);
    if (!status)
        status = mr_deploy_open(m->of, &file, "%s.json", m->of->name);
    if (status) {
        yajl_gen_free(json);
        return status;
    }
    status = mr_json_finish(json, file.stream);
    int closed = mr_deploy_close(&file);
    return status ? status : closed;
}

static int make(manifests *m) {
    int status = name_nodes(m);
    if (status)
        return status;
    m->pipeline = read_pipeline(m->of->path);
    if (!m->pipeline)
        return MR_ERROR_IO;
    m->hosts = list_hosts(m);
    if (!m->hosts || asprintf(&m->secret, "%s-keys", m->of->name) < 0)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    return write_manifests(m);
}

int mr_deploy_kubernetes(const mr_deployment *of) {
    manifests m = {.of = of};
    int status = check(of);
    if (!status)
        status = make(&m);
    for (size_t n = 0; m.name && n < of->plan->node_count; n++)
        free(m.name[n]);
    free(m.name);
    free(m.pipeline);
    free(m.hosts);
    free(m.secret);
    return status;
}

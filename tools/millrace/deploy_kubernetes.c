/* Manifests: a ConfigMap with the pipeline, and for each node an indexed Job, with a headless Service through which
 * others find its processes. Keys come from a Secret. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/json.h"
#include "tools/millrace/deploy.h"
#include "tools/millrace/run_nodes.h"

#define HOME "/etc/millrace"
#define STATE "/var/lib/millrace"

/* How often a node is started again, all its processes together, until it is given up. */
enum { RESTARTS = 1000, GRACE_S = 30 };

/* A name of Kubernetes: small letters, digits and -. */
static const char *node_name(const mr_deployment *of, const mr_plan_node *node, char text[256]) {
    snprintf(text, 256, "%s-%s", of->name, node->id);
    for (char *at = text; *at; at++)
        *at = *at == '_' ? '-' : *at >= 'A' && *at <= 'Z' ? (char)(*at + 32) : *at;
    return text;
}

/* ---- parts ----------------------------------------------------------------------------------------------------- */

static void begin(yajl_gen json, const char *version, const char *kind, const char *name, const mr_deployment *of) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "apiVersion", version);
    mr_json_text(json, "kind", kind);
    mr_json_open_map(json, "metadata");
    mr_json_text(json, "name", name);
    mr_json_open_map(json, "labels");
    mr_json_text(json, "app.kubernetes.io/name", "millrace");
    mr_json_text(json, "app.kubernetes.io/instance", of->name);
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
    mr_json_open_map(json, strcmp(kind, "ConfigMap") == 0 ? "data" : "spec");
}

static void end(yajl_gen json) {
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
}

static void put_labels(yajl_gen json, const char *key, const char *name) {
    mr_json_open_map(json, key);
    mr_json_text(json, "millrace/node", name);
    yajl_gen_map_close(json);
}

static void put_config(yajl_gen json, const mr_deployment *of, const char *text) {
    begin(json, "v1", "ConfigMap", of->name, of);
    mr_json_text(json, "pipeline.yaml", text);
    end(json);
}

/* Without an address of its own: names of the processes behind it are found through it. */
static void put_service(yajl_gen json, const mr_deployment *of, const mr_plan_node *node) {
    char name[256];
    begin(json, "v1", "Service", node_name(of, node, name), of);
    mr_json_text(json, "clusterIP", "None");
    mr_json_bool(json, "publishNotReadyAddresses", true);
    put_labels(json, "selector", name);
    end(json);
}

static void put_variable(yajl_gen json, const char *name, const char *value) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", name);
    mr_json_text(json, "value", value);
    yajl_gen_map_close(json);
}

/* The names of all processes, in order. NULL with a message. */
static char *list_hosts(const mr_deployment *of) {
    char *text = NULL, name[256];
    size_t bytes;
    FILE *stream = open_memstream(&text, &bytes);
    if (!stream) {
        mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
        return NULL;
    }
    for (size_t n = 0; n < of->plan->node_count; n++)
        for (int r = 0; r < of->plan->nodes[n].replicas; r++)
            fprintf(stream, "%s%s-%d.%s", n || r ? "," : "", node_name(of, &of->plan->nodes[n], name), r, name);
    fclose(stream);
    return text;
}

/* ---- a node ---------------------------------------------------------------------------------------------------- */

static void put_word(void *context, const char *word) {
    mr_json_text((yajl_gen)context, NULL, word);
}

static void put_mount(yajl_gen json, const char *name, const char *path, bool writable) {
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", name);
    mr_json_text(json, "mountPath", path);
    mr_json_bool(json, "readOnly", !writable);
    yajl_gen_map_close(json);
}

static void put_resources(yajl_gen json, const mr_deployment *of, int n) {
    char text[32];
    int gpus = mr_deploy_gpus(of->plan, n);
    mr_json_open_map(json, "resources");
    if (gpus) {
        snprintf(text, sizeof text, "%d", gpus);
        mr_json_open_map(json, "limits");
        mr_json_text(json, "nvidia.com/gpu", text);
        yajl_gen_map_close(json);
    }
    snprintf(text, sizeof text, "%d", of->plan->spec->workers ? of->plan->spec->workers : 1);
    mr_json_open_map(json, "requests");
    mr_json_text(json, "cpu", text);
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
}

static void put_container(yajl_gen json, const mr_deployment *of, int n, const char *hosts) {
    const mr_plan_node *node = &of->plan->nodes[n];
    bool resumes = mr_run_resumes(of->plan, n);
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", "millrace");
    mr_json_text(json, "image", of->image);
    mr_json_open_array(json, "command");
    mr_json_text(json, NULL, "millrace");
    yajl_gen_array_close(json);
    mr_json_open_array(json, "args");
    mr_deploy_words(of, HOME "/pipeline.yaml", put_word, json);
    if (resumes) {
        mr_json_text(json, NULL, "--resume");
        mr_json_text(json, NULL, STATE "/checkpoint");
    }
    yajl_gen_array_close(json);
    mr_json_open_array(json, "env");
    put_variable(json, "MILLRACE_NODE", node->id);
    put_variable(json, "MILLRACE_HOSTS", hosts);
    put_variable(json, "MILLRACE_RUN", of->run);
    yajl_gen_array_close(json);
    put_resources(json, of, n);
    mr_json_open_array(json, "volumeMounts");
    put_mount(json, "pipeline", HOME, false);
    if (node->key)
        put_mount(json, "keys", HOME "/keys", false);
    if (resumes)
        put_mount(json, "state", STATE, true);
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
}

static void put_volumes(yajl_gen json, const mr_deployment *of, int n) {
    const mr_plan_node *node = &of->plan->nodes[n];
    char secret[256];
    snprintf(secret, sizeof secret, "%s-keys", of->name);
    mr_json_open_array(json, "volumes");
    mr_json_open_map(json, NULL);
    mr_json_text(json, "name", "pipeline");
    mr_json_open_map(json, "configMap");
    mr_json_text(json, "name", of->name);
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
    if (node->key) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", "keys");
        mr_json_open_map(json, "secret");
        mr_json_text(json, "secretName", secret);
        mr_json_integer(json, "defaultMode", 0400);
        yajl_gen_map_close(json);
        yajl_gen_map_close(json);
    }
    /* It lives as long as the pod: a container that failed and is started again goes on where it was. */
    if (mr_run_resumes(of->plan, n)) {
        mr_json_open_map(json, NULL);
        mr_json_text(json, "name", "state");
        mr_json_open_map(json, "emptyDir");
        yajl_gen_map_close(json);
        yajl_gen_map_close(json);
    }
    yajl_gen_array_close(json);
}

static void put_job(yajl_gen json, const mr_deployment *of, int n, const char *hosts) {
    char name[256];
    const mr_plan_node *node = &of->plan->nodes[n];
    begin(json, "batch/v1", "Job", node_name(of, node, name), of);
    mr_json_text(json, "completionMode", "Indexed");
    mr_json_integer(json, "completions", node->replicas);
    mr_json_integer(json, "parallelism", node->replicas);
    mr_json_integer(json, "backoffLimit", RESTARTS);
    mr_json_open_map(json, "template");
    mr_json_open_map(json, "metadata");
    put_labels(json, "labels", name);
    yajl_gen_map_close(json);
    mr_json_open_map(json, "spec");
    mr_json_text(json, "subdomain", name);
    mr_json_text(json, "restartPolicy", "OnFailure");
    mr_json_integer(json, "terminationGracePeriodSeconds", GRACE_S);
    mr_json_open_array(json, "containers");
    put_container(json, of, n, hosts);
    yajl_gen_array_close(json);
    put_volumes(json, of, n);
    yajl_gen_map_close(json);
    yajl_gen_map_close(json);
    end(json);
}

/* ---- all of it ------------------------------------------------------------------------------------------------- */

/* Pods share no folder, and each has an address of its own. */
static int check(const mr_deployment *of) {
    for (size_t n = 0; n < of->plan->node_count; n++) {
        const mr_plan_node *node = &of->plan->nodes[n];
        if (node->listen && strncmp(node->listen, "tcp://*:", 8) != 0)
            return mr_fail(MR_ERROR_CONFIG, "nodes.%s: pods reach each other by name only: write listen: "
                           "tcp://*:7001, without `address`, and a key, in place of %s", node->id, node->listen);
    }
    return MR_OK;
}

static char *read_pipeline(const char *path) {
    enum { MOST = MR_YAML_MAX_BYTES + 1 };
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

static int write_manifests(const mr_deployment *of, const char *pipeline, const char *hosts) {
    char name[256];
    snprintf(name, sizeof name, "%s.json", of->name);
    FILE *file = mr_deploy_open(of, name);
    yajl_gen json = file ? mr_json_create(true) : NULL;
    if (!json) {
        if (file)
            fclose(file);
        return file ? MR_ERROR_MEMORY : MR_ERROR_IO;
    }
    mr_json_open_map(json, NULL);
    mr_json_text(json, "apiVersion", "v1");
    mr_json_text(json, "kind", "List");
    mr_json_open_array(json, "items");
    put_config(json, of, pipeline);
    for (int n = 0; n < (int)of->plan->node_count; n++) {
        put_service(json, of, &of->plan->nodes[n]);
        put_job(json, of, n, hosts);
    }
    yajl_gen_array_close(json);
    yajl_gen_map_close(json);
    int status = mr_json_finish(json, file), closed = mr_deploy_close(file, name);
    return status ? status : closed;
}

int mr_deploy_kubernetes(const mr_deployment *of) {
    int status = check(of);
    if (status)
        return status;
    char *pipeline = read_pipeline(of->path), *hosts = list_hosts(of);
    status = pipeline ? hosts ? MR_OK : MR_ERROR_MEMORY : MR_ERROR_IO;
    if (!status)
        status = write_manifests(of, pipeline, hosts);
    free(pipeline);
    free(hosts);
    return status;
}

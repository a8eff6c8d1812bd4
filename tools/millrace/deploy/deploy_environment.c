/* Environment variables that a pipeline and the command need, for units that start without them. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/find/model_folders.h"
#include "engine/base/find/nvidia.h"
#include "engine/base/print.h"
#include "millrace/describe.h"
#include "tools/millrace/deploy/deployment.h"

/* Reads at most what the YAML parser accepts. */
enum { MOST_BYTES = 16 << 20, MOST_NAME = 255, MOST_NAMES = 256 };

/* millrace's variables that describe a machine, not a process. */
static const char *const own[] = {"MILLRACE_ONNXRUNTIME", "MILLRACE_PLUGIN_PATH", "MILLRACE_KERNELS",
                                  "MILLRACE_CUBLAS", "MILLRACE_CUDA_GRAPHS", NULL};
/* Those of pipelines that name models. */
static const char *const of_models[] = {"MILLRACE_MODELS", "MODELS", "XDG_DATA_DIRS", NULL};

typedef struct variables {
    size_t count;
    char name[MOST_NAMES][MOST_NAME + 1];
    const char *value[MOST_NAMES];
    char runtime[PATH_MAX], models[PATH_MAX];
} variables;

static bool has(const variables *all, const char *name) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->name[i], name) == 0)
            return true;
    return false;
}

/* Unset variables (`value` is NULL) get the same defaults there as here. */
static int add_value(variables *all, const char *text, const char *value) {
    if (!value || has(all, text))
        return MR_OK;
    if (!mr_printable(value))
        return mr_fail(MR_ERROR_USAGE, "the variable %s holds a control character, or bytes that are not UTF-8: units "
                                       "cannot have it", text);
    if (all->count == MOST_NAMES)
        return mr_fail(MR_ERROR_USAGE, "the pipeline names more than %d variables", MOST_NAMES);
    all->value[all->count] = value;
    strcpy(all->name[all->count++], text);
    return MR_OK;
}

static int add(variables *all, const char *name, size_t length) {
    char text[MOST_NAME + 1];
    if (length > MOST_NAME)
        return MR_OK;
    snprintf(text, sizeof text, "%.*s", (int)length, name);
    return add_value(all, text, getenv(text));
}

/* "${NAME" in a text, as engine/text/yaml.h expands it; "$$" is a dollar. */
static int find_named(variables *all, const char *text) {
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789";
    int status = MR_OK;
    for (const char *at = strchr(text, '$'); at && !status; at = strchr(at, '$')) {
        if (at[1] == '{')
            status = add(all, at + 2, strspn(at + 2, letters));
        at += at[1] == '$' ? 2 : 1;
    }
    return status;
}

/* ---- what this user's environment has and a service's has not ---------------------------------------------------- */

/* The path of a file that a stage names by a word, if it is given; NULL: it is not. */
static const char *named_file(const mr_view_stage *stage, const mr_option *option) {
    return option->named ? mr_option_string(option, stage->options) : NULL;
}

/* Services have no home, or another one. */
static int add_models(variables *all, const mr_plan_view *plan) {
    bool named = false, in_home = false;
    char home[PATH_MAX];
    const bool has_home = mr_model_folders_own(home);
    for (size_t s = 0; s < plan->stage_count; s++)
        for (const mr_option *option = plan->stages[s].type->options; option && option->name; option++) {
            const char *path = named_file(&plan->stages[s], option);
            named |= path != NULL;
            in_home |= path && has_home && strncmp(path, home, strlen(home)) == 0 && path[strlen(home)] == '/';
        }
    int status = MR_OK;
    for (const char *const *name = of_models; *name && named && !status; name++)
        status = add(all, *name, strlen(*name));
    if (status || !in_home || has(all, "MILLRACE_MODELS") || has(all, "MODELS"))
        return status;
    strcpy(all->models, home);
    return add_value(all, "MILLRACE_MODELS", all->models);
}

/* The library that a run finds here, maybe in a Python environment of this user's. */
static int add_runtime(variables *all, const mr_plan_view *plan) {
    bool runs_networks = false;
    for (size_t s = 0; s < plan->stage_count; s++)
        for (const mr_option *option = plan->stages[s].type->options; option && option->name; option++)
            runs_networks |= strcmp(option->name, "runtime") == 0;
    if (!runs_networks || !mr_site_find("onnxruntime/capi/libonnxruntime.so*", all->runtime))
        return MR_OK;
    return add_value(all, "MILLRACE_ONNXRUNTIME", all->runtime);
}

static int find(variables *all, const mr_deployment *of) {
    mr_file_bytes text = {0};
    int status = mr_file_read("the pipeline", of->path, MOST_BYTES, 0, &text);
    for (const char *const *name = own; *name && !status; name++)
        status = add(all, *name, strlen(*name));
    if (!status)
        status = find_named(all, (const char *)text.data);
    for (size_t i = 0; i < of->overrides->override_count && !status; i++)
        status = find_named(all, of->overrides->override[i].value);
    if (!status)
        status = add_models(all, of->plan);
    /* Another command runs on another machine, or brings its own library. */
    if (!status && of->command == of->owned[1])
        status = add_runtime(all, of->plan);
    free(text.data);
    return status;
}

/* Writes a line for systemd's EnvironmentFile: in double quotes, with \, ", $ and ` escaped. */
static void put(const char *name, const char *value, FILE *file) {
    fprintf(file, "%s=\"", name);
    for (const char *at = value; *at; at++) {
        if (strchr("\\\"$`", *at))
            fputc('\\', file);
        fputc(*at, file);
    }
    fputs("\"\n", file);
}

static int write_all(const mr_deployment *of, const variables *all, char **path) {
    mr_deploy_file file;
    mode_t before = umask(077);
    int status = mr_deploy_open(of, &file, "%s.env", of->name);
    umask(before);
    if (status)
        return status;
    /* An existing file would keep a wider mode. */
    if (fchmod(fileno(file.stream), 0600))
        status = mr_file_fail("write", file.path);
    fprintf(file.stream, "# Made by \"millrace deploy\" from %s.\n", of->path);
    for (size_t i = 0; i < all->count && !status; i++)
        put(all->name[i], all->value[i], file.stream);
    if (!status && !(*path = realpath(file.path, NULL)))
        status = mr_file_fail("find", file.path);
    int closed = mr_deploy_close(&file);
    return status ? status : closed;
}

int mr_deploy_environment(const mr_deployment *of, char **path) {
    variables *all = calloc(1, sizeof *all);
    *path = NULL;
    if (!all)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
    int status = find(all, of);
    if (!status && all->count)
        status = write_all(of, all, path);
    free(all);
    return status;
}

#include "tools/millrace/deploy/deployment.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "engine/base/file.h"
#include "engine/base/grow.h"
#include "tools/millrace/cli/plan_rows.h"
#include "tools/millrace/cli/types.h"

/* Takes the path; NULL: no memory. */
static int list(mr_deploy_files *files, char *path) {
    if (path && mr_grow((void **)&files->path, files->count, &files->room, sizeof *files->path)) {
        files->path[files->count++] = path;
        return MR_OK;
    }
    free(path);
    return mr_fail(MR_ERROR_MEMORY, "no memory for a deployment");
}

int mr_deploy_open(const mr_deployment *of, mr_deploy_file *file, const char *format, ...) {
    char *name = NULL, *path = NULL;
    va_list arguments;
    va_start(arguments, format);
    if (vasprintf(&name, format, arguments) < 0 || asprintf(&path, "%s/%s", of->folder, name) < 0)
        path = NULL;
    va_end(arguments);
    free(name);
    FILE *stream = path ? fopen(path, "we") : NULL;
    int status = path && !stream ? mr_file_fail("write", path) : MR_OK;
    *file = (mr_deploy_file){.stream = stream, .path = path};
    if (status)
        free(path);
    else if ((status = list(of->written, path)) && stream)
        fclose(stream);
    return status;
}

int mr_deploy_close(mr_deploy_file *file) {
    bool failed = ferror(file->stream) != 0;
    return fclose(file->stream) || failed ? mr_file_fail("write", file->path) : MR_OK;
}

const mr_view_node *mr_deploy_nodes(const mr_plan_view *plan, size_t *count) {
    static const mr_view_node alone = {.id = "run", .replicas = 1};
    *count = plan->node_count ? plan->node_count : 1;
    return plan->node_count ? plan->nodes : &alone;
}

int mr_deploy_words(const mr_deployment *of, const char *path, mr_deploy_word *function, void *context) {
    const mr_overrides *overrides = of->overrides;
    bool failed = function(context, of->trains ? "train" : "run") || function(context, path);
    for (size_t i = 0; i < overrides->override_count && !failed; i++) {
        char *text = NULL;
        failed = asprintf(&text, "%s=%s", overrides->override[i].key, overrides->override[i].value) < 0 ||
                 function(context, "--set") || function(context, text);
        free(text);
    }
    /* If the pipeline has the same path there as here, so do the plugins. In a container they keep the path from the
     * command line. */
    for (const mr_types_plugin *plugin = mr_types_plugins(); plugin->given && !failed; plugin++)
        failed = function(context, "--plugin") || function(context, path == of->path ? plugin->path : plugin->given);
    for (size_t i = 0; i < overrides->inputs.count && !failed; i++)
        failed = function(context, "--input") || function(context, overrides->inputs.item[i]);
    if (overrides->force && !failed)
        failed = function(context, "--force");
    for (char *const *word = of->words; word && *word && !failed; word++)
        failed = function(context, *word);
    return failed ? mr_fail(MR_ERROR_MEMORY, "no memory for a deployment") : MR_OK;
}

int mr_deploy_gpus(const mr_plan_view *plan, int node) {
    int count = 0;
    for (size_t d = 1; d < plan->device_count; d++)
        count += strncmp(plan->devices[d].name, "cuda:", 5) == 0 && mr_plan_node_uses(plan, node, (int)d);
    return count;
}

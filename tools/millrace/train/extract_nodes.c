/* Extraction on a pipeline's nodes: finds the home node, and each process's role. */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "millrace/log.h"
#include "tools/millrace/cli/complaints.h"
#include "tools/millrace/run/launch.h"
#include "tools/millrace/run/run_audit.h"
#include "tools/millrace/run/signals.h"
#include "tools/millrace/run/supervisor.h"
#include "tools/millrace/train/extract_parts.h"
#include "tools/millrace/train/stop.h"

/* Passes the name of a run's folder to child processes. */
static const char folder_variable[] = "MILLRACE_TRAINING";
static const int64_t TELL_NS = 10000000000;

/* ---- which node is home ------------------------------------------------------------------------------------------ */

static int find_vertex(const mr_plan_view *plan, const char *id) {
    for (size_t v = 0; v < plan->stage_count; v++)
        if (plan->stages[v].role == MR_VIEW_STAGE && strcmp(plan->stages[v].id, id) == 0)
            return (int)v;
    return -1;
}

/* Marks all vertices after `from` with the distance. */
static void mark_behind(const mr_plan_view *plan, int from, size_t *distance) {
    distance[from] = 1;
    for (bool more = true; more;) {
        more = false;
        for (size_t l = 0; l < plan->link_count; l++) {
            size_t to = (size_t)plan->links[l].to, through = distance[plan->links[l].from] + 1;
            if (through == 1 || (distance[to] && distance[to] <= through))
                continue;
            distance[to] = through;
            more = true;
        }
    }
}

/* Each vertex's distance after classify: 1 for classify, 0 if not after it. The caller must free it; NULL: no
 * memory. */
static size_t *measure(const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->nodes;
    size_t *distance = calloc(plan->stage_count + 1, sizeof *distance);
    if (distance)
        mark_behind(plan, find_vertex(plan, extraction->classify->id), distance);
    else
        mr_fail(MR_ERROR_MEMORY, "no memory for the plan");
    return distance;
}

static int find_home(mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->nodes;
    size_t *distance = measure(extraction), nearest = SIZE_MAX;
    if (!distance)
        return MR_ERROR_MEMORY;
    extraction->home = -1;
    for (size_t v = 0; v < plan->stage_count; v++)
        if (distance[v] && distance[v] < nearest && plan->stages[v].role == MR_VIEW_STAGE &&
            plan->nodes[plan->stages[v].node].replicas == 1) {
            nearest = distance[v];
            extraction->home = plan->stages[v].node;
        }
    free(distance);
    const mr_view_node *node = &plan->nodes[plan->stages[find_vertex(plan, extraction->classify->id)].node];
    return extraction->home >= 0
               ? MR_OK
               : mr_fail(MR_ERROR_CONFIG,
                         "%s: node %s runs %s in %d processes, and no node after it is a single one: the vectors have "
                         "nowhere to come together. Put %s, or what takes its classes, into a node without replicas",
                         plan->file, node->id, extraction->classify->id, node->replicas, extraction->classify->id);
}

/* ---- roles ------------------------------------------------------------------------------------------------------- */

static mr_extraction_role role_of(const mr_extraction *extraction) {
    if (extraction->nodes->node < 0)
        return MR_EXTRACTION_WATCHES;
    if (getenv(folder_variable) || extraction->nodes->node != extraction->home)
        return MR_EXTRACTION_NODE;
    return MR_EXTRACTION_HOME;
}

static int plan_nodes(mr_extraction *extraction) {
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = extraction->path, .text = extraction->text, .offline = true};
    mr_overrides_apply(extraction->overrides, &params);
    mr_run_choose_node(&extraction->spread->run, &params);
    int status = mr_complaints_tell(&wrong, mr_plan_view_open(&extraction->nodes, &params, &wrong), false);
    mr_diagnostics_fini(&wrong);
    return mr_status_exit_code(status);
}

static bool has_nodes(const mr_extraction *extraction) {
    const mr_plan_view *view = NULL;
    mr_diagnostics wrong = {0};
    mr_pipeline_params params = {.path = extraction->path, .text = extraction->text, .offline = true, .cuts = true};
    mr_overrides_apply(extraction->overrides, &params);
    bool has = mr_plan_view_open(&view, &params, &wrong) != MR_OK || view->node_count > 0;
    mr_plan_view_close(&view);
    mr_diagnostics_fini(&wrong);
    return has; /* planning for this process reports the errors */
}

int mr_extraction_find_nodes(mr_extraction *extraction) {
    const mr_run_arguments *run = &extraction->spread->run;
    if (run->one_process || !has_nodes(extraction))
        return run->node ? mr_command_failed(mr_fail(MR_ERROR_USAGE, "%s has no nodes: --node is for one that has",
                                                     extraction->path))
                         : 0;
    int code = plan_nodes(extraction);
    if (code)
        return code;
    int status = find_home(extraction);
    if (!status && strcmp(extraction->path, "-") == 0)
        status = mr_fail(MR_ERROR_USAGE, "each node reads the pipeline: save it to a file");
    if (!status)
        extraction->role = role_of(extraction);
    return status ? mr_command_failed(status) : 0;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

size_t mr_extraction_most_settings(const mr_extraction *extraction) {
    return extraction->nodes ? extraction->nodes->node_count + extraction->nodes->cut_count : 0;
}

/* A node's stages as a YAML list, with moved stages in the new place. */
static char *list_stages(const mr_extraction *extraction, int node, const size_t *distance) {
    const mr_plan_view *plan = extraction->nodes;
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    const char *between = "";
    if (!to)
        return NULL;
    fputc('[', to);
    for (size_t v = 0; v < plan->stage_count; v++) {
        if (plan->stages[v].role != MR_VIEW_STAGE || (distance[v] ? extraction->home : plan->stages[v].node) != node)
            continue;
        fprintf(to, "%s%s", between, plan->stages[v].id);
        between = ", ";
    }
    fputc(']', to);
    if (fclose(to)) {
        free(text);
        return NULL;
    }
    return text;
}

static int move_home(mr_settings *to, const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->nodes;
    size_t *distance = measure(extraction);
    int status = distance ? MR_OK : MR_ERROR_MEMORY;
    for (int n = 0; n < (int)plan->node_count && !status; n++) {
        char *stages = list_stages(extraction, n, distance);
        status = stages ? mr_settings_set(to, stages, "nodes.", plan->nodes[n].id, ".stages")
                        : mr_fail(MR_ERROR_MEMORY, "no memory for settings");
        free(stages);
    }
    free(distance);
    return status;
}

/* The stage that receives a cut's frames decides how. */
static int keep_frames(mr_settings *to, const mr_plan_view *plan, const mr_view_cut *cut) {
    int status = MR_OK;
    for (size_t l = 0; l < plan->link_count && !status; l++)
        if (plan->links[l].from == cut->in && plan->stages[plan->links[l].to].role == MR_VIEW_STAGE)
            status = mr_settings_set(to, "reliable", "stages.", plan->stages[plan->links[l].to].id, ".cut.mode");
    return status;
}

int mr_extraction_set_nodes(mr_settings *to, const mr_extraction *extraction) {
    const mr_plan_view *plan = extraction->nodes;
    int status = MR_OK;
    if (plan->stages[find_vertex(plan, extraction->classify->id)].node != extraction->home)
        status = move_home(to, extraction);
    for (size_t c = 0; c < plan->cut_count && !status; c++)
        if (strcmp(plan->cuts[c].mode, "live") == 0)
            status = keep_frames(to, plan, &plan->cuts[c]);
    return status;
}

/* ---- the folder that all nodes share ----------------------------------------------------------------------------- */

static int name_folder(mr_extraction *extraction) {
    const char *run = getenv("MILLRACE_RUN"), *made = getenv(folder_variable);
    if (made) {
        snprintf(extraction->folder, sizeof extraction->folder, "%s", made);
        return MR_OK;
    }
    if (!run || !*run || strlen(run) > 16 || strspn(run, "0123456789abcdefABCDEF") != strlen(run))
        return mr_fail(MR_ERROR_USAGE, "nodes that are started one by one know each other by MILLRACE_RUN: set it to "
                                       "the same number of 1 to 16 hexadecimal digits for all of them, another one for "
                                       "each training");
    int length = snprintf(extraction->folder, sizeof extraction->folder, "%s/%s.nodes", extraction->spread->cache, run);
    return length < (int)sizeof extraction->folder - 64
               ? MR_OK
               : mr_fail(MR_ERROR_IO, "the name of the cache's folder is too long");
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

/* Waits until home has written another list than `listed`, and takes it; it is empty if nothing is left to make. */
static int await_list(const mr_extraction *extraction, struct stat *listed) {
    const struct stat before = *listed;
    char list[MR_TEMP_FOLDER_PATH + 32];
    int64_t told_ns = mr_now_ns();
    mr_extraction_list(extraction, list, sizeof list);
    for (;;) {
        if (!stat(list, listed)) {
            if (!is_same(listed, &before))
                return MR_OK;
        } else if (errno != ENOENT && errno != ENOTDIR) {
            return mr_file_fail("read", list);
        }
        if (mr_signals_came())
            return mr_fail(MR_ERROR_CANCELLED, "interrupted");
        if (mr_now_ns() - told_ns > TELL_NS) {
            told_ns = mr_now_ns();
            mr_log(MR_LOG_WARNING, "node %s has not %s %s yet, which all nodes must find: it is waited for",
                   extraction->nodes->nodes[extraction->home].id, before.st_size ? "emptied" : "written", list);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

/* After other failures, such as a full disk, home may be restarted. */
static bool is_final(int status) {
    return status == MR_OK || status == MR_ERROR_USAGE || status == MR_ERROR_DATA || status == MR_ERROR_CONFIG ||
           status == MR_ERROR_PERMISSION || status == MR_ERROR_NO_INPUT;
}

static bool is_empty(const char *path) {
    struct stat found;
    return !stat(path, &found) && found.st_size == 0;
}

void mr_extraction_release(mr_extraction *extraction, int status) {
    char list[MR_TEMP_FOLDER_PATH + 32], message[512];
    if (extraction->role != MR_EXTRACTION_HOME || !is_final(status))
        return;
    snprintf(message, sizeof message, "%s", mr_message());
    if (name_folder(extraction) || mr_file_make_folder(extraction->folder)) {
        mr_log(MR_LOG_WARNING, "%s: other nodes may wait for it", mr_message());
    } else {
        mr_extraction_list(extraction, list, sizeof list);
        if (mr_file_replace(list, "", 0))
            mr_log(MR_LOG_WARNING, "%s cannot be written (%s): nodes that wait for it must be ended", list,
                   strerror(errno));
    }
    if (status)
        mr_fail(status, "%s", message); /* the earlier error counts */
}

/* ---- a node ------------------------------------------------------------------------------------------------------ */

/* The files that a node serves, and the cache. */
typedef struct served {
    mr_file_list *list;
    mr_cache cache;
} served;

static int into_cache(void *user, const mr_taken *from, const float *vector, size_t length) {
    served *all = user;
    const mr_listed_file *file = &all->list->files[from->file];
    mr_content_key key;
    if (!file->group || sscanf(file->group, "%" SCNx64 "-%" SCNx64, &key.high, &key.low) != 2)
        return mr_fail(MR_ERROR_DATA, "%s: the list of files has no key of its vectors", file->path);
    const mr_cache_record record = mr_extraction_record(&key, file->video, from);
    return mr_cache_put(&all->cache, MR_CACHE_NEXT, &record, vector, length);
}

/* The training process holds the cache's lock for home. */
static int open_served(mr_extraction *extraction, served *all) {
    char path[MR_TEMP_FOLDER_PATH + 32];
    mr_extraction_list(extraction, path, sizeof path);
    int status = mr_file_list_open(&all->list, path);
    for (size_t i = 0; !status && i < all->list->count; i++) {
        const mr_listed_file *file = &all->list->files[i];
        extraction->has_videos = extraction->has_videos || file->video;
        status = mr_extraction_note(extraction, file->path, file->start_ns, file->end_ns, i);
    }
    if (status || extraction->nodes->node != extraction->home)
        return status;
    status = mr_cache_open(&all->cache, extraction->spread->cache, extraction->cache_key);
    return status ? status : mr_cache_begin(&all->cache, 0);
}

/* True if none of its frames arrived anywhere. */
static bool was_idle(const mr_extraction *extraction) {
    mr_summary *summary = NULL;
    bool idle = !mr_pipeline_summarize(extraction->pipeline, &summary) && summary->delivered + summary->absorbed == 0;
    mr_summary_destroy(&summary);
    return idle;
}

/* Runs the node's pipeline as `run` does, including reports. Returns an exit code. */
static int run_node(mr_extraction *extraction) {
    const mr_plan_view *plan = NULL;
    bool told = false;
    int status = mr_extraction_wrap(extraction, true);
    if (!status)
        status = mr_extraction_open(extraction, &told);
    if (!status)
        status = mr_pipeline_view(extraction->pipeline, &plan);
    if (status)
        return told ? mr_status_exit_code(status) : mr_command_failed(status);
    int code = mr_run_here(&extraction->spread->run, extraction->pipeline, plan);
    mr_plan_view_close(&plan);
    if (extraction->status)
        return mr_command_failed(mr_fail(extraction->status, "%s", extraction->message));
    /* If all files are damaged, nothing comes; the training process counts them. */
    return code == mr_status_exit_code(MR_ERROR_DATA) && was_idle(extraction) ? 0 : code;
}

static int serve_list(mr_extraction *extraction) {
    mr_file_index index = {.index = {0}};
    served all = {.list = NULL};
    extraction->index = &index;
    extraction->take_vector = into_cache;
    extraction->user = &all;
    int status = open_served(extraction, &all);
    int code = status ? mr_command_failed(status) : run_node(extraction);
    mr_pipeline_destroy(&extraction->pipeline);
    mr_extraction_unwrap(extraction);
    mr_cache_close(&all.cache);
    mr_file_list_close(&all.list);
    mr_arena_fini(&index.arena);
    extraction->index = NULL;
    return code;
}

/* Serves lists until one is empty: home may be killed and ask again for vectors that it had not kept. Nodes under a
 * watching process have one list. */
static int serve_all(mr_extraction *extraction) {
    char list[MR_TEMP_FOLDER_PATH + 32];
    struct stat listed = {.st_size = 0};
    int code = 0;
    int status = await_list(extraction, &listed);
    mr_extraction_list(extraction, list, sizeof list);
    while (!status && listed.st_size > 0) {
        code = serve_list(extraction);
        if (code || getenv(folder_variable))
            break;
        mr_signals_end();
        if (mr_signals_came())
            break;
        if (stat(list, &listed)) /* home is about to replace it */
            listed = (struct stat){.st_size = 1};
        status = mr_signals_begin(extraction->spread->run.grace_ns);
        if (!status && listed.st_size > 0)
            status = await_list(extraction, &listed);
    }
    return status ? mr_command_failed(status) : code;
}

int mr_extraction_serve(mr_extraction *extraction) {
    mr_run_arguments *run = &extraction->spread->run;
    mr_launch_fini(&run->launch);
    int code = mr_extraction_trace(extraction);
    if (code)
        return code;
    int status = mr_run_enter(run);
    if (!status)
        status = name_folder(extraction);
    code = status ? mr_command_failed(status) : serve_all(extraction);
    mr_run_leave(run);
    return mr_signals_code(code);
}

/* ---- the process that watches ------------------------------------------------------------------------------------ */

static int status_of(int exit_code) {
    for (int status = MR_ERROR_USAGE; status >= MR_ERROR_CLOSED; status--)
        if (mr_status_exit_code(status) == exit_code)
            return status;
    return MR_ERROR_INTERNAL;
}

/* A node on another machine could not find this process's files. */
static int check_all_here(const mr_plan_view *plan) {
    for (size_t n = 0; n < plan->node_count; n++)
        if (!mr_launch_is_here(plan->nodes[n].address))
            return mr_fail(MR_ERROR_USAGE,
                           "node %s is on another machine (%s): start each node where it is, with --node, the same "
                           "MILLRACE_RUN and the same --cache, or let `millrace deploy --train` write what does",
                           plan->nodes[n].id, plan->nodes[n].address);
    return MR_OK;
}

static void write_command(mr_run_command *command, const mr_extraction *extraction) {
    const mr_extraction_nodes *spread = extraction->spread;
    mr_run_command_write(command, "train", "--threads", &spread->run);
    mr_run_command_add(command, "--data", spread->data);
    mr_run_command_add(command, "--output", spread->head);
    mr_run_command_add(command, "--cache", spread->cache);
    if (extraction->stage)
        mr_run_command_add(command, "--stage", extraction->stage);
}

/* The nodes' supervisor handles signals itself while it works; afterwards they are restored. */
static int supervise(mr_extraction *extraction, const mr_plan_view *plan) {
    mr_run_command command = {0};
    sigset_t before;
    int signal = 0;
    write_command(&command, extraction);
    const mr_supervision how = {.plan = plan,
                                .command = (const char *const *)command.words,
                                .show = extraction->show,
                                .json_stream = stderr,
                                .part = true,
                                .signal = &signal};
    pthread_sigmask(SIG_SETMASK, NULL, &before);
    setenv(folder_variable, extraction->folder, 1);
    int code = mr_supervise(&how);
    unsetenv(folder_variable);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    mr_run_command_fini(&command);
    if (signal)
        mr_stop_note(signal);
    return signal ? 0 : code;
}

static int open_wrapped(mr_extraction *extraction, const mr_plan_view **plan, bool *told) {
    int status = mr_extraction_wrap(extraction, true);
    if (!status)
        status = mr_extraction_open(extraction, told);
    return status ? status : mr_pipeline_view(extraction->pipeline, plan);
}

static int watch(mr_extraction *extraction, bool *told) {
    const mr_plan_view *plan = NULL;
    int status = open_wrapped(extraction, &plan, told);
    if (!status)
        status = check_all_here(plan);
    if (!status)
        status = mr_run_audit_open(extraction->spread->run.audit);
    if (!status) {
        int code = supervise(extraction, plan);
        *told = code != 0;
        status = code ? status_of(code) : MR_OK;
    }
    mr_plan_view_close(&plan);
    return status;
}

/* ---- the process that is home ------------------------------------------------------------------------------------ */

static int stay_home(mr_extraction *extraction, bool *told) {
    const mr_plan_view *plan = NULL;
    int status = open_wrapped(extraction, &plan, told);
    if (!status)
        status = mr_run_audit_open(extraction->spread->run.audit);
    if (!status) {
        mr_run_audit_begin(plan, extraction->path);
        status = mr_extraction_await(extraction);
        mr_run_audit_end(NULL, status);
    }
    mr_plan_view_close(&plan);
    return status;
}

/* ---- both roles -------------------------------------------------------------------------------------------------- */

mr_nodes_state mr_extraction_nodes_state(const mr_extraction *extraction) {
    mr_extraction named = {.spread = extraction->spread};
    char list[MR_TEMP_FOLDER_PATH + 32];
    if (extraction->role != MR_EXTRACTION_HOME || name_folder(&named))
        return MR_NODES_NEW;
    mr_extraction_list(&named, list, sizeof list);
    return access(list, F_OK) ? MR_NODES_NEW : is_empty(list) ? MR_NODES_ENDED : MR_NODES_WAIT;
}

static int make_folder(mr_extraction *extraction) {
    int status;
    if (extraction->role == MR_EXTRACTION_HOME) {
        status = name_folder(extraction);
        return status ? status : mr_file_make_folder(extraction->folder);
    }
    status = mr_temp_folder_make(&extraction->temp, extraction->spread->cache);
    snprintf(extraction->folder, sizeof extraction->folder, "%s", extraction->temp.folder);
    return status;
}

int mr_extraction_run_nodes(mr_extraction *extraction, const mr_extraction_job *job, bool *told) {
    int status = make_folder(extraction);
    if (!status)
        status = mr_extraction_write_list(extraction, job);
    if (!status)
        status = extraction->role == MR_EXTRACTION_HOME ? stay_home(extraction, told) : watch(extraction, told);
    mr_pipeline_destroy(&extraction->pipeline);
    mr_extraction_unwrap(extraction);
    if (!status && mr_stop_asked())
        status = mr_fail(MR_ERROR_CANCELLED, "interrupted");
    return status;
}

#include "engine/pipeline/listed.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/thread.h"
#include "engine/flow/graph.h"
#include "engine/pipeline/pipeline.h"
#include "engine/spec/spec_list.h"
#include "millrace/audit.h"
#include "millrace/log.h"

/* A source in the list, as last read. */
typedef struct known {
    char id[MR_SPEC_ID_BYTES + 1];
    char digest[MR_DIGEST_TEXT];
    bool there; /* it was added successfully */
} known;

struct mr_listed {
    mr_pipeline *pipeline;
    const char *path;
    pthread_t thread;
    pthread_mutex_t lock;    /* guards the end */
    bool threaded;
    int inotify, wake;       /* -1: there is none */
    atomic_bool ending;
    uint64_t seen;           /* the files' state when last read */
    uint64_t here;           /* the state of the path and the folder when last watched */
    size_t count;
    known *sources;
};

/* What a reread has changed. */
typedef struct outcome {
    int64_t added, changed, removed, refused;
} outcome;

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static void report(const mr_diagnostics *wrong) {
    for (size_t i = 0; i < wrong->count; i++) {
        const mr_diagnostic *one = &wrong->item[i];
        char place[32] = "";
        if (one->place.line)
            snprintf(place, sizeof place, ":%d:%d", one->place.line, one->place.column);
        /* Each message is a separate kind for the rate limit: one reading reports every problem; reading the same
         * problems again reports less. */
        mr_log_level level = one->severity == MR_SEVERITY_ERROR ? MR_LOG_ERROR : MR_LOG_WARNING;
        mr_log_repeating(level, one->message, "%s%s%s%s%s%s", one->place.file ? one->place.file : "", place,
                         one->place.file ? ": " : "", one->message, one->hint ? " - " : "",
                         one->hint ? one->hint : "");
    }
}

static void enter(const mr_listed *listed, const outcome *came, int status) {
    if (!status)
        mr_log(MR_LOG_INFO, "%s: sources added: %lld, changed: %lld, removed: %lld, refused: %lld", listed->path,
               (long long)came->added, (long long)came->changed, (long long)came->removed, (long long)came->refused);
    if (mr_audit_wanted())
        mr_audit("sources read", mr_audit_text("pipeline", listed->pipeline->plan->name),
                 mr_audit_text("file", listed->path), mr_audit_number("added", (uint64_t)came->added),
                 mr_audit_number("changed", (uint64_t)came->changed),
                 mr_audit_number("removed", (uint64_t)came->removed),
                 mr_audit_number("refused", (uint64_t)came->refused), mr_audit_text("status", mr_status_words(status)));
}

/* ---- differences ------------------------------------------------------------------------------------------------- */

static bool lists(const mr_index *ids, const char *id) {
    return mr_index_get(ids, id) != NULL;
}

/* Every source no longer listed must leave before others come, since the slot may be needed. */
static void remove_gone(mr_listed *listed, const mr_index *ids, outcome *came) {
    static const int64_t patience_ns = 1000000000;
    mr_graph *graph = listed->pipeline->graph;
    for (size_t i = 0; i < listed->count; i++)
        if (!lists(ids, listed->sources[i].id) && !mr_source_remove(graph->slots, listed->sources[i].id))
            came->removed++;
    /* If one hangs, the others are not waited for either. */
    for (size_t i = 0; i < listed->count && !atomic_load(&listed->ending); i++)
        if (!lists(ids, listed->sources[i].id) &&
            mr_source_await_removal(graph->slots, listed->sources[i].id, patience_ns))
            break;
}

/* True if the source is now as listed. */
static bool bring(const mr_listed *listed, const mr_spec_listed *source, const known *before, outcome *came) {
    mr_diagnostics wrong = {0};
    bool change = before && before->there && strcmp(before->digest, source->digest) != 0;
    int status = MR_ERROR_USAGE;
    if (change && !(status = mr_pipeline_set_node(listed->pipeline, source->id, source->node, &wrong)))
        came->changed++;
    /* If the source is no longer there, it cannot be changed and must be added. */
    if (status == MR_ERROR_USAGE) {
        mr_diagnostics_fini(&wrong);
        status = mr_pipeline_add_node(listed->pipeline, source->id, source->node, &wrong);
        came->added += !status;
    }
    if (status != MR_ERROR_CANCELLED) {
        came->refused += status != MR_OK;
        report(&wrong);
    }
    mr_diagnostics_fini(&wrong);
    return !status || change;
}

static int index_lists(const mr_listed *listed, const mr_spec_list *list, mr_arena *arena, mr_index *before,
                       mr_index *ids) {
    int status = MR_OK;
    for (size_t i = 0; i < listed->count && !status; i++)
        status = mr_index_put(before, arena, listed->sources[i].id, &listed->sources[i]);
    for (size_t i = 0; i < list->count && !status; i++)
        status = mr_index_put(ids, arena, list->sources[i].id, &list->sources[i]);
    return status;
}

static void apply(mr_listed *listed, const mr_spec_list *list, outcome *came) {
    mr_arena arena = {0};
    mr_index knowns = {0}, ids = {0};
    known *now = mr_calloc(list->count + 1, sizeof *now);
    if (!now || index_lists(listed, list, &arena, &knowns, &ids)) {
        mr_log(MR_LOG_ERROR, "%s: no memory for its sources", listed->path);
        mr_free(now);
        mr_arena_fini(&arena);
        return;
    }
    remove_gone(listed, &ids, came);
    for (size_t i = 0; i < list->count; i++) {
        const mr_spec_listed *source = &list->sources[i];
        const known *before = mr_index_get(&knowns, source->id);
        bool same = before && before->there && strcmp(before->digest, source->digest) == 0;
        snprintf(now[i].id, sizeof now[i].id, "%s", source->id);
        memcpy(now[i].digest, source->digest, sizeof now[i].digest);
        now[i].there = same || (!atomic_load(&listed->ending) && bring(listed, source, before, came));
    }
    mr_free(listed->sources);
    listed->sources = now;
    listed->count = list->count;
    mr_arena_fini(&arena);
}

static void read_list(mr_listed *listed) {
    mr_diagnostics wrong = {0};
    mr_spec_list *list = NULL;
    outcome came = {0};
    int status = mr_spec_list_read(&list, listed->pipeline->plan->spec, NULL, NULL, &wrong);
    if (status) {
        report(&wrong);
        mr_log_repeating(MR_LOG_ERROR, wrong.count ? wrong.item[0].message : "",
                         "%s: it has errors: no source has changed", listed->path);
    } else {
        apply(listed, list, &came);
    }
    enter(listed, &came, status);
    mr_spec_list_destroy(&list);
    mr_diagnostics_fini(&wrong);
}

/* ---- watching ---------------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, const char *path) {
    struct stat about;
    if (stat(path, &about))
        return sum * 31 + 1;
    const uint64_t parts[] = {(uint64_t)about.st_ino, (uint64_t)about.st_size, (uint64_t)about.st_mtim.tv_sec,
                              (uint64_t)about.st_mtim.tv_nsec, (uint64_t)about.st_ctim.tv_sec,
                              (uint64_t)about.st_ctim.tv_nsec};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum = (sum ^ parts[i]) * UINT64_C(0x100000001b3);
    return sum;
}

/* A digest that changes when a file changes: inotify also reports other files in the folder. */
static uint64_t state_of(const char *path) {
    uint64_t sum = mix(0, path);
    struct dirent **names = NULL;
    struct stat about;
    int count = !stat(path, &about) && S_ISDIR(about.st_mode) ? scandir(path, &names, NULL, alphasort) : 0;
    for (int i = 0; i < count; i++) {
        char file[PATH_MAX];
        const char *name = names[i]->d_name;
        for (const char *c = name; *c; c++)
            sum = (sum ^ (uint64_t)(unsigned char)*c) * UINT64_C(0x100000001b3);
        if (snprintf(file, sizeof file, "%s/%s", path, name) < (int)sizeof file && strcmp(name, "..") != 0)
            sum = mix(sum, file);
        free(names[i]);
    }
    free(names);
    return sum;
}

/* Finds the folder that holds the files. */
static const char *folder_of(const mr_listed *listed, char folder[PATH_MAX]) {
    struct stat about;
    snprintf(folder, PATH_MAX, "%s", listed->path);
    return !stat(folder, &about) && S_ISDIR(about.st_mode) ? folder : dirname(folder);
}

/* Changes if the path, the folder or a link on the way leads elsewhere. inotify cannot report that: it follows the
 * folder that was opened. */
static uint64_t place_of(const mr_listed *listed) {
    char folder[PATH_MAX];
    return mix(mix(0, listed->path), folder_of(listed, folder));
}

/* Watches the folder: editors and deployment tools replace the file. */
static void watch(mr_listed *listed) {
    char copy[PATH_MAX];
    const char *folder = folder_of(listed, copy);
    if (listed->inotify >= 0)
        close(listed->inotify);
    listed->here = place_of(listed);
    listed->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
    const uint32_t what = IN_CLOSE_WRITE | IN_MOVED_TO | IN_MOVED_FROM | IN_DELETE | IN_ATTRIB;
    if (listed->inotify < 0 || inotify_add_watch(listed->inotify, folder, what) < 0)
        mr_log_repeating(MR_LOG_WARNING, listed->path,
                         "%s cannot be watched (%s): changes of its files are seen only when the run is asked to read "
                         "them", folder, strerror(errno));
}

/* Whether there was anything to read. */
static bool drain(int fd) {
    char events[4096];
    bool any = false;
    while (fd >= 0 && read(fd, events, sizeof events) > 0)
        any = true;
    return any;
}

/* Treats several changes in quick succession as one. */
static void settle(const mr_listed *listed) {
    enum { QUIET_MS = 50, MOST = 20 };
    struct pollfd one = {.fd = listed->inotify, .events = POLLIN};
    for (int i = 0; i < MOST && !atomic_load(&listed->ending) && poll(&one, 1, QUIET_MS) > 0; i++)
        drain(listed->inotify);
}

static void *follow(void *context) {
    enum { LOOK_MS = 1000 };
    mr_listed *listed = context;
    listed->seen = state_of(listed->path);
    read_list(listed);
    while (!atomic_load(&listed->ending)) {
        struct pollfd fds[] = {{.fd = listed->wake, .events = POLLIN}, {.fd = listed->inotify, .events = POLLIN}};
        int events = poll(fds, 2, LOOK_MS);
        if (events < 0 || (!events && place_of(listed) == listed->here))
            continue;
        watch(listed);
        bool asked = drain(listed->wake);
        drain(listed->inotify);
        if (!asked)
            settle(listed);
        uint64_t seen = state_of(listed->path);
        if (atomic_load(&listed->ending) || (seen == listed->seen && !asked))
            continue;
        listed->seen = seen;
        read_list(listed);
    }
    return NULL;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

int mr_listed_start(mr_listed **listed, mr_pipeline *pipeline) {
    if (!pipeline->plan->spec->sources_from || !mr_plan_changes(pipeline->plan))
        return MR_OK;
    mr_listed *made = mr_calloc(1, sizeof *made);
    if (!made)
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of sources");
    *made = (mr_listed){.pipeline = pipeline, .path = pipeline->plan->spec->sources_from, .inotify = -1, .wake = -1};
    pthread_mutex_init(&made->lock, NULL);
    *listed = made;
    /* A seeded run must not have threads. */
    if (pipeline->graph->run.seed) {
        read_list(made);
        return MR_OK;
    }
    watch(made);
    made->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    made->threaded = made->wake >= 0 && !mr_thread_create(&made->thread, follow, made);
    if (!made->threaded)
        return mr_fail(MR_ERROR_MEMORY, "cannot start a thread that watches %s", made->path);
    pthread_setname_np(made->thread, "mr-sources");
    return MR_OK;
}

static void tell(const mr_listed *listed) {
    const uint64_t one = 1;
    if (write(listed->wake, &one, sizeof one) != sizeof one)
        mr_log(MR_LOG_DEBUG, "%s is being read already", listed->path);
}

int mr_pipeline_reload_sources(mr_pipeline *pipeline) {
    MR_PLAIN_NUMBERS;
    mr_listed *listed = pipeline->listed;
    if (!listed)
        return mr_fail(MR_ERROR_USAGE,
                       "pipeline %s has no list of sources: write sources_from: cameras.yaml in its file",
                       pipeline->plan->name);
    if (atomic_load(&listed->ending))
        return mr_fail(MR_ERROR_USAGE, "pipeline %s has ended", pipeline->plan->name);
    if (listed->wake >= 0)
        tell(listed);
    else
        read_list(listed);
    return MR_OK;
}

void mr_listed_end(mr_listed *listed) {
    if (!listed)
        return;
    MR_LOCKED(&listed->lock);
    atomic_store(&listed->ending, true);
    if (listed->threaded) {
        tell(listed);
        pthread_join(listed->thread, NULL);
    }
    listed->threaded = false;
}

void mr_listed_stop(mr_listed **listed) {
    mr_listed *gone = *listed;
    if (!gone)
        return;
    mr_listed_end(gone);
    if (gone->inotify >= 0)
        close(gone->inotify);
    if (gone->wake >= 0)
        close(gone->wake);
    pthread_mutex_destroy(&gone->lock);
    mr_free(gone->sources);
    mr_free(gone);
    *listed = NULL;
}

/* systemd: systemctl links the units in the submission's folder, starts them, and shows them. They are gone after a
 * reboot. The user's service manager takes them, or the system's if root submits. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "engine/base/print.h"
#include "tools/millrace/submit/sites.h"

static const char *const kept[] = {"user", "system", "host", "machine", NULL};
static const char *const refused[] = {"root", "image", "no-reload", "now", "force", "quiet", "output", "help", NULL};

static bool has(const mr_submission *one, const char *option) {
    for (size_t i = 0; i < one->options.count; i++)
        if (strcmp(one->options.item[i], option) == 0)
            return true;
    return false;
}

static bool is_user(const mr_submission *one) {
    return has(one, "--user") || (geteuid() != 0 && !has(one, "--system"));
}

static mr_site_words begin(const mr_submission *one, const char *verb) {
    mr_site_words words = {0};
    mr_site_add(&words, "systemctl");
    mr_site_add_all(&words, &one->options);
    if (is_user(one) && !has(one, "--user"))
        mr_site_add(&words, "--user");
    mr_site_add(&words, "%s", verb);
    return words;
}

/* "three.target", or "one.service" for a pipeline without nodes. */
static bool has_nodes(const mr_submission *one) {
    for (size_t i = 0; i < one->files.count; i++)
        if (strstr(one->files.item[i], "-end.target"))
            return true;
    return false;
}

static bool is_unit(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && strcmp(dot, ".env") != 0;
}

static void add_files(mr_site_words *words, const mr_submission *one, bool as_names) {
    for (size_t i = 0; i < one->files.count; i++) {
        const char *path = one->files.item[i];
        if (is_unit(path))
            mr_site_add(words, "%s", as_names ? strrchr(path, '/') + 1 : path);
    }
}

/* "three-camera.service", "three-worker@1.service" */
static void add_unit(mr_site_words *words, const mr_submission *one, size_t i) {
    const mr_job_process *process = &one->job.process[i];
    const bool first = i == 0 || strcmp(process[-1].node, process->node) != 0;
    const bool last = i + 1 == one->job.count || strcmp(process[1].node, process->node) != 0;
    if (!has_nodes(one))
        mr_site_add(words, "%s.service", one->name);
    else if (first && last)
        mr_site_add(words, "%s-%s.service", one->name, process->node);
    else
        mr_site_add(words, "%s-%s@%d.service", one->name, process->node, process->replica);
}

/* A folder that several machines share has the records of all of them. */
static int check_place(const mr_submission *one) {
    return mr_site_is_here(one) ? MR_OK : mr_fail(MR_ERROR_UNAVAILABLE, "%s was submitted on %s: ask and cancel there",
                                                  one->id, one->host);
}

static int call(const mr_submission *one, mr_site_words *words) {
    char *out;
    int status = mr_site_call(one, words, &out);
    mr_free(out);
    return status;
}

static int unlink_units(const mr_submission *one, const char *only);

/* `link` may have made some of the links. A link that can be made again is ours; another has that name, too. */
static int undo_links(mr_submission *one, int status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", mr_message());
    for (size_t i = 0; i < one->files.count; i++) {
        const char *path = one->files.item[i];
        if (!is_unit(path))
            continue;
        mr_site_words words = begin(one, "link");
        mr_site_add(&words, "--runtime");
        mr_site_add(&words, "%s", path);
        if (!call(one, &words) && unlink_units(one, path))
            one->left = true;
    }
    return mr_fail(status, "%s", why);
}

/* All options are in one->options. */
static int hand_over(mr_submission *one, const mr_words *options) {
    snprintf(one->site_id, sizeof one->site_id, "%s.%s", one->name, has_nodes(one) ? "target" : "service");
    mr_site_words words = begin(one, "link");
    mr_site_add(&words, "--runtime");
    add_files(&words, one, false);
    int status = call(one, &words);
    if (status)
        return undo_links(one, status);
    words = begin(one, "start");
    mr_site_add(&words, "--no-block");
    mr_site_add(&words, "%s", one->site_id);
    status = call(one, &words);
    return status ? mr_site_withdraw(one, status) : MR_OK;
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

typedef struct unit {
    char load[32], active[32], sub[32], result[32], code[16], status[16], restarts[16], started[24], job[16];
    char text[MR_JOB_TEXT];
} unit;

static void take_line(unit *of, const char *line) {
    const struct {
        const char *key;
        char *value;
        size_t room;
    } fields[] = {{"LoadState", of->load, sizeof of->load},
                  {"ActiveState", of->active, sizeof of->active},
                  {"SubState", of->sub, sizeof of->sub},
                  {"Result", of->result, sizeof of->result},
                  {"ExecMainCode", of->code, sizeof of->code},
                  {"ExecMainStatus", of->status, sizeof of->status},
                  {"NRestarts", of->restarts, sizeof of->restarts},
                  {"ExecMainStartTimestampMonotonic", of->started, sizeof of->started},
                  {"Job", of->job, sizeof of->job},
                  {"StatusText", of->text, sizeof of->text}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const size_t length = strlen(fields[i].key);
        if (strncmp(line, fields[i].key, length) == 0 && line[length] == '=')
            mr_print_into(fields[i].value, fields[i].room, "%s", line + length + 1);
    }
}

static const char properties[] = "--property=LoadState,ActiveState,SubState,Result,ExecMainCode,ExecMainStatus,"
                                 "NRestarts,ExecMainStartTimestampMonotonic,Job,StatusText";

/* ExecMainCode is waitid's: 1: exited, 2 and 3: ended by a signal. */
static void set_ended(const unit *of, mr_job_process *one) {
    const int status = atoi(of->status);
    one->code = mr_job_code(atoi(of->code) > 1 ? 128LL + status : status);
    one->state = strcmp(of->active, "failed") == 0 || one->code ? MR_JOB_FAILED : MR_JOB_ENDED;
    if (one->state == MR_JOB_FAILED)
        snprintf(one->why, sizeof one->why, "%s", of->result);
}

/* It waits for no job of systemd's. systemd forgets a unit that has ended well, unless a target refers to it. */
static void set_idle(bool in_target, mr_job_process *one) {
    one->state = in_target ? MR_JOB_UNKNOWN : MR_JOB_ENDED;
    one->code = in_target ? -1 : 0;
    snprintf(one->why, sizeof one->why, "%s", in_target ? "the unit was not started" : "");
}

static void set_process(const unit *of, bool in_target, mr_job_process *one) {
    const bool inactive = strcmp(of->active, "inactive") == 0 || strcmp(of->active, "failed") == 0;
    const bool started = *of->started && strcmp(of->started, "0") != 0;
    one->restarts = atoi(of->restarts);
    if (strcmp(of->load, "loaded") != 0) {
        one->state = MR_JOB_UNKNOWN;
        snprintf(one->why, sizeof one->why, "the unit is gone (%s)", *of->load ? of->load : "systemd shows none");
    } else if (inactive && (started || *of->active == 'f'))
        set_ended(of, one);
    else if (inactive && !atoi(of->job))
        set_idle(in_target, one);
    else if (inactive)
        one->state = MR_JOB_QUEUED;
    else {
        one->state = MR_JOB_RUNNING;
        snprintf(one->why, sizeof one->why, "%s", strcmp(of->sub, "running") != 0 ? of->sub : of->text);
    }
}

/* The units' properties come in their order, with an empty line between two units. */
static int read_units(const mr_submission *one, char *answer, mr_job *job) {
    char *rest = answer;
    for (size_t i = 0; i < job->count; i++) {
        unit of = {0};
        for (const char *line; (line = strsep(&rest, "\n")) && *line;)
            take_line(&of, line);
        set_process(&of, has_nodes(one), &job->process[i]);
        snprintf(job->process[i].host, sizeof job->process[i].host, "%s", one->host);
    }
    mr_job_judge(job);
    if (job->state == MR_JOB_RUNNING)
        snprintf(job->hosts, sizeof job->hosts, "%s", one->host);
    return MR_OK;
}

static int ask(const mr_submission *one, mr_job *job) {
    char *out;
    int status = check_place(one);
    if (status)
        return status;
    mr_site_words words = begin(one, "show");
    mr_site_add(&words, "%s", properties);
    for (size_t i = 0; i < one->job.count; i++)
        add_unit(&words, one, i);
    status = mr_site_call(one, &words, &out);
    if (status)
        return status;
    status = read_units(one, out, job);
    mr_free(out);
    return status;
}

/* Units are gone after a reboot. */
static int call_for_any(const mr_submission *one, mr_site_words *words) {
    int status = call(one, words);
    const bool gone = status && (strstr(mr_message(), "not loaded") || strstr(mr_message(), "does not exist"));
    return gone ? MR_OK : status;
}

static int call_for_units(const mr_submission *one, const char *verb) {
    mr_site_words words = begin(one, verb);
    if (has_nodes(one))
        mr_site_add(&words, "%s.target", one->name);
    for (size_t i = 0; i < one->job.count; i++)
        add_unit(&words, one, i);
    return call_for_any(one, &words);
}

/* Removes the links of one unit, or of all if `only` is NULL. */
static int unlink_units(const mr_submission *one, const char *only) {
    mr_site_words words = begin(one, "disable");
    mr_site_add(&words, "--runtime");
    if (only)
        mr_site_add(&words, "%s", strrchr(only, '/') + 1);
    else
        add_files(&words, one, true);
    return call_for_any(one, &words);
}

/* The units are stopped, and their links removed. */
static int cancel(const mr_submission *one) {
    int status = check_place(one);
    if (!status)
        status = call_for_units(one, "stop");
    if (!status)
        status = call_for_units(one, "reset-failed");
    return status ? status : unlink_units(one, NULL);
}

static void print_log(const mr_submission *one, FILE *to) {
    mr_print(to, "journalctl%s --unit '%s%s'", is_user(one) ? " --user" : "", one->name,
             has_nodes(one) ? "-*" : ".service");
}

const mr_site mr_site_systemd = {"systemd", kept, refused, hand_over, ask, read_units, cancel, print_log};

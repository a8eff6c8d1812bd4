#include "engine/observe/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/log.h"
#include "millrace/status.h"

enum { CLOSED = -1, TIME_TEXT = 32 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static int fd = CLOSED;
static bool complained;

/* ---- the file -------------------------------------------------------------------------------------------------- */

/* A line that was cut off must not swallow the next one. */
static int end_last_line(int file, const char *path) {
    char last = '\n';
    off_t bytes = lseek(file, 0, SEEK_END);
    if (bytes > 0 && pread(file, &last, 1, bytes - 1) == 1 && last != '\n' && write(file, "\n", 1) != 1)
        return mr_file_fail("write to", path);
    return MR_OK;
}

int mr_audit_open(const char *path) {
    int opened = open(path, O_RDWR | O_CREAT | O_APPEND | O_NOCTTY | O_CLOEXEC | O_NONBLOCK, 0640);
    if (opened < 0)
        return mr_file_fail("write to", path);
    int status = end_last_line(opened, path);
    if (status) {
        close(opened);
        return status;
    }
    pthread_mutex_lock(&lock);
    fd = opened;
    complained = false;
    pthread_mutex_unlock(&lock);
    return MR_OK;
}

void mr_audit_close(void) {
    pthread_mutex_lock(&lock);
    if (fd != CLOSED)
        close(fd);
    fd = CLOSED;
    pthread_mutex_unlock(&lock);
}

bool mr_audit_wanted(void) {
    pthread_mutex_lock(&lock);
    bool wanted = fd != CLOSED;
    pthread_mutex_unlock(&lock);
    return wanted;
}

/* ---- entries --------------------------------------------------------------------------------------------------- */

static const char *time_text(char text[TIME_TEXT]) {
    struct timespec now;
    struct tm parts;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &parts);
    size_t length = strftime(text, TIME_TEXT, "%Y-%m-%dT%H:%M:%S", &parts);
    snprintf(text + length, TIME_TEXT - length, ".%06ldZ", now.tv_nsec / 1000);
    return text;
}

/* Called with the lock. */
static void append(const unsigned char *line, size_t bytes) {
    if (fd == CLOSED)
        return;
    ssize_t written = write(fd, line, bytes);
    if (written == (ssize_t)bytes && (fdatasync(fd) == 0 || errno == EINVAL))
        return; /* EINVAL: a pipe, which has no disk behind it */
    if (!complained)
        mr_log(MR_LOG_ERROR, "the audit log cannot be written: %s", written < 0 ? strerror(errno) : "no room");
    complained = true;
}

static void put_field(yajl_gen json, const mr_audit_field *field) {
    if (field->counts)
        mr_json_integer(json, field->name, (int64_t)field->number);
    else
        mr_json_text(json, field->name, field->text);
}

void mr_audit_enter(const char *event, const mr_audit_field *fields) {
    char text[TIME_TEXT];
    if (!mr_audit_wanted())
        return;
    yajl_gen json = mr_json_create(false);
    if (!json)
        return;
    mr_json_open_map(json, NULL);
    mr_json_text(json, "time", time_text(text));
    mr_json_integer(json, "pid", getpid());
    mr_json_text(json, "event", event);
    for (const mr_audit_field *field = fields; field->name; field++)
        put_field(json, field);
    yajl_gen_map_close(json);
    yajl_gen_reset(json, "\n");
    const unsigned char *line = NULL;
    size_t bytes = 0;
    yajl_gen_get_buf(json, &line, &bytes);
    pthread_mutex_lock(&lock);
    append(line, bytes);
    pthread_mutex_unlock(&lock);
    yajl_gen_free(json);
}

/* ---- how often ------------------------------------------------------------------------------------------------- */

static const double MOST_ENTRIES = 20, ENTRIES_PER_NS = 1e-9;

mr_audit_allowance mr_audit_allowance_at(int64_t now_ns) {
    return (mr_audit_allowance){.entries = MOST_ENTRIES, .counted_ns = now_ns};
}

bool mr_audit_may(mr_audit_allowance *allowance, int64_t now_ns) {
    double entries = allowance->entries + (double)(now_ns - allowance->counted_ns) * ENTRIES_PER_NS;
    allowance->entries = entries < MOST_ENTRIES ? entries : MOST_ENTRIES;
    allowance->counted_ns = now_ns;
    if (allowance->entries < 1)
        return false;
    allowance->entries--;
    return true;
}

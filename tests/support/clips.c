#include "tests/support/clips.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

/* The clip folder. */
static const char *folder(void) {
    const char *given = getenv("MILLRACE_CLIPS");
    return given && *given ? given : "test-clips";
}

bool clips_available(void) {
    static int status = -1;
    if (status < 0) /* does not start them, which takes a tenth of a second each */
        status = system("command -v ffmpeg >/dev/null && command -v ffprobe >/dev/null");
    if (status == 0)
        return true;
    print_message("skipped: the programs ffmpeg and ffprobe, which make the clips, are missing\n");
    return false;
}

void need_clips(void) {
    if (!clips_available())
        skip();
}

void clip_path(char path[CLIP_PATH], const char *name) {
    snprintf(path, CLIP_PATH, "%s/%s", folder(), name);
}

void clip_shell(const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command, sizeof command, format, arguments);
    va_end(arguments);
    if (system(command) != 0)
        fail_msg("failed: %s", command);
}

/* Makes a clip with a shell command, unless it exists. If several tests need it at the same time, one makes it and the
 * others wait. */
static void make_once(const char *path, const char *command) {
    if (access(path, F_OK) == 0)
        return;
    char name[CLIP_PATH + 8];
    snprintf(name, sizeof name, "%s.lock", path);
    clip_shell("mkdir -p '%s'", folder());
    const int lock = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    assert_true(lock >= 0 && flock(lock, LOCK_EX) == 0);
    const int status = access(path, F_OK) == 0 ? 0 : system(command);
    close(lock);
    if (status != 0)
        fail_msg("failed: %s", command);
}

void clip_make(char path[CLIP_PATH], const char *name, const char *arguments) {
    char command[4096];
    clip_path(path, name);
    /* Must be made under another name first: a test can be killed. */
    snprintf(command, sizeof command,
             "part='%s/%d-%s' && ffmpeg -nostdin -v error -y %s \"$part\" && mv \"$part\" '%s'", folder(),
             getpid(), name, arguments, path);
    make_once(path, command);
}

void clip_make_twice(char path[CLIP_PATH], const char *name, const char *arguments) {
    char command[4096];
    clip_path(path, name);
    snprintf(command, sizeof command,
             "log='%s/%d-%s' && ffmpeg -nostdin -v error -y %s -pass 1 -passlogfile \"$log\" -f null - && "
             "ffmpeg -nostdin -v error -y %s -pass 2 -passlogfile \"$log\" \"$log\" && rm \"$log\"-* && "
             "mv \"$log\" '%s'",
             folder(), getpid(), name, arguments, arguments, path);
    make_once(path, command);
}

FILE *clip_ask(const char *format, ...) {
    char command[4096];
    va_list arguments;
    va_start(arguments, format);
    const char *programs = getenv("MILLRACE_REFERENCES");
    const int before = programs ? snprintf(command, sizeof command, "PATH='%s':$PATH; ", programs) : 0;
    vsnprintf(command + before, sizeof command - (size_t)before, format, arguments);
    va_end(arguments);
    FILE *answer = popen(command, "r");
    assert_non_null(answer);
    return answer;
}

/* Reads picture times from the stream's start, which ffprobe prints last. Returns how many. */
static size_t read_times(FILE *answer, double *seconds) {
    double start = 0;
    size_t count = 0;
    for (char line[128], text[64]; fgets(line, sizeof line, answer);) {
        if (count < CLIP_FRAMES && sscanf(line, "best_effort_timestamp_time=%63s", text) == 1)
            seconds[count++] = strcmp(text, "N/A") == 0 ? NAN : strtod(text, NULL);
        else if (sscanf(line, "start_time=%63s", text) == 1 && strcmp(text, "N/A") != 0)
            start = strtod(text, NULL);
    }
    for (size_t i = 0; i < count; i++)
        seconds[i] -= start;
    return count;
}

/* AVI packets have no times: pictures follow each other from 0. FFmpeg starts later and repeats the last times. */
static void count_times(clip_frames *frames) {
    enum { RATE = 25 };
    for (size_t k = 0; k < frames->count; k++)
        frames->seconds[k] = (double)k / RATE;
}

static void ask_reference(const char *path, clip_frames *frames) {
    /* Runs both at once: most of the time goes into starting them. */
    FILE *probe = clip_ask("ffprobe -v quiet -threads 1 -select_streams V:0 -show_entries "
                      "stream=start_time:frame=best_effort_timestamp_time -of default=nw=1 '%s'", path);
    FILE *answer =
        clip_ask("ffmpeg -nostdin -v quiet -threads 1 -noautorotate -i '%s' -map 0:V:0 -vsync passthrough -autoscale 0 "
            "-f framemd5 -",
            path);
    size_t times = read_times(probe, frames->seconds);
    pclose(probe);
    for (char line[256]; fgets(line, sizeof line, answer);) {
        const char *md5 = strrchr(line, ',');
        if (line[0] == '#' || !md5 || frames->count == CLIP_FRAMES)
            continue;
        assert_int_equal(sscanf(md5 + 1, " %32s", frames->md5[frames->count]), 1);
        frames->count++;
    }
    pclose(answer);
    assert_int_equal(times, frames->count);
    if (strstr(path, ".avi"))
        count_times(frames);
}

/* Whether the file `kept` was written after the clip. */
static bool is_newer(const char *kept, const char *path) {
    struct stat of_kept, of_clip;
    if (stat(kept, &of_kept) || stat(path, &of_clip))
        return false;
    const struct timespec a = of_kept.st_mtim, b = of_clip.st_mtim;
    return a.tv_sec > b.tv_sec || (a.tv_sec == b.tv_sec && a.tv_nsec > b.tv_nsec);
}

/* The answers are kept beside the clip, for other suites and for the builds with sanitizers. Lossy codecs that no
 * standard defines to the last bit (MPEG-4, JPEG) give other pictures on another kind of processor. */
void clip_reference(const char *path, clip_frames *frames) {
    char kept[CLIP_PATH + 96], part[CLIP_PATH + 112];
    struct utsname machine;
    *frames = (clip_frames){0};
    assert_int_equal(uname(&machine), 0);
    snprintf(kept, sizeof kept, "%s.%.65s.reference", path, machine.machine);
    snprintf(part, sizeof part, "%s.%d", kept, getpid());
    FILE *file = is_newer(kept, path) ? fopen(kept, "rb") : NULL;
    const bool read = file && fread(frames, sizeof *frames, 1, file) == 1;
    if (file)
        fclose(file);
    if (read)
        return;
    *frames = (clip_frames){0};
    ask_reference(path, frames);
    file = fopen(part, "wb");
    const bool written = file && fwrite(frames, sizeof *frames, 1, file) == 1;
    if (file && fclose(file) == 0 && written)
        rename(part, kept);
}

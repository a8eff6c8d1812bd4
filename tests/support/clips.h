/* Clips that the ffmpeg program makes at test time, with the output of ffmpeg and ffprobe as reference for reading and
 * decoding. Clips are kept in MILLRACE_CLIPS, else in the build folder, and made once. Every function fails the test if
 * it cannot do its work; a suite calls clips_available first and skips, with a message, if the programs are missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CLIP_PATH = 512, CLIP_FRAMES = 288, CLIP_MD5 = 33 };

bool clips_available(void);

/* The path of a file or folder in the folder of clips. */
void clip_path(char path[CLIP_PATH], const char *name);
/* Makes a clip by "ffmpeg ARGUMENTS path", unless it is there. */
void clip_make(char path[CLIP_PATH], const char *name, const char *arguments);
/* The same in two passes of the encoder. */
void clip_make_twice(char path[CLIP_PATH], const char *name, const char *arguments);
/* Runs a shell command (printf style) and fails the test if it fails. */
void clip_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The frames of the first video stream that is not a cover, in presentation order. */
typedef struct clip_frames {
    size_t count;
    double seconds[CLIP_FRAMES];          /* from the start of the stream; by ffprobe. NAN if it has none */
    char md5[CLIP_FRAMES][CLIP_MD5];      /* of the raw picture, planes in a row; by ffmpeg */
} clip_frames;
void clip_reference(const char *path, clip_frames *frames);

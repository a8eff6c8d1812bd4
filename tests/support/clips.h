/* Clips that the ffmpeg program makes at test time; ffmpeg and ffprobe also give the reference for reading and
 * decoding. Clips are made once and kept in MILLRACE_CLIPS or the build folder. Every function fails the test if it
 * cannot do the work. CLIP_TEST skips a test if the programs are missing. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum { CLIP_PATH = 512, CLIP_FRAMES = 288, CLIP_MD5 = 33 };

bool clips_available(void);
/* Skips the test, with a message, unless clips can be made. */
void need_clips(void);
#define CLIP_TEST(name) TEST_THAT(name, need_clips)

/* The path for a file or folder in the clip folder. */
void clip_path(char path[CLIP_PATH], const char *name);
/* Makes a clip with "ffmpeg ARGUMENTS path", unless it exists. */
void clip_make(char path[CLIP_PATH], const char *name, const char *arguments);
/* The same with two encoder passes. */
void clip_make_twice(char path[CLIP_PATH], const char *name, const char *arguments);
/* Runs a shell command (printf style) and fails the test if it fails. */
void clip_shell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Starts a shell command (printf style) that gives a reference: it finds ffmpeg and ffprobe in the folder
 * MILLRACE_REFERENCES first. Under qemu those are built for ARM64, like the decoders that they judge. The caller must
 * read the output and pclose it. */
FILE *clip_ask(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Frames in the first video stream that is not a cover, in presentation order. */
typedef struct clip_frames {
    size_t count;
    double seconds[CLIP_FRAMES];          /* from the stream's start, by ffprobe; NAN without a time */
    char md5[CLIP_FRAMES][CLIP_MD5];      /* for the raw picture with packed planes, by ffmpeg */
} clip_frames;
/* Asks ffmpeg and ffprobe, once a clip: the answers are kept beside it, and asked anew if the clip is newer. */
void clip_reference(const char *path, clip_frames *frames);

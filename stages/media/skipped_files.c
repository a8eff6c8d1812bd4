#include "stages/media/skipped_files.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "stages/media/still/kinds.h"

/* The file name's extension in lower case, with the dot; "" if there is none or it is long. */
static void ending_of(const char *path, char ending[MR_SKIPPED_FILES_ENDING]) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    ending[0] = '\0';
    if (!dot || dot == name || !dot[1] || strlen(dot) >= MR_SKIPPED_FILES_ENDING)
        return;
    for (size_t i = 0; i <= strlen(dot); i++)
        ending[i] = (char)(isgraph((unsigned char)dot[i]) || !dot[i] ? tolower((unsigned char)dot[i]) : '?');
}

/* Keeps extensions sorted and unique, whatever order the folder is read in. */
static void note_ending(mr_skipped_files *left, const char *path) {
    char ending[MR_SKIPPED_FILES_ENDING];
    ending_of(path, ending);
    for (int i = 0; ending[0] && i < MR_SKIPPED_FILES_ENDINGS; i++) {
        const int order = left->ending[i][0] ? strcmp(ending, left->ending[i]) : -1;
        if (order == 0)
            return;
        if (order > 0)
            continue;
        char moved[MR_SKIPPED_FILES_ENDING];
        memcpy(moved, left->ending[i], sizeof moved);
        memcpy(left->ending[i], ending, sizeof moved);
        memcpy(ending, moved, sizeof moved);
    }
    left->more_endings |= ending[0] != '\0';
}

void mr_skipped_files_add(mr_skipped_files *left, const char *path, bool is_folder) {
    if (is_folder) {
        left->folders++;
    } else if (mr_image_codec_by_name(path)) {
        left->pictures++;
    } else if (mr_is_video_by_name(path)) {
        left->videos++;
    } else {
        left->others++;
        note_ending(left, path);
    }
}

bool mr_skipped_files_any(const mr_skipped_files *left) {
    return left->pictures || left->videos || left->others || left->folders || left->special;
}

static void print_endings(const mr_skipped_files *left, char *text, size_t room) {
    size_t length = 0;
    text[0] = '\0';
    for (int i = 0; i < MR_SKIPPED_FILES_ENDINGS && left->ending[i][0] && length < room; i++)
        length += (size_t)snprintf(text + length, room - length, "%s%s", i ? " " : " (", left->ending[i]);
    if (length && length < room)
        snprintf(text + length, room - length, "%s)", left->more_endings ? " ..." : "");
}

const char *mr_skipped_files_print(const mr_skipped_files *left, char text[MR_SKIPPED_FILES_TEXT]) {
    char endings[MR_SKIPPED_FILES_ENDINGS * MR_SKIPPED_FILES_ENDING + 16];
    const struct {
        size_t count;
        const char *one, *many, *more;
    } parts[] = {{left->pictures, "picture", "pictures", " in no folder of a class"},
                 {left->videos, "video", "videos", ""},
                 {left->others, "file of another kind", "files of other kinds", endings},
                 {left->special, "pipe, socket or device", "pipes, sockets or devices", ""},
                 {left->folders, "folder", "folders", ""}};
    size_t length = 0, kinds = 0, printed = 0;
    print_endings(left, endings, sizeof endings);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        kinds += parts[i].count > 0;
    text[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && length < MR_SKIPPED_FILES_TEXT; i++) {
        if (!parts[i].count)
            continue;
        const char *before = !printed ? "" : printed + 1 == kinds ? " and " : ", ";
        length += (size_t)snprintf(text + length, MR_SKIPPED_FILES_TEXT - length, "%s%zu %s%s", before, parts[i].count,
                                   parts[i].count == 1 ? parts[i].one : parts[i].many, parts[i].more);
        printed++;
    }
    return text;
}

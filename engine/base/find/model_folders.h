/* Where models are found by name. A pipeline that says `model: lite0` means lite0.onnx in the first of these folders
 * that has it:
 *
 *   1. those of $MILLRACE_MODELS, separated by ":";
 *   2. $MODELS;
 *   3. $XDG_DATA_HOME/millrace/models, by default ~/.local/share/millrace/models;
 *   4. `models` beside the program, where tools/demo makes them, and in the build that the Python module belongs to;
 *   5. PREFIX/share/millrace/models, where millrace is installed;
 *   6. millrace/models in the folders of $XDG_DATA_DIRS, by default /usr/local/share and /usr/share.
 *
 * Relative folders of the first two begin at the current folder. Other variables name no relative folders, by the XDG
 * specification: those are left out. Any thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

enum { MR_MODEL_FOLDERS = 16, MR_MODEL_NAME = 128 };

typedef struct mr_model_folders {
    int count, asked; /* the first `asked` come from $MILLRACE_MODELS and $MODELS */
    char path[MR_MODEL_FOLDERS][PATH_MAX];
} mr_model_folders;

/* The folders, in order, each once; also those that do not exist. */
void mr_model_folders_find(mr_model_folders *folders);
/* The folder for new models: the first that is asked for, else the user's own. False if there is no such folder,
 * since no variable names one. */
bool mr_model_folders_own(char path[PATH_MAX]);

/* Whether a text may be a model's name: letters, digits, "-" and "_", and no path. */
bool mr_is_model_name(const char *text);
/* The file `name` with that ending, such as ".onnx". False if no folder has it. */
bool mr_named_model_find(const char *name, const char *ending, char path[PATH_MAX]);
/* The names of all files with that ending, separated by ", "; cut if there are too many. */
void mr_named_model_list(const char *ending, char *list, size_t bytes);

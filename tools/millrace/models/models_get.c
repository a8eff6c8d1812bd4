/* Hands over to the program that makes models, tools/models/make.py. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/find/installed.h"
#include "engine/base/find/model_folders.h"
#include "engine/base/memory.h"
#include "millrace/status.h"
#include "tools/millrace/models/models.h"

enum { PROGRAM = PATH_MAX + 64 };

/* A build's folder is in the source tree, or in a folder there. Other folders, such as ~/bin, have nothing to do with
 * what is above them. */
static bool find_in_tree(char path[PROGRAM]) {
    static const char *const above[] = {"..", "../.."};
    char folder[PATH_MAX];
    char *slash = realpath("/proc/self/exe", folder) ? strrchr(folder, '/') : NULL;
    if (!slash)
        return false;
    *slash = 0;
    snprintf(path, PROGRAM, "%s/CMakeCache.txt", folder);
    if (access(path, F_OK) != 0)
        return false;
    for (size_t i = 0; i < sizeof above / sizeof *above; i++) {
        snprintf(path, PROGRAM, "%s/%s/tools/models/make.py", folder, above[i]);
        if (access(path, R_OK) == 0)
            return true;
    }
    return false;
}

/* A build's own comes first: an installed one, of another version, has another list of models. */
static bool find_program(char path[PROGRAM]) {
    char data[PATH_MAX];
    if (find_in_tree(path))
        return true;
    if (!mr_installed_data(data))
        return false;
    snprintf(path, PROGRAM, "%s/converters/make.py", data);
    return access(path, R_OK) == 0;
}

/* millrace ignores and blocks some signals, and a program inherits that. */
static void expect_signals(void) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    signal(SIGXFSZ, SIG_DFL);
}

int mr_models_get(const char *const *names, size_t count, const char *to, const char *file) {
    enum { MORE = 8 };
    char program[PROGRAM], own[PATH_MAX];
    if (!find_program(program))
        return mr_fail(MR_ERROR_UNAVAILABLE, "the program that makes models is not here: a copy of the command alone "
                                              "has none. Run the command in its build's folder, or the installed one");
    if (!to && !mr_model_folders_own(own))
        return mr_fail(MR_ERROR_USAGE, "HOME is not set: name a folder with --to");
    const char **words = mr_calloc(count + MORE, sizeof *words);
    if (!words)
        return MR_ERROR_MEMORY;
    size_t used = 0;
    words[used++] = "python3";
    words[used++] = program;
    for (size_t i = 0; i < count; i++)
        words[used++] = names[i];
    words[used++] = "--to";
    words[used++] = to ? to : own;
    if (file) {
        words[used++] = "--file";
        words[used++] = file;
    }
    expect_signals();
    execvp(words[0], (char *const *)(uintptr_t)words);
    int error = errno;
    mr_free(words);
    return mr_fail(MR_ERROR_UNAVAILABLE, "cannot start python3, which makes models (Debian's packages python3 and "
                                         "python3-venv): %s", strerror(error));
}

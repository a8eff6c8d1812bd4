#include "tests/fuzz/folder.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { FOLDER = 256, PATH = 512 };
static char folder[FOLDER], path[PATH];

static void remove_folder(void) {
    DIR *files = opendir(folder);
    for (struct dirent *one; files && (one = readdir(files));) {
        snprintf(path, sizeof path, "%.250s/%.250s", folder, one->d_name);
        if (*one->d_name != '.')
            unlink(path);
    }
    if (files)
        closedir(files);
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (*folder)
        return folder;
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/millrace-fuzz-XXXXXX", above && *above ? above : "/dev/shm");
    if (!mkdtemp(folder))
        abort();
    atexit(remove_folder);
    return folder;
}

const char *fuzz_file(const char *name, const void *data, size_t bytes) {
    snprintf(path, sizeof path, "%s/%s", fuzz_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        abort();
    return path;
}

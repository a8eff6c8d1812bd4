#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "millrace/status.h"

enum { FOLDER = 256, PATH = 512 };
static char folder[FOLDER], path[PATH];

void fuzz_expect_reason(int status) {
    fault_if(status != MR_OK && !*mr_message());
}

uint8_t *fuzz_copy(const uint8_t *data, size_t bytes, size_t zeros) {
    uint8_t *copy = calloc(1, bytes + zeros ? bytes + zeros : 1);
    fault_if(!copy);
    if (bytes)
        memcpy(copy, data, bytes);
    return copy;
}

uint8_t *fuzz_piece(const uint8_t **data, size_t *left, size_t *bytes, size_t zeros) {
    const size_t head = *left < 2 ? *left : 2, rest = *left - head;
    const size_t wanted = head < 2 ? 0 : (size_t)((*data)[0] << 8 | (*data)[1]);
    *bytes = wanted < rest ? wanted : rest;
    uint8_t *copy = fuzz_copy(*data + head, *bytes, zeros);
    *data += head + *bytes;
    *left = rest - *bytes;
    return copy;
}

static void remove_folder(void) {
    DIR *files = opendir(folder);
    for (struct dirent *one; files && (one = readdir(files));)
        if (*one->d_name != '.')
            unlink(fuzz_path(one->d_name));
    if (files)
        closedir(files);
    rmdir(folder);
}

const char *fuzz_folder(void) {
    if (*folder)
        return folder;
    const char *above = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/millrace-fuzz-XXXXXX", above && *above ? above : "/dev/shm");
    fault_if(!mkdtemp(folder));
    atexit(remove_folder);
    return folder;
}

const char *fuzz_path(const char *name) {
    snprintf(path, sizeof path, "%.250s/%.250s", fuzz_folder(), name);
    return path;
}

const char *fuzz_file(const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(fuzz_path(name), "wb");
    fault_if(!file || fwrite(data, 1, bytes, file) != bytes || fclose(file));
    return path;
}

#include "tests/support/suite.h"
#include "tests/support/temporary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char temporary_path[] = "/tmp/millrace-test-XXXXXX";

int make_temporary(void **state) {
    strcpy(temporary_path + sizeof temporary_path - sizeof "XXXXXX", "XXXXXX");
    int fd = mkstemp(temporary_path);
    return fd < 0 ? -1 : close(fd);
}

int remove_temporary(void **state) {
    return unlink(temporary_path);
}

void write_bytes(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file))
        fail_msg("%s cannot be written", path);
}

void write_temporary(const char *text) {
    write_bytes(temporary_path, text, strlen(text));
}

size_t read_bytes(const char *path, void *data, size_t room) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail_msg("no such file: %s", path);
    const size_t bytes = fread(data, 1, room, file);
    fclose(file);
    assert_true(bytes < room);
    return bytes;
}

char temporary_folder[] = "/tmp/millrace-test-XXXXXX";

int make_temporary_folder(void **state) {
    strcpy(temporary_folder + sizeof temporary_folder - sizeof "XXXXXX", "XXXXXX");
    return mkdtemp(temporary_folder) ? 0 : -1;
}

int remove_temporary_folder(void **state) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf '%s'", temporary_folder);
    return system(command);
}

int count_lines(const char *path, const char *one, const char *other) {
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    while (getline(&line, &room, file) > 0)
        count += strstr(line, one) && strstr(line, other);
    free(line);
    fclose(file);
    return count;
}

char *whole_file(const char *path) {
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("no such file: %s", path);
    size_t bytes = 0, room = 1 << 16;
    char *text = malloc(room);
    assert_non_null(text);
    for (size_t got; (got = fread(text + bytes, 1, room - bytes - 1, file)) > 0;) {
        bytes += got;
        if (bytes + 1 == room)
            text = realloc(text, room *= 2);
        assert_non_null(text);
    }
    fclose(file);
    text[bytes] = '\0';
    return text;
}

/* A file or a folder for one test: set-up and tear-down for cmocka_unit_test_setup_teardown. */
#pragma once

#include <stddef.h>

/* Creates an empty file; removes it. */
int make_temporary(void **state);
int remove_temporary(void **state);
/* The file's path, valid between both calls. */
extern char temporary_path[];

/* Writes the file anew. */
void write_temporary(const char *text);

/* The same for a folder, which is removed with all that is in it. */
int make_temporary_folder(void **state);
int remove_temporary_folder(void **state);
extern char temporary_folder[];

/* How many of a file's lines have both texts. The file must exist. */
int count_lines(const char *path, const char *one, const char *other);

/* Writes a file; fails the test if it cannot. */
void write_bytes(const char *path, const void *data, size_t bytes);
/* Reads a file, which must exist and be shorter than `room`; returns how many bytes it has. */
size_t read_bytes(const char *path, void *data, size_t room);
/* Reads a file, which must exist, and appends a null; the caller must free the result. */
char *whole_file(const char *path);

/* A file for one test: set-up and tear-down for cmocka_unit_test_setup_teardown. */
#pragma once

#include <stddef.h>

/* Creates an empty file; removes it. */
int make_temporary(void **state);
int remove_temporary(void **state);
/* The file's path, valid between both calls. */
extern char temporary_path[];

/* A folder for a suite; the tear-down removes it with all that is in it. */
int make_temporary_folder(void **state);
int remove_temporary_folder(void **state);
extern char temporary_folder[];

/* Writes a file; fails the test if it cannot. */
void write_bytes(const char *path, const void *data, size_t bytes);
/* Reads a file, which must exist and be shorter than `room`; returns how many bytes it has. */
size_t read_bytes(const char *path, void *data, size_t room);
/* Reads a file, which must exist, and appends a null; the caller must free the result. */
char *whole_file(const char *path);

/* A file for one test: set-up and tear-down for cmocka_unit_test_setup_teardown. */
#pragma once

/* Creates an empty file; removes it. */
int make_temporary(void **state);
int remove_temporary(void **state);
/* The file's path, valid between both calls. */
extern char temporary_path[];

/* Reads a file, which must exist, and appends a null; the caller must free the result. */
char *whole_file(const char *path);

/* One file for the length of a test: set-up and tear-down for cmocka_unit_test_setup_teardown. */
#pragma once

/* Makes an empty file, and removes it. */
int make_temporary(void **state);
int remove_temporary(void **state);
/* Its path, between the two. */
extern char temporary_path[];

/* The content of a file, which must exist, with a null behind it; to be freed. */
char *whole_file(const char *path);

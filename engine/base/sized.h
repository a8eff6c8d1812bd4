/* Structs that a program passes and that grow at the end. A struct's size is the one that the program was compiled
 * with, so it can be smaller or larger than this library's (millrace/version.h). Any thread. */
#pragma once

#include <stddef.h>

/* A struct's bytes up to and including a member. */
#define MR_SIZE_THROUGH(type, member) (offsetof(type, member) + sizeof((type){0}.member))

/* Copies a struct with `given_bytes` to one with `own_bytes`; fields that only `own` has become zero. MR_ERROR_USAGE if
 * the given one is smaller than `least_bytes`, or has non-zero fields that `own` lacks. `name` is the type's, for the
 * message. */
int mr_sized_copy(void *own, size_t own_bytes, const void *given, size_t given_bytes, size_t least_bytes,
                  const char *name);

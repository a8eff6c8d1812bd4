/* Structs that a program passes, and that grow at their end: the size of a struct is that which the program was
 * compiled with, so it may be smaller or larger than this library's (millrace/version.h). Any thread. */
#pragma once

#include <stddef.h>

/* Bytes of a struct up to its member, included. */
#define MR_SIZE_THROUGH(type, member) (offsetof(type, member) + sizeof((type){0}.member))

/* Copies a struct of `given_bytes` to one of `own_bytes`: fields that only `own` has become zero. MR_ERROR_USAGE where
 * the given one is smaller than `least_bytes`, or has fields that `own` lacks and that are not zero. `name` is the
 * type's, for the message. */
int mr_sized_copy(void *own, size_t own_bytes, const void *given, size_t given_bytes, size_t least_bytes,
                  const char *name);

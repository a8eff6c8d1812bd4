#include "engine/base/sized.h"

#include <string.h>

#include "millrace/status.h"
#include "millrace/version.h"

int mr_sized_copy(void *own, size_t own_bytes, const void *given, size_t given_bytes, size_t least_bytes,
                  const char *name) {
    if (given_bytes < least_bytes)
        return mr_fail(MR_ERROR_USAGE, "%s has %zu bytes, and at least %zu are needed: pass sizeof(%s)", name,
                       given_bytes, least_bytes, name);
    for (size_t i = own_bytes; i < given_bytes; i++)
        if (((const unsigned char *)given)[i])
            return mr_fail(MR_ERROR_USAGE, "%s has %zu bytes and sets fields after the %zu that millrace %s knows: the "
                                           "program was compiled with newer headers; link it with a library of that "
                                           "version", name,
                           given_bytes, own_bytes, MILLRACE_VERSION);
    memset(own, 0, own_bytes);
    memcpy(own, given, given_bytes < own_bytes ? given_bytes : own_bytes);
    return MR_OK;
}

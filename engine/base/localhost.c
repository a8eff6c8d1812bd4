#include "engine/base/localhost.h"

#include <string.h>

const char *mr_localhost_port(const char *endpoint) {
    static const char name[] = "tcp://localhost:";
    return strncmp(endpoint, name, sizeof name - 1) == 0 ? endpoint + sizeof name - 1 : NULL;
}

/* Mappings of this process that the kernel was asked to put into huge pages. */
#pragma once

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/suite.h"

/* How many there are, and in `bytes`, which may be NULL, how much of them is in memory. */
static inline int huge_mappings(uint64_t *bytes) {
    char line[512];
    uint64_t resident_kb = 0, sum_kb = 0;
    int count = 0;
    FILE *file = fopen("/proc/self/smaps", "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file)) {
        sscanf(line, "Rss: %" SCNu64, &resident_kb);
        if (!strncmp(line, "VmFlags:", 8) && strstr(line, " hg")) {
            count++;
            sum_kb += resident_kb;
        }
    }
    fclose(file);
    if (bytes)
        *bytes = sum_kb * 1024;
    return count;
}

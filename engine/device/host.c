#include "engine/device/host.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "engine/base/thread.h"

/* The value after the first "key   :" in the first lines of a file, without the newline; "" if there is none. */
static void read_line(const char *path, const char *key, char *text, size_t bytes) {
    char lines[4096];
    mr_file_head(lines, sizeof lines, "%s", path);
    const char *line = strstr(lines, key), *value = line ? line + strcspn(line, ":\n") : "";
    value += strspn(value, ": \t");
    snprintf(text, bytes, "%.*s", (int)strcspn(value, "\n"), value);
}

static int count_nodes(void) {
    int count = 0;
    DIR *folder = opendir("/sys/devices/system/node");
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        count += strncmp(entry->d_name, "node", 4) == 0 && isdigit((unsigned char)entry->d_name[4]);
    if (folder)
        closedir(folder);
    return count > 0 ? count : 1;
}

void mr_host_probe(mr_host *host) {
    char text[64];
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    *host = (mr_host){
        .cores = (int)sysconf(_SC_NPROCESSORS_ONLN),
        .usable = mr_usable_cores(),
        .nodes = count_nodes(),
        .memory_bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0,
    };
    read_line("/proc/cpuinfo", "model name", host->model, sizeof host->model);
    read_line("/proc/meminfo", "MemAvailable", text, sizeof text);
    host->available_bytes = strtoull(text, NULL, 10) * 1024;
}

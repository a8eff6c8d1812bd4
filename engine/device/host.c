#include "engine/device/host.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/thread.h"

/* The value after the first "key   :" in a file of such lines, without the newline; "" if there is none. */
static void read_line(const char *path, const char *key, char *text, size_t bytes) {
    char line[512];
    FILE *file = fopen(path, "re");
    text[0] = 0;
    while (file && fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || strncmp(line, key, strlen(key)) != 0)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(text, bytes, "%.*s", (int)strcspn(colon, "\n"), colon);
        break;
    }
    if (file)
        fclose(file);
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

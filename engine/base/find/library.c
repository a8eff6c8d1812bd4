#include "engine/base/find/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whether all segments that the loader maps lie within the file. The loader refuses a file that is no library. */
static bool is_whole(int file, uint64_t bytes) {
    ElfW(Ehdr) head;
    if (pread(file, &head, sizeof head, 0) != sizeof head || memcmp(head.e_ident, ELFMAG, SELFMAG) ||
        head.e_phentsize != sizeof(ElfW(Phdr)))
        return true;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        ElfW(Phdr) segment;
        const off_t at = (off_t)(head.e_phoff + i * sizeof segment);
        if (pread(file, &segment, sizeof segment, at) != sizeof segment)
            return false;
        if (segment.p_type == PT_LOAD && (segment.p_offset > bytes || segment.p_filesz > bytes - segment.p_offset))
            return false;
    }
    return true;
}

void *mr_library_open(const char *path, const char **why) {
    static _Thread_local char cut[512];
    struct stat about;
    /* A name without a slash is searched by the loader. */
    const int file = strchr(path, '/') ? open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK) : -1;
    const bool whole = file < 0 || fstat(file, &about) || !S_ISREG(about.st_mode) ||
                       is_whole(file, (uint64_t)about.st_size);
    if (file >= 0)
        close(file);
    void *library = whole ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!whole)
        snprintf(cut, sizeof cut, "%s: the file is cut short; copy or download it again", path);
    *why = library ? "" : whole ? dlerror() : cut;
    return library;
}

#include "engine/plan/folders.h"

#include "engine/base/file.h"
#include "engine/text/options.h"
#include "millrace/status.h"

static int make(const mr_option *option, const void *options) {
    const bool written = option->file == MR_FILE_WRITTEN;
    const char *path = written || option->file == MR_FILE_FOLDER ? mr_option_path(option, options) : NULL;
    if (!path)
        return MR_OK;
    return written ? mr_file_make_folder_of(path) : mr_file_make_folder(path);
}

int mr_plan_make_folders(const mr_option *table, const void *options) {
    int status = MR_OK;
    for (const mr_option *option = table; option && option->name && !status; option++) {
        const void *inner = (const char *)options + option->offset;
        if (option->kind != MR_OPTION_MAP || option->elsewhere)
            status = make(option, options);
        else if (*(const bool *)inner) /* the map was given */
            status = mr_plan_make_folders(option->fields, inner);
    }
    return status;
}

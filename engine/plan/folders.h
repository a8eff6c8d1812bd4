/* Folders that stages write to. */
#pragma once

#include "millrace/option.h"

/* Makes, unless they exist, the folders that these options name with MR_FILE_FOLDER, and those of the files that they
 * name with MR_FILE_WRITTEN; not the folders above. A NULL table has none. Any thread. MR_ERROR_IO,
 * MR_ERROR_PERMISSION. */
int mr_plan_make_folders(const mr_option *table, const void *options);

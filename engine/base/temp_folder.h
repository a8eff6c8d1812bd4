/* Temporary folders, removed by the process that made them. A killed process cannot remove its folder. So each call
 * that makes one also removes neighbours that no process holds. */
#pragma once

enum { MR_TEMP_FOLDER_PATH = 4096 };

typedef struct mr_temp_folder {
    char folder[MR_TEMP_FOLDER_PATH]; /* millrace-XXXXXX, mode 0700; "": none */
    int held; /* must stay open while the folder is needed, also by other processes; exec closes it by default */
} mr_temp_folder;

/* Makes one in `parent`; NULL: in TMPDIR, else /tmp. MR_ERROR_IO, and there is none. */
int mr_temp_folder_make(mr_temp_folder *temp, const char *parent);
/* Removes the folder with all files; does nothing if there is none. */
void mr_temp_folder_remove(mr_temp_folder *temp);

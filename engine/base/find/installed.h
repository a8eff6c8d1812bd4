/* The folders that millrace is installed in. They are found from where this code was loaded, so an installation can be
 * moved or unpacked anywhere; then where CMake was told to install. Any thread. */
#pragma once

#include <limits.h>
#include <stdbool.h>

/* The folder of the program or library that has this code. False: the system does not tell. */
bool mr_own_folder(char path[PATH_MAX]);

/* PREFIX/share/millrace: pipelines, models, converters. False, and an empty text, if there is no such folder, as in a
 * build that is not installed. */
bool mr_installed_data(char path[PATH_MAX]);

/* PREFIX/lib/millrace, in the folder of libmillrace: libraries that millrace opens at run time. False, and an empty
 * text, if there is no such folder. */
bool mr_installed_libraries(char path[PATH_MAX]);

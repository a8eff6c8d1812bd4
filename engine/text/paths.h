/* Paths as the author of a pipeline means them. Nothing is opened; one thread at a time. Texts live in the arena;
 * NULL if memory is out. */
#pragma once

#include "engine/text/synonyms.h"
#include "millrace/millrace.h"
#include "millrace/option.h"

/* The folder before a path's last part: "out" for "out/a.csv", "." for "a.csv". */
const char *mr_path_folder(mr_arena *arena, const char *path);

/* An absolute path without ".", ".." and doubled slashes. */
const char *mr_path_plain(mr_arena *arena, const char *path);

/* For messages about missing files: the folder where the relative path `said`, `option`'s value, starts. `file` is the
 * pipeline's; `model_of` may be NULL. NULL also if the path is not relative. */
const char *mr_path_hint(mr_arena *arena, const mr_synonym *synonyms, mr_model_of *model_of, const char *file,
                         const mr_option *option, const mr_yaml *said);

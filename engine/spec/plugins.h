/* Plugins for the parser and the command; the interface for programs is millrace/plugin.h. */
#pragma once

#include "millrace/plugin.h"

/* As mr_plugin_load, with `directory` ("" or ending in "/") in place of the working directory. */
int mr_plugin_load_from(const char *directory, const char *path, const mr_plugin **plugin);

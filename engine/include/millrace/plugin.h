/* Stage types in a shared library, which the command and other programs can load at run time.
 *
 * Compile a plugin with these headers only, and link it with no millrace library: it uses the functions of the program
 * that loads it. A plugin has one or more stage types (stage.h), followed by, once:
 *
 *     MR_PLUGIN("brightness", "1.0", &brightness_stage, &another_stage);
 *
 *     cc -shared -fPIC $(pkg-config --cflags millrace) brightness.c -o libbrightness.so
 *     millrace run pipeline.yaml --plugin ./libbrightness.so
 *
 * A plugin is code: it has the rights of the process from the moment it is loaded. You name plugins by path, on the
 * command line or under `plugins` in the YAML. A loaded plugin stays until the process ends. */
#ifndef MILLRACE_PLUGIN_H
#define MILLRACE_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#include "millrace/export.h"
#include "millrace/stage.h"
#include "millrace/version.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Increases if a struct or enumeration that plugins share with the program changes. A plugin with another number is
 * refused. */
#define MR_PLUGIN_ABI 1

/* Sizes that plugin and program must agree on. They detect different headers with the same number. */
#define MR_PLUGIN_SIZES(X)                                                                                           \
    X(mr_stage_type) X(mr_port) X(mr_option) X(mr_format) X(mr_format_set) X(mr_frame) X(mr_buffer) X(mr_media)      \
    X(mr_result) X(mr_result_kind) X(mr_field) X(mr_negotiation) X(mr_planned_input) X(mr_planned_output)            \
    X(mr_planned_result) X(mr_stage)
enum {
#define X(type) MR_PLUGIN_SIZE_##type,
    MR_PLUGIN_SIZES(X)
#undef X
    MR_PLUGIN_SIZE_COUNT
};

/* Describes a plugin. It is the only symbol looked up in the library. MR_PLUGIN defines it. */
typedef struct mr_plugin {
    uint32_t abi;             /* MR_PLUGIN_ABI; must stay first in every ABI */
    const char *built_with;   /* MILLRACE_VERSION of the headers; must stay second */
    const char *name;         /* for people */
    const char *version;      /* the plugin's version */
    uint32_t size[MR_PLUGIN_SIZE_COUNT];
    const mr_stage_type *const *types; /* ended by NULL */
} mr_plugin;

extern const mr_plugin mr_plugin_entry __attribute__((visibility("default")));

#define MR_PLUGIN_SIZE_OF(type) (uint32_t)sizeof(type),
/* Use once at file level: name and version as texts, then pointers to the stage types. */
#define MR_PLUGIN(name, version, ...)                                                                                \
    static const mr_stage_type *const mr_plugin_types[] = {__VA_ARGS__, NULL};                                       \
    const mr_plugin mr_plugin_entry = {                                                                              \
        MR_PLUGIN_ABI, MILLRACE_VERSION, name, version, {MR_PLUGIN_SIZES(MR_PLUGIN_SIZE_OF)}, mr_plugin_types}

/* Loads a plugin, or returns one that is already loaded. A name without a slash is looked up in the working directory,
 * then in the folders in $MILLRACE_PLUGIN_PATH (separated by colons). The folders of the system's loader are never
 * used. *plugin lives until the process ends. You can pass its types in mr_pipeline_params.types. Any thread.
 * MR_ERROR_NO_INPUT, MR_ERROR_PERMISSION. MR_ERROR_DATA: not a shared library, not a plugin, another ABI, or a
 * malformed type. */
MR_API int mr_plugin_load(const char *path, const mr_plugin **plugin);

#ifdef __cplusplus
}
#endif
#endif

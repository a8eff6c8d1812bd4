/* Stage types in a shared library of their own, which the command and other programs load at run time.
 *
 * A plugin is compiled against these headers alone and linked with nothing of millrace: the functions are those of the
 * program that loads it. It is one or more stage types (stage.h), and behind them, once:
 *
 *     MR_PLUGIN("brightness", "1.0", &brightness_stage, &another_stage);
 *
 *     cc -shared -fPIC $(pkg-config --cflags millrace) brightness.c -o libbrightness.so
 *     millrace run pipeline.yaml --plugin ./libbrightness.so
 *
 * A plugin is code: it runs with the rights of the process, from the moment it is loaded. Only paths name plugins, on
 * the command line and under `plugins` in the YAML. What was loaded stays until the process ends. */
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

/* Rises if a struct or an enumeration that plugins share with the program changes. A plugin of another number is
 * refused. */
#define MR_PLUGIN_ABI 1

/* Sizes that both must agree on: they reveal headers of two states with one number. */
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

/* The description of a plugin: the only symbol that is looked up in it. Defined by MR_PLUGIN. */
typedef struct mr_plugin {
    uint32_t abi;             /* MR_PLUGIN_ABI; stays first in every ABI */
    const char *built_with;   /* MILLRACE_VERSION of the headers; stays second */
    const char *name;         /* for people */
    const char *version;      /* of the plugin */
    uint32_t size[MR_PLUGIN_SIZE_COUNT];
    const mr_stage_type *const *types; /* ended by NULL */
} mr_plugin;

extern const mr_plugin mr_plugin_entry __attribute__((visibility("default")));

#define MR_PLUGIN_SIZE_OF(type) (uint32_t)sizeof(type),
/* At file level, once: name and version as texts, then pointers to the stage types. */
#define MR_PLUGIN(name, version, ...)                                                                                \
    static const mr_stage_type *const mr_plugin_types[] = {__VA_ARGS__, NULL};                                       \
    const mr_plugin mr_plugin_entry = {                                                                              \
        MR_PLUGIN_ABI, MILLRACE_VERSION, name, version, {MR_PLUGIN_SIZES(MR_PLUGIN_SIZE_OF)}, mr_plugin_types}

/* Loads a plugin, or finds it loaded already. A name without a slash is looked up in the working directory and then in
 * the folders of $MILLRACE_PLUGIN_PATH (separated by colons), never in those of the system's loader. *plugin lives
 * until the process ends. Its types can be put into mr_pipeline_params.types. Any thread. MR_ERROR_NO_INPUT,
 * MR_ERROR_PERMISSION, MR_ERROR_DATA if it is not a shared library, not a plugin, one of another ABI, or if a type of
 * it is malformed. */
MR_API int mr_plugin_load(const char *path, const mr_plugin **plugin);

#ifdef __cplusplus
}
#endif
#endif

/* The ONNX Runtime C API functions that millrace uses, by position in the function table.
 *
 * The runtime is loaded at run time, so building needs no header. The table (struct OrtApi in onnxruntime_c_api.h) only
 * grows at the end: positions never change. All functions here exist since version 16. A function that returns a status
 * returns NULL on success; the caller must release what it gets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ORT_API_VERSION = 16 };

typedef struct ort_status ort_status;
typedef struct ort_env ort_env;
typedef struct ort_session ort_session;
typedef struct ort_session_options ort_session_options;
typedef struct ort_run_options ort_run_options;
typedef struct ort_value ort_value;
typedef struct ort_memory_info ort_memory_info;
typedef struct ort_type_info ort_type_info;
typedef struct ort_tensor_info ort_tensor_info;
typedef struct ort_binding ort_binding;
typedef struct ort_cuda_options ort_cuda_options;
typedef struct ort_tensorrt_options ort_tensorrt_options;
typedef void ort_log_function(void *context, int severity, const char *category, const char *id, const char *location,
                              const char *message);

/* The beginning of OrtAllocator, as far as version 16 reads it. */
typedef struct ort_allocator {
    uint32_t version; /* ORT_API_VERSION */
    void *(*alloc)(struct ort_allocator *allocator, size_t bytes);
    void (*free)(struct ort_allocator *allocator, void *memory);
    const ort_memory_info *(*info)(const struct ort_allocator *allocator);
} ort_allocator;

/* Enum values from the header. */
enum {
    ORT_LOG_WARNING = 2,
    ORT_SEQUENTIAL = 0,
    ORT_OPTIMIZE_NOTHING = 0,
    ORT_OPTIMIZE_ALL = 99,
    ORT_DEVICE_ALLOCATOR = 0,
    ORT_MEMORY_DEFAULT = 0,
    ORT_TYPE_TENSOR = 1
};
enum {
    ORT_FLOAT = 1, ORT_UINT8 = 2, ORT_UINT16 = 4, ORT_INT16 = 5, ORT_INT32 = 6, ORT_INT64 = 7, ORT_FLOAT16 = 10,
    ORT_UINT32 = 12, ORT_UINT64 = 13
};

/* X(position, result, name, parameters) */
#define ORT_FUNCTIONS(X)                                                                                             \
    X(2, const char *, error_message, (const ort_status *))                                                          \
    X(4, ort_status *, create_env, (ort_log_function *, void *, int, const char *, ort_env **))                      \
    X(7, ort_status *, create_session, (const ort_env *, const char *, const ort_session_options *, ort_session **)) \
    X(8, ort_status *, create_session_from_array,                                                                    \
      (const ort_env *, const void *, size_t, const ort_session_options *, ort_session **))                          \
    X(9, ort_status *, run,                                                                                          \
      (ort_session *, const ort_run_options *, const char *const *, const ort_value *const *, size_t,                \
       const char *const *, size_t, ort_value **))                                                                   \
    X(10, ort_status *, create_session_options, (ort_session_options **))                                            \
    X(13, ort_status *, set_execution_mode, (ort_session_options *, int))                                            \
    X(23, ort_status *, set_optimization, (ort_session_options *, int))                                              \
    X(24, ort_status *, set_intra_op_threads, (ort_session_options *, int))                                          \
    X(25, ort_status *, set_inter_op_threads, (ort_session_options *, int))                                          \
    X(30, ort_status *, input_count, (const ort_session *, size_t *))                                                \
    X(31, ort_status *, output_count, (const ort_session *, size_t *))                                               \
    X(33, ort_status *, input_type, (const ort_session *, size_t, ort_type_info **))                                 \
    X(34, ort_status *, output_type, (const ort_session *, size_t, ort_type_info **))                                \
    X(36, ort_status *, input_name, (const ort_session *, size_t, ort_allocator *, char **))                         \
    X(37, ort_status *, output_name, (const ort_session *, size_t, ort_allocator *, char **))                        \
    X(39, ort_status *, create_run_options, (ort_run_options **))                                                    \
    X(49, ort_status *, create_tensor,                                                                               \
      (const ort_memory_info *, void *, size_t, const int64_t *, size_t, int, ort_value **))                         \
    X(51, ort_status *, tensor_data, (ort_value *, void **))                                                         \
    X(55, ort_status *, tensor_info, (const ort_type_info *, const ort_tensor_info **))                              \
    X(56, ort_status *, kind, (const ort_type_info *, int *))                                                        \
    X(60, ort_status *, element_type, (const ort_tensor_info *, int *))                                              \
    X(61, ort_status *, rank, (const ort_tensor_info *, size_t *))                                                   \
    X(62, ort_status *, dimensions, (const ort_tensor_info *, int64_t *, size_t))                                    \
    X(63, ort_status *, symbols, (const ort_tensor_info *, const char **, size_t))                                   \
    X(65, ort_status *, value_shape, (const ort_value *, ort_tensor_info **))                                        \
    X(68, ort_status *, create_memory, (const char *, int, int, int, ort_memory_info **))                            \
    X(69, ort_status *, create_cpu_memory, (int, int, ort_memory_info **))                                           \
    X(76, ort_status *, allocator_free, (ort_allocator *, void *))                                                   \
    X(78, ort_status *, default_allocator, (ort_allocator **))                                                       \
    X(92, void, release_env, (ort_env *))                                                                            \
    X(93, void, release_status, (ort_status *))                                                                      \
    X(94, void, release_memory, (ort_memory_info *))                                                                 \
    X(95, void, release_session, (ort_session *))                                                                    \
    X(96, void, release_value, (ort_value *))                                                                        \
    X(97, void, release_run_options, (ort_run_options *))                                                            \
    X(98, void, release_type, (ort_type_info *))                                                                     \
    X(99, void, release_tensor_info, (ort_tensor_info *))                                                            \
    X(100, void, release_session_options, (ort_session_options *))                                                   \
    X(125, ort_status *, providers, (char ***, int *))                                                               \
    X(126, ort_status *, release_providers, (char **, int))                                                          \
    X(130, ort_status *, add_config, (ort_session_options *, const char *, const char *))                            \
    X(133, ort_status *, run_bound, (ort_session *, const ort_run_options *, const ort_binding *))                   \
    X(134, ort_status *, create_binding, (ort_session *, ort_binding **))                                            \
    X(135, void, release_binding, (ort_binding *))                                                                   \
    X(136, ort_status *, bind_input, (ort_binding *, const char *, const ort_value *))                               \
    X(137, ort_status *, bind_output, (ort_binding *, const char *, const ort_value *))                              \
    X(141, void, clear_inputs, (ort_binding *))                                                                      \
    X(142, void, clear_outputs, (ort_binding *))                                                                     \
    X(165, ort_status *, add_run_config, (ort_run_options *, const char *, const char *))                            \
    X(170, ort_status *, append_tensorrt, (ort_session_options *, const ort_tensorrt_options *))                     \
    X(171, ort_status *, create_tensorrt_options, (ort_tensorrt_options **))                                         \
    X(172, ort_status *, set_tensorrt_options,                                                                       \
      (ort_tensorrt_options *, const char *const *, const char *const *, size_t))                                    \
    X(174, void, release_tensorrt_options, (ort_tensorrt_options *))                                                 \
    X(176, ort_status *, register_allocator, (ort_env *, ort_allocator *))                                           \
    X(204, ort_status *, append_cuda, (ort_session_options *, const ort_cuda_options *))                             \
    X(205, ort_status *, create_cuda_options, (ort_cuda_options **))                                                 \
    X(206, ort_status *, set_cuda_options,                                                                           \
      (ort_cuda_options *, const char *const *, const char *const *, size_t))                                        \
    X(208, void, release_cuda_options, (ort_cuda_options *))                                                         \
    X(261, ort_status *, set_tensorrt_pointer, (ort_tensorrt_options *, const char *, void *))                       \
    X(263, ort_status *, set_cuda_pointer, (ort_cuda_options *, const char *, void *))

typedef struct ort_api {
#define X(position, result, name, parameters) result(*name) parameters;
    ORT_FUNCTIONS(X)
#undef X
} ort_api;

/* This process's runtime. The first call opens it, and it stays until the process ends, as ONNX Runtime recommends. A
 * later call that names another library is refused. Any thread. */
typedef struct ort_runtime {
    ort_api api;
    ort_env *env;
    ort_memory_info *memory;  /* host memory */
    ort_allocator *allocator; /* for names */
    char *path;               /* the library's path */
    const char *version;      /* "1.31.1" */
    bool huge;                /* sessions with session.use_env_allocators have their memory in huge pages */
} ort_runtime;

/* `path` NULL: uses MILLRACE_ONNXRUNTIME, else a Python environment (mr_site_find), else the one installed with
 * millrace (mr_installed_libraries), else the loader. MR_ERROR_UNAVAILABLE names the packages to install. */
int mr_ort_open(const ort_runtime **runtime, const char *path);
/* Releases `status` and reports its message: MR_ERROR_DATA, "SUBJECT: message". MR_OK for NULL. */
int mr_ort_check(const ort_runtime *runtime, ort_status *status, const char *what);
/* Returns freed memory to the system. Call once a session is made or released. */
void mr_ort_trim(void);

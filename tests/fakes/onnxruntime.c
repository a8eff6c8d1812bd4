/* A library that looks like ONNX Runtime to the search for providers, for test_provider.c. The environment selects the
 * failure. FAKE_OLD=1: it serves no version that millrace knows. FAKE_PROVIDERS: the providers in the build, separated
 * by spaces. FAKE_NEEDS: libraries that the providers need before they can load. FAKE_WORDS: another reason to fail.
 *
 * For test_engines.c, it also makes sessions. Their network takes 3x8x6, gives 4x4x3 and computes nothing. A session
 * builds an engine, as TensorRT's provider does, or reads it from the cache folder. It fails if the cached engine is
 * not as it was written. This happens when the session is made, or in the first run if FAKE_LATE=1. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 270, MOST = 8 };
typedef void any_function(void);
typedef struct status {
    char words[512];
} status;

static void unexpected(void) {
    fprintf(stderr, "the fake runtime has no such function\n");
    abort();
}

static status *answer(const char *words) {
    status *made = calloc(1, sizeof *made);
    snprintf(made->words, sizeof made->words, "%s", words);
    return made;
}

static const char *words_of(const status *of) {
    return of->words;
}

static void *make_env(void *log, void *context, int level, const char *id, void **env) {
    *env = env;
    return NULL;
}

static void *make_memory(int type, int kind, void **memory) {
    *memory = memory;
    return NULL;
}

static void *make_any(void **made) {
    *made = malloc(1);
    return NULL;
}

static char *names[MOST], text[512];

static void *list_providers(char ***list, int *count) {
    const char *told = getenv("FAKE_PROVIDERS");
    snprintf(text, sizeof text, "%s", told ? told : "CPUExecutionProvider");
    *count = 0;
    char *rest = NULL;
    for (char *name = strtok_r(text, " ", &rest); name && *count < MOST; name = strtok_r(NULL, " ", &rest))
        names[(*count)++] = name;
    *list = names;
    return NULL;
}

static void *release_list(char **list, int count) {
    return NULL;
}

/* Fails with the runtime's message if a needed library is missing. */
static status *load(void *options, const char *const *keys, const char *const *values, size_t count) {
    char needs[512], message[480];
    const char *told = getenv("FAKE_NEEDS"), *other = getenv("FAKE_WORDS");
    snprintf(needs, sizeof needs, "%s", told ? told : "");
    char *rest = NULL;
    for (char *name = strtok_r(needs, " ", &rest); name; name = strtok_r(NULL, " ", &rest))
        if (!dlopen(name, RTLD_LAZY)) {
            snprintf(message, sizeof message, "provider_bridge.cc:1 FAIL : Failed to load library with error: %s",
                     dlerror());
            return answer(message);
        }
    return other ? answer(other) : NULL;
}

/* ---- sessions -------------------------------------------------------------------------------------------------- */

enum { PATH = 4096, FLOAT = 1, TENSOR = 1, RANK = 4 };
static const char engine[] = "an engine";

/* One struct serves as TensorRT options, session options and session. */
typedef struct options {
    char folder[PATH];
    int ready;
} options;

typedef struct binding {
    options *session;
} binding;

/* For tests: engines that were built, read, and found damaged. */
int fake_engines_built(void);
int fake_engines_read(void);
int fake_engines_refused(void);
static int built, were_read, refused;
int fake_engines_built(void) {
    return built;
}
int fake_engines_read(void) {
    return were_read;
}
int fake_engines_refused(void) {
    return refused;
}

static void *make_options(options **made) {
    *made = calloc(1, sizeof **made);
    return NULL;
}

static status *set_tensorrt(options *of, const char *const *keys, const char *const *values, size_t count) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i], "trt_engine_cache_path") == 0)
            snprintf(of->folder, sizeof of->folder, "%s", values[i]);
    return load(of, keys, values, count);
}

static void *append(options *to, const options *from) {
    memcpy(to->folder, from->folder, sizeof to->folder);
    return NULL;
}

/* A provider without a folder is CUDA's, which must come second. */
static void *append_cuda(void *to, const void *from) {
    return NULL;
}

static status *get_engine(options *of) {
    char path[PATH + 16], content[sizeof engine] = "";
    of->ready = 1;
    snprintf(path, sizeof path, "%s/fake.engine", of->folder);
    FILE *file = of->folder[0] ? fopen(path, "r") : NULL;
    if (file) {
        size_t bytes = fread(content, 1, sizeof content, file);
        fclose(file);
        if (bytes != sizeof engine - 1 || strcmp(content, engine) != 0 || getenv("FAKE_STALE")) {
            refused++;
            return answer("TensorRT EP could not deserialize engine from cache");
        }
        were_read++;
        return NULL;
    }
    built++;
    if (of->folder[0] && (file = fopen(path, "w"))) {
        fputs(engine, file);
        fclose(file);
    }
    return NULL;
}

static status *make_session(void *env, const void *data, size_t bytes, const options *with, options **made) {
    *made = NULL;
    options session = *with;
    status *wrong = getenv("FAKE_LATE") ? NULL : get_engine(&session);
    if (wrong)
        return wrong;
    *made = malloc(sizeof **made);
    **made = session;
    return NULL;
}

static void *nothing(void) {
    return NULL;
}

static void *count_one(const void *session, size_t *count) {
    *count = 1;
    return NULL;
}

static void *name_input(const void *session, size_t at, void *allocator, char **name) {
    *name = strdup("images");
    return NULL;
}

static void *name_output(const void *session, size_t at, void *allocator, char **name) {
    *name = strdup("out");
    return NULL;
}

static void *free_name(void *allocator, void *name) {
    free(name);
    return NULL;
}

/* A type identifies the direction: 0 the input, 1 the output. */
static const int directions[] = {0, 1};

static void *type_of_input(const void *session, size_t at, const int **type) {
    *type = &directions[0];
    return NULL;
}

static void *type_of_output(const void *session, size_t at, const int **type) {
    *type = &directions[1];
    return NULL;
}

static void *kind_of(const int *type, int *kind) {
    *kind = TENSOR;
    return NULL;
}

static void *info_of(const int *type, const int **info) {
    *info = type;
    return NULL;
}

static void *element_of(const int *info, int *element) {
    *element = FLOAT;
    return NULL;
}

static void *rank_of(const int *info, size_t *rank) {
    *rank = RANK;
    return NULL;
}

static void *dims_of(const int *info, int64_t *dims, size_t rank) {
    static const int64_t shapes[2][RANK] = {{-1, 3, 8, 6}, {-1, 4, 4, 3}};
    memcpy(dims, shapes[*info], rank * sizeof *dims);
    return NULL;
}

static void *symbols_of(const int *info, const char **symbols, size_t rank) {
    for (size_t i = 0; i < rank; i++)
        symbols[i] = i ? "" : "batch";
    return NULL;
}

static void *make_device_memory(const char *name, int type, int index, int kind, void **made) {
    return make_any(made);
}

static void *make_binding(options *session, binding **made) {
    *made = malloc(sizeof **made);
    (*made)->session = session;
    return NULL;
}

static void *make_value(const void *memory, void *data, size_t bytes, const int64_t *dims, size_t rank, int type,
                        void **made) {
    return make_any(made);
}

static status *run_bound(options *session, const void *how, const binding *with) {
    return session->ready ? NULL : get_engine(session);
}

static void let_be(const void *it) {
}

static any_function *slots[SLOTS];

static void add_sessions(void) {
    static const struct {
        int at;
        any_function *function;
    } functions[] = {
        {8, (any_function *)make_session},     {10, (any_function *)make_options},
        {13, (any_function *)nothing},         {23, (any_function *)nothing},
        {24, (any_function *)nothing},         {25, (any_function *)nothing},
        {30, (any_function *)count_one},       {31, (any_function *)count_one},
        {33, (any_function *)type_of_input},   {34, (any_function *)type_of_output},
        {36, (any_function *)name_input},      {37, (any_function *)name_output},
        {39, (any_function *)make_any},        {49, (any_function *)make_value},
        {55, (any_function *)info_of},         {56, (any_function *)kind_of},
        {60, (any_function *)element_of},      {61, (any_function *)rank_of},
        {62, (any_function *)dims_of},         {63, (any_function *)symbols_of},
        {68, (any_function *)make_device_memory}, {76, (any_function *)free_name},
        {94, (any_function *)free},            {95, (any_function *)free},
        {96, (any_function *)free},            {97, (any_function *)free},
        {98, (any_function *)let_be},          {100, (any_function *)free},
        {130, (any_function *)nothing},        {133, (any_function *)run_bound},
        {134, (any_function *)make_binding},   {135, (any_function *)free},
        {136, (any_function *)nothing},        {137, (any_function *)nothing},
        {141, (any_function *)let_be},         {142, (any_function *)let_be},
        {165, (any_function *)nothing},        {170, (any_function *)append},
        {171, (any_function *)make_options},   {172, (any_function *)set_tensorrt},
        {176, (any_function *)nothing},        {204, (any_function *)append_cuda},
        {261, (any_function *)nothing},        {263, (any_function *)nothing}};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        slots[functions[i].at] = functions[i].function;
}

static any_function *const *get_api(unsigned version) {
    if (getenv("FAKE_OLD"))
        return NULL;
    for (int i = 0; i < SLOTS; i++)
        slots[i] = unexpected;
    slots[2] = (any_function *)words_of;
    slots[4] = (any_function *)make_env;
    slots[69] = (any_function *)make_memory;
    slots[78] = (any_function *)make_any;
    slots[93] = (any_function *)free;
    slots[125] = (any_function *)list_providers;
    slots[126] = (any_function *)release_list;
    slots[205] = (any_function *)make_any;
    slots[206] = (any_function *)load;
    add_sessions();
    slots[174] = slots[208] = (any_function *)free;
    return slots;
}

static const char *version(void) {
    return "1.2.3";
}

typedef struct base {
    any_function *const *(*get_api)(unsigned version);
    const char *(*version)(void);
} base;
const base *OrtGetApiBase(void);
const base *OrtGetApiBase(void) {
    static const base made = {get_api, version};
    return &made;
}

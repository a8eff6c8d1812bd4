/* A library that looks like ONNX Runtime for as long as providers are looked for, for test_provider.c. The environment
 * says how it fails: FAKE_OLD=1 serves no version that millrace knows, FAKE_PROVIDERS lists what it was built with
 * (separated by spaces), FAKE_NEEDS the libraries without which its providers do not load, and FAKE_WORDS another
 * reason. */
#include <dlfcn.h>
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
    (void)log, (void)context, (void)level, (void)id;
    *env = env;
    return NULL;
}

static void *make_memory(int type, int kind, void **memory) {
    (void)type, (void)kind;
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
    (void)list, (void)count;
    return NULL;
}

/* As the runtime does, and in its words. */
static status *load(void *options, const char *const *keys, const char *const *values, size_t count) {
    (void)options, (void)keys, (void)values, (void)count;
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

static any_function *slots[SLOTS];

static any_function *const *get_api(unsigned version) {
    (void)version;
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
    slots[171] = slots[205] = (any_function *)make_any;
    slots[172] = slots[206] = (any_function *)load;
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

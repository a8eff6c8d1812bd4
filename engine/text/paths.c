#include "engine/text/paths.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/find/model_folders.h"
#include "engine/base/nearest.h"
#include "engine/text/options.h"

const char *mr_path_folder(mr_arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash)
        return ".";
    return slash > path ? mr_arena_text(arena, path, (size_t)(slash - path)) : "/";
}

const char *mr_path_plain(mr_arena *arena, const char *path) {
    char here[PATH_MAX] = "";
    if (path[0] != '/' && !getcwd(here, sizeof here))
        here[0] = 0;
    char *plain = mr_arena_print(arena, "%s/%s", here, path);
    size_t length = 0;
    for (const char *part = plain; part && *part; part += strcspn(part, "/")) {
        part += strspn(part, "/");
        size_t bytes = strcspn(part, "/");
        if (bytes == 2 && part[0] == '.' && part[1] == '.') {
            while (length > 0 && plain[--length] != '/')
                ;
        } else if (bytes > 0 && !(bytes == 1 && part[0] == '.')) {
            plain[length++] = '/';
            memmove(plain + length, part, bytes);
            length += bytes;
        }
    }
    if (plain)
        plain[length] = 0;
    return plain;
}

/* Whether it is in the folder where installed pipelines look for models. */
static bool is_of_demo(const char *path) {
    const char *models = getenv("MODELS");
    size_t length = models ? strlen(models) : 0;
    return strstr(path, "build/models/") || (length > 0 && strncmp(path, models, length) == 0);
}

/* What makes the files of a demo; NULL: the path is in none of their folders. */
static const char *hint_for_demo(mr_arena *arena, const char *path) {
    static const char *const demos[] = {"people", "faces", "text"};
    char folder[32];
    for (size_t i = 0; i < sizeof demos / sizeof *demos; i++) {
        snprintf(folder, sizeof folder, "build/%s/", demos[i]);
        if (strstr(path, folder))
            return mr_arena_print(arena, "`tools/demo %s` makes build/%s of the source tree, with the files that its "
                                  "pipelines read", demos[i], demos[i]);
    }
    return NULL;
}

/* "write "${VIDEO}/a.mp4", with braces" of "$VIDEO/a.mp4", "$(VIDEO)/a.mp4" and "%VIDEO%/a.mp4"; NULL: there is no such
 * variable in it. */
static const char *hint_for_variable(mr_arena *arena, const char *text) {
    static const struct {
        char before[3], after[2];
    } kinds[] = {{"$(", ")"}, {"%", "%"}, {"$", ""}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *start = strstr(text, kinds[i].before), *name = start ? start + strlen(kinds[i].before) : "";
        size_t length = 0;
        while (isalpha((unsigned char)name[length]) || name[length] == '_' ||
               (length && isdigit((unsigned char)name[length])))
            length++;
        const char *rest = name + length;
        if (length && strncmp(rest, kinds[i].after, strlen(kinds[i].after)) == 0)
            return mr_arena_print(arena, "write \"%.*s${%.*s}%s\", with braces", (int)(start - text), text, (int)length,
                                  name, rest + strlen(kinds[i].after));
    }
    return NULL;
}

/* A camera number, as OpenCV takes it; "rtsp:/host"; a host's address alone. */
static const char *hint_for_camera(mr_arena *arena, const char *text) {
    struct in_addr address;
    char host[INET_ADDRSTRLEN];
    size_t letters = strspn(text, "abcdefghijklmnopqrstuvwxyz"), length = strcspn(text, ":/");
    if (*text && strlen(text) < 3 && !text[strspn(text, "0123456789")])
        return mr_arena_print(arena, "write /dev/video%s for a camera of this machine", text);
    if (letters > 1 && strncmp(text + letters, ":/", 2) == 0 && text[letters + 2] != '/')
        return mr_arena_print(arena, "write \"%.*s://%s\", with two slashes", (int)letters, text, text + letters + 2);
    if (length >= sizeof host)
        return NULL;
    snprintf(host, sizeof host, "%.*s", (int)length, text);
    if (inet_pton(AF_INET, host, &address) != 1)
        return NULL;
    return mr_arena_print(arena, "write the whole address of the stream, such as \"rtsp://%s/...\"", text);
}

/* For a name that no folder for models has. */
static const char *hint_for_name(mr_arena *arena, mr_model_of *model_of, const mr_option *option, const char *name) {
    char list[1024], names[sizeof list], meant[256], file[MR_MODEL_NAME + 16], *rest = names;
    mr_nearest nearest = {.wanted = name};
    snprintf(file, sizeof file, "%s%s", name, option->named);
    if (model_of && model_of(file, meant, sizeof meant))
        return mr_arena_print(arena, "`millrace models get %s` makes it", meant);
    mr_named_model_list(option->named, list, sizeof list);
    strcpy(names, list);
    for (char *one = strtok_r(names, ", ", &rest); one; one = strtok_r(NULL, ", ", &rest))
        mr_nearest_offer(&nearest, one);
    const char *near = mr_nearest_hint(&nearest, meant, sizeof meant, NULL);
    if (near)
        return mr_arena_print(arena, "%s `millrace models` lists all", near);
    return mr_arena_print(arena, "%s%s; `millrace models` lists those that `millrace models get` makes; a file is "
                          "written with its ending, such as %s%s", *list ? "here are " : "no folder for models has any",
                          list, name, option->named);
}

/* For "coco.txt", if a folder for models has it. */
static const char *hint_for_named(mr_arena *arena, const mr_option *option, const char *text) {
    const size_t end = option->named ? strlen(option->named) : 0, length = strlen(text);
    char name[MR_MODEL_NAME], path[PATH_MAX];
    if (!end || length <= end || length - end >= sizeof name || strcmp(text + length - end, option->named) != 0)
        return NULL;
    snprintf(name, sizeof name, "%.*s", (int)(length - end), text);
    if (!mr_is_model_name(name) || !mr_named_model_find(name, option->named, path))
        return NULL;
    return mr_arena_print(arena, "write %s: %s, without the ending, for %s", option->name, name, path);
}

const char *mr_path_hint(mr_arena *arena, const mr_synonym *synonyms, mr_model_of *model_of, const char *file,
                         const mr_option *option, const mr_yaml *said) {
    char meant[320];
    if (said->kind != MR_YAML_SCALAR)
        return NULL;
    if (mr_synonym_uri(synonyms, said->text, meant, sizeof meant))
        return mr_arena_print(arena, "%s", meant);
    const char *braced = hint_for_variable(arena, said->text);
    if (braced)
        return braced;
    if (mr_option_is_name(option, said->text))
        return hint_for_name(arena, model_of, option, said->text);
    if (is_of_demo(said->text))
        return "`tools/demo` makes the models of pipelines/, in build/models of the source tree; elsewhere set MODELS "
               "to the absolute path of that folder. `millrace inspect MODEL.onnx` prints a pipeline for a model of "
               "yours";
    const char *demo = hint_for_demo(arena, said->text);
    if (demo)
        return demo;
    const char *camera = strcmp(option->name, "uri") == 0 ? hint_for_camera(arena, said->text) : NULL;
    if (camera)
        return camera;
    if (said->unset)
        return mr_arena_print(arena, "%s is not set, so this is the pipeline's default: name your own file in %s%s",
                              said->unset, said->unset,
                              strcmp(option->name, "uri") == 0 ? ", or with --input" : "");
    if (!mr_option_is_relative(option, said->text))
        return NULL;
    const char *named = hint_for_named(arena, option, said->text);
    if (named)
        return named;
    if (strchr(said->text, '\\') && !strchr(said->text, '/'))
        return "write / between the folders of a path";
    if (said->text[0] == '~' && (said->text[1] == '/' || !said->text[1]))
        return mr_arena_print(arena, "\"~\" is not expanded; write \"${HOME}%s\"", said->text + 1);
    /* The command line, and a pipeline from standard input, have no folder. */
    bool in_file = said->place.line > 0 && strchr(file, '<') != file;
    const char *folder = in_file ? mr_path_folder(arena, file) : ".";
    const char *plain = folder ? mr_path_plain(arena, folder) : NULL;
    if (!plain)
        return NULL;
    return mr_arena_print(arena, "%s, %s", in_file ? "relative paths in a pipeline start in its folder"
                                                   : "this relative path starts in the working directory",
                          *plain ? plain : "/");
}

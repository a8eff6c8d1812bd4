#include "engine/text/input_hint.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char *const images[] = {"jpg", "jpeg", "jfif", "png",  "webp", "gif", "tif",
                                     "tiff", "bmp",  "heic", "heif", "avif", "jp2", NULL};
static const char *const videos[] = {"mp4", "mkv",  "mov", "avi", "webm", "ts",    "m4v",  "mpg",
                                     "mpeg", "mts", "flv", "wmv", "3gp",  "mjpeg", "h264", NULL};

static bool ends_in(const char *path, const char *const *endings) {
    const char *dot = strrchr(path, '.');
    while (dot && *endings && strcasecmp(dot + 1, *endings) != 0)
        endings++;
    return dot && *endings;
}

const char *mr_input_hint(const char *path, bool is_folder, char text[MR_INPUT_HINT]) {
    static const char *const models[] = {"onnx", NULL};
    const bool is_glob = !is_folder && strpbrk(path, "*?"), is_image = ends_in(path, images);
    if (strstr(path, "://"))
        snprintf(text, MR_INPUT_HINT, "write: millrace run pipelines/camera.yaml --input URL");
    else if (ends_in(path, models))
        snprintf(text, MR_INPUT_HINT, "this is a model: `millrace inspect %s` prints a pipeline that uses it", path);
    else if (is_folder || is_glob || is_image || ends_in(path, videos))
        snprintf(text, MR_INPUT_HINT, "a pipeline is a YAML file; if this is its input, write: millrace run "
                 "pipelines/classify-%s.yaml --input %s%s%s", is_folder || is_glob || is_image ? "images" : "video",
                 is_glob ? "'" : "", path, is_glob ? "'" : "");
    else
        return NULL;
    return text;
}

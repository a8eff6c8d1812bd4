#include "stages/source/media_open.h"

#include <string.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "stages/media/media_file.h"
#include "stages/media/media_images.h"
#include "stages/media/media_input.h"
#include "stages/media/media_lavfi.h"
#include "stages/media/media_list.h"
#include "stages/media/still/heif.h"
#include "stages/media/still/kinds.h"
#include "stages/media/still/still.h"

static const char lavfi[] = "lavfi:";

static bool starts_with(const char *text, const char *prefix) {
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* Whether a second picture with this codec follows the first in the file. The file is then a picture stream. */
static bool holds_stream(const mr_input *input, enum AVCodecID codec) {
    enum { FIRST_LOOK = 1 << 16, MOST_LOOK = 1 << 28 };
    bool holds = false;
    size_t end = 0;
    for (size_t most = FIRST_LOOK; !end && most <= MOST_LOOK; most *= 4) {
        uint8_t *head = mr_alloc(most);
        ssize_t bytes = head ? pread(input->fd, head, most, 0) : 0;
        end = bytes > 0 ? mr_still_end(codec, head, (size_t)bytes) : 0;
        uint8_t next[16];
        ssize_t more = end ? pread(input->fd, next, sizeof next, (off_t)end) : 0;
        holds = more > 0 && mr_still_begins(codec, next, (size_t)more);
        mr_free(head);
        if (bytes < (ssize_t)most)
            break;
    }
    return holds;
}

/* Whether it is a HEIF picture. An unsupported picture file is refused here, with the reason. */
static int look_for_heif(const char *path, const mr_input *input, bool *is_image) {
    enum { LOOK = 1 << 16, MOST_TEXT = 256 };
    uint8_t *head = mr_calloc(1, LOOK);
    const ssize_t bytes = head ? pread(input->fd, head, LOOK, 0) : 0;
    char why[MOST_TEXT];
    mr_heif heif;
    int status = head ? MR_OK : mr_fail(MR_ERROR_MEMORY, "out of memory");
    if (bytes > 0) {
        *is_image = mr_heif_read(head, (size_t)bytes, &heif) && !heif.animated;
        const bool looked_at = *is_image || mr_webp_is_animated(head, (size_t)bytes);
        if (looked_at && mr_still_trouble(path, head, (size_t)bytes, why, sizeof why))
            status = mr_fail(MR_ERROR_DATA, "%s: %s", path, why);
    }
    mr_free(head);
    return status;
}

/* Whether a file is a still image: those are read whole, without libavformat. If libavformat knows a format only by
 * name (all JPEG names), the file is an image, whatever follows its picture. ffmpeg does the same. */
static int look_for_image(const mr_reader_params *params, bool *is_image) {
    const char *path = params->uri;
    const AVInputFormat *format = NULL;
    mr_input input;
    int status = mr_input_open(&input, path, params->stage);
    if (status)
        return status;
    mr_input_set_timeout(&input, params->timeout_ns);
    status = mr_input_avio(&input);
    if (!status)
        status = look_for_heif(path, &input, is_image);
    if (!status && !*is_image)
        status = mr_input_probe(&input, path, &format);
    if (!status && format) {
        /* "image2" is only libavformat's guess from the name. */
        enum AVCodecID codec = mr_input_image_codec(format);
        *is_image = codec ? !holds_stream(&input, codec)
                          : strcmp(format->name, "image2") == 0 && mr_image_codec_by_name(path);
    }
    mr_input_close(&input);
    return status;
}

int mr_reader_check(const char *uri) {
    if (starts_with(uri, lavfi))
        return mr_reader_check_lavfi(uri + strlen(lavfi));
    if (strcmp(uri, "-") == 0)
        return mr_fail(MR_ERROR_NO_INPUT, "standard input is not read: name a file");
    if (strstr(uri, "://"))
        return mr_fail(MR_ERROR_NO_INPUT, "%s: only files on disk are read", uri);
    if (starts_with(uri, "v4l2:"))
        return mr_fail(MR_ERROR_NO_INPUT, "%s: write a camera of this machine as its device: /dev/video0", uri);
    return MR_OK;
}

int mr_reader_open(mr_reader **reader, const mr_reader_params *params) {
    *reader = NULL;
    const char *uri = params->uri;
    mr_input_kind kind;
    int status = mr_reader_check(uri);
    if (status)
        return status;
    if (starts_with(uri, lavfi))
        return mr_reader_open_lavfi(reader, params);
    status = mr_input_look(uri, &kind);
    if (status)
        return status;
    if (params->labels && kind != MR_INPUT_FOLDER && kind != MR_INPUT_LIST)
        return mr_fail(MR_ERROR_DATA,
                       "%s: labels need a folder that holds one folder for each class, or a list (*.csv, *.jsonl)",
                       uri);
    bool is_image = kind != MR_INPUT_FILE;
    if (!is_image)
        status = look_for_image(params, &is_image);
    if (status)
        return status;
    return is_image ? mr_reader_open_images(reader, params) : mr_reader_open_file(reader, params);
}

/* images: writes every picture as a PNG, JPEG or WebP file, depending on the name's extension. A file gets its final
 * name once it is complete. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/memory.h"
#include "millrace/objects.h"
#include "stages/list.h"
#include "stages/sink/file_name.h"
#include "stages/sink/output.h"
#include "stages/sink/still_encoder.h"

/* A file is written as "NAME.part", which file systems must accept too. */
enum { NAME_BYTES = 251, PATH_BYTES = 4096 };

typedef struct images_options {
    const char *path;
    const char *name;
    bool overwrite;
    int64_t compression, quality;
    bool rotate;
    int on_full;
} images_options;

typedef struct images_state {
    mr_still_encoder encoder;
    uint8_t *data;             /* an encoded picture that waits for disk space; otherwise NULL */
    size_t bytes;
    bool held_files;           /* the folder had files when it was opened */
    bool begun, overwrite;     /* it is known whether existing files are from this run; files may be overwritten */
    mr_full full;
} images_state;

#define FIELD(name) offsetof(images_options, name)
static const mr_option options[] = {
    {.name = "path", .kind = MR_OPTION_PATH, .file = MR_FILE_FOLDER, .offset = FIELD(path), .required = true,
     .example = "pictures",
     .help = "folder to write to; it is made if it does not exist"},
    {.name = "name", .kind = MR_OPTION_STRING, .file = MR_FILE_NAME, .offset = FIELD(name),
     .fallback = "{source}-{seq}.png",
     .help = "each file's name, which must end in .png, .jpg, .jpeg or .webp and decides the kind; {source}, {time} "
             "(when it was written, in UTC), {epoch}, {seq}, {sub}, {stem}, {label} and {track} are replaced, {seq} by "
             "six digits. If the name has no {epoch}, the epoch precedes {seq} from a loop's second turn on; without "
             "{sub}, pictures after crop have it after {seq}. {stem} is the name of the file that was read, without "
             "its ending. {label} and {track} are those of the best object; pictures without objects have the label "
             "of the best class. {stem} and {label} are cut at 100 bytes. Slashes make folders, such as "
             "{label}/{source}-{seq}.jpg"},
    {.name = "overwrite", .kind = MR_OPTION_BOOL, .offset = FIELD(overwrite), .fallback = "false",
     .help = "write into a folder that holds files already, over those of the same name; with {time} names are new, "
             "and the folder may hold others"},
    {.name = "compression", .kind = MR_OPTION_INT, .offset = FIELD(compression), .fallback = "3", .min = 0, .max = 9,
     .help = "for PNG: 0 fastest, 9 smallest"},
    {.name = "quality", .kind = MR_OPTION_INT, .offset = FIELD(quality), .fallback = "90", .min = 1, .max = 100,
     .help = "for JPEG and WebP, as other programs count it: 1 smallest, 100 best"},
    {.name = "rotate", .kind = MR_OPTION_BOOL, .offset = FIELD(rotate), .fallback = "false",
     .help = "turn and mirror the picture upright, as its file declares; without this JPEG declares the same, and "
             "the others do not"},
    MR_ON_FULL_OPTION(FIELD(on_full)),
    MR_OPTIONS_END};

static const mr_format_set pictures[] = {{.payload = MR_PAYLOAD_PICTURE}, {.payload = MR_PAYLOAD_ANY}};
static const mr_port inputs[] = {{.name = "in", .help = "pictures in any size and layout", .accepts = pictures}, {0}};

/* ---- start ----------------------------------------------------------------------------------------------------- */

/* The check over all outputs refuses it if it is no folder or cannot be opened. */
static bool holds_files(const char *path) {
    DIR *folder = opendir(path);
    bool found = false;
    if (!folder)
        return false;
    for (struct dirent *entry; !found && (entry = readdir(folder));)
        found = strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    closedir(folder);
    return found;
}

static const char HOLDS_FILES[] = "%s is not empty: remove its files, put {time} into name, or set overwrite: true";

/* Names with {time} are new: only a file from the same second can be in the way. */
static bool may_replace(const images_options *given) {
    return given->overwrite || mr_file_name_differs(given->name);
}

static int check_kind(mr_negotiation *negotiation) {
    const images_options *given = negotiation->options;
    const mr_still_kind kind = mr_still_kind_of(given->name);
    if (kind == MR_STILL_NONE)
        return mr_refuse(negotiation, "name", "name must end in .png, .jpg, .jpeg or .webp, which is the kind of the "
                                              "files: \"%s\"", given->name);
    if (kind != MR_STILL_PNG && mr_is_given(negotiation, "compression"))
        return mr_refuse(negotiation, "compression", "compression is of PNG: for JPEG and WebP set quality");
    if (kind == MR_STILL_PNG && mr_is_given(negotiation, "quality"))
        return mr_refuse(negotiation, "quality", "quality is of JPEG and WebP, and PNG loses nothing: set compression, "
                                                 "or let name end in .jpg");
    int status = mr_still_encoder_check(kind);
    return status ? mr_refuse_status(negotiation, status, "name", "%s", mr_message()) : MR_OK;
}

static int negotiate(mr_negotiation *negotiation) {
    const images_options *given = negotiation->options;
    if (mr_picture_name_check(given->name))
        return mr_refuse(negotiation, "name", "%s", mr_message());
    int status = check_kind(negotiation);
    if (status)
        return status;
    const bool objects = mr_planned_may_have(negotiation, 0, mr_kind_objects());
    if (mr_picture_name_has_track(given->name) && !objects)
        return mr_refuse(negotiation, "name", "name has {track}, and the pictures from %s have no objects: "
                                              "put crop before, or a join of pictures and objects",
                         negotiation->inputs[0].from);
    if (mr_picture_name_has_label(given->name) && !objects &&
        !mr_planned_may_have(negotiation, 0, mr_kind_classes()))
        return mr_refuse(negotiation, "name", "name has {label}, and the pictures from %s have neither objects nor "
                                              "classes: put crop before, or a join of pictures and objects, or of "
                                              "pictures and classes", negotiation->inputs[0].from);
    if (!negotiation->offline && !negotiation->returns && !may_replace(given) && holds_files(given->path))
        return mr_refuse(negotiation, "path", HOLDS_FILES, given->path);
    return MR_OK;
}

/* If the run continues, its earlier files may exist: frames that come again are written again. MR_ERROR_AGAIN while
 * that is unknown. */
static int begin(mr_stage *self) {
    const images_options *given = self->options;
    images_state *state = self->state;
    if (state->begun)
        return MR_OK;
    mr_run_state run = mr_stage_run_state(self);
    if (run == MR_RUN_UNKNOWN)
        return MR_ERROR_AGAIN;
    if (run == MR_RUN_BEGINS && state->held_files && !state->overwrite)
        return mr_fail(MR_ERROR_CONFIG, HOLDS_FILES, given->path);
    state->overwrite |= run == MR_RUN_GOES_ON;
    state->begun = true;
    return MR_OK;
}

static int open_images(mr_stage *self) {
    const images_options *given = self->options;
    images_state *state = self->state;
    state->full = mr_full_make(self, given->on_full);
    state->overwrite = may_replace(given);
    state->held_files = holds_files(given->path);
    state->encoder.choices = (mr_still_choices){mr_still_kind_of(given->name), (int)given->compression,
                                                (int)given->quality, given->rotate};
    int status = begin(self);
    return status == MR_ERROR_AGAIN ? MR_OK : status;
}

static void close_images(mr_stage *self) {
    images_state *state = self->state;
    mr_still_encoder_close(&state->encoder);
    mr_free(state->data);
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static int write_all(int fd, const uint8_t *data, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        ssize_t count = write(fd, data + done, bytes - done);
        if (count < 0 && errno != EINTR)
            return -1;
        done += count > 0 ? (size_t)count : 0;
    }
    return 0;
}

static int fail_file(const mr_stage *self, const char *path, int error) {
    images_state *state = self->state;
    int status = mr_full_meet(&state->full, self, error, path);
    return status ? status : mr_fail(MR_ERROR_IO, "%s: %s", path, strerror(error));
}

/* Any other file with that name is a part that an earlier process left. Returns 0, or errno. */
static int write_part(const char *part, const uint8_t *data, size_t bytes) {
    if (unlink(part) && errno != ENOENT)
        return errno;
    int fd = open(part, O_WRONLY | O_CREAT | O_CLOEXEC | O_EXCL, 0666);
    if (fd < 0)
        return errno;
    int failed = write_all(fd, data, bytes), error = errno;
    if (close(fd) && !failed) {
        failed = -1;
        error = errno;
    }
    return failed ? error : 0;
}

/* Renames a complete file. Some file systems cannot rename without replacing in one step, and some have no links.
 * Returns 0, or errno. */
static int name_part(const char *part, const char *path, bool overwrite) {
    if (overwrite)
        return rename(part, path) ? errno : 0;
    if (!renameat2(AT_FDCWD, part, AT_FDCWD, path, RENAME_NOREPLACE))
        return 0;
    if (errno != EINVAL && errno != ENOSYS)
        return errno;
    if (!link(part, path))
        return unlink(part) ? errno : 0;
    if (errno == EEXIST || !access(path, F_OK))
        return EEXIST;
    return rename(part, path) ? errno : 0;
}

/* Makes the folders in a path, from `first` on. Returns 0, or errno. */
static int make_folders(char path[PATH_BYTES], size_t first) {
    int error = 0;
    for (char *slash = path + first; !error && (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = '\0';
        error = mkdir(path, 0777) && errno != EEXIST ? errno : 0;
    }
    return error;
}

/* Removes an incomplete file. MR_ERROR_AGAIN: try again. */
static int write_file(const mr_stage *self, const char *name) {
    const images_options *given = self->options;
    images_state *state = self->state;
    char path[PATH_BYTES], part[PATH_BYTES];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", given->path, name) >= sizeof path ||
        (size_t)snprintf(part, sizeof part, "%s/%s.part", given->path, name) >= sizeof part)
        return mr_fail(MR_ERROR_IO, "%s: the path is too long", given->path);
    int error = make_folders(path, strlen(given->path) + 1);
    if (!error)
        error = write_part(part, state->data, state->bytes);
    if (!error)
        error = name_part(part, path, state->overwrite);
    if (!error) {
        mr_full_pass(&state->full, self, path);
        return MR_OK;
    }
    unlink(part);
    return fail_file(self, path, error);
}

/* The best object, which a cut-out shows. Else the best class, as an object with that label, in *made. NULL: none. */
static const mr_object *object_of(const mr_frame *frame, mr_object *made) {
    const mr_result *objects = mr_frame_result(frame, mr_kind_objects(), NULL);
    const mr_result *classes = mr_frame_result(frame, mr_kind_classes(), NULL);
    if (objects && objects->count)
        return objects->data;
    if (!classes || !classes->count)
        return NULL;
    *made = (mr_object){.label = classes->classes[0].label, .index = classes->classes[0].index};
    return made;
}

static int print_name(mr_stage *self, const mr_frame *frame, char name[NAME_BYTES]) {
    mr_object best;
    const mr_picture_name of = {.source = mr_stage_source_id(self, frame->identity.source),
                                .file = mr_frame_file(frame),
                                .identity = frame->identity,
                                .object = object_of(frame, &best),
                                .seconds = (int64_t)time(NULL)};
    return mr_picture_name_print(name, NAME_BYTES, ((const images_options *)self->options)->name, &of);
}

static int process(mr_stage *self, mr_io *io) {
    images_state *state = self->state;
    const mr_frame *frame = mr_io_input(io);
    char name[NAME_BYTES];
    int status = begin(self);
    if (status)
        return mr_output_await_begin(io, status);
    if (!state->data)
        status = mr_still_encode(&state->encoder, frame, &state->data, &state->bytes);
    if (status == MR_ERROR_DATA) {
        mr_stage_warn(self, "%s", mr_message());
        mr_io_drop(io, frame, "cannot be written");
        return MR_DONE;
    }
    if (!status)
        status = print_name(self, frame, name);
    if (!status)
        status = write_file(self, name);
    if (status != MR_ERROR_AGAIN) {
        mr_free(state->data);
        state->data = NULL;
    }
    return status ? mr_output_failed(io, frame, status) : MR_DONE;
}

const mr_stage_type mr_images_stage = {
    .name = "images",
    .summary = "writes pictures as PNG, JPEG or WebP files",
    .help = "The extension in `name` chooses the kind. Converts with the picture's matrix, range and chroma siting. "
            "PNG keeps gray, alpha, and samples with more than 8 bits as 16; WebP keeps alpha; JPEG is 4:2:0. "
            "Pictures are written as they are stored unless `rotate` turns them. A file gets its name once it is "
            "whole: until then it is called NAME.part.",
    .inputs = inputs,
    .options = options,
    .options_bytes = sizeof(images_options),
    .state_bytes = sizeof(images_state),
    .entry = MR_ENTRY_SHARED,
    .blocking = true,
    .negotiate = negotiate,
    .open = open_images,
    .process = process,
    .resumes = true,
    .close = close_images,
};

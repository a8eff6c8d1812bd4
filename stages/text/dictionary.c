#include "stages/text/dictionary.h"

#include <string.h>

#include "engine/base/memory.h"
#include "millrace/status.h"
#include "stages/model/onnx/onnx_file.h"
#include "stages/model/onnx/onnx_report.h"

static int copy_note(const char *path, const mr_file_bytes *model, mr_file_bytes *text) {
    const mr_pb_span note = mr_onnx_find_note(model->data, model->bytes, MR_ONNX_CHARACTERS);
    text->bytes = (size_t)(note.end - note.at);
    if (!text->bytes)
        return mr_fail(MR_ERROR_DATA, "%s has no characters in its metadata (\"%s\"): name a text file with one on "
                       "each line", path, MR_ONNX_CHARACTERS);
    text->data = mr_calloc(text->bytes + 1, 1);
    if (!text->data)
        return mr_fail(MR_ERROR_MEMORY, "no memory for the characters of %s", path);
    memcpy(text->data, note.at, text->bytes);
    return MR_OK;
}

int mr_dictionary_read(const char *path, mr_dictionary *dictionary) {
    const size_t length = strlen(path);
    mr_file_bytes model = {0}, text = {0};
    bool has_tensor;
    if (length <= 5 || strcmp(path + length - 5, ".onnx") != 0)
        return mr_labels_read(path, &dictionary->characters);
    int status = mr_onnx_read(path, 0, NULL, &model, &has_tensor);
    if (!status)
        status = copy_note(path, &model, &text);
    mr_free(model.data);
    return status ? status : mr_labels_take(path, &text, &dictionary->characters);
}

void mr_dictionary_free(mr_dictionary *dictionary) {
    mr_labels_free(&dictionary->characters);
}

size_t mr_dictionary_classes(const mr_dictionary *dictionary) {
    return 1 + dictionary->characters.count + dictionary->space;
}

size_t mr_dictionary_blank(const mr_dictionary *dictionary) {
    return dictionary->blank_last ? mr_dictionary_classes(dictionary) - 1 : 0;
}

size_t mr_dictionary_space(const mr_dictionary *dictionary) {
    return mr_dictionary_classes(dictionary) - (dictionary->blank_last ? 2 : 1);
}

const char *mr_dictionary_text(const mr_dictionary *dictionary, size_t class) {
    if (class == mr_dictionary_blank(dictionary))
        return "";
    const size_t at = dictionary->blank_last ? class : class - 1;
    return at < dictionary->characters.count ? dictionary->characters.item[at] : " ";
}

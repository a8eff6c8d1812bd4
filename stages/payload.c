#include "stages/payload.h"

int mr_payload_share(mr_io *io, const mr_frame *from, mr_frame **frame) {
    mr_frame *made = NULL;
    int status = mr_io_derive(io, from, &made);
    if (status)
        return status;
    made->format = from->format;
    for (int i = 0; i < MR_MAX_PLANES; i++) {
        made->plane[i] = from->plane[i];
        if (made->plane[i].buffer)
            mr_buffer_ref(made->plane[i].buffer);
    }
    *frame = made;
    return MR_OK;
}

int mr_payload_add_tensor(mr_io *io, mr_frame *frame, const char *name, const mr_format *format, void **data) {
    size_t room = (mr_tensor_bytes(format) + sizeof(mr_class) - 1) / sizeof(mr_class);
    mr_result *result = NULL;
    int status = mr_io_add_result(io, frame, MR_RESULT_TENSOR, room, &result);
    if (status)
        return status;
    result->name = name;
    result->format = *format;
    result->data = (const uint8_t *)result->classes;
    *data = result->classes;
    return MR_OK;
}

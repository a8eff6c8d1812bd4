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

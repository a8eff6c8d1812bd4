/* Frames that a program keeps: the copy has all but the receipt, and outlives the frame. */
#include "tests/support/suite.h"

#include <string.h>

#include "engine/data/store.h"
#include "millrace/millrace.h"

TEST(a_kept_frame_shares_all_but_the_receipt) {
    mr_store *store;
    mr_frame *frame, *kept;
    mr_result *result;
    const mr_format format = {.payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_GRAY8, .width = 16, .height = 2};
    assert_int_equal(mr_store_create(&store), MR_OK);
    assert_int_equal(mr_store_frame(store, &frame), MR_OK);
    assert_int_equal(mr_store_result(store, mr_kind_classes(), 1, &result), MR_OK);
    result->count = 1;
    result->classes[0] = (mr_class){.index = 7, .score = 0.5f};
    frame->results = result;
    frame->identity = (mr_identity){.seq = 42};
    mr_buffer *buffer = mr_buffer_alloc(128);
    memset(buffer->data, 9, 128);
    mr_frame_place(frame, &format, buffer, 0, 64);
    mr_buffer_unref(&buffer);
    mr_receipt *const receipt = (mr_receipt *)store; /* any address: it is not looked at */
    frame->receipt = receipt;

    assert_int_equal(mr_frame_keep(frame, &kept), MR_OK);
    assert_ptr_equal(frame->receipt, receipt);
    assert_null(kept->receipt);
    assert_ptr_equal(kept->plane[0].data, frame->plane[0].data);
    frame->receipt = NULL;
    mr_frame_unref(&frame);
    mr_store_release(&store);

    assert_int_equal(kept->identity.seq, 42);
    assert_int_equal(kept->plane[0].data[15], 9);
    assert_int_equal(mr_frame_result(kept, mr_kind_classes(), NULL)->classes[0].index, 7);
    mr_frame_unref(&kept);
}

RUN_TESTS(NULL, NULL)

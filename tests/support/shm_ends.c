#include "tests/support/shm_ends.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "engine/device/device.h"
#include "millrace/status.h"

void shm_ends_begin_unattached(shm_ends *ends) {
    *ends = (shm_ends){0};
    assert_int_equal(mr_pool_create(&ends->pool, mr_device_cpu(), MR_MEMORY_SHARED, SHM_ENDS_BYTES, SHM_ENDS_SLOTS),
                     MR_OK);
    assert_int_equal(mr_shm_export_create(&ends->export, "/tmp"), MR_OK);
    mr_shm_export_offer(ends->export, &ends->offer);
    assert_int_equal(mr_shm_guest_make(&ends->guest), MR_OK);
    assert_int_equal(mr_shm_export_invite(ends->export, &ends->guest, &ends->peer), MR_OK);
}

void shm_ends_begin(shm_ends *ends) {
    shm_ends_begin_unattached(ends);
    assert_int_equal(mr_shm_import_open(&ends->import, &ends->offer, &ends->guest), MR_OK);
    /* One call to accept it, one to read its token. */
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
}

void shm_ends_end(shm_ends *ends) {
    mr_shm_import_close(&ends->import);
    mr_shm_export_destroy(&ends->export);
    assert_int_equal(mr_pool_free_count(ends->pool), SHM_ENDS_SLOTS);
    mr_pool_release(&ends->pool);
}

mr_buffer *shm_ends_acquire(mr_pool *pool) {
    mr_buffer *buffer = NULL;
    assert_int_equal(mr_pool_acquire(pool, &buffer), MR_OK);
    return buffer;
}

mr_shm_reference shm_ends_lend(shm_ends *ends, mr_buffer *buffer) {
    mr_shm_reference reference;
    assert_int_equal(mr_shm_export_lend(ends->export, ends->peer, buffer, 0, buffer->bytes, &reference), MR_OK);
    return reference;
}

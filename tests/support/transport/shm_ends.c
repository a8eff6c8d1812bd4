#include "tests/support/suite.h"
#include "tests/support/transport/shm_ends.h"

#include <string.h>
#include <unistd.h>

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
    assert_int_equal(mr_shm_doorbell(&ends->doorbell), MR_OK);
}

void shm_ends_come(shm_ends *ends) {
    assert_int_equal(mr_shm_import_open(&ends->import, &ends->offer, &ends->guest, ends->doorbell), MR_OK);
}

void shm_ends_begin(shm_ends *ends) {
    shm_ends_begin_unattached(ends);
    shm_ends_come(ends);
    /* The first call must accept it, the second must read the token. */
    mr_shm_export_drive(ends->export, false);
    mr_shm_export_drive(ends->export, false);
    assert_true(mr_shm_export_attached(ends->export, ends->peer));
}

void shm_ends_end(shm_ends *ends) {
    mr_shm_import_close(&ends->import);
    mr_shm_export_destroy(&ends->export);
    close(ends->doorbell);
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

static int put(uint8_t *place, size_t room, const void *data, size_t bytes) {
    if (bytes > room)
        return MR_ERROR_AGAIN;
    memcpy(place, data, bytes);
    return MR_OK;
}

int shm_ends_post(shm_ends *ends, const void *data, size_t bytes) {
    uint8_t *place = NULL;
    size_t room = mr_shm_export_room(ends->export, ends->peer, &place);
    int status = put(place, room, data, bytes);
    if (!status)
        mr_shm_export_post(ends->export, ends->peer, bytes);
    return status;
}

int shm_ends_post_back(shm_ends *ends, const void *data, size_t bytes) {
    uint8_t *place = NULL;
    size_t room = mr_shm_import_room(ends->import, &place);
    int status = put(place, room, data, bytes);
    if (!status)
        mr_shm_import_post(ends->import, bytes);
    return status;
}

bool shm_ends_rung(const shm_ends *ends) {
    uint64_t rings;
    return read(ends->doorbell, &rings, sizeof rings) == sizeof rings;
}

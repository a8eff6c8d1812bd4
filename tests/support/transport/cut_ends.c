#include "tests/support/suite.h"
#include "tests/support/transport/cut_ends.h"

#include "engine/device/device.h"
#include "millrace/status.h"

const mr_format cut_ends_picture = {
    .payload = MR_PAYLOAD_PICTURE, .pixel = MR_PIXEL_I420, .width = CUT_ENDS_WIDTH, .height = CUT_ENDS_HEIGHT};

void cut_ends_begin(cut_ends *ends, mr_memory memory) {
    *ends = (cut_ends){.cut = {.name = "a->b", .shared_memory = true, .max_peers = 2, .connect_count = 1}};
    assert_int_equal(mr_pool_create(&ends->pool, mr_device_cpu(), memory, mr_format_bytes(&cut_ends_picture),
                                    CUT_ENDS_SLOTS), MR_OK);
    assert_int_equal(mr_store_create(&ends->store), MR_OK);
    assert_int_equal(mr_names_create(&ends->names, 100, 1000), MR_OK);
    assert_int_equal(mr_cut_exporter_create(&ends->exporter, &ends->cut), MR_OK);
    assert_int_equal(mr_cut_importer_create(&ends->importer, &ends->cut), MR_OK);
    assert_non_null(ends->exporter);
    assert_non_null(ends->importer);
    const mr_wire_writer_params writing = {.share = mr_cut_export_buffer, .context = ends->exporter};
    const mr_wire_reader_params reading = {
        .source_count = 1, .names = ends->names, .store = ends->store, .map = mr_cut_import_buffer,
        .context = ends->importer};
    assert_int_equal(mr_wire_writer_create(&ends->writer, &writing), MR_OK);
    assert_int_equal(mr_wire_reader_create(&ends->reader, &reading), MR_OK);
}

void cut_ends_end(cut_ends *ends) {
    mr_cut_importer_destroy(&ends->importer);
    mr_cut_exporter_destroy(&ends->exporter);
    mr_wire_writer_destroy(&ends->writer);
    mr_wire_reader_destroy(&ends->reader);
    mr_store_release(&ends->store);
    mr_names_destroy(&ends->names);
    assert_int_equal(mr_pool_free_count(ends->pool), CUT_ENDS_SLOTS);
    mr_pool_release(&ends->pool);
}

mr_action cut_ends_change(uint32_t peer, mr_peer_change what, const char *memory) {
    return (mr_action){
        .kind = MR_ACTION_PEER, .peer = peer, .of = {.change = what, .session = peer, .memory = memory}};
}

/* In session order: the producer must learn about the peer first. */
void cut_ends_join(cut_ends *ends) {
    const mr_action come = cut_ends_change(CUT_ENDS_SESSION, MR_PEER_JOINED, mr_cut_importer_text(ends->importer));
    const mr_action welcome = cut_ends_change(0, MR_PEER_JOINED, mr_cut_exporter_text(ends->exporter));
    mr_cut_exporter_update(ends->exporter, &come);
    mr_cut_importer_update(ends->importer, &welcome);
    for (int i = 0; i < 2; i++)
        mr_cut_exporter_work(ends->exporter);
}

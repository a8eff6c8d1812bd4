/* Both ends of a shared-memory cut in one process, without a transport: exporter and importer, with the wire's writer
 * and reader. Failures fail the test. */
#pragma once

#include "engine/data/pool.h"
#include "engine/transport/cut/cut_share.h"

enum { CUT_ENDS_WIDTH = 128, CUT_ENDS_HEIGHT = 96, CUT_ENDS_SLOTS = 3, CUT_ENDS_SESSION = 7 };

/* The format of frames that cross. */
extern const mr_format cut_ends_picture;

typedef struct cut_ends {
    mr_cut cut;
    mr_pool *pool;
    mr_store *store;
    mr_names *names;
    mr_cut_exporter *exporter;
    mr_cut_importer *importer;
    mr_wire_writer *writer;
    mr_wire_reader *reader;
} cut_ends;

/* `memory`: where pictures' pools are. */
void cut_ends_begin(cut_ends *ends, mr_memory memory);
/* Checks that all buffers have come back. */
void cut_ends_end(cut_ends *ends);
/* How the session describes that peer. */
mr_action cut_ends_change(uint32_t peer, mr_peer_change what, const char *memory);
/* Informs each end that the other is there. */
void cut_ends_join(cut_ends *ends);

/* Tests with both ends, `f`, whose pools are in shared memory: informed, or not yet. */
#define CUT_TEST(name)                                                                                                \
    TEST_GIVEN(name, cut_ends, f, (cut_ends_begin(&made, MR_MEMORY_SHARED), cut_ends_join(&made)), cut_ends_end(&made))
#define CUT_TEST_APART(name)                                                                                          \
    TEST_GIVEN(name, cut_ends, f, cut_ends_begin(&made, MR_MEMORY_SHARED), cut_ends_end(&made))

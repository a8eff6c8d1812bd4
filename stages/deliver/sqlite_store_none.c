#include "stages/deliver/sqlite_store.h"

int mr_sqlite_store_check(const char *path) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this millrace was built without SQLite: install libsqlite3-dev and build it again");
}

int mr_sqlite_store_create(mr_sqlite_store **store, const char *path, const mr_db_tables *tables) {
    return mr_sqlite_store_check(path);
}

const mr_service_type mr_sqlite_service = {0};

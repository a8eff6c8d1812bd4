#include "stages/deliver/postgres_store.h"

int mr_postgres_store_check(const char *url) {
    return mr_fail(MR_ERROR_UNAVAILABLE,
                   "this millrace was built without PostgreSQL's library: install libpq-dev and build it again");
}

int mr_postgres_store_create(mr_postgres_store **store, const mr_postgres_params *params, const mr_db_tables *tables) {
    return mr_postgres_store_check(params->url);
}

const mr_service_type mr_postgres_service = {0};

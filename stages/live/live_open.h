/* Opens a connection on another thread, so that the source can give packets meanwhile. */
#pragma once

#include "stages/live/connection/connection.h"

typedef int mr_connect_function(mr_connection **connection, const mr_connection_params *params);

typedef struct mr_live_opening mr_live_opening;

/* `params->wake` and the texts must stay valid. MR_ERROR_MEMORY, MR_ERROR_IO. */
int mr_live_open_begin(mr_live_opening **opening, mr_connect_function *open, const mr_connection_params *params);
/* Waits until it is done: MR_OK, MR_ERROR_AGAIN (not until that time), MR_ERROR_CANCELLED (params->wake). */
int mr_live_open_await(const mr_live_opening *opening, int64_t until_ns);
/* Returns the result. Waits for the thread, which ends within milliseconds after it is done or woken. Sets *opening to
 * NULL. */
int mr_live_open_end(mr_live_opening **opening, mr_connection **connection);

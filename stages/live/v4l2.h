/* Connections to local cameras with Video4Linux2. One thread only. */
#pragma once

#include "stages/live/connection/connection.h"

int mr_connection_open_v4l2(mr_connection **connection, const mr_connection_params *params);

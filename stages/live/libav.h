/* Connections that libavformat opens and reads, on a thread that may block in it (libav_input.h). */
#pragma once

#include "stages/live/connection/connection.h"

int mr_connection_open_libav(mr_connection **connection, const mr_connection_params *params);

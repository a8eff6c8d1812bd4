/* Endpoints at this host's own name. Any thread. */
#pragma once

/* The port of tcp://localhost:PORT, which is 127.0.0.1 at both ends: libzmq binds to addresses, not to names, and may
 * find [::1] under that one. Of other endpoints NULL. */
const char *mr_localhost_port(const char *endpoint);

/* Endpoints at this host's own name. Any thread. */
#pragma once

/* The port in tcp://localhost:PORT, which means 127.0.0.1 at both ends. libzmq must bind to addresses, not names, and
 * could resolve this one to [::1]. NULL for other endpoints. */
const char *mr_localhost_port(const char *endpoint);

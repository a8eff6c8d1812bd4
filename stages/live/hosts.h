/* The hosts that may be connected to (allow_hosts). Pure functions. */
#ifndef MILLRACE_STAGES_LIVE_HOSTS_H
#define MILLRACE_STAGES_LIVE_HOSTS_H

#include <stdbool.h>

/* `patterns`, separated by commas, are names or addresses as URLs have them, IPv6 without brackets; "*" stands for any
 * signs: "*.example.org", "10.0.*". Names are compared as they are written, and not resolved. NULL: all are allowed. */
bool mr_host_is_allowed(const char *patterns, const char *host);

#endif

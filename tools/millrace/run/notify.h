/* Telling a service manager how a run is getting on: sd_notify(3)'s protocol, which is a datagram to the socket that
 * NOTIFY_SOCKET names. Where nobody asked for it nothing is told. One thread. */
#ifndef MILLRACE_TOOLS_RUN_NOTIFY_H
#define MILLRACE_TOOLS_RUN_NOTIFY_H

#include <stdbool.h>
#include <stdint.h>

/* Reads the environment, and takes it away from processes that are started later. */
void mr_notify_begin(void);
/* "READY=1", "STOPPING=1", "STATUS=280 frames", printf style; several with newlines between them. */
void mr_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* How often a sign of life is wanted (half of WATCHDOG_USEC); 0: never. */
int64_t mr_notify_watchdog_ns(void);

#endif

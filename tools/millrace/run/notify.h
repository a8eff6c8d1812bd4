/* Reports a run's state to a service manager with sd_notify(3)'s protocol: datagrams to the socket that NOTIFY_SOCKET
 * names. Does nothing if that is not set. One thread. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Reads the environment and removes the variables, so that child processes do not inherit them. */
void mr_notify_begin(void);
/* Sends "READY=1", "STOPPING=1", "STATUS=280 frames", printf style. Newlines separate several. */
void mr_notify(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The interval for "WATCHDOG=1" (half of WATCHDOG_USEC); 0: never. */
int64_t mr_notify_watchdog_ns(void);

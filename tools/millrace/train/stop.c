#include "tools/millrace/train/stop.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>

#include "engine/base/clock.h"
#include "engine/base/print.h"
#include "tools/millrace/run/signals.h"

static volatile sig_atomic_t asked;
static _Atomic int64_t asked_ns; /* when the first came */

void mr_stop_note(int signal) {
    if (!asked)
        atomic_store(&asked_ns, mr_now_ns());
    asked = signal;
}

static void take(int number) {
    const int64_t now_ns = mr_now_ns();
    if (!asked) {
        mr_stop_note(number);
    } else if (!mr_signals_are_one(atomic_load(&asked_ns), now_ns)) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void mr_stop_begin(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now, wanted = {.sa_handler = take, .sa_flags = SA_RESTART};
        /* The handlers exclude each other. */
        for (size_t k = 0; k < sizeof signals / sizeof *signals; k++)
            sigaddset(&wanted.sa_mask, signals[k]);
        sigaction(signals[i], NULL, &now);
        if (now.sa_handler != SIG_IGN)
            sigaction(signals[i], &wanted, NULL);
    }
}

bool mr_stop_asked(void) {
    return asked != 0;
}

int mr_stop_tell(const char *kept) {
    mr_print(stderr, "millrace: interrupted; %s\n", kept);
    return 128 + asked;
}

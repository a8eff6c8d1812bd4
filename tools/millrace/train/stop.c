#include "tools/millrace/train/stop.h"

#include <signal.h>
#include <stdio.h>

#include "engine/base/print.h"

static volatile sig_atomic_t asked;

void mr_stop_note(int signal) {
    asked = signal;
}

void mr_stop_begin(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now, wanted = {.sa_handler = mr_stop_note, .sa_flags = (int)(SA_RESTART | SA_RESETHAND)};
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

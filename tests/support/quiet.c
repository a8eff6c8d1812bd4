#include "tests/support/quiet.h"
#include "tests/support/suite.h"

#include <string.h>

#include "engine/device/device.h"
#include "engine/device/sim/sim.h"
#include "millrace/log.h"

static void throw_away(void *context, mr_log_level level, const char *line) {
}

static void print_misuse(void *context, mr_log_level level, const char *line) {
    if (strstr(line, "misuse"))
        print_message("%s\n", line);
}

int be_quiet(void **state) {
    mr_log_to(throw_away, NULL);
    return 0;
}

int be_quiet_but_for_misuse(void **state) {
    mr_log_to(print_misuse, NULL);
    return 0;
}

int expect_no_misuse(void **state) {
    return mr_sim_misuses() != 0;
}

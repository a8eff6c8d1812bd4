/* Set-up and tear-down for whole suites, for cmocka_run_group_tests. */
#pragma once

/* Discards the log: failures that a suite causes on purpose would fill the screen. */
int be_quiet(void **state);
/* The same, but keeps misuse of simulated devices, which is an error in the code under test. */
int be_quiet_but_for_misuse(void **state);
/* Fails if there was misuse: work on simulated devices must only touch permitted memory, after the events of what it
 * reads. */
int expect_no_misuse(void **state);

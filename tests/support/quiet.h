/* Set-up and tear-down of whole suites, for cmocka_run_group_tests. */
#pragma once

/* The failures that a suite causes would fill the screen: its log is discarded. */
int be_quiet(void **state);
/* The same except for misuse of simulated devices, which is an error of the code under test. */
int be_quiet_but_for_misuse(void **state);
/* Fails if there was any: work on simulated devices touches only what it may, behind the events of the memory that it
 * reads. */
int expect_no_misuse(void **state);

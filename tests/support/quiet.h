/* Set-up and tear-down of whole suites, for cmocka_run_group_tests. */
#ifndef MILLRACE_TESTS_QUIET_H
#define MILLRACE_TESTS_QUIET_H

/* The failures that a suite brings about would fill the screen: its log is thrown away. */
int be_quiet(void **state);
/* The same but for misuse of simulated devices, which is a mistake of who is tested. */
int be_quiet_but_for_misuse(void **state);
/* Fails where there was any: work on simulated devices touches only what it may, behind the events of what it reads. */
int expect_no_misuse(void **state);

#endif

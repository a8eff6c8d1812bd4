/* A library that a provider may need, for test_provider.c. */
int millrace_companion(void);
int millrace_companion(void) {
    return 1;
}

/* The whole millrace command (run, check, list, schema, ...) with one more stage type, here the one in darkness.c.
 *
 *     cc command.c darkness.c $(pkg-config --cflags --libs millrace-command) -o dark && ./dark run darkness.yaml */
#include <millrace/command.h>
#include <millrace/plugin.h>

int main(int argc, char **argv) {
    return mr_main(argc, argv, mr_plugin_entry.types);
}

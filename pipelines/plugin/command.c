/* The whole millrace command with a stage type of its own, here that of darkness.c: run, check, list, schema, ...
 *
 *     cc command.c darkness.c $(pkg-config --cflags --libs millrace-command) -o dark && ./dark run darkness.yaml */
#include <millrace/command.h>
#include <millrace/plugin.h>

int main(int argc, char **argv) {
    return mr_main(argc, argv, mr_plugin_entry.types);
}

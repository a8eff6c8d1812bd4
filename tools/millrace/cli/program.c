/* The millrace program: the command with millrace's stage types. */
#include "millrace/command.h"

int main(int argc, char **argv) {
    return mr_main(argc, argv, NULL);
}

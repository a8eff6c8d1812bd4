/* The millrace program: the command with the stage types that come with it. */
#include "millrace/command.h"

int main(int argc, char **argv) {
    return mr_main(argc, argv, NULL);
}

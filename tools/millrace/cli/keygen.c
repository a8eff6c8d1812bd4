/* millrace keygen: makes a key pair, which identifies a program to peers. */
#include <stdio.h>

#include "engine/base/print.h"
#include "millrace/keys.h"
#include "millrace/signature.h"
#include "tools/millrace/cli/command.h"
#include "tools/millrace/cli/verbs.h"

typedef struct arguments {
    const char *folder;
    bool sign;
} arguments;

static const mr_usage_option options[] = {
    MR_OPTION("output", "FOLDER", arguments, folder,
              "the folder for the files; the working directory by default. A missing folder is made"),
    MR_OPTION("sign", NULL, arguments, sign,
              "makes a pair for signatures of classifiers. `train --sign NAME.key` signs, and `classify: {key: "
              "NAME.pub}` accepts no other head. Ed25519, as PEM of OpenSSL"),
    MR_USAGE_COMMON,
};

static const char *const examples[] = {"camera --output keys", "approved --sign --output keys", NULL};

static const mr_usage usage = {
    .verb = "keygen",
    .synopsis = "[NAME]",
    .help = "Makes a pair of CURVE keys for connections to other machines. NAME.key is the private key: it stays on "
            "its machine, and only its owner may read it. NAME.pub is the public key, which its peers need. NAME is "
            "\"millrace\" by default. Existing files are never overwritten.",
    .options = options,
    .notes = "The files are ZeroMQ certificates, which pyzmq's zmq.auth.load_certificate also reads. An allow-list is "
             "a file with the public keys that may connect, one per line; a .pub file is an allow-list with one key.",
    .examples = examples,
};

static int make_pair(const char *folder, const char *name, bool sign) {
    mr_key_pair pair = {0};
    int status = sign ? mr_signing_keys_write(folder, name) : mr_key_pair_generate(&pair);
    if (!status && !sign)
        status = mr_key_pair_write(&pair, folder, name);
    if (!status)
        mr_print(stdout, "%s/%s.key\n%s/%s.pub\n", folder, name, folder, name);
    if (!status && !sign)
        mr_print(stdout, "%s\n", pair.public_key);
    mr_key_pair_forget(&pair);
    return status;
}

static int run_verb(int argc, char **argv) {
    arguments given = {.folder = "."};
    const char *name = "millrace";
    int code = 0;
    if (!mr_usage_take(&usage, argc, argv, &given, &code))
        return code;
    if (optind < argc)
        name = argv[optind++];
    if (optind < argc)
        return mr_usage_error(&usage, "one pair at a time: unexpected \"%s\"", argv[optind]);
    int status = make_pair(given.folder, name, given.sign);
    if (status == MR_ERROR_USAGE)
        return mr_usage_error(&usage, "%s: --output says where it goes", mr_message());
    return status ? mr_command_failed(status) : mr_flush_stdout();
}

const mr_verb mr_keygen_verb = {&usage, "make a pair of keys: for sockets that leave this machine, or for signatures",
                                run_verb};

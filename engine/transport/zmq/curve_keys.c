#include "engine/transport/zmq/curve_keys.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <zmq.h>

#include "engine/base/grow.h"
#include "engine/base/key_file.h"
#include "engine/base/memory.h"
#include "engine/base/utf8.h"
#include "millrace/status.h"

enum { LINE_BYTES = 1024 };

/* ---- keys as text ------------------------------------------------------------------------------------------------ */

bool mr_key_decode(const char *text, uint8_t key[MR_KEY_BYTES]) {
    /* libzmq's decoder accepts any characters, and codes that are not valid Z85. */
    static const char letters[] =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
    if (strlen(text) != MR_KEY_TEXT - 1 || strspn(text, letters) != MR_KEY_TEXT - 1)
        return false;
    return zmq_z85_decode(key, text) != NULL;
}

void mr_key_encode(const uint8_t key[MR_KEY_BYTES], char text[MR_KEY_TEXT]) {
    zmq_z85_encode(text, key, MR_KEY_BYTES);
}

int mr_key_pair_generate(mr_key_pair *pair) {
    /* Others may take a line that begins with # for a comment: such a key would be a trap in a list. */
    do {
        if (zmq_curve_keypair(pair->public_key, pair->secret_key))
            return mr_fail(MR_ERROR_UNAVAILABLE, "this libzmq cannot make keys: %s", zmq_strerror(errno));
    } while (*pair->public_key == '#');
    return MR_OK;
}

void mr_key_pair_forget(mr_key_pair *pair) {
    explicit_bzero(pair, sizeof *pair);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* The next line without surrounding blanks and comment. NULL at the end. Keys can contain a #, even as the first
 * character: a comment must follow a blank, or be a line that is not a key. */
static char *next_line(FILE *file, char line[LINE_BYTES], int *number) {
    uint8_t key[MR_KEY_BYTES];
    if (!fgets(line, LINE_BYTES, file))
        return NULL;
    ++*number;
    char *at = line + (*number == 1 ? mr_utf8_mark(line, strlen(line)) : 0);
    at += strspn(at, " \t");
    at[strcspn(at, "\r\n")] = '\0';
    for (char *sign = at; (sign = strchr(sign, '#')); sign++)
        if (sign > at && strchr(" \t", sign[-1]))
            *sign = '\0';
    for (size_t length = strlen(at); length && strchr(" \t", at[length - 1]); length--)
        at[length - 1] = '\0';
    if (*at == '#' && !mr_key_decode(at, key))
        *at = '\0';
    return at;
}

/* Whether the line is `name = "value"`, with or without quotes. *value ends with the line. */
static bool take_field(char *line, const char *name, char **value) {
    size_t length = strlen(name);
    if (strncmp(line, name, length) != 0)
        return false;
    char *at = line + length + strspn(line + length, " \t");
    if (*at++ != '=')
        return false;
    at += strspn(at, " \t\"'");
    at[strcspn(at, "\"'")] = '\0';
    *value = at;
    return true;
}

static int take_key(char to[MR_KEY_TEXT], const char *value, const char *path, int number) {
    uint8_t key[MR_KEY_BYTES];
    if (!mr_key_decode(value, key))
        return mr_fail(MR_ERROR_DATA, "%s:%d: this is not a key: 40 characters of Z85 were expected", path, number);
    memcpy(to, value, MR_KEY_TEXT);
    explicit_bzero(key, sizeof key);
    return MR_OK;
}

/* Peers would be refused as strangers, without a reason. */
static int check_pair(const mr_key_pair *pair, const char *path) {
    char derived[MR_KEY_TEXT];
    if (zmq_curve_public(derived, pair->secret_key))
        return mr_fail(MR_ERROR_UNAVAILABLE, "this libzmq has no CURVE: %s", zmq_strerror(errno));
    if (strcmp(derived, pair->public_key) == 0)
        return MR_OK;
    return mr_fail(
        MR_ERROR_DATA,
        "%s: the public key does not belong to the secret key: use a file as `millrace keygen` made it",
        path);
}

int mr_key_pair_read(mr_key_pair *pair, const char *path) {
    char line[LINE_BYTES], *at, *value;
    int number = 0;
    FILE *file;
    int status = mr_key_file_open(path, "millrace keygen", &file);
    if (status)
        return status;
    *pair = (mr_key_pair){0};
    status = mr_key_file_check_private(file, path);
    while (!status && (at = next_line(file, line, &number))) {
        if (take_field(at, "public-key", &value))
            status = take_key(pair->public_key, value, path, number);
        else if (take_field(at, "secret-key", &value))
            status = take_key(pair->secret_key, value, path, number);
    }
    fclose(file);
    explicit_bzero(line, sizeof line);
    if (!status && (!*pair->public_key || !*pair->secret_key))
        status = mr_fail(MR_ERROR_DATA, "%s has no %s line: it must be a private file as `millrace keygen` makes it",
                         path, *pair->secret_key ? "public-key" : "secret-key");
    if (!status)
        status = check_pair(pair, path);
    if (status)
        mr_key_pair_forget(pair);
    return status;
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

static int add_key(mr_allow_list *list, const uint8_t key[MR_KEY_BYTES]) {
    if (!mr_grow((void **)&list->keys, list->count, &list->room, sizeof *list->keys))
        return mr_fail(MR_ERROR_MEMORY, "no memory for a list of keys");
    memcpy(list->keys[list->count++], key, MR_KEY_BYTES);
    return MR_OK;
}

/* A line from a list or a certificate; other lines in a certificate are skipped. */
static int add_line(mr_allow_list *list, char *line, const char *path, int number) {
    uint8_t key[MR_KEY_BYTES];
    char *value = line;
    bool other = !*line || strcmp(line, "metadata") == 0 || strcmp(line, "curve") == 0 || strstr(line, " = ");
    if (!take_field(line, "public-key", &value) && other)
        return MR_OK;
    if (!mr_key_decode(value, key))
        return mr_fail(MR_ERROR_DATA, "%s:%d: \"%.60s\" is not a public key: 40 characters of Z85 were expected", path,
                       number, value);
    return add_key(list, key);
}

static int add_file(mr_allow_list *list, const char *path) {
    char line[LINE_BYTES], *at;
    int number = 0;
    FILE *file;
    size_t before = list->count;
    int status = mr_key_file_open(path, "millrace keygen", &file);
    if (status)
        return status;
    status = mr_trusted_file_check(fileno(file), path, "which key");
    while (!status && (at = next_line(file, line, &number)))
        status = add_line(list, at, path, number);
    fclose(file);
    if (!status && list->count == before)
        status = mr_fail(MR_ERROR_DATA, "%s holds no public key: one a line was expected", path);
    return status;
}

int mr_allow_list_add(mr_allow_list *list, const char *key_or_path) {
    uint8_t key[MR_KEY_BYTES];
    /* A path may look like a key; if it exists, it is a file. */
    if (access(key_or_path, F_OK) && mr_key_decode(key_or_path, key))
        return add_key(list, key);
    return add_file(list, key_or_path);
}

bool mr_allow_list_has(const mr_allow_list *list, const uint8_t key[MR_KEY_BYTES]) {
    for (size_t i = 0; i < list->count; i++)
        if (memcmp(list->keys[i], key, MR_KEY_BYTES) == 0)
            return true;
    return false;
}

void mr_allow_list_fini(mr_allow_list *list) {
    mr_free(list->keys);
    *list = (mr_allow_list){0};
}

int mr_key_public(const char *text, char key[MR_KEY_TEXT]) {
    mr_allow_list list = {0};
    int status = mr_allow_list_add(&list, text);
    if (!status && list.count > 1)
        status = mr_fail(MR_ERROR_DATA, "%s holds %zu public keys, and one was expected", text, list.count);
    if (!status)
        mr_key_encode(list.keys[0], key);
    mr_allow_list_fini(&list);
    return status;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

int mr_key_pair_write(const mr_key_pair *pair, const char *folder, const char *name) {
    static const char private_form[] = "# A private CURVE key: any program that has it can pose as its owner.\n"
                                       "metadata\n"
                                       "curve\n"
                                       "    public-key = \"%s\"\n"
                                       "    secret-key = \"%s\"\n",
                      public_form[] = "# A public CURVE key: give it to the peers that are to recognise the owner of "
                                      "the private key.\n"
                                      "metadata\n"
                                      "curve\n"
                                      "    public-key = \"%s\"\n";
    char private_text[LINE_BYTES], public_text[LINE_BYTES];
    snprintf(private_text, sizeof private_text, private_form, pair->public_key, pair->secret_key);
    snprintf(public_text, sizeof public_text, public_form, pair->public_key);
    int status = mr_key_file_write(folder, name, private_text, public_text);
    explicit_bzero(private_text, sizeof private_text);
    return status;
}

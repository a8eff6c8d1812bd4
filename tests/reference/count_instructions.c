/* A plugin for qemu: prints how many instructions the program ran. Debian has no header for plugins, so the functions
 * that it needs are declared here (qemu's include/qemu/qemu-plugin.h, version 1). */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define PUBLIC __attribute__((visibility("default")))

struct qemu_plugin_tb;
enum { QEMU_PLUGIN_INLINE_ADD_U64 };

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, void (*call)(uint64_t id, struct qemu_plugin_tb *block));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *block, int operation, void *at, uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, void (*call)(uint64_t id, void *context), void *context);
PUBLIC int qemu_plugin_install(uint64_t id, const void *about, int argc, char **argv);

PUBLIC extern int qemu_plugin_version;
int qemu_plugin_version = 1;

static uint64_t count;

static void translate(uint64_t id, struct qemu_plugin_tb *block) {
    qemu_plugin_register_vcpu_tb_exec_inline(block, QEMU_PLUGIN_INLINE_ADD_U64, &count, qemu_plugin_tb_n_insns(block));
}

static void print(uint64_t id, void *context) {
    fprintf(stderr, "%llu\n", (unsigned long long)count);
}

int qemu_plugin_install(uint64_t id, const void *about, int argc, char **argv) {
    qemu_plugin_register_vcpu_tb_trans_cb(id, translate);
    qemu_plugin_register_atexit_cb(id, print, NULL);
    return 0;
}

/* lazy.h. In the generated lazy_names.inc, `LIBRARY soname` precedes a `LAZY name` for each function in the library. */

    .section .data.rel.lazy, "aw"
    .balign 8
    .hidden mr_lazy_slots
    .globl mr_lazy_slots
mr_lazy_slots:
    .section .data.rel.ro.lazy_names, "aw"
    .balign 8
    .hidden mr_lazy_names
    .globl mr_lazy_names
mr_lazy_names:
    .section .data.rel.ro.lazy_libraries, "aw"
    .balign 8
    .hidden mr_lazy_libraries
    .globl mr_lazy_libraries
mr_lazy_libraries:
    .text

.macro LIBRARY soname
    .pushsection .rodata.lazy, "a"
    .set .Llibrary, .
    .asciz "\soname"
    .popsection
.endm

.macro SLOT name
    .pushsection .data.rel.lazy, "aw"
.Lslot_\name:
    .quad .Lfirst_\name
    .section .data.rel.ro.lazy_names, "aw"
    .quad .Ltext_\name
    .section .data.rel.ro.lazy_libraries, "aw"
    .quad .Llibrary
    .section .rodata.lazy, "a"
.Ltext_\name:
    .asciz "\name"
    .popsection
    .hidden \name
    .globl \name
    .type \name, %function
\name:
.endm

#if defined(__x86_64__)

.macro LAZY name
    SLOT \name
    jmp *.Lslot_\name(%rip)
.Lfirst_\name:
    lea .Lslot_\name(%rip), %r11
    jmp load
    .size \name, . - \name
.endm

/* The slot is in r11. All registers that arguments can be in are kept. */
    .type load, %function
load:
    .cfi_startproc
    .irp register, rdi, rsi, rdx, rcx, r8, r9, rax, r11
    push %\register
    .cfi_adjust_cfa_offset 8
    .endr
    sub $136, %rsp
    .cfi_adjust_cfa_offset 136
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups %xmm\number, 16 * \number(%rsp)
    .endr
    mov %r11, %rdi
    call mr_lazy_load
    .irp number, 0, 1, 2, 3, 4, 5, 6, 7
    movups 16 * \number(%rsp), %xmm\number
    .endr
    add $136, %rsp
    .cfi_adjust_cfa_offset -136
    .irp register, r11, rax, r9, r8, rcx, rdx, rsi, rdi
    pop %\register
    .cfi_adjust_cfa_offset -8
    .endr
    jmp *(%r11)
    .cfi_endproc
    .size load, . - load

#elif defined(__aarch64__)

.macro LAZY name
    SLOT \name
    adrp x16, .Lslot_\name
    ldr x17, [x16, :lo12:.Lslot_\name]
    br x17
.Lfirst_\name:
    adrp x16, .Lslot_\name
    add x16, x16, :lo12:.Lslot_\name
    b load
    .size \name, . - \name
.endm

/* The slot is in x16. All registers that arguments can be in are kept. */
    .type load, %function
load:
    .cfi_startproc
    stp x29, x30, [sp, -224]!
    .cfi_adjust_cfa_offset 224
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, 16]
    stp x2, x3, [sp, 32]
    stp x4, x5, [sp, 48]
    stp x6, x7, [sp, 64]
    stp x8, x16, [sp, 80]
    stp q0, q1, [sp, 96]
    stp q2, q3, [sp, 128]
    stp q4, q5, [sp, 160]
    stp q6, q7, [sp, 192]
    mov x0, x16
    bl mr_lazy_load
    ldp q6, q7, [sp, 192]
    ldp q4, q5, [sp, 160]
    ldp q2, q3, [sp, 128]
    ldp q0, q1, [sp, 96]
    ldp x8, x16, [sp, 80]
    ldp x6, x7, [sp, 64]
    ldp x4, x5, [sp, 48]
    ldp x2, x3, [sp, 32]
    ldp x0, x1, [sp, 16]
    ldp x29, x30, [sp], 224
    ldr x17, [x16]
    br x17
    .cfi_endproc
    .size load, . - load

#endif

#include "lazy_names.inc"

    .section .note.GNU-stack, "", %progbits

"""Each row operation with NEON must need at least LEAST times fewer instructions than in C, as CMake compiles it. No
ARM64 processor is here to measure times, so qemu counts instructions.

    instructions.py ROOT PROGRAM    (build/arm64, build/aarch64/row_operations)
    instructions.py ROOT PROGRAM PROGRAM_O3    also prints the counts of the C reference compiled with -O3
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

LEAST = 3
TIMES = 10
QEMU = shutil.which("qemu-aarch64")  # the static one cannot load plugins

root, *programs = sys.argv[1:]
if not QEMU:
    print("skipped: no qemu-aarch64 (Debian: qemu-user)")
    sys.exit(77)


def operations():
    return subprocess.run([QEMU, "-L", root, programs[0]], check=True, capture_output=True, text=True).stdout.split()


def count(plugin, program, *arguments):
    done = subprocess.run([QEMU, "-L", root, "-plugin", plugin, program, *arguments], check=True, capture_output=True,
                          text=True)
    return int(done.stderr.split()[-1])


def cost(plugin, program, operation, isa):
    """Returns the instructions of one call."""
    none, all = (count(plugin, program, operation, isa, str(times)) for times in (0, TIMES))
    return (all - none) / TIMES


with tempfile.TemporaryDirectory() as folder:
    plugin = f"{folder}/count.so"
    source = pathlib.Path(__file__).with_name("count_instructions.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O2", source, "-o", plugin], check=True)
    slow = []
    for operation in operations():
        neon = cost(plugin, programs[0], operation, "neon")
        in_c = [cost(plugin, program, operation, "c") for program in programs]
        print(f"{operation:16} neon {neon:8.0f}   c {in_c[0]:8.0f} ({in_c[0] / neon:4.1f} times)",
              *(f"  c -O3 {more:8.0f} ({more / neon:4.1f} times)" for more in in_c[1:]))
        if in_c[0] < LEAST * neon:
            slow.append(operation)
if slow:
    sys.exit(f"less than {LEAST} times fewer: {', '.join(slow)}")

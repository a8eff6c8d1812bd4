"""How long `millrace check` takes: a large pipeline, and files made to take long. Prints, never judges.

    tools/bench/check.py [--millrace build/millrace] [--runs 5]

Each file is checked several times by a process of its own, whose start is part of the time. Medians are shown: of the
time by the clock and of the processor's (the machine may have other work), in milliseconds; and the exit code, and how
many bytes were printed. The first line is the start alone."""
import argparse
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
HEAD = "version: 1\npipeline: measured\n"
SOURCES = "sources:\n  lobby: {uri: lobby.mp4}\n"


def large(sources=1000, stages=200):
    """Every source through one decoder, then a chain of stages with options."""
    text = [HEAD, "sources:\n"]
    text += [f"  camera{n}: {{uri: 'rtsp-{n}.mp4', every: 2, start: 1.5s}}\n" for n in range(sources)]
    text += ["stages:\n", "  decode: {input: 'sources.*', queue: 8}\n"]
    for n in range(1, stages - 1):
        before = "decode" if n % 2 else f"small{n - 1}"
        kind = ("preprocess, size: 224x224, fit: center-crop, crop_fraction: 0.875, mean: 127, std: 128" if n % 2
                else "\"null\"")
        text.append(f"  small{n}: {{input: {before}, type: {kind}, queue: {{size: 8, when_full: drop-oldest}}}}\n")
    text.append(f"  results: {{type: jsonl, input: small{stages - 2}, path: out.jsonl}}\n")
    return "".join(text)


def filled(head, line, tail=""):
    """As many lines as fit into 1 MiB; `line` makes the n-th."""
    text, size, n = [head], len(head) + len(tail), 0
    while size + len(line(n)) < MIB:
        text.append(line(n))
        size += len(text[-1])
        n += 1
    return "".join(text) + tail


def laughs():
    """Nine aliases in each list of nine, twelve deep."""
    return "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 13))


def files():
    graph = HEAD + SOURCES + "stages:\n"
    noise = random.Random(7)
    yield "1,000 sources and 200 stages", large()
    yield "10,000 sources and 1,000 stages", large(10000, 1000)
    yield "nesting: lists in one line", HEAD + "stages: " + "[" * (MIB - 100)
    yield "nesting: maps in one line", HEAD + "stages: " + "{a: " * (MIB // 4 - 100)
    yield "nesting: lists of lists", HEAD + "stages:\n " + "- " * (MIB // 2 - 100)
    yield "aliases: a billion laughs", laughs()
    yield "aliases: as many as fit", filled("a: &a [x]\n", lambda n: f"k{n}: *a\n")
    yield "anchors: as many as fit", filled(HEAD, lambda n: f"k{n}: &a{n} x\n")
    yield "size: 2 MiB of a comment", "# " + "x" * (2 * MIB)
    yield "size: a text of 1 MiB", HEAD.replace("measured", "x" * (MIB - 100))
    yield "size: 64 MiB of nothing", "\n" * (64 * MIB)
    yield "keys: unknown ones", filled(HEAD, lambda n: f"k{n}: 1\n")
    yield "keys: one, again and again", filled(HEAD, lambda n: "pipeline: x\n")
    yield ("keys: near misses of options",
           filled(graph + "  preprocess: {input: lobby, ", lambda n: f"siz{n}: 1, ", "}\n"))
    yield "keys: long ones", filled(HEAD, lambda n: f"{n}{'k' * 800}: 1\n")
    yield "stages: empty ones", filled(graph, lambda n: f"  s{n}: {{}}\n")
    yield "stages: 1,000 without a type", graph + "".join(f"  prepro{n}: {{input: lobby}}\n" for n in range(1000))
    yield "stages: 1,000 in a circle", graph + "".join(
        f"  s{n}: {{type: \"null\", input: s{(n + 1) % 1000}}}\n" for n in range(1000))
    yield "inputs: all stages from unknown ones", graph + "".join(
        f"  s{n}: {{type: \"null\", input: t{n}}}\n" for n in range(1000))
    yield ("inputs: one stage from unknown ones",
           filled(graph + "  s: {type: \"null\", input: [", lambda n: f"t{n}, ", "]}\n"))
    yield "inputs: unknown ones beside 10,000 sources", filled(
        HEAD + "sources:\n" + "".join(f"  a{n:04}: {{uri: a}}\n" for n in range(10000)) +
        "stages:\n  s: {type: \"null\", input: [", lambda n: f"b{noise.randrange(10000):04},", "]}\n")
    yield "inputs: each stage from all before", graph + "".join(
        f"  s{n}: {{type: \"null\", input: [{', '.join(['lobby'] + [f's{k}' for k in range(n)])}]}}\n"
        for n in range(490))
    yield "ladder: two stages that merge, 330 times", graph + "  c0: {type: \"null\", input: lobby}\n" + "".join(
        f"  a{n}: {{type: \"null\", input: c{n - 1}}}\n  b{n}: {{type: \"null\", input: c{n - 1}}}\n"
        f"  c{n}: {{type: \"null\", input: [a{n}, b{n}]}}\n" for n in range(1, 330))
    yield "ladder: two stages that join, 330 times", graph + "  c0: {type: \"null\", input: lobby}\n" + "".join(
        f"  a{n}: {{type: \"null\", input: c{n - 1}}}\n  b{n}: {{type: \"null\", input: c{n - 1}}}\n"
        f"  c{n}: {{type: join, join: {{x: a{n}, y: b{n}}}}}\n" for n in range(1, 330))
    yield "devices: a list as long as fits", filled(
        graph + "  preprocess: {input: lobby, size: 8x8, device: [", lambda n: f"d{n}, ", "]}\n")
    yield "devices: as many as fit", filled(graph + "  decode: {input: lobby}\ndevices:\n",
                                            lambda n: f"  d{n}: {{device: cpu}}\n")
    yield "files: 998 written, all the same", graph + "".join(
        f"  s{n}: {{type: jsonl, input: lobby, path: a.jsonl}}\n" for n in range(998))
    yield "variables: nested defaults", graph.replace("lobby.mp4", "'" + "${A:-" * 100000 + "}" * 100000 + "'")
    yield "variables: unset ones", filled(HEAD + "sources: [", lambda n: f"'${{NONE{n}}}', ", "]\n")
    yield "values: numbers that are none", filled(
        graph + "  preprocess: {input: lobby, size: 8x8, mean: [", lambda n: "x, ", "]}\n")
    yield "quotes: never closed", HEAD + "stages: \"" + "x\\n" * (MIB // 3 - 100)
    yield "noise", "".join(chr(noise.randrange(32, 127)) for _ in range(MIB - 1))
    yield "noise of YAML", "".join(noise.choice("[]{},:-?&*!|>'\"%@`# \n\tab1") for _ in range(MIB - 1))


def measure(millrace, words, runs):
    clock, processor = [], []
    for _ in range(runs):
        start = time.perf_counter()
        child = subprocess.Popen([millrace, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        said = child.stdout.read()
        _, status, usage = os.wait4(child.pid, 0)
        clock.append(time.perf_counter() - start)
        processor.append(usage.ru_utime + usage.ru_stime)
        child.returncode = os.waitstatus_to_exitcode(status)
        child.stdout.close()
    return statistics.median(clock) * 1e3, statistics.median(processor) * 1e3, child.returncode, len(said)


def show(name, size, measured):
    clock, processor, code, printed = measured
    print(f"{name:42} {size / 1024:7.0f} {clock:8.1f} {processor:9.1f} {code:5} {printed:8}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millrace", default=str(ROOT / "build/millrace"))
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args()
    print(f"{'file':42} {'KiB':>7} {'clock':>8} {'processor':>9} {'exit':>5} {'printed':>8}")
    show("none: millrace --version", 0, measure(given.millrace, ["--version"], given.runs))
    with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
        path = pathlib.Path(folder) / "measured.yaml"
        for name, text in files():
            path.write_text(text)
            show(name, len(text), measure(given.millrace, ["check", path], given.runs))


if __name__ == "__main__":
    main()

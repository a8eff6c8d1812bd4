"""How many instructions the fused preprocess kernel issues for one picture of the benchmark (1080p NV12 to 224x224 f16,
centre crop 0.875, bilinear with antialiasing), and what time follows from it, without a GPU: the machine code for sm_90
is cut into basic blocks and loops, and a model says how often each is run.

    tools/bench/sass.py [--object build/preprocess_walk_cuda.cu.o] [--counts build/walk_counts.json] [--json]

The model is in this file: filters, tiles and steps are worked out anew from their definitions
(kernels/preprocess/filter.h, kernels/preprocess/preprocess_walk.h). Where --counts is given, what it says must be what
the kernel's source did when it ran on the host (test_preprocess_cuda_host writes that file). All counts are of whole
warps: lanes that idle are counted. A block that is not run by every iteration counts as if it were, except what the
model names: ways that this picture does not take.

Exit status: 0 within the limits, 1 not, or the model is not what was counted, 69 there is no cuobjdump or no object, 77
with --skip in place of 69."""
import argparse
import json
import math
import os
import pathlib
import shutil
import sys
import sysconfig

from sass_graph import Graph, kernels, usage

# Demangled: walk<2 planes, f16, NCHW>.
KERNEL, ARCHITECTURE = "walkILi2EL8mr_dtype2EL9mr_layout1E", "sm_90"
# What it must not exceed. 12 million is less than the memory needs, with room.
LIMITS = {"thread_instructions": 12e6, "registers": 64, "local_bytes": 0, "divisions": 0}
# The instances of the kernel: 2 or 3 planes, 3 types, 2 layouts. All are held to the limits but the first.
INSTANCE, INSTANCES = "4walkILi", 12
PICTURES, WIDTH, HEIGHT, SIDE, FRACTION = 64, 1920, 1080, 224, 0.875
# An H100 SXM: multiprocessors, instructions a cycle of each, cycles that a product of pairs (IDP) keeps one of its four
# parts busy, clock, and what it copies in its memory, read and written together.
CARD = {"processors": 132, "issue": 4, "idp_cycles": 2, "hz": 1.755e9, "copy_bytes_per_s": 3.0e12}
# As the engine has them: rows of a tile, results open at once, samples of a thread down, rows of a thread along,
# threads of a block, most columns of a tile, samples (1 byte) to which a column's first is aligned.
ROWS, SLOTS, SAMPLES, PAIR_ROWS, THREADS, MOST_COLUMNS = 16, 3, 8, 2, 128, 128


# ---- the model -------------------------------------------------------------------------------------------------------

def taps(start, step, count, high):
    """(first, end) of each result of a triangle as wide as the scale, cut at the border;
    zero weights at the ends go."""
    result = []
    for i in range(count):
        center = start + (i + 0.5) * step
        first = max(0, min(int(math.floor(center - step + 0.5)), high - 1))
        end = max(first + 1, min(int(math.floor(center + step + 0.5)), high))
        while end - first > 1 and abs((end - 1 - center + 0.5) / step) >= 1.0:
            end -= 1
        while end - first > 1 and abs((first - center + 0.5) / step) >= 1.0:
            first += 1
        result.append((first, end))
    return result


def steps_of(rows, last):
    """Steps that walk down the source rows of one tile, two rows each, for up to SLOTS results at once; and in how many
    of them a result is finished."""
    waiting, slots, steps, finishing = list(rows), [], 0, 0
    while waiting or slots:
        while waiting and len(slots) < SLOTS:
            first, end = waiting.pop(0)
            slots.append([first, end])
        row = min(min(slot[0] for slot in slots), last)
        slots = [[max(slot[0], row + 2), slot[1]] for slot in slots]
        left = [slot for slot in slots if slot[0] < slot[1]]
        finishing += len(left) < len(slots)
        slots = left
        steps += 1
    return steps, finishing


def cut(items, size):
    return [items[i:i + size] for i in range(0, len(items), size)]


def warps(threads):
    return (threads + 31) // 32


def walk_of(x, y, columns, step):
    """What is done down one plane: columns of eight samples in warps, and the steps of each of these."""
    starts = [min(f for f, _ in tile) * step // SAMPLES * SAMPLES for tile in cut(x, columns)]
    jobs = [math.ceil((max(e for _, e in tile) * step - start) / SAMPLES)
            for tile, start in zip(cut(x, columns), starts)]
    last = max(end for _, end in y) - 2
    down = [steps_of(tile, last) for tile in cut(y, ROWS)]
    across = sum(warps(j) for j in jobs)
    align = 4 if step == 1 else 2
    pairs = max(math.ceil((f % align + e - f) / align) * align // 2 for f, e in x)
    return {"jobs": across * len(down), "steps": across * sum(steps for steps, _ in down),
            "finishing": across * sum(finishing for _, finishing in down), "left": across * len(y),
            "wholes": (pairs - 1) // 4, "head": pairs - (pairs - 1) // 4 * 4}


def model():
    region = FRACTION * HEIGHT
    left, top, step = (WIDTH - region) / 2, (HEIGHT - region) / 2, region / SIDE
    luma_x, luma_y = taps(left, step, SIDE, WIDTH), taps(top, step, SIDE, HEIGHT)
    # Chroma of limited range is sited left: a quarter of its sample.
    chroma_x = taps(left / 2 + 0.25, step / 2, SIDE, WIDTH // 2)
    chroma_y = taps(top / 2, step / 2, SIDE, HEIGHT // 2)
    columns = math.ceil(SIDE / math.ceil(SIDE / MOST_COLUMNS))
    across, down = math.ceil(SIDE / columns), math.ceil(SIDE / ROWS)
    items = warps(columns // 2 * (ROWS // PAIR_ROWS))
    luma, chroma = walk_of(luma_x, luma_y, columns, 1), walk_of(chroma_x, chroma_y, columns, 2)
    extent = [max(e for _, e in axis) - min(f for f, _ in axis) for axis in (luma_x, luma_y, chroma_x, chroma_y)]
    return {"blocks": across * down, "pairs": items * across * down, "luma": luma, "chroma": chroma,
            "bytes": extent[0] * extent[1] + 2 * extent[2] * extent[3] + 3 * SIDE * SIDE * 2}


def counted_as(m):
    """The model as MR_COUNT counts: events of warps."""
    vectors = sum(m["pairs"] * (m[plane]["wholes"] + 1) for plane in ("luma", "chroma"))
    both = {key: m["luma"][key] + m["chroma"][key] for key in ("jobs", "steps", "finishing", "left")}
    return {"job": both["jobs"], "step": both["steps"], "finishing": both["finishing"], "left": both["left"],
            "pair": m["pairs"], "vector": vectors, "unaligned": 0, "edge": 0, "held": 0}


# ---- how often blocks are run ----------------------------------------------------------------------------------------

def has(block, opcode, text=""):
    return any(o.startswith(opcode) and text in operands for _, _, o, operands in block.code)


class Counts:
    """runs: {number of a block: how often warps run it}; why: the words for it."""

    def __init__(self, graph, m):
        self.graph, self.m, self.runs, self.why = graph, m, {}, {}
        blocks = graph.blocks
        inner = {h: body for h, (body, _) in graph.loops.items()
                 if not any(o != h and o in body for o in graph.loops)}
        # Down: loops with products and a vector of weights but nothing from the block's memory. Those that read whole
        # words are the ways taken; which plane's they are the selection of bytes tells.
        walks = {h: body for h, (body, _) in graph.loops.items()
                 if any(has(blocks[n], "IDP") for n in body) and any(has(blocks[n], "PRMT") for n in body)
                 and not any(has(blocks[n], "LDS") for n in body)}
        walks = {h: body for h, body in walks.items() if not any(o != h and walks[o] < body for o in walks)}
        aligned = {h: body for h, body in walks.items() if h in inner
                   and any(has(blocks[n], "LDG.E.EF.64") for n in body)}
        self.luma = [h for h, body in aligned.items() if any(has(blocks[n], "PRMT", "0x7362") for n in body)]
        self.chroma = [h for h, body in aligned.items() if any(has(blocks[n], "PRMT", "0x7351") for n in body)]
        self.others = [h for h in walks if h not in self.luma + self.chroma]
        self.vectors = sorted(h for h, body in inner.items() if any(has(blocks[n], "LDS") for n in body))
        if len(self.luma) != 1 or len(self.chroma) != 1 or len(self.vectors) != 2:
            raise ValueError(f"not the loops of this kernel: luma {self.luma}, chroma {self.chroma}, along "
                             f"{self.vectors}")
        around = {h: body for h, (body, _) in graph.loops.items()}
        self.around = around
        self.jobs = {self.outermost(around, self.luma[0]), self.outermost(around, self.chroma[0])}
        self.items = self.outermost(around, self.vectors[0])
        busy = set.union(*(around[h] for h in self.jobs | {self.items}))
        self.padding = [h for h, body in around.items() if not body & busy]
        self.count()

    @staticmethod
    def outermost(around, number):
        return max((len(body), h) for h, body in around.items() if number in body)[1]

    def put(self, numbers, runs, why):
        for number in numbers:
            if number not in self.runs:
                self.runs[number], self.why[number] = runs, why

    def count(self):
        g, m = self.graph, self.m
        for name, header in (("luma", self.luma[0]), ("chroma", self.chroma[0])):
            self.count_walk(header, m[name], name)
            self.put(self.only_before(header), m[name]["jobs"], f"{name}, before its walk")
        for body in [body for body, _ in g.loops.values() if not body & {self.luma[0], self.chroma[0]}]:
            if body & set(self.others):
                self.put(body, 0, "samples that are not aligned, or at the edge: none here")
        self.put(self.only_before(*self.others), 0, "samples that are not aligned, or at the edge: none here")
        for name, header in (("luma", self.luma[0]), ("chroma", self.chroma[0])):
            self.put(g.loops[self.outermost(self.around, header)][0], m[name]["jobs"],
                     f"{name}, columns that are walked down")
        for header, name in zip(self.vectors, ("luma", "chroma")):
            self.put(g.loops[header][0], m["pairs"] * m[name]["wholes"], f"{name}, whole vectors along")
        self.count_heads()
        unpaired = [n for n in g.loops[self.items][0] if g.blocks[n].count("STG.E.U16")]
        self.put(unpaired, 0, "elements stored one by one: none here")
        held = [n for n in g.loops[self.items][0] if g.blocks[n].count("VIMNMX") >= 2 * 3 * PAIR_ROWS]
        self.put(held, 0, "samples held within their range: no weights are negative here")
        self.put(g.loops[self.items][0], m["pairs"], "pairs of columns")
        # What leads to the padding alone is not run either: such blocks are not launched for this picture.
        for header in self.padding:
            self.put(g.loops[header][0], 0, "padding: none here")
        padding = {n for header in self.padding for n in g.loops[header][0]}
        for number in g.dominators:
            after = g.after(number)
            if after & padding and not after & self.jobs:
                self.put([number], 0, "padding: none here")
        self.put(g.dominators, m["blocks"] * THREADS // 32, "once a warp")

    def count_walk(self, header, plane, name):
        body, always = self.graph.loops[header][0], self.graph.always(header)
        leaving = [n for n in body - always if self.graph.blocks[n].count("STS")]
        self.put(leaving, plane["left"] / len(leaving), f"{name}, a row is finished")
        self.put(body - always, plane["finishing"] / 3, f"{name}, which row is finished")
        self.put(always, plane["steps"] / 3, f"{name}, three steps")

    def only_before(self, *headers):
        """Blocks around walks that no other walk needs: they lead to these alone, and only on the way to them."""
        body, walks = set.union(*(self.around[h] for h in self.jobs)), self.luma + self.chroma + self.others
        return [n for n in body if self.reached(n) & set(walks) and self.reached(n) & set(walks) <= set(headers)]

    def reached(self, number):
        """Blocks that an iteration of a loop over columns can still come by from there."""
        body = set.union(*(body for h, body in self.around.items() if h in self.jobs and number in body))
        seen, left = {number}, [number]
        while left:
            for after in self.graph.blocks[left.pop()].next:
                if after in body and after not in self.jobs and after not in seen:
                    seen.add(after)
                    left.append(after)
        return seen

    def count_heads(self):
        """One of the blocks for vectors that are not whole is taken for each plane:
        the one with its number of products."""
        g, split = self.graph, self.vectors[0]
        heads = [n for n in g.loops[self.items][0] if g.innermost(n) == self.items and g.blocks[n].count("IDP")]
        # Per pair of weights: low and high bytes, two columns, rows, parts.
        for name, parts, some in (("luma", 1, [n for n in heads if n < split]),
                                  ("chroma", 2, [n for n in heads if n > split])):
            products = 4 * PAIR_ROWS * parts * self.m[name]["head"]
            taken = [n for n in some if g.blocks[n].count("IDP") == products]
            if len(taken) != 1:
                raise ValueError(f"{name}: {len(taken)} blocks of {products} products along, not one")
            self.put(taken, self.m["pairs"], f"{name}, the first vector along")
            self.put(some, 0, f"{name}, other first vectors")


# ---- what follows ----------------------------------------------------------------------------------------------------

def held_by(code, used):
    """What every instance is held to: registers, bytes of its own in the card's memory or instructions that use them,
    and those that divisions begin with."""
    opcodes = [opcode for _, _, opcode, _ in code]
    local = sum(opcode.split(".")[0] in ("STL", "LDL") for opcode in opcodes)
    divisions = sum(opcode.startswith(("MUFU.RCP", "I2F.RP", "I2F.U32.RP", "F2I.FTZ.U32.TRUNC.NTZ", "CALL"))
                    for opcode in opcodes)
    return {"registers": used["REG"], "local_bytes": used.get("LOCAL", 0) + used.get("STACK", 0) + local,
            "divisions": divisions}


def summary(graph, code, used, m):
    counts = Counts(graph, m)
    total = sum(len(b.code) * counts.runs[b.number] for b in graph.blocks if b.number in counts.runs)
    products = sum(b.count("IDP") * counts.runs[b.number] for b in graph.blocks if b.number in counts.runs)
    cycle = 1e6 / (CARD["processors"] * CARD["issue"] * CARD["hz"])
    us = {"issue": PICTURES * total * cycle, "products": PICTURES * products * CARD["idp_cycles"] * cycle,
          "memory": PICTURES * m["bytes"] / CARD["copy_bytes_per_s"] * 1e6}
    return counts, {"thread_instructions": round(32 * total), **held_by(code, used),
                    "predicted_us": {**{k: round(v, 1) for k, v in us.items()}, "least": round(max(us.values()), 1)},
                    "predicted_of_copy_at_most": round(us["memory"] / max(us.values()), 2)}


def table(graph, counts):
    """One line for what is run equally often for one reason, in the order of the code."""
    rows = {}
    for block in graph.blocks:
        if block.number in counts.runs:
            key = (counts.why[block.number], counts.runs[block.number])
            rows[key] = rows.get(key, 0) + len(block.code)
    lines = [f"{'instructions':>12} {'runs':>10} {'thread instructions':>20}  what"]
    for (why, runs), size in rows.items():
        lines.append(f"{size:>12} {runs:>10.1f} {32 * size * runs:>20,.0f}  {why}")
    return "\n".join(lines)


def find_cuobjdump():
    beside = pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "bin"
    root = pathlib.Path(__file__).resolve().parents[2]
    venv = sorted(root.glob("build/venv/lib/python*/site-packages/nvidia/cu13/bin"))
    places = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/cuda/bin", str(beside), *map(str, venv)])
    # It runs nvdisasm, which lies beside it.
    found = shutil.which("cuobjdump", path=places)
    if found:
        os.environ["PATH"] = os.path.dirname(found) + os.pathsep + os.environ.get("PATH", "")
    return found


def check_counts(path, m):
    seen, expected = json.loads(pathlib.Path(path).read_text()), counted_as(m)
    wrong = {key: (value, seen.get(key)) for key, value in expected.items() if seen.get(key) != value}
    for key, (value, other) in wrong.items():
        print(f"sass.py: the model has {key} {value} times, the kernel's source did it {other} times", file=sys.stderr)
    return not wrong


def main():
    root = pathlib.Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--object", default=root / "build" / "preprocess_walk_cuda.cu.o")
    parser.add_argument("--counts", help="what was counted when the kernel's source ran on the host")
    parser.add_argument("--json", action="store_true", help="one JSON object in place of tables")
    parser.add_argument("--skip", action="store_true", help="exit with 77 where there is nothing to read the code with")
    options = parser.parse_args()
    m = model()
    if options.counts and not check_counts(options.counts, m):
        return 1
    cuobjdump = find_cuobjdump()
    if not cuobjdump or not os.path.exists(options.object):
        missing = f"no {options.object}" if cuobjdump else "no cuobjdump (package nvidia-cuda-cuobjdump)"
        print(f"sass.py: skipped: {missing}; the model was checked" if options.counts else f"sass.py: {missing}",
              file=sys.stderr)
        return 77 if options.skip else 69
    # The name of what each kernel is compiled from stands in it.
    code = {name: lines for name, lines in kernels(cuobjdump, options.object, ARCHITECTURE).items() if INSTANCE in name}
    used = usage(cuobjdump, options.object, ARCHITECTURE)
    if not code:
        print(f"sass.py: {options.object} has no code for {ARCHITECTURE}", file=sys.stderr)
        return 69 if not options.skip else 77
    benchmarked = [name for name in code if KERNEL in name]
    if len(benchmarked) != 1 or len(code) != INSTANCES:
        print(f"sass.py: {options.object} has {len(code)} kernels, not {INSTANCES} and {KERNEL} among them",
              file=sys.stderr)
        return 1
    graph = Graph(code[benchmarked[0]])
    counts, result = summary(graph, code[benchmarked[0]], used[benchmarked[0]], m)
    instances = {name: held_by(lines, used[name]) for name, lines in code.items()}
    over = [f"{name}: {key} is {one[key]:,}, at most {limit:,.0f} is allowed"
            for name, one in {**instances, benchmarked[0]: result}.items() for key, limit in LIMITS.items()
            if one.get(key, 0) > limit]
    if options.json:
        print(json.dumps({**result, "limits": LIMITS, "instances": instances, "within_limits": not over, "model": m}))
    else:
        print(f"model, one picture: {json.dumps(m)}\n{table(graph, counts)}\n{json.dumps(result)}")
        most = {key: max(one[key] for one in instances.values()) for key in ("registers", "local_bytes", "divisions")}
        print(f"{len(instances)} instances of the kernel, the most of each: {json.dumps(most)}")
    for line in over:
        print(f"sass.py: {line}", file=sys.stderr)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())

"""What a kernel's machine code (SASS, as cuobjdump prints it) is made of: basic blocks, who dominates whom, and natural
loops, found from branches alone."""
import re
import subprocess

LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z0-9_.]+)\s*([^;]*);")


def kernels(cuobjdump, path, architecture):
    """{mangled name: [(address, predicate, opcode, operands)]} of the code for one architecture."""
    text = subprocess.run([cuobjdump, "-sass", "-arch", architecture, path], capture_output=True, text=True,
                          check=True).stdout
    found, current = {}, None
    for line in text.splitlines():
        if "Function : " in line:
            current = found.setdefault(line.split("Function : ")[1].strip(), [])
        match = LINE.match(line)
        if match and current is not None:
            address, predicate, opcode, operands = match.groups()
            current.append((int(address, 16), predicate, opcode, operands.strip()))
    return found


def usage(cuobjdump, path, architecture):
    """{mangled name: {"REG": .., "STACK": .., "LOCAL": ..}}"""
    text = subprocess.run([cuobjdump, "-res-usage", "-arch", architecture, path], capture_output=True, text=True,
                          check=True).stdout
    pairs = re.findall(r"Function (\S+):\s+(.*)", text)
    return {name: {key: int(value) for key, value in re.findall(r"(\w+):(\d+)", numbers)} for name, numbers in pairs}


def target_of(operands):
    return int(re.findall(r"0x([0-9a-f]+)", operands)[-1], 16)


class Block:
    def __init__(self, number, code):
        self.number, self.code, self.next, self.before = number, code, [], []

    def count(self, *opcodes):
        return sum(any(opcode == o or opcode.startswith(o + ".") for o in opcodes) for _, _, opcode, _ in self.code)


class Graph:
    """blocks[0] is the entry. loops: {number of the header: (numbers of all its blocks, those of its latches)}."""

    def __init__(self, code):
        self.blocks = self.cut(code)
        self.connect()
        self.dominators = self.dominate()
        self.loops = self.find_loops()

    @staticmethod
    def cut(code):
        starts = {code[0][0]}
        for (address, _, opcode, operands), after in zip(code, code[1:] + [None]):
            if opcode in ("BRA", "EXIT", "RET", "BRX", "CALL", "JMP") or opcode.startswith(("BRA.", "RET.", "CALL.")):
                if opcode.startswith(("BRX", "CALL", "JMP", "RET")):
                    raise ValueError(f"{opcode} at {address:#x}: where it goes is not known")
                if opcode.startswith("BRA"):
                    starts.add(target_of(operands))
                if after:
                    starts.add(after[0])
        blocks = []
        for instruction in code:
            if instruction[0] in starts:
                blocks.append(Block(len(blocks), []))
            blocks[-1].code.append(instruction)
        return blocks

    def connect(self):
        at = {block.code[0][0]: block for block in self.blocks}
        for block in self.blocks:
            _, predicate, opcode, operands = block.code[-1]
            to = [at[target_of(operands)]] if opcode.startswith("BRA") else []
            # "BRA P3, x" is taken by some threads only, as a predicate before it has it.
            sure = opcode in ("EXIT",) or opcode.startswith("BRA")
            sometimes = predicate is not None or (opcode.startswith("BRA") and not operands.startswith("0x"))
            if (not sure or sometimes) and block.number + 1 < len(self.blocks):
                to.append(self.blocks[block.number + 1])
            block.next = [b.number for b in to]
            for other in to:
                other.before.append(block.number)

    def after(self, number):
        """Blocks that can be run after this one, itself among them."""
        seen, left = {number}, [number]
        while left:
            for number in self.blocks[left.pop()].next:
                if number not in seen:
                    seen.add(number)
                    left.append(number)
        return seen

    def dominate(self):
        reachable = self.after(0)
        result = {number: set(reachable) for number in reachable}
        result[0], changed = {0}, True
        while changed:
            changed = False
            for number in sorted(reachable - {0}):
                before = [result[b] for b in self.blocks[number].before if b in reachable]
                made = set.intersection(*before) | {number}
                changed, result[number] = changed or made != result[number], made
        return result

    def find_loops(self):
        loops = {}
        for number in self.dominators:
            for header in self.blocks[number].next:
                if header in self.dominators[number]:
                    body, latches = loops.setdefault(header, ({header}, set()))
                    latches.add(number)
                    left = [number]
                    while left:
                        one = left.pop()
                        if one not in body:
                            body.add(one)
                            left += self.blocks[one].before
        return loops

    def innermost(self, number):
        """Header of the smallest loop that the block is in, or None."""
        around = [(len(body), header) for header, (body, _) in self.loops.items() if number in body]
        return min(around)[1] if around else None

    def always(self, header):
        """Blocks that every iteration of a loop comes by."""
        body, latches = self.loops[header]
        return {n for n in body if all(n in self.dominators[latch] for latch in latches)}

"""Finds which modules use which struct: the modules that name a field in it. A module is a .c with its .h.

The types are those declared in the text: `instance->ring.claimed` reaches into mr_instance and mr_ring if `instance`
was declared as an mr_instance. Macros and casts are not followed."""
import collections
import re

FUNCTION = re.compile(r"^(?:static |inline |const |struct )*(\w+) \**(\w+)\(([^;{}]*?)\)\s*\{(.*?)^\}", re.M | re.S)
VARIABLE = re.compile(r"\b(?:struct )?(mr_\w+|\w+) (?:const )?\**(?:const )?(\w+)(?=[\s;,)=\[]|$)")
CHAIN = re.compile(r"\b(\w+)(\((?:[^()]|\([^()]*\))*\))?((?:\[[^\]]*\])*)((?:(?:->|\.)\w+(?:\[[^\]]*\])*)+)")
STRUCT = re.compile(r"^(?:typedef )?struct (\w+) \{\n(.*?)^\}( \w+)?;", re.M | re.S)


def module_of(name):
    return re.sub(r"\.(c|h|cu)$", "", name)


class Reach:
    """Takes texts without comments: {file: text}."""

    def __init__(self, texts):
        self.texts = texts
        self.fields, self.defined = {}, {}
        for name, text in texts.items():
            for tag, body, _ in STRUCT.findall(text):
                self.fields[tag] = self.members(body)
                self.defined[tag] = name
        self.returns = {}
        for text in texts.values():
            for kind, function in re.findall(r"^(?:static |inline |const |struct )*(mr_\w+) \**(\w+)\(", text, re.M):
                self.returns[function] = kind

    @staticmethod
    def members(body):
        """Returns {field: type}."""
        found = {}
        body = re.sub(r"\(\*(\w+)\)\([^;]*\)", r"\1", body)
        for line in body.split(";"):
            line = re.sub(r"\b(const|_Atomic|struct|volatile|unsigned|enum|union)\b", " ", line).strip()
            match = re.match(r"(\w+)\b[\s*]*(.*)$", line, re.S)
            if match and match[2]:
                for one in re.sub(r"\[[^\]]*\]", "", match[2]).split(","):
                    name = re.sub(r"[\s*]|:.*", "", one)
                    if re.fullmatch(r"\w+", name):
                        found[name] = match[1]
        return found

    def reached(self):
        """Returns {struct: {module: number of places that name a field}}."""
        counts = collections.defaultdict(collections.Counter)
        for name, text in self.texts.items():
            for _, _, parameters, body in FUNCTION.findall(text):
                types = {}
                for kind, variable in VARIABLE.findall(parameters + "; " + body):
                    if kind in self.fields:
                        types.setdefault(variable, kind)
                for base, called, _, chain in CHAIN.findall(body):
                    kind = self.returns.get(base) if called else types.get(base)
                    for field in re.findall(r"(?:->|\.)(\w+)", chain):
                        if kind not in self.fields or field not in self.fields[kind]:
                            break
                        counts[kind][module_of(name)] += 1
                        kind = self.fields[kind][field]
        return counts

"""Every extern name in a static library must begin with mr_, or millrace__ if protoc-c made it. A name must be hidden
unless a public header marks it with MR_API.

    names.py LIBRARY...
"""
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = sys.argv[1:]
# Names with a leading underscore come from the compiler: C++ names for kernels, and sanitizer marks. NVTX has only
# headers; each object that includes them has its weak names.
OURS = re.compile(r"mr_|millrace__|_|nvtx[A-Z]|InitializeInjectionNvtx")


def extern_names(library):
    """Returns the defined names that other objects can see."""
    lines = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if len(line.split()) > 2}


def visible_names(library):
    """Returns the names that a program or library also exports if it links this library."""
    lines = subprocess.run(["readelf", "--wide", "--symbols", library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    rows = (line.split() for line in lines)
    return {row[7] for row in rows if len(row) == 8 and row[4] in ("GLOBAL", "WEAK") and row[5] == "DEFAULT"
            and row[6] != "UND"}


def public_names():
    """Returns the functions that public headers mark."""
    texts = (path.read_text() for path in (ROOT / "engine/include/millrace").glob("*.h"))
    return {name for text in texts for name in re.findall(r"^MR_API [^;(]*?\b(mr_\w+)\(", text, re.M)}


class Names(unittest.TestCase):
    def test_extern_names_have_the_prefix(self):
        self.assertTrue(LIBRARIES, "usage: names.py LIBRARY...")
        for library in LIBRARIES:
            names = extern_names(library)
            self.assertGreater(len(names), 20, f"{library} defines hardly anything")
            self.assertEqual(sorted(name for name in names if not OURS.match(name)), [], f"extern names of {library}")

    def test_private_names_are_hidden(self):
        visible = set().union(*map(visible_names, LIBRARIES))
        public = public_names()
        self.assertGreater(len(public), 100)
        self.assertEqual(sorted(public - visible), [], "marked with MR_API, and hidden all the same")
        self.assertEqual(sorted(name for name in visible - public if name.startswith(("mr_", "millrace__"))), [],
                         "neither marked with MR_API nor hidden")


if __name__ == "__main__":
    sys.exit(unittest.main(argv=sys.argv[:1]))

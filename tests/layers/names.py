"""That every extern name of a static library begins with mr_, or millrace__ if protoc-c made it: names.py LIBRARY..."""
import re
import subprocess
import sys
import unittest

LIBRARIES = sys.argv[1:]
# What begins with an underscore belongs to the compiler: C++ names of kernels, and marks of sanitizers. NVTX is a library of
# headers alone, whose weak names are in every object that includes them.
OURS = re.compile(r"mr_|millrace__|_|nvtx[A-Z]|InitializeInjectionNvtx")


def extern_names(library):
    """The defined names that other objects see, without those of the compiler."""
    lines = subprocess.run(["nm", "--defined-only", "--extern-only", "--format=posix", library], check=True,
                           capture_output=True, text=True).stdout.splitlines()
    return {line.split()[0] for line in lines if len(line.split()) > 2}


class Names(unittest.TestCase):
    def test_extern_names_have_the_prefix(self):
        self.assertTrue(LIBRARIES, "usage: names.py LIBRARY...")
        for library in LIBRARIES:
            names = extern_names(library)
            self.assertGreater(len(names), 20, f"{library} defines hardly anything")
            self.assertEqual(sorted(name for name in names if not OURS.match(name)), [], f"extern names of {library}")


if __name__ == "__main__":
    sys.exit(unittest.main(argv=sys.argv[:1]))

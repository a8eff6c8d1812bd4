"""Shared libraries must export the functions that public headers mark with MR_API, and nothing else.

    exports.py SOURCE_FOLDER FOLDER    (FOLDER has libmillrace.so and libmillrace-command.so)
"""
import pathlib
import re
import subprocess
import sys
import unittest

SOURCE, FOLDER = (pathlib.Path(path) for path in sys.argv[1:3])


def declared(header):
    text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
    return set(re.findall(r"^MR_API [^;(]*?\b(mr_\w+)\(", text, re.M))


def symbols(library, *options):
    lines = subprocess.run(["nm", "-D", "--format=posix", *options, FOLDER / library], check=True, capture_output=True,
                           text=True).stdout.splitlines()
    return {line.split()[0] for line in lines}


class Exports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        headers = sorted((SOURCE / "engine/include/millrace").glob("*.h"))
        cls.public = {header.name: declared(header) for header in headers}

    def test_headers_mark_each_function(self):
        self.assertGreater(sum(map(len, self.public.values())), 100)
        for header in (SOURCE / "engine/include/millrace").glob("*.h"):
            text = re.sub(r"/\*.*?\*/", " ", header.read_text(), flags=re.S)
            bare = re.findall(r"^(?!typedef|static|MR_API|#)[a-z][\w *]*[ *](mr_\w+)\(", text, re.M)
            self.assertEqual(bare, [], f"functions of {header.name} without MR_API")

    def test_the_library_exports_its_functions_only(self):
        wanted = set().union(*self.public.values()) - self.public["command.h"]
        self.assertEqual(sorted(symbols("libmillrace.so", "--defined-only") ^ wanted), [])

    def test_the_command_exports_its_functions_only(self):
        self.assertEqual(symbols("libmillrace-command.so", "--defined-only"), self.public["command.h"])


if __name__ == "__main__":
    sys.exit(unittest.main(argv=sys.argv[:1]))

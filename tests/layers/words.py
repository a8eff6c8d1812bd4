"""Counts words in the code. Comments must be in plain English, as in nng or dav1d; retired words must not come back.
Lines must have at most WIDEST columns.

    python3 tests/layers/words.py           runs the tests
    python3 tests/layers/words.py --counts  prints the counts by folder

For each folder, the counts are per 1,000 words of comment. `what` and `who` (with whoever, nobody and the like) should
be rare: they stand in for the name of a thing. `if` should be common: plain conditions need it. Documents and the help
of all verbs are counted, too. There, `tell` (told, hears) should also be rare: it stands in for shows, reports or
receives."""
import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOPS = ("engine", "stages", "kernels", "tools/millrace")
WIDTH_TOPS = (*TOPS[:-1], "tools", "pipelines", "tests")
WIDTH_SUFFIXES = (".c", ".h", ".cu", ".cpp", ".py", "")  # "": scripts
WIDEST = 120
FEWEST_WORDS = 400  # of comment; in a smaller folder, one word changes the figures too much

# Per 1,000 words of comment, in any folder.
MOST = {"what": 4.0, "who": 1.5}
LEAST = {"if": 3.0}

# Per 1,000 words of a document's prose, and of all help (stages/README.md has the help of all options).
MOST_IN_DOCUMENTS = {**MOST, "tell": 2.0}
LEAST_IN_DOCUMENTS = {"if": 2.0}

# Private words that the code once used, with the usual word for each. No name or comment may use them.
RETIRED = {
    "carrier": "I/O thread", "giver": "producer", "taker": "consumer", "misfit": "mismatch", "exonerate": "clear",
    "bury": "mark dead", "heed": "dispatch", "glance": "try", "lent": "external memory", "passage": "bounce buffer",
}


def comments_of(text):
    return " ".join(re.findall(r"/\*.*?\*/|//[^\n]*", text, re.S))


def words_of(text):
    return re.findall(r"[a-z']+", text.lower())


def files():
    for top in TOPS:
        for path in sorted((ROOT / top).rglob("*")):
            if path.suffix in (".c", ".h", ".cu"):
                yield path


def counts():
    """Returns {folder: {"words": number, "what": number, ...}}, counted in comments."""
    found = collections.defaultdict(collections.Counter)
    for path in files():
        count = found[str(path.parent.relative_to(ROOT))]
        words = words_of(comments_of(path.read_text()))
        count["words"] += len(words)
        count["what"] += sum(word in ("what", "whatever") for word in words)
        count["who"] += sum(word in ("who", "whom", "whoever", "nobody", "somebody", "anybody") for word in words)
        count["if"] += words.count("if")
    return found


def documents():
    return [ROOT / "README.md", *sorted(path for top in ("engine", "pipelines", "stages", "tests", "tools")
                                        for path in (ROOT / top).rglob("*.md"))]


def prose_of(markdown):
    """Removes code: fenced blocks, indented lines, and words between backticks."""
    text = re.sub(r"^```.*?^```$", "", markdown, flags=re.M | re.S)
    return re.sub(r"^    .*$|^<!--.*$|`[^`]*`", "", text, flags=re.M)


def help_of(source):
    """Returns the literals of the usages in a C source."""
    found = re.findall(r"^static const mr_usage(?: \w+|_option \w+\[\]) = \{.*?\};$", source, re.M | re.S)
    return " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', " ".join(found)))


def count_of(text):
    words = words_of(text)
    return collections.Counter({
        "words": len(words), "what": sum(word in ("what", "whatever") for word in words),
        "who": sum(word in ("who", "whom", "whoever", "nobody", "somebody", "anybody") for word in words),
        "if": words.count("if"), "tell": sum(word in ("tell", "tells", "told", "hears", "heard") for word in words)})


def share(count, word):
    return 1000 * count[word] / count["words"]


class Words(unittest.TestCase):
    def test_comments_are_plain(self):
        for folder, count in counts().items():
            if count["words"] < FEWEST_WORDS:
                continue
            for word, most in MOST.items():
                self.assertLessEqual(share(count, word), most, f"\"{word}\" per 1,000 words of comment in {folder}")
            for word, least in LEAST.items():
                self.assertGreaterEqual(share(count, word), least, f"\"{word}\" per 1,000 words of comment in {folder}")

    def test_retired_words_stay_away(self):
        found = set()
        for path in files():
            for word in set(re.findall(r"[a-z]+", path.read_text().lower())):
                if word.removesuffix("s") in RETIRED:
                    found.add(f"{path.relative_to(ROOT)}: {word} (better: {RETIRED[word.removesuffix('s')]})")
        self.assertEqual(sorted(found), [])

    def test_lines_are_narrow(self):
        paths = [path for top in WIDTH_TOPS for path in (ROOT / top).rglob("*")
                 if path.suffix in WIDTH_SUFFIXES and path.is_file()]
        self.assertGreater(len(paths), 1000)
        wide = [f"{path.relative_to(ROOT)}:{number}: {len(line)} columns" for path in sorted(paths)
                for number, line in enumerate(path.read_text().splitlines(), 1) if len(line) > WIDEST]
        self.assertEqual(wide, [], f"lines of more than {WIDEST} columns")

    def test_documents_are_plain(self):
        texts = {str(path.relative_to(ROOT)): prose_of(path.read_text()) for path in documents()}
        texts["help"] = " ".join(help_of(path.read_text()) for path in sorted((ROOT / "tools/millrace").rglob("*.c")))
        self.assertGreater(len(texts), 10)
        for name, text in texts.items():
            count = count_of(text)
            if count["words"] < FEWEST_WORDS:
                continue
            for word, most in MOST_IN_DOCUMENTS.items():
                self.assertLessEqual(share(count, word), most, f"\"{word}\" per 1,000 words of {name}")
            for word, least in LEAST_IN_DOCUMENTS.items():
                self.assertGreaterEqual(share(count, word), least, f"\"{word}\" per 1,000 words of {name}")

    def test_lines_of_documents_are_narrow(self):
        """Except tables, commands, and the reference, which is generated."""
        wide = [f"{path.relative_to(ROOT)}:{number}: {len(line)} columns"
                for path in documents() if path != ROOT / "stages/README.md"
                for number, line in enumerate(path.read_text().splitlines(), 1)
                if len(line) > WIDEST and not line.startswith(("|", "    ", "<!--"))]
        self.assertEqual(wide, [], f"lines of more than {WIDEST} columns")

    def test_they_are_found(self):
        self.assertEqual(words_of(comments_of('/* What is "it"? */ f("what"); // nobody\n')),
                         ["what", "is", "it", "nobody"])


def print_counts():
    total = collections.Counter()
    print(f"{'folder':30} {'words':>7} {'what':>6} {'who':>6} {'if':>6}   per 1,000 words of comment")
    for folder, count in sorted(counts().items()):
        total.update(count)
        print(f"{folder:30} {count['words']:7} "
              + " ".join(f"{share(count, word):6.1f}" for word in ("what", "who", "if")))
    print(f"{'all':30} {total['words']:7} " + " ".join(f"{share(total, word):6.1f}" for word in ("what", "who", "if")))


if __name__ == "__main__":
    if sys.argv[1:] == ["--counts"]:
        print_counts()
    else:
        unittest.main()

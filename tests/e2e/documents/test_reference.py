"""The reference made from the option tables is current, complete and linked to."""
import json
import re

from harness import MILLRACE, ROOT, Case, call

FILE = ROOT / "stages/README.md"


def rows(text):
    """The tables below each heading: {heading: [a row's cells]}, without escapes."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            heading = found.setdefault(line.lstrip("# "), [])
        elif line.startswith("| `"):
            cells = re.split(r"(?<!\\)\|", line)[1:-1]
            heading.append([re.sub(r"\\(.)", r"\1", cell.strip()).strip("`") for cell in cells])
    return found


class Reference(Case):
    def test_the_file_is_current(self):
        told = call([MILLRACE, "inspect", "--markdown"])
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout, FILE.read_text(), "tools/reference renews it")

    def test_it_tells_what_inspect_tells(self):
        tables, seen = rows(FILE.read_text()), set()
        for name in {one["name"] for one in json.loads(call([MILLRACE, "list", "--json"]).stdout)}:
            for one in json.loads(call([MILLRACE, "inspect", name, "--json"]).stdout):
                heading = f"{name} ({one['kind']})"
                seen.add(heading)
                keys = tables["Every source" if one["kind"] == "source" else "Every stage"]
                for table, options in ((tables[heading], one["options"]), (keys, one["keys"])):
                    self.assertEqual(list(map(len, table)), [3] * len(table))
                    self.assertEqual([row[0] for row in table if "." not in row[0]], [it["name"] for it in options])
                    told = {row[0]: row for row in table}
                    for it in options:
                        self.assertTrue(told[it["name"]][1].startswith(it["type"]), told[it["name"]])
                        self.assertIn(it["default"] if it["default"] is not None and not it["required"] else "",
                                      told[it["name"]][1])
                        self.assertEqual(told[it["name"]][2], it["help"])
                        for field in it.get("fields", []):
                            self.assertEqual(told[f"{it['name']}.{field['name']}"][2], field["help"])
        self.assertEqual({one for one in tables if one.endswith(")")}, seen)

    def test_the_message_of_records_says_the_same(self):
        text = (ROOT / "proto/results.proto").read_text()
        record = text[text.index("message Record {"):]
        record = record[:record.index("\n}")]
        said = {number: (name, comment) for comment, name, number in
                re.findall(r"// (.*)\n *(?:repeated )?\w+ (\w+) = (\d+);", record)}
        shown = {row[2]: (row[0], row[3]) for row in rows(FILE.read_text())["Records"]}
        self.assertEqual({number: name.removesuffix("_ns") for number, (name, _) in said.items()},
                         {number: name for number, (name, _) in shown.items()})
        self.assertEqual({number: comment for number, (_, comment) in said.items()},
                         {number: meaning for number, (_, meaning) in shown.items()}, "tools/reference renews it")
        self.assertEqual(len(said), len(re.findall(r"= \d+;", record)))

    def test_the_top_level_is_in_it(self):
        self.assertLessEqual({"version", "pipeline", "sources", "stages"},
                             {row[0] for row in rows(FILE.read_text())["The pipeline"]})

    def test_readme_links_to_it(self):
        self.assertIn("](stages/README.md)", (ROOT / "README.md").read_text())

    def test_it_is_of_all_types(self):
        for words in (["--markdown", "jsonl"], ["--markdown", "--json"]):
            self.assertEqual(call([MILLRACE, "inspect", *words]).returncode, 64)

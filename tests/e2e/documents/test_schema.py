"""A pipeline's JSON Schema is current, valid for jsonschema and fastjsonschema, agrees with the parser, and serves a
YAML language server, as an editor runs it."""
import ast
import contextlib
import functools
import itertools
import json
import re
import shutil
import unittest

import fastjsonschema
import jsonschema

import core_yaml
from harness import MILLRACE, ROOT, Case, call, pipeline
from language_server import LanguageServer

FILE = ROOT / "pipelines/millrace.schema.json"
SCHEMA = json.loads(FILE.read_text())
VALIDATOR = jsonschema.Draft7Validator(SCHEMA)
# The schema as Python code: fifty times as fast.
COMPILED = fastjsonschema.compile(SCHEMA, detailed_exceptions=False)
MODELINE = "# yaml-language-server: $schema="

# The parser's messages about syntax, keys, types and ranges. With few exceptions a schema finds those too.
OF_FORM = re.compile(
    r"not YAML|not UTF-8|zero byte|second document|not a (millrace )?pipeline|file is empty|expected .*, found|is out "
    r"of range|unknown key|is missing|unknown type|is a (stage|source), not|it has no input\n|has both|"
    r"duplicate key|not closed by a brace|are not accepted|the pipeline has no|cannot be the id|nested more than")
UNSEEN = {
    "size-zero.yaml": "the range of a value such as 0x224 is within a text",
    "deadline-zero.yaml": "and so is that of a duration such as 0s",
    "device-parameter.yaml": "parameters of a simulated device are within a text, too",
    "device-like.yaml": "and so is what they are like",
    "duplicate-option.yaml": "JSON has no key twice; a YAML language server marks it by itself (below)",
    "duplicate-stage.yaml": "the same",
    "duplicate-top.yaml": "the same",
    "nodes-twice.yaml": "the same",
    "tag.yaml": "readers of YAML take tags away before a schema sees the value",
    "join-without-names.yaml": "null may be the id of a stage",
    "variable-open.yaml": "which text is a variable is not looked at where any text may stand",
}


def errors(text):
    """The validator's first error for a pipeline's text; text that is not YAML counts as one."""
    try:
        found = itertools.islice(VALIDATOR.iter_errors(core_yaml.load(text)), 1)
        return [f"{'.'.join(map(str, one.absolute_path))}: {one.message}" for one in found]
    except core_yaml.yaml.YAMLError as error:
        return [str(error)]


def compiled_errors(text):
    """The same, by the compiled schema."""
    try:
        COMPILED(core_yaml.load(text))
    except (core_yaml.yaml.YAMLError, fastjsonschema.JsonSchemaException) as error:
        return [str(error)]
    return []


@functools.cache
def types():
    """All source and stage types, as `inspect` shows them."""
    names = sorted({one["name"] for one in json.loads(call([MILLRACE, "list", "--json"]).stdout)})
    return json.loads(call([MILLRACE, "inspect", "--json", *names]).stdout)


def subschemas(schema, path=""):
    """Every option's schema: those with a description and a type."""
    if isinstance(schema, dict):
        if isinstance(schema.get("description"), str):
            yield path, schema
        for key, value in schema.items():
            yield from subschemas(value, f"{path}/{key}")
    elif isinstance(schema, list):
        for index, value in enumerate(schema):
            yield from subschemas(value, f"{path}/{index}")


def texts_in_tests():
    """Pipelines in tests and documents, unchanged."""
    for path in sorted((ROOT / "tests").rglob("*.yaml")):
        if "wrong" not in path.parts:
            yield str(path), path.read_text()
    for path in sorted((ROOT / "tests/e2e").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            place = f"{path}:{getattr(node, 'lineno', 0)}"
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "\nstages:" in node.value:
                yield place, node.value
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "pipeline":
                with contextlib.suppress(NameError):  # it has variables
                    yield place, eval(ast.unparse(node), {"pipeline": pipeline})
    for name in ("README.md", "pipelines/README.md", "engine/device/README.md", "stages/WRITING.md"):
        for text in re.findall(r"^```yaml\n(.*?)^```$", (ROOT / name).read_text(), re.M | re.S):
            yield name, text


class Schema(Case):
    def test_the_file_is_current(self):
        told = call([MILLRACE, "schema"])
        self.assertEqual((told.returncode, told.stderr), (0, ""))
        self.assertEqual(told.stdout, FILE.read_text(), "tools/reference renews it")

    def test_it_is_draft_07(self):
        self.assertEqual(SCHEMA["$schema"], jsonschema.Draft7Validator.META_SCHEMA["$id"])
        jsonschema.Draft7Validator.check_schema(SCHEMA)

    def test_all_is_explained(self):
        """Each option has help, and a default, an example or choices, which are themselves valid."""
        count = 0
        for path, schema in subschemas(SCHEMA):
            self.assertGreater(len(schema["description"]), 10, path)
            shown = [schema[key] for key in ("default",) if key in schema] + schema.get("examples", [])
            for value in shown:
                jsonschema.Draft7Validator({**schema, "definitions": SCHEMA["definitions"]}).validate(value)
            count += bool(shown)
        self.assertGreater(count, 60)

    def test_each_type_and_option_is_in_it(self):
        listed = json.loads(call([MILLRACE, "list", "--json"]).stdout)
        self.assertEqual(sorted((one["name"], one["kind"]) for one in listed),
                         sorted((one["name"], one["kind"]) for one in types()))
        for shown in types():
            section = "source" if shown["kind"] == "source" else "stage"
            for key in shown["keys"]:
                self.assertIn(key["help"], SCHEMA["definitions"][f"{section}Key.{key['name']}"]["description"])
            schema = SCHEMA["definitions"][f"{section}.{shown['name']}"]
            self.assertIn(shown["summary"], schema["description"])
            for option in shown["options"]:
                told = schema["properties"][option["name"]]
                self.assertIn(option["help"], told["description"])
                self.assertEqual(option["required"], option["name"] in schema["required"])
                if "choices" in option and "pattern" in told:
                    for word in option["choices"]:
                        self.assertRegex(word, told["pattern"])
                elif "choices" in option:
                    self.assertEqual(told["anyOf"][0]["enum"], option["choices"])


class Pipelines(Case):
    def test_those_shipped(self):
        files = sorted((ROOT / "pipelines").glob("*.yaml"))
        self.assertGreaterEqual(len(files), 4)
        for path in files:
            self.assertEqual(path.read_text().splitlines()[0], MODELINE + FILE.name, path)
            self.assertEqual(errors(path.read_text()), [], path)
            self.assertEqual(compiled_errors(path.read_text()), [], path)

    def test_those_in_the_tests(self):
        """The schema accepts everything that check accepts."""
        accepted, texts = 0, list(texts_in_tests())
        done = call([MILLRACE, "check", "--format", "json",
                     *(self.write(text, f"{number}.yaml") for number, (_, text) in enumerate(texts))])
        for (place, text), told in zip(texts, json.loads(done.stdout)["files"], strict=True):
            if told["ok"]:
                self.assertEqual(errors(text), [], place)
                accepted += 1
        self.assertGreaterEqual(accepted, 30)

    def test_a_mistyped_type_is_answered_with_the_types(self):
        for section, wrong, right in (("sources", "medai", "media"), ("stages", "jsonll", "jsonl")):
            text = pipeline(dict(lobby="type: media, uri: a.mp4"), decode="", out="type: jsonl")
            text = text.replace(f"type: {right}", f"type: {wrong}")
            told = jsonschema.exceptions.best_match(VALIDATOR.iter_errors(core_yaml.load(text))).message
            self.assertIn(wrong, told, section)
            self.assertRegex(told, rf"\b{right}\b", section)

    def test_those_that_are_wrong(self):
        """The schema also refuses mistakes in form."""
        refused = 0
        for path in sorted((ROOT / "tests/wrong").glob("*/*.yaml")):
            told = path.with_suffix(".expected").read_text()
            wrong = errors(path.read_bytes())
            self.assertEqual(bool(compiled_errors(path.read_bytes())), bool(wrong), path)
            if path.name in UNSEEN:
                self.assertEqual(wrong, [], f"{path.name} is seen after all: {UNSEEN[path.name]}")
            elif OF_FORM.search(told):
                self.assertTrue(wrong, f"{path.name} passes, though it is refused:\n{told}")
                refused += 1
        self.assertGreater(refused, 60)


class Values(Case):
    """Compares the schema with the parser: each option with many values, one pipeline each. Both accept the same
    values, except for what is inside a text."""

    VALUES = ("true", "false", "yes", "0", "1", "-1", "+7", "4", "300", "70000", "99999999999", "1.5", "-0.25", ".5",
              "5.", "1e3", "20ms", "1.5 s", "-3s", "2m", "20", "20parsec", "64MiB", "1.5GB", "9000", "12 kB", "30fps",
              "29.97", "30000/1001", "30/0", "25 /s", "224x224", "224x", "x224", "1x2x3", "I420 1280x720",
              "f32 3x224x224", "u8", "packet", "I421 8x8", "RGB24 8", "text", "\"\"", "' '", "\"8\"", "\"true\"",
              "\"20ms\"", "null", "~", "", "[]", "[1]", "[1, 2, 3]", "[1, 2, 3, 4, 5]", "[a, b]", "[a, null]", "[[1]]",
              "{}", "{a: b}", "{a: [1]}", "{size: 4}", "{size: 4, timeout: 5ms}", "{size: 4, when_full: block}",
              "{size: many}", "{sizes: 4}", "{x: 1, y: 2, width: 3, height: 4}", "{width: 3}", "${MR_TEST_SET}",
              "\"${MR_TEST_NONE:-1}\"", "$1", "-")
    # A schema sees a value with a unit, in quotes or made from two numbers as one text, and cannot check its range. Nor
    # can it see what a variable holds, how a number was written (JSON has one kind), or a division by 0.
    UNSEEN = ("5.", "1e3", "+7", "30/0")
    SPELT = re.compile(r"""^["']|[0-9] ?[a-zA-Z/]|^\$""")

    def pipelines(self):
        """(what it is, option, pipeline with %s for the value), for options that accept different kinds."""
        seen = set()
        for one in types():
            source = one["kind"] == "source"
            for option in one["options"] + one["keys"]:
                takes = json.dumps([option.get(key) for key in ("type", "range", "choices", "fields")])
                if option["name"] in ("type", "input", "join") or takes in seen:
                    continue
                seen.add(takes)
                others = "".join(f"    {it['name']}: {(it.get('choices') or it['examples'])[0]}\n"
                                 for it in one["options"] if it["required"] and it != option)
                this = f"  it:\n    type: \"{one['name']}\"\n{others}    {option['name']}: %s\n"
                body = (f"sources:\n{this}stages:\n  out: {{type: \"null\", input: it}}\n" if source else
                        f"sources:\n  s: {{type: \"null\"}}\nstages:\n{this}    input: s\n")
                yield f"{'sources' if source else 'stages'}.it", option, f"version: 1\npipeline: p\n{body}"

    def test_each_option_with_each_value(self):
        cases = []
        for where, option, template in self.pipelines():
            for value in self.VALUES:
                path = self.write(template % value, f"{len(cases)}.yaml")
                cases.append((path, where, option, value))
        done = call([MILLRACE, "check", "--format", "json", *(one[0] for one in cases)],
                    environment={"MR_TEST_SET": "1"})
        told = json.loads(done.stdout)["files"]
        self.assertEqual(len(told), len(cases))
        agreed = {True: 0, False: 0}
        for (path, where, option, value), parsed in zip(cases, told):
            complaints = [one["message"] for one in parsed["diagnostics"]
                          if re.match(rf"{where}[.:] ?{option['name']}|{where}: unknown key|.*not YAML",
                                      one["message"])]
            of_form = [one for one in complaints if OF_FORM.search(one)]
            text = path.read_text()
            wrong, both = compiled_errors(text), f"{text}\n{complaints}"
            if wrong:
                self.assertTrue(complaints, f"{both}\n{wrong}")
            elif of_form and not ("${" in value or value in self.UNSEEN
                                  or (self.SPELT.search(value) and "out of range" in of_form[0])):
                self.fail(f"the schema takes it: {both}")
            agreed[bool(wrong)] += 1
        self.assertGreater(min(agreed.values()), 300, agreed)


@unittest.skipUnless(shutil.which("node"), "no Node.js")
class Editor(Case):
    """A YAML language server's marks, completions and texts at given places."""

    TEXT = (MODELINE + "%s\n"
            "version: 1\n"                          # 2
            "pipeline: edited\n"
            "sources:\n"
            "  lobby: {uri: lobby.mp4}\n"           # 5
            "stages:\n"
            "  decode:\n"
            "    input: lobby\n"
            "    skip: nonref\n"                    # 9
            "  small:\n"
            "    type: preprocess\n"                # 11
            "    input: decode\n"
            "    size: 224x224\n"                   # 13
            "    \n"                                # 14
            "  results: {type: jsonl, input: small, features: true}\n")

    def server(self, schema=None):
        server = LanguageServer(ROOT / "pipelines", schema)
        self.addCleanup(server.close)
        return server

    def test_shipped_pipelines_are_not_marked(self):
        shipped, line = sorted((ROOT / "pipelines").glob("*.yaml")), f"{MODELINE}{FILE.name}\n"
        server = self.server(FILE.as_uri())
        for path in shipped:
            self.assertTrue(path.read_text().startswith(line), path)
            self.assertEqual(server.open(path.read_text().replace(line, "\n")), [], path)
        marks = self.server().open(shipped[0].read_text().replace("version:", "versions:"))
        self.assertIn("Property versions is not allowed.", [message for _, message in marks])

    def test_mistakes_are_marked(self):
        server, text = self.server(FILE.as_uri()), self.TEXT.replace(MODELINE, "") % ""
        for old, new, line, words in (("nonref", "nonrefs", 9, '"nonkey"'),
                                      ("size: 224x224", "size: big", 13, "pattern"),
                                      ("type: jsonl, input: small, features: true", "type: images, input: small", 15,
                                       'Missing property "path"'),
                                      ("features: true", "feature: true", 15, "feature"),
                                      ("type: preprocess", "type: preproces", 11, "preprocess"),
                                      ("    skip: nonref\n", "    input: lobby\n", 9, "duplicate"),
                                      ("input: lobby", "queue: 0", 8, "minimum of 1")):
            marks = server.open(text.replace(old, new, 1))
            self.assertTrue(any(at == line and words in message for at, message in marks), f"{new}: {marks}")

    def test_completions_and_texts(self):
        server = self.server()
        self.assertEqual(server.open(self.TEXT % FILE.as_uri()), [])
        options = {one["name"]: one for one in
                   json.loads(call([MILLRACE, "inspect", "preprocess", "--json"]).stdout)[0]["options"]}
        keys = server.complete(14, 5)
        self.assertLessEqual(set(options) - {"size"}, set(keys))
        self.assertNotIn("tensor", keys)
        self.assertIn(options["fit"]["help"], keys["fit"])
        self.assertIn("decode", server.complete(11, 11))
        self.assertLessEqual({"none", "nonref", "nonkey"}, set(server.complete(9, 11)))
        self.assertIn(options["size"]["help"], server.hover(13, 6))
        self.assertIn("those that no other picture depends on", server.hover(9, 6))
        self.assertIn("into the input of a network", server.hover(11, 14))
        self.assertIn("the pipeline's name", server.hover(3, 2))

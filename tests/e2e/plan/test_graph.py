"""What `graph` shows is what the YAML says: edges are read back from the text, by Graphviz from DOT, and by an XML
parser from SVG, and compared with the pipeline as PyYAML reads it. The documents' pictures are current."""
import fnmatch
import json
import os
import random
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree as xml

import yaml

from harness import MILLRACE, ROOT, Case, call, pipeline

SVG = "{http://www.w3.org/2000/svg}"
FAN = pipeline(dict(a="uri: a.mp4"), name='fan "out" <in> & größer', decode="",
               small="type: preprocess, size: 224x224, device: sim:0",
               features="model: m.onnx, tensor: features, device: sim:0, batch: {size: 8, timeout: 20ms}",
               large="type: preprocess, input: decode, size: 448x448, device: sim:1",
               faces="type: infer, model: n.onnx, device: sim:1",
               classify="input: features, weights: h.npy, labels: l.txt",
               both="type: join, join: {picture: classify, boxes: faces}", results="type: jsonl")
COPIED = pipeline(dict(a="uri: a.mp4"), devices=dict(fast="device: sim:0", spare="device: sim:1"), decode="",
                  small="type: preprocess, size: 224x224, device: fast", out='type: "null"')


def folded(sources, **other):
    return pipeline(sources, decode="input: sources.*", out='type: "null"', **other)


def random_pipeline(seed, stages, sources=3, inputs=3, reach=12):
    """Stages that accept anything: from one input, from several, or joined from several that each have one source's
    frames once."""
    dice = random.Random(seed)
    lines = ["version: 1", f"pipeline: random-{seed}", "sources:"]
    whole = {f"s{i}": f"s{i}" for i in range(sources)}  # which source's frames these are, once each; None if merged
    lines += [f'  {name}: {{type: "null"}}' for name in whole] + ["stages:"]
    for i in range(stages):
        before = list(whole)
        near = before[-reach:] if dice.random() < 0.8 else before
        taken = dice.sample(near, min(len(near), dice.randint(1, inputs)))
        alike = [one for one in near if whole[one] and whole[one] == whole[taken[0]]]
        if len(alike) > 1 and dice.random() < 0.5:
            joined = dice.sample(alike, min(len(alike), dice.randint(2, max(inputs, 2))))
            whole[f"t{i}"] = whole[taken[0]]
            ports = ", ".join(f"p{j}: {name}" for j, name in enumerate(joined))
            lines.append(f"  t{i}: {{type: join, join: {{{ports}}}}}")
        else:
            whole[f"t{i}"] = whole[taken[0]] if len(taken) == 1 else None
            lines.append(f'  t{i}: {{type: "null", input: [{", ".join(taken)}]}}')
    return "\n".join(lines) + "\n"


def edges_of(text):
    """(from, to, join port or "") for each edge in the YAML."""
    tree = yaml.safe_load(re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text))
    edges = set()
    for name, stage in tree["stages"].items():
        joined, taken = stage.get("join"), stage.get("input")
        taken = joined.items() if joined else [("", one) for one in ([taken] if isinstance(taken, str) else taken)]
        for port, one in taken:
            if one.startswith("sources."):
                edges |= {(source, name, port) for source in fnmatch.filter(tree["sources"], one[len("sources."):])}
            else:
                edges.add((one.split(".")[0], name, port if len(joined or ()) > 1 else ""))
    return edges, set(tree["sources"]) | set(tree["stages"])


def without_copies(edges):
    """The edges between the author's stages, without copies (a->sim:0) and cut ends."""
    through = {to: one for one, to, _ in edges if "->" in to}

    def author(one):
        return author(through[one]) if one in through else one

    return {(author(one), to, port) for one, to, port in edges if "->" not in to}


# Pipelines that are complete in one file. The four cameras of week.yaml share a line.
SHIPPED = [text for text in (path.read_text() for path in sorted((ROOT / "pipelines").glob("*.yaml"))
                             if path.name != "week.yaml") if "sources_from" not in text]


def graph(path, *arguments):
    done = call([MILLRACE, "graph", path, *arguments])
    assert done.returncode == 0, done.stderr
    return done.stdout


def read(text):
    """{name: what follows it}, and the edges, from the text."""
    boxes, edges = {}, set()
    for line in text.splitlines()[2:]:
        if taken := re.match(r"  <- (.*?)(?: as (\w+))?: ", line):
            edges |= {(one.split(".")[0], name, taken.group(2) or "") for one in taken.group(1).split(", ")}
        else:
            name, _, about = line.partition(": ")
            assert name not in boxes, f"{name} is shown twice"
            boxes[name] = about
    return boxes, without_copies(edges)


class Text(Case):
    def check(self, text):
        edges, names = edges_of(text)
        boxes, found = read(graph(self.write(text)))
        self.assertEqual({name for name in boxes if "->" not in name}, names)
        self.assertEqual(found, edges)
        return boxes

    def test_pipelines(self):
        for text in [*SHIPPED, *(random_pipeline(seed, 20) for seed in range(16)), random_pipeline(9, 200, 5, 8, 200)]:
            self.check(text)

    def test_sources_of_a_list(self):
        """The listed cameras and the room for more are alike and share a line."""
        self.assertIn("24 sources", graph(ROOT / "pipelines/cameras.yaml"))
        self.assertEqual(read(graph(ROOT / "pipelines/week.yaml")),
                         ({"camera* (4 sources)": "media", "files": "video", "decode": "", "preview": ""},
                          {("camera* (4 sources)", "files", ""), ("camera* (4 sources)", "decode", ""),
                           ("decode", "preview", "")}))

    def test_devices_copies_and_formats(self):
        boxes = self.check(FAN)
        self.assertEqual(boxes["small"], "preprocess, sim:0")
        self.assertEqual(boxes["features"], "batch 8, sim:0")
        self.assertIn("  <- small: tensor f32 3x224x224\n", graph(self.write(FAN)))
        boxes = self.check(COPIED)
        self.assertEqual(boxes["decode->sim:0"].split(", ")[0], "copy")  # unknown picture size
        self.assertEqual(boxes["small->host"].split(", ")[0], "copy of 588 KiB")  # 3 * 224 * 224 floats
        boxes = self.check(COPIED.replace("device: fast", "device: [fast, spare]"))
        self.assertEqual(boxes["small"], "preprocess, own copy, fast (sim:0), spare (sim:1)")

    def test_many_sources_are_one_line(self):
        sources = {f"camera-{i:04}": f"uri: {i}.mp4" for i in range(1000)}
        self.assertEqual(read(graph(self.write(folded(sources)))),
                         ({"camera-* (1000 sources)": "media", "decode": "", "out": "null"},
                          {("camera-* (1000 sources)", "decode", ""), ("decode", "out", "")}))
        odd = ", ".join(f"camera-{i:04}" for i in range(1, 1000, 2))
        boxes, _ = read(graph(self.write(folded(sources, other=f'type: "null", input: [{odd}]'))))
        self.assertLess({"camera-0000 ... camera-0998 (500 sources)", "camera-0001 ... camera-0999 (500 sources)"},
                        set(boxes))


def texts_of(svg):
    """All titles and texts in a picture."""
    return {one.text for one in xml.fromstring(svg).iter() if one.tag in (SVG + "title", SVG + "text")}


class Dot(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("dot"):
            self.skipTest("no Graphviz (tools/test installs it)")

    def laid_out(self, text):
        """Graphviz's layout."""
        done = subprocess.run(["dot", "-Tjson"], input=graph(self.write(text), "--format", "dot"), text=True,
                              capture_output=True, check=True)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def test_nodes_and_edges_are_the_yamls(self):
        for text in [FAN, COPIED, random_pipeline(4, 40)] + SHIPPED:
            edges, names = edges_of(text)
            drawn = self.laid_out(text)
            node = {one["_gvid"]: one for one in drawn["objects"]}
            drawn_names = {one["name"] for one in node.values() if "nodes" not in one}
            self.assertEqual({name for name in drawn_names if "->" not in name}, names)
            found = [(node[one["tail"]]["name"], node[one["head"]]["name"], one.get("headlabel", ""))
                     for one in drawn["edges"]]
            self.assertEqual(len(found), len(set(found)))
            self.assertEqual(without_copies(set(found)), edges)

    def test_devices_are_clusters_and_edges_say_what_flows(self):
        drawn = self.laid_out(FAN)
        self.assertEqual(drawn["name"], 'fan "out" <in> & größer')
        node = {one["_gvid"]: one for one in drawn["objects"]}
        copies = {one["name"] for one in node.values() if "->" in one["name"]}
        clusters = {one["label"]: {node[n]["name"] for n in one["nodes"]} - copies
                    for one in drawn["objects"] if "nodes" in one}
        self.assertEqual(clusters, {"cpu": {"a", "decode", "classify", "both", "results"},
                                    "sim:0": {"small", "features"}, "sim:1": {"large", "faces"}})
        label = {(node[one["tail"]]["name"], node[one["head"]]["name"]): one["label"] for one in drawn["edges"]}
        self.assertRegex(label["small", "features"], r"^tensor f32 3x224x224\\nqueue \d+, block$")


    def test_pictures(self):
        path = self.write(FAN)
        for format, begin in (("svg", "<?xml"), ("png", "\x89PNG"), ("pdf", "%PDF")):
            graph(path, "--output", self.folder / f"fan.{format}")
            self.assertTrue((self.folder / f"fan.{format}").read_text(errors="replace", encoding="latin1")
                            .startswith(begin))
        texts = texts_of((self.folder / "fan.svg").read_text())
        self.assertLess({"small->features", "sim:0", "tensor f32 3x224x224"}, texts)
        done = call([MILLRACE, "graph", path, "--format", "svg"], environment={"PATH": "/nowhere"})
        self.assertEqual((done.returncode, done.stdout), (69, ""))
        self.assertIn("install graphviz", done.stderr)

    def test_strange_names(self):
        name = "\\u0007 \\e[31m ]]> <script> \\\\ \\uFFFE"
        path = self.write(pipeline(dict(s='type: "null"'), name=f'"{name}"', t='type: "null"'))
        done = call([MILLRACE, "graph", path, "--format", "svg"])
        if done.returncode == 0:  # otherwise YAML has refused it
            self.assertIn("? ?[31m ]]> <script> \\ ?", texts_of(done.stdout))
            self.assertNotIn("\x1b", graph(path))
        else:
            self.assertEqual(done.returncode, 78)


class Refused(Case):
    def test_what_cannot_be_drawn(self):
        good = self.write(FAN)
        for arguments, code, said in (
                ([self.folder / "missing.yaml"], 66, "missing.yaml"),
                ([self.write(FAN.replace("decode, size", "a, size"), "wrong.yaml")], 78, r"wrong\.yaml:7:"),
                ([good, "--set", "stages.small.size=no"], 78, "size"),
                ([good, "--format", "gif"], 64, "text, dot, svg, png or pdf"),
                ([good, "--workers", "0"], 64, "1024"),
                ([good, good], 64, "one pipeline"), ([], 64, "name a pipeline"),
                ([good, "--output", self.folder / "no/such/place"], 74, "there is no folder .*/no/such\n"),
                ([good, "--output", self.folder], 74, "Is a directory"),
                ([good, "--output", "/dev/full", "--format", "dot"], 74, "No space left"),
                ([good, "--online"], 66, "a.mp4")):
            done = self.millrace("graph", *arguments, code=code)
            self.assertRegex(done.stderr, said)
            self.assertEqual(done.stdout, "")
        with open("/dev/full", "w") as full:
            done = subprocess.run([MILLRACE, "graph", good], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 74)
        # A picture is larger than a stream's buffer: the write that fails is not the last one.
        for format in ("text", "dot", *(["svg"] if shutil.which("dot") else [])):
            done = call([MILLRACE, "graph", good, "--format", format, "--output", "/dev/full"])
            self.assertEqual((done.returncode, done.stderr),
                             (74, "millrace: error: cannot write to /dev/full: No space left on device\n"), format)

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_without_permission(self):
        self.folder.chmod(0o500)
        done = call([MILLRACE, "graph", ROOT / "pipelines/classify-video.yaml", "--output", self.folder / "x.svg"])
        self.folder.chmod(0o700)
        self.assertEqual(done.returncode, 77)

    def test_output_goes_where_it_is_sent(self):
        path, output = self.write(FAN), self.folder / "fan.dot"
        self.assertEqual(graph(path, "--format", "dot", "--output", output), "")
        self.assertEqual(output.read_text(), graph(path, "--format", "dot", "--output", "-"))

    def test_the_name_tells_the_format(self):
        path = self.write(FAN)
        for name, format in (("a.DOT", "dot"), ("a.dot", "dot"), ("a.gv", "dot"), ("a.txt", "text"), ("a", "text")):
            graph(path, "--output", self.folder / name)
            self.assertEqual((self.folder / name).read_text(), graph(path, "--format", format), name)
        graph(path, "--output", self.folder / "a.svg", "--format", "text")
        self.assertEqual((self.folder / "a.svg").read_text(), graph(path))


class Size(Case):
    def test_two_hundred_stages_and_a_thousand_sources(self):
        sources = "".join(f"  cam-{i}: {{uri: c{i}}}\n" for i in range(1000))
        stages = "".join(f"  p{i}: {{type: preprocess, input: decode, size: {i + 8}x8}}\n"
                         f"  n{i}: {{type: \"null\", input: p{i}}}\n" for i in range(99))
        path = self.write(f"version: 1\npipeline: big\nsources:\n{sources}stages:\n"
                          f"  decode: {{input: sources.*}}\n{stages}")
        for arguments in ([], ["--format", "dot"]):
            drawn = graph(path, *arguments)
            self.assertEqual([f"n{i}" for i in range(99) if not re.search(rf"\bn{i}\b", drawn)], [], arguments)


class Readme(Case):
    @unittest.skipUnless(shutil.which("dot"), "no Graphviz (tools/test installs it)")
    def test_the_pictures_are_current(self):
        """MR_TEST_WRITE=1 makes them. They also show the worker count and where results go."""
        pictures = ["pipelines/classify-video", "pipelines/nodes"]
        for name, document in zip(pictures, ("README.md", "pipelines/README.md"), strict=True):
            shown = re.findall(r"!\[[^]]*\]\((\S+)\.svg\)", (ROOT / document).read_text())
            self.assertEqual([str(((ROOT / document).parent / path).relative_to(ROOT)) for path in shown], [name])
        for name in pictures:
            with self.subTest(name):
                picture = ROOT / f"{name}.svg"
                drawn = graph(ROOT / f"{name}.yaml", "--format", "svg", "--workers", "2", "--set",
                              "stages.results.path=lobby.jsonl")
                if os.environ.get("MR_TEST_WRITE"):
                    picture.write_text(drawn)
                self.assertEqual(texts_of(picture.read_text()), texts_of(drawn))

    def test_the_drawing_is_current(self):
        text = (ROOT / "tools/README.md").read_text()
        drawn = re.search(r"millrace graph (\S+)\n(?:.*\n)*?\n```\n((?:.*\n)*?)```\n", text)
        self.assertEqual(drawn.group(2), graph(ROOT / drawn.group(1)))

"""Drawings say what the YAML says: edges are read back from the terminal's characters, by Graphviz from DOT and by an
XML parser from SVG, and compared with the pipeline as PyYAML reads it. The documents' pictures are current."""
import fnmatch
import fcntl
import json
import os
import pty
import random
import re
import shutil
import struct
import subprocess
import termios
import unittest
import xml.etree.ElementTree as xml

import yaml

from harness import MILLRACE, ROOT, Case, call, main

UTF8 = {"LC_ALL": "C.UTF-8"}
SVG = "{http://www.w3.org/2000/svg}"
FAN = """
version: 1
pipeline: fan "out" <in> & größer
sources:
  a: {uri: a.mp4}
stages:
  decode: {input: a}
  small: {type: preprocess, input: decode, size: 224x224, device: sim:0}
  features: {input: small, model: m.onnx, tensor: features, device: sim:0, batch: {size: 8, timeout: 20ms}}
  large: {type: preprocess, input: decode, size: 448x448, device: sim:1}
  faces: {type: infer, input: large, model: n.onnx, device: sim:1}
  classify: {input: features, weights: h.npy, labels: l.txt}
  both: {type: join, join: {picture: classify, boxes: faces}}
  results: {type: jsonl, input: both}
"""
COPIED = """
version: 1
pipeline: copied
sources:
  a: {uri: a.mp4}
devices:
  fast: {device: sim:0}
  spare: {device: sim:1}
stages:
  decode: {input: a}
  small: {type: preprocess, input: decode, size: 224x224, device: fast}
  out: {type: "null", input: small}
"""
FOLDED = """\
version: 1
pipeline: many
sources:
%sstages:
  decode: {input: sources.*}
  out: {type: "null", input: decode}
"""


def random_pipeline(seed, stages, sources=3, inputs=3, reach=12):
    """Stages that take anything: from one, from several, or joined from several that all have the frames of one
    source, each of them once."""
    dice = random.Random(seed)
    lines = ["version: 1", f"pipeline: random-{seed}", "sources:"]
    whole = {f"s{i}": f"s{i}" for i in range(sources)}  # whose frames these have, once; None where they are merged
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
    """(from, to, join port or "") of each edge, as the YAML has them."""
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
    """The edges between the author's stages: copies (a->sim:0) and the ends of cuts stand on the way."""
    through = {to: one for one, to, _ in edges if "->" in to}

    def author(one):
        return author(through[one]) if one in through else one

    return {(author(one), to, port) for one, to, port in edges if "->" not in to}


class Drawing:
    """The terminal's drawing, read as a person does: boxes, and lines that are followed from arrow heads upwards."""

    SIDES = {"│": "UD", "─": "LR", "┌": "DR", "┐": "DL", "└": "UR", "┘": "UL", "├": "UDR", "┤": "UDL", "┬": "LRD",
             "┴": "LRU", "┼": "LRUD"}
    STEP = {"U": (-1, 0), "D": (1, 0), "L": (0, -1), "R": (0, 1)}
    BACK = {"U": "D", "D": "U", "L": "R", "R": "L"}

    def __init__(self, text):
        rows = text.splitlines()
        width = max(map(len, rows))
        self.rows = [row.ljust(width) for row in rows]
        self.boxes = {}  # name: (top, left, bottom, right)
        self.owner = {}  # cell of an upper or lower border: name
        self.about, self.named = {}, set()
        for y, row in enumerate(self.rows):
            for edge in re.finditer(r"[┌╭][─▼]+[┐╮]", row):
                self.take_box(y, edge.start(), edge.end() - 1)

    def take_box(self, top, left, right):
        bottom, inside = top + 1, []
        while self.rows[bottom][left] == self.rows[bottom][right] == "│":
            inside.append(self.rows[bottom][left + 1:right].strip())
            bottom += 1
        if not inside or not re.fullmatch(r"[└╰][─┬]+[┘╯]", self.rows[bottom][left:right + 1]):
            return
        told, *taken = re.split(r" ?<- ", " ".join(inside))
        name, _, about = told.partition(": ")
        assert name not in self.boxes, f"{name} is drawn twice"
        self.boxes[name] = (top, left, bottom, right)
        self.about[name] = about
        for x in range(left, right + 1):
            self.owner[top, x] = self.owner[bottom, x] = name
        for one in taken:
            one, _, port = one.partition(": ")[0].partition(" as ")
            self.named.add((one, name, port))

    def follow(self, y, x):
        """The boxes that the line which ends above (y, x) comes from."""
        found, seen, todo = set(), set(), [(y - 1, x, "U")]
        while todo:
            y, x, heading = step = todo.pop()
            if step in seen:
                continue
            seen.add(step)
            if (y, x) in self.owner:
                if heading == "U":
                    assert self.rows[y][x] == "┬", (y, x)
                    found.add(self.owner[y, x])
                continue
            sides = self.SIDES[self.rows[y][x]]
            if self.rows[y][x] == "│" and heading in "LR":
                sides = "LR"  # it passes behind
            assert self.BACK[heading] in sides, f"a line breaks off at {y}, {x}"
            for side in sides:
                if side != self.BACK[heading]:
                    todo.append((y + self.STEP[side][0], x + self.STEP[side][1], side))
        return found

    def edges(self, joining):
        """Those of the lines and of the names; for boxes of `joining` with the ports beside the arrow heads."""
        edges = set(self.named)
        for (y, x), name in self.owner.items():
            if self.rows[y][x] == "▼":
                label = re.match(r"\w+", self.rows[y - 1][x + 2:]).group() if name in joining else ""
                edges |= {(one, name, label) for one in self.follow(y, x)}
        return without_copies(edges)


# Those that are whole in their own text.
SHIPPED = [text for text in (path.read_text() for path in sorted((ROOT / "pipelines").glob("*.yaml")))
           if "sources_from" not in text]


def graph(path, *arguments, **environment):
    done = call([MILLRACE, "graph", path, *arguments], environment={**UTF8, **environment})
    assert done.returncode == 0, done.stderr
    return done.stdout


class Text(Case):
    def check(self, text, width, *arguments):
        """The drawing is no wider than asked, has each stage once, and its lines are the YAML's edges."""
        edges, names = edges_of(text)
        told = graph(self.write(text), "--width", width, *arguments)
        self.assertLessEqual(max(map(len, told.splitlines())), width)
        drawing = Drawing(told)
        self.assertEqual({name for name in drawing.boxes if "->" not in name}, names)
        self.assertEqual(drawing.edges({to for _, to, port in edges if port}), edges)
        return drawing, told

    def test_the_pipelines_that_come_with_millrace(self):
        for text in SHIPPED:
            for width in (100, 80, 40):
                self.check(text, width)

    def test_sources_of_a_list_are_drawn(self):
        """The cameras of the list and the room for more, which are alike, in one box."""
        told = graph(ROOT / "pipelines/cameras.yaml", "--width", 100)
        self.assertIn("24 sources", told)
        self.assertTrue({"decode", "preview", "results"} <= set(Drawing(told).boxes))

    def test_random_pipelines_of_twenty_stages(self):
        for seed in range(16):
            for width in (120, 80, 40, 24):
                with self.subTest(seed=seed, width=width):
                    drawing, _ = self.check(random_pipeline(seed, 20), width)
                    if width >= 80:
                        self.assertFalse(drawing.named, "twenty stages fit with all their lines")

    def test_two_hundred_stages(self):
        for seed in range(3):
            for width in (120, 80):
                self.check(random_pipeline(seed, 200, 5), width)
        # Any to any: there are more lines than columns, and boxes name what they take from.
        drawing, _ = self.check(random_pipeline(9, 200, 5, 8, 200), 80)
        self.assertTrue(drawing.named)

    def test_wide_fans(self):
        middle = "".join(f'  m{i}: {{type: "null", input: s}}\n' for i in range(100))
        text = ('version: 1\npipeline: fans\nsources:\n  s: {type: "null"}\nstages:\n%s'
                '  end: {type: "null", input: [%s]}\n' % (middle, ", ".join(f"m{i}" for i in range(100))))
        drawing, _ = self.check(text, 80)
        self.assertFalse(drawing.named)

    def test_devices_are_frames_where_they_fit(self):
        drawing, told = self.check(FAN, 120)
        top = told.splitlines()[2]
        self.assertEqual(re.findall(r"╭ (\S+) ╌*╮", top), ["cpu", "sim:0", "sim:1"])
        for frame, device in ((m.span(), m.group(1)) for m in re.finditer(r"╭ (\S+) ╌*╮", top)):
            inside = {name for name, box in drawing.boxes.items()
                      if "->" not in name and frame[0] < box[1] and box[3] < frame[1]}
            self.assertEqual(inside, {"cpu": {"a", "decode", "classify", "both", "results"},
                                      "sim:0": {"small", "features"}, "sim:1": {"large", "faces"}}[device])
        drawing, told = self.check(FAN, 80)
        self.assertNotIn("╌", told)
        self.assertEqual(drawing.about["small"], "preprocess, sim:0")
        self.assertEqual(drawing.about["features"], "batch 8, sim:0")

    def test_copies_are_boxes_with_their_bytes(self):
        drawing, _ = self.check(COPIED, 100)
        self.assertEqual(drawing.about["decode->sim:0"], "copy")  # of pictures of unknown size
        self.assertEqual(drawing.about["small->host"], "copy of 588 KiB")  # 3 * 224 * 224 floats
        self.assertEqual(self.rounded(drawing), {"decode->sim:0", "small->host"})
        self.assertEqual(re.findall(r"╭ (.+?) ╌*╮", "\n".join(drawing.rows)), ["cpu", "fast (sim:0)"])

    def rounded(self, drawing):
        return {name for name, (top, left, _, _) in drawing.boxes.items() if drawing.rows[top][left] == "╭"}

    def test_devices_of_a_list_share_a_frame(self):
        drawing, _ = self.check(COPIED.replace("device: fast", "device: [fast, spare]"), 120)
        self.assertIn("fast (sim:0), spare (sim:1)", "\n".join(drawing.rows))
        self.assertEqual(drawing.about["small"], "preprocess, own copy")  # of pictures of unknown size
        self.assertEqual(self.rounded(drawing), {name for name in drawing.boxes if "->" in name})

    def test_formats_stand_on_the_lines(self):
        drawing, told = self.check(FAN, 80)
        for name, shape in (("small", "3x224x224"), ("large", "3x448x448")):
            _, left, bottom, _ = drawing.boxes[name]
            self.assertTrue(drawing.rows[bottom + 1][left:].lstrip().startswith(f"│ tensor f32 {shape}"), told)

    def test_many_sources_are_one_box(self):
        sources = "".join(f"  camera-{i:04}: {{uri: {i}.mp4}}\n" for i in range(1000))
        told = graph(self.write(FOLDED % sources))
        self.assertEqual(re.findall(r"│ (.*) │", told), ["camera-* (1000 sources): media", "decode", 'out: null'])
        drawing = Drawing(told)
        self.assertEqual(drawing.edges(set()), {("camera-* (1000 sources)", "decode", ""), ("decode", "out", "")})
        odd = FOLDED % sources + "  other: {type: \"null\", input: [%s]}\n" % ", ".join(
            f"camera-{i:04}" for i in range(1, 1000, 2))
        told = graph(self.write(odd))
        for name in ("camera-0000 ... camera-0998 (500 sources)", "camera-0001 ... camera-0999 (500 sources)"):
            self.assertEqual(told.count(name), 1, told)

    def test_ascii(self):
        path = self.write(FAN.replace("größer", "wide"))
        for width in (120, 80):
            box = graph(path, "--width", width)
            plain = graph(path, "--width", width, "--ascii")
            self.assertTrue(plain.isascii())
            self.assertEqual(*([len(line) for line in one.splitlines()] for one in (box, plain)))
            self.assertEqual(graph(path, "--width", width, LC_ALL="C"), plain)
            for left, right in zip(box, plain):
                self.assertEqual(left, right) if left.isascii() else self.assertIn(right, "+-|v.':")

    def test_the_width_is_the_terminals(self):
        path = self.write(random_pipeline(1, 20))
        self.assertEqual(graph(path, COLUMNS="60"), graph(path, "--width", "80"))  # in a pipe
        try:
            controller, terminal = pty.openpty()
        except OSError as error:
            self.skipTest(f"no terminal can be had here: {error}")
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 50, 0, 0))
        environment = {key: value for key, value in {**os.environ, **UTF8}.items() if key != "COLUMNS"}
        with subprocess.Popen([MILLRACE, "graph", path], stdout=terminal, env=environment) as drawn:
            os.close(terminal)
            told = b""
            while True:
                try:
                    more = os.read(controller, 65536)
                except OSError:  # the other end is closed
                    break
                told += more
            self.assertEqual(drawn.wait(), 0)
        os.close(controller)
        self.assertEqual(told.decode().replace("\r\n", "\n"), graph(path, "--width", "50"))


class Dot(Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("dot"):
            self.skipTest("no Graphviz (tools/test installs it)")

    def laid_out(self, text):
        """What Graphviz makes of it."""
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


class Svg(Case):
    def parsed(self, text):
        return xml.fromstring(graph(self.write(text), "--format", "svg"))

    def check(self, text):
        root = self.parsed(text)
        edges, names = edges_of(text)
        box, devices = {}, []
        for node in root.iter(SVG + "g"):
            kind = node.get("class", "")
            if kind.startswith("node"):
                box[node.find(SVG + "title").text.split("\n")[0]] = self.rectangle(node.find(SVG + "rect"))
                self.assert_texts_fit(node)
            elif kind == "cluster":
                devices.append(self.rectangle(node.find(SVG + "rect")))
                self.assert_texts_fit(node)
        self.assertEqual({name for name in box if "->" not in name}, names)
        for rectangles in (list(box.values()), devices):
            for i, (left, top, right, bottom) in enumerate(rectangles):
                for other in rectangles[:i]:
                    self.assertTrue(right < other[0] or other[2] < left or bottom < other[1] or other[3] < top)
        self.assertEqual(self.links(root, box), edges)

    def rectangle(self, rect):
        x, y, width, height = (float(rect.get(key)) for key in ("x", "y", "width", "height"))
        return x, y, x + width, y + height

    def assert_texts_fit(self, group):
        """The letters of DejaVu Sans Mono, among the widest of their kind, are 0.602 of its size wide."""
        left, top, right, bottom = self.rectangle(group.find(SVG + "rect"))
        for text in group.iter(SVG + "text"):
            x, y, size = (float(text.get(key)) for key in ("x", "y", "font-size"))
            self.assertTrue(left < x and x + 0.602 * size * len(text.text) < right, text.text)
            self.assertTrue(top < y - size and y < bottom, text.text)

    def links(self, root, box):
        """The edges that the links' titles name, whose ends touch the boxes they name and no others."""
        edges = set()
        for link in (one for one in root.iter(SVG + "g") if one.get("class") == "link"):
            pieces = [tuple(map(float, piece)) for piece in re.findall(
                r"M(\S+) (\S+?)L(\S+) ([^M]+)", link.find(SVG + "path").get("d"))]
            ids = "|".join(map(re.escape, sorted(box, key=len, reverse=True)))
            told = [re.match(rf"({ids})(?:\.\w+)? -> ({ids})(?:\.(\w+))?: ", line).groups()
                    for line in link.find(SVG + "title").text.splitlines()]
            for name, (left, top, right, bottom) in box.items():
                leaves = [p for p in pieces if left < p[0] < right and p[1] == bottom]
                arrives = [p for p in pieces if left < p[0] < right and p[3] == top]
                self.assertEqual(bool(leaves), any(one == name for one, _, _ in told), name)
                self.assertEqual(len(arrives), len({port for _, one, port in told if one == name}), name)
            edges |= {(one, other, port or "") for one, other, port in told}
        return without_copies(edges)

    def test_what_is_drawn_is_the_yaml(self):
        for text in [FAN, COPIED, *SHIPPED, *(random_pipeline(seed, 20) for seed in range(20)),
                     random_pipeline(1, 200)]:
            self.check(text)

    def test_titles_tell_the_facts(self):
        titles = {title.text.split("\n")[0]: title.text for title in self.parsed(FAN).iter(SVG + "title")}
        self.assertIn('fan "out" <in> & größer', titles)
        for fact in ("type: features", "device: sim:0", "batch: 8"):
            self.assertIn(fact, titles["features"].split("\n"))
        names = [text.text for text in self.parsed(FAN).iter(SVG + "text")]
        for device in ("cpu", "sim:0", "sim:1"):
            self.assertEqual(names.count(device), 1)

    def test_copies_are_small_nodes(self):
        height = {node.get("class"): float(node.find(SVG + "rect").get("height"))
                  for node in self.parsed(COPIED).iter(SVG + "g") if node.get("class", "").startswith("node")}
        self.assertLess(height["node copy"], height["node source"])
        self.assertIn("copy of 588 KiB", [text.text for text in self.parsed(COPIED).iter(SVG + "text")])

    def test_strange_names(self):
        name = "\\u0007 \\e[31m ]]> <script> \\\\ \\uFFFE"
        path = self.write(f'version: 1\npipeline: "{name}"\nsources:\n  s: {{type: "null"}}\n'
                          'stages:\n  t: {type: "null", input: s}\n')
        done = call([MILLRACE, "graph", path, "--format", "svg"])
        if done.returncode == 0:  # else YAML has refused it
            self.assertEqual(xml.fromstring(done.stdout).find(SVG + "title").text, "? ?[31m ]]> <script> \\ ?")
            self.assertNotIn("\x1b", graph(path))
        else:
            self.assertEqual(done.returncode, 78)


class Refused(Case):
    def test_what_cannot_be_drawn(self):
        good = self.write(FAN)
        for arguments, code, said in (
                ([self.folder / "missing.yaml"], 66, "missing.yaml"),
                ([self.write(FAN.replace("decode, size", "a, size"), "wrong.yaml")], 78, r"wrong\.yaml:8:"),
                ([good, "--set", "stages.small.size=no"], 78, "size"),
                ([good, "--format", "png"], 64, "text, dot or svg"),
                ([good, "--width", "10"], 64, "20"), ([good, "--workers", "0"], 64, "1024"),
                ([good, good], 64, "one pipeline"), ([], 64, "name a pipeline"),
                ([good, "--output", self.folder / "no/such/place"], 74, "there is no folder .*/no/such\n"),
                ([good, "--output", self.folder / "fan.PNG"], 64, r'not ".PNG": Graphviz makes'),
                ([good, "--output", self.folder], 74, "Is a directory"),
                ([good, "--output", "/dev/full", "--format", "svg"], 74, "No space left"),
                ([good, "--online"], 66, "a.mp4")):
            done = call([MILLRACE, "graph", *arguments])
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertRegex(done.stderr, said)
            self.assertEqual(done.stdout, "")
        with open("/dev/full", "w") as full:
            done = subprocess.run([MILLRACE, "graph", good], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 74)

    @unittest.skipIf(os.geteuid() == 0, "root may write everywhere")
    def test_without_permission(self):
        self.folder.chmod(0o500)
        done = call([MILLRACE, "graph", ROOT / "pipelines/classify-video.yaml", "--output", self.folder / "x.svg"])
        self.folder.chmod(0o700)
        self.assertEqual(done.returncode, 77)

    def test_output_goes_where_it_is_sent(self):
        path, output = self.write(FAN), self.folder / "fan.svg"
        self.assertEqual(graph(path, "--format", "svg", "--output", output), "")
        self.assertEqual(output.read_text(), graph(path, "--format", "svg", "--output", "-"))

    def test_the_name_tells_the_format(self):
        path = self.write(FAN)
        for name, format in (("a.svg", "svg"), ("a.SVG", "svg"), ("a.dot", "dot"), ("a.gv", "dot"), ("a.txt", "text"),
                             ("a", "text")):
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
        for arguments in (["--format", "svg"], ["--format", "dot"], ["--width", "80"]):
            drawn = graph(path, *arguments)
            self.assertEqual([f"n{i}" for i in range(99) if not re.search(rf"\bn{i}\b", drawn)], [], arguments)


class Readme(Case):

    def test_the_pictures_are_current(self):
        """Made with MR_TEST_WRITE=1; how many workers there are, and where results go, is part of what they tell."""
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
                self.assertEqual(picture.read_text(), drawn)

    def test_the_drawing_is_current(self):
        text = (ROOT / "tools/README.md").read_text()
        drawn = re.search(r"millrace graph (\S+)\n(?:.*\n)*?\n```\n((?:.*\n)*?)```\n", text)
        self.assertEqual(drawn.group(2), graph(ROOT / drawn.group(1)))


if __name__ == "__main__":
    main()

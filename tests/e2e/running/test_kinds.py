"""Result kinds from a plugin, through everything that carries results: a join, a copy to a device and back, cuts and
replicas, jsonl, csv, zmq in JSON and protobuf, and verify."""
import csv
import json
import shutil
import subprocess
import sys
import unittest

import zmq

from harness import MILLRACE, ROOT, Case, call, free_port, pipeline, start

PLUGIN = ROOT / "tests/plugin/kinds.c"
PIPELINE = pipeline(
    dict(camera='uri: "lavfi:color=gray:size=32x32:rate=4:duration=2,format=gray"'), name="kinds",
    top="plugins: [libkinds.so]", decode="", find="", small='type: preprocess, size: 16, device: "sim:0"',
    both="type: join, join: {picture: decode, small: small}", total="",
    rows="type: jsonl, tensors: true, path: rows.jsonl", table="type: csv, input: total, path: table.csv")
NODES = ("nodes: {a: {stages: [decode, find, small, both]}, m: {stages: [total], replicas: 2}, "
         "z: {stages: [rows, table]}}\n")
BOX = """syntax = "proto3";
message Part { string name = 1; int64 at = 2; repeated int32 way = 3; string read = 4; }
message Box { float left = 1; int32 seen = 2; bool sure = 3; string name = 4; int64 at = 5; double area = 6;
              repeated float outline = 7; repeated Part parts = 8; string note = 9; }
"""


def parts(seq):
    """What has no value is left out where the field is sparse, and empty lists always are."""
    return [{"name": "lid" if i % 2 else None, **({"at": i / 2} if i else {}),
             **({"way": [-2, 1 << 20, seq]} if i + 1 < seq else {}), "read": "top, side" if i else "top"}
            for i in range(seq)]


def boxes(seq):
    return [{"left": seq + 0.5, "seen": seq - 3, "sure": seq % 2 == 1, "name": 'owl, "grey"', "at": seq / 4,
             "area": 0.1, "outline": [0.25, -1, seq], **({"parts": parts(seq)} if seq else {}),
             "note": f'frame {seq}, "é"'},
            {"left": 0, "seen": 0, "sure": True, "name": None, "at": None, "area": 1e300}]


class Kinds(Case):
    def setUp(self):
        super().setUp()
        self.build(self.folder / "libkinds.so")

    def build(self, path, *flags):
        done = call(["cc", "-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", *flags,
                     f"-I{ROOT}/engine/include", PLUGIN, "-o", path])
        self.assertEqual(done.returncode, 0, done.stderr)

    def check_rows(self, rows):
        self.assertEqual(sorted(row["seq"] for row in rows), list(range(8)))
        for row in rows:
            seq = row["seq"]
            self.assertEqual(row["boxes"], boxes(seq))
            self.assertEqual(row["tensors"], [{"stage": "find", "name": "warm", "kind": "heat", "dtype": "u8",
                                               "shape": [4], "data": [seq] * 4}])
            self.assertEqual(row["classes"], [])

    def check_files(self):
        self.check_rows([json.loads(line) for line in (self.folder / "rows.jsonl").read_text().splitlines()])
        with open(self.folder / "table.csv", newline="") as file:
            table = sorted(csv.reader(file), key=lambda row: (row[2] != "seq", row[2], row[7]))
        self.assertEqual(table[0], ["source", "epoch", "seq", "sub", "pts", "file", "label", "rank", "left", "seen",
                                    "sure", "shows", "at", "area", "outline", "parts", "note"])
        self.assertEqual(len(table), 17)
        self.assertEqual(table[7][:14], ["camera", "0", "3", "0", "0.75", "", "", "1", "3.5", "0", "true",
                                         'owl, "grey"', "0.75", "0.1"])
        self.assertEqual((table[7][14], json.loads(table[7][15]), table[7][16]),
                         ("[0.25,-1,3]", parts(3), 'frame 3, "é"'))
        self.assertEqual(table[8][7:], ["2", "0", "0", "true", "", "", "1e+300", "", "", ""])
        self.assertEqual(table[1][15], "")

    def test_in_one_process(self):
        run = self.run_pipeline(PIPELINE, rows=False)
        self.assert_balanced(run)
        self.check_files()

    def test_over_nodes_and_replicas(self):
        self.millrace("run", self.write(PIPELINE + NODES))
        self.check_files()

    def test_a_node_with_other_fields_is_refused(self):
        port = free_port()
        nodes = NODES.replace("a: {", f'a: {{listen: "tcp://127.0.0.1:{port}", ').replace(", replicas: 2", "")
        other = self.folder / "other"
        other.mkdir()
        self.build(other / "libkinds.so", "-DOTHER_FIELDS")
        ours, theirs = self.write(PIPELINE + nodes), self.write(PIPELINE + nodes, "other/pipeline.yaml")
        sender = start([MILLRACE, "run", ours, "--node", "a"], stderr=subprocess.PIPE)
        receiver = start([MILLRACE, "run", theirs, "--node", "m"], stderr=subprocess.DEVNULL)
        try:
            told = ""
            while "refused" not in told:
                line = sender.stderr.readline()
                self.assertTrue(line, told)
                told += line if isinstance(line, str) else line.decode()
            self.assertIn('it does not know results of the kind "boxes", or has other fields for them', told)
        finally:
            for process in (sender, receiver):
                process.kill()
                process.wait()
            sender.stderr.close()

    def test_in_messages(self):
        if not shutil.which("protoc"):
            raise unittest.SkipTest("no protoc")
        self.write(BOX, "box.proto")
        subprocess.run(["protoc", f"-I{ROOT}/proto", f"-I{self.folder}", f"--python_out={self.folder}", "results.proto",
                        "box.proto"], check=True)
        sys.path.insert(0, str(self.folder))
        import box_pb2
        import results_pb2
        text = PIPELINE[:PIPELINE.index("  rows:")]
        for encoding in ("json", "protobuf"):
            endpoint = f"ipc://{self.folder}/{encoding}"
            sink = (f'  out: {{type: zmq.push, input: total, tensors: true, encoding: {encoding}, linger: 300s, '
                    f'endpoint: "{endpoint}"}}\n')
            running = start([MILLRACE, "run", self.write(text + sink)])
            socket = zmq.Context.instance().socket(zmq.PULL)
            socket.connect(endpoint)
            socket.setsockopt(zmq.RCVTIMEO, 120000)
            messages = [socket.recv() for _ in range(9)][:8]
            self.assertEqual(running.wait(), 0)
            socket.close()
            if encoding == "json":
                self.check_rows([json.loads(message) for message in messages])
                continue
            for seq, message in enumerate(map(results_pb2.Record.FromString, messages)):
                (result,), (warm,) = message.results, message.tensors
                self.assertEqual((result.kind, result.stage, result.name), ("boxes", "find", ""))
                first, second = map(box_pb2.Box.FromString, result.elements)
                self.assertEqual((first.left, first.seen, first.sure, first.name, first.at, first.area),
                                 (seq + 0.5, seq - 3, seq % 2 == 1, 'owl, "grey"', seq * 250000000, 0.1))
                self.assertEqual((list(first.outline), first.note), ([0.25, -1, seq], f'frame {seq}, "é"'))
                self.assertEqual([(one.name, one.at / 1e9, list(one.way), one.read) for one in first.parts],
                                 [(one["name"] or "", one.get("at", 0), one.get("way", []), one["read"])
                                  for one in parts(seq)])
                self.assertEqual((second.sure, second.name, second.area, second.note), (True, "", 1e300, ""))
                self.assertEqual((warm.kind, warm.name, warm.dtype, list(warm.shape), warm.data),
                                 ("heat", "warm", "u8", [4], bytes([seq] * 4)))

    def test_verify_compares_them(self):
        done = self.millrace("verify", self.write(PIPELINE), "--against", "sim:0", "--json")
        items = [item for output in json.loads(done.stdout)["outputs"] for item in output["gives"]]
        self.assertEqual({item["kind"]: item["values"] for item in items if item["kind"] in ("boxes", "heat")},
                         {"boxes": sum(2 * 7 + 3 + sum(3 + len(one.get("way", [])) for one in parts(seq))
                                       for seq in range(8)), "heat": 8 * 4})

    def test_what_is_malformed(self):
        for old, new, told in (('.name = "boxes", .help = "the same"', '.name = "boxes", .help = "the same"', None),
                               ('"seen", .type = MR_FIELD_I32', '"left", .type = MR_FIELD_I32',
                                "field left: two fields have this name"),
                               ("MR_FIELD_I32, .offset = offsetof(box, seen)",
                                "MR_FIELD_I64, .offset = offsetof(box, seen)",
                                "field seen: its offset is not within element_bytes, or not aligned for its type"),
                               ("offsetof(part, way)", "2 + offsetof(part, way)",
                                "field way: its offset is not within item_bytes, or not aligned for its type"),
                               (".fields = part_fields, ", "", "field parts: a list needs fields and item_bytes"),
                               (".type = MR_FIELD_I32S,",
                                ".type = MR_FIELD_LIST, .fields = part_fields, .item_bytes = 8,",
                                "field way: the items of a list cannot have lists"),
                               (".kinds = kinds, ", "", "the stage type find promises results of the kind"),
                               ('.name = "boxes", .help = "what', '.name = "label", .help = "what',
                                'results of a kind "label", which is the name of a field of records'),
                               ('.name = "boxes", .help = "what', '.name = "Boxes", .help = "what',
                                '"Boxes" cannot be the name of a result kind'),
                               ('.name = "boxes", .help = "what', '.name = "classes", .help = "what',
                                "another kind of this name has other fields")):
            source = PLUGIN.read_text()
            self.assertIn(old, source)
            path = self.write(source.replace(old, new), "wrong.c")
            done = call(["cc", "-std=c11", "-shared", "-fPIC", f"-I{ROOT}/engine/include", path, "-o",
                         self.folder / "libkinds.so"])
            self.assertEqual(done.returncode, 0, done.stderr)
            run = self.run_pipeline(PIPELINE, "--plugins", verb="check", rows=False, code=None if told else 0)
            if told:
                self.assertIn(told, run.err)
                self.assertNotEqual(run.code, 0)

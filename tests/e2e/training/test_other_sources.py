"""train and evaluate with a pipeline that has several sources: the data replace those that lead to the head."""
import json

import digits
from harness import Case

HEAD = """\
version: 1
pipeline: digits
sources:
  pictures: {uri: "nowhere"}
"""
STAGES = """\
  hog:      {input: decode, size: 24x24, block: 8x8, stride: 4x4, cell: 4x4, signed: true}
  classify: {input: hog, head: "${HEAD:-head}", top_k: 3}
  results:  {type: jsonl, input: classify, path: "-"}
"""
ONE = HEAD + "stages:\n  decode: {input: pictures}\n" + STAGES
# A missing camera, and what does not lead to the head.
ASIDE = HEAD + """\
  hall: {uri: "rtsp://127.0.0.1:1/none"}
stages:
  decode: {input: pictures}
  other:  {type: decode, input: hall}
  phash:  {input: other}
  hashes: {type: jsonl, input: phash, path: "hashes.jsonl"}
""" + STAGES
MERGED = HEAD + """\
  hall: {uri: "nowhere-else"}
  door: {uri: "rtsp://127.0.0.1:1/none"}
stages:
  decode: {input: "sources.*"}
""" + STAGES
# Each is decoded by a separate stage.
APART = HEAD + """\
  hall: {uri: "nowhere-else"}
stages:
  decode: {input: pictures}
  right:  {type: decode, input: hall}
""" + STAGES.replace("input: decode", "input: [decode, right]")


class OtherSources(Case):
    def train(self, text, name, code=0):
        head = self.folder / f"{name}-head"
        done = self.millrace("train", self.write(text, f"{name}.yaml"), "--data", self.list, "--output", head,
                             "--cache", self.folder / f"{name}-cache", "--penalty", "0.01", "--json", code=code)
        return head, (done.stderr if code else json.loads(done.stdout))

    def evaluate(self, text, name, head):
        done = self.millrace("evaluate", self.write(text, f"{name}.yaml"), "--data", self.list, "--json",
                             environment={"HEAD": str(head)})
        return json.loads(done.stdout)

    def setUp(self):
        super().setUp()
        rows = digits.files(digits.cut(), 20)
        split = digits.parts(len(rows))
        self.list = digits.write_list(self.folder / "digits.csv",
                                      [[path, label, f"group {i // 2}", split[i // 2]]
                                       for i, (path, label) in enumerate(rows)])

    def test_the_same_as_with_one_source(self):
        one, told = self.train(ONE, "one")
        weights, figures = (one / "weights.npy").read_bytes(), self.evaluate(ONE, "one", one)
        for name, text in (("aside", ASIDE), ("merged", MERGED)):
            head, other = self.train(text, name)
            self.assertEqual((head / "weights.npy").read_bytes(), weights, name)
            self.assertEqual(other["vectors"]["rows"], told["vectors"]["rows"])
            self.assertEqual(self.evaluate(text, name, head), {**figures, "data": str(self.list)}, name)
            # The same stages, so each head is also the other's.
            self.assertEqual(self.evaluate(text, name, one)["log_loss"], figures["log_loss"])
        self.assertFalse((self.folder / "hashes.jsonl").exists())

    def test_sources_that_go_different_ways_are_refused(self):
        _, told = self.train(APART, "apart", code=78)
        self.assertIn("the sources pictures and hall lead to classify by different ways", told)
        self.assertIn("name a pipeline in which one source leads to classify", told)

    def test_sources_that_cannot_be_left_out(self):
        text = ASIDE.replace('{uri: "rtsp://127.0.0.1:1/none"}', "{type: push, format: GRAY8 40x40}").replace(
            "  other:  {type: decode, input: hall}\n", "").replace("input: other", "input: hall")
        _, told = self.train(text, "push", code=78)
        self.assertIn("source hall is of type push; files of a data set are read by media, and only sources of that "
                      "type are left out: remove it", told)

"""Pictures that cross processes in shared memory equal what one process sees; without shared memory they are
copied, and that is reported once."""
import harness
from harness import pipeline

NODES = dict(reads="stages: [decode]", looks="stages: [sharpness, phash, results]")
# Repeated when a connection is renewed, so no process may be considered lost.
TOLD = "frames cross in shared memory"


class Shared(harness.Case):
    def rows(self, cut="{heartbeat: 100s}", nodes=NODES, limit=""):
        """The result lines, sorted, and the messages."""
        out = self.folder / "out.jsonl"
        clip = harness.SAMPLES / "realshort.mp4"
        if not clip.exists():
            self.skipTest(f"no {clip}")
        path = self.write(pipeline(dict(clip=f'uri: "{clip}"'), decode="", sharpness=f"cut: {cut}" if nodes else "",
                                   phash="", results=f"type: jsonl, tensors: true, path: {out}", nodes=nodes))
        done = self.checked(["sh", "-c", f'{limit} exec "$@"', "sh", harness.MILLRACE, "run", path, "--log", "info"])
        return sorted(out.read_text().splitlines()), done.stderr

    def test_pictures_are_the_same_whichever_way_they_go(self):
        whole, _ = self.rows(nodes={})
        self.assertEqual(len(whole), 36)
        shared, told = self.rows()
        self.assertEqual(shared, whole)
        self.assertEqual(told.count(TOLD), 1, told)
        inline, told = self.rows(cut="{inline: true, heartbeat: 100s}")
        self.assertEqual(inline, whole)
        self.assertNotIn(TOLD, told)

    def test_where_there_can_be_no_shared_memory_copies_go(self):
        whole, _ = self.rows(nodes={})
        copied, told = self.rows(limit="ulimit -f 200;")
        self.assertEqual(copied, whole)
        self.assertNotIn(TOLD, told)
        self.assertEqual(told.count("frames go to other processes as copies: shared memory: "), 1, told)

"""tools/bench/end_to_end: each program compared with millrace accepts the arguments and finds all frames."""
import json
import subprocess
import sys

import harness
from harness import MODELS, ROOT, need_models

sys.path.insert(0, str(ROOT / "tools/bench"))
import end_to_end

FRAMES = 10


class Peers(harness.Case):
    def test_each_does_the_work(self):
        need_models()
        clip = self.folder / "clip.mp4"
        subprocess.run(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=320x240:rate=10", "-frames:v",
                        str(FRAMES), "-pix_fmt", "yuv420p", clip], check=True)
        peers = list(end_to_end.peers(str(MODELS / "lite0-features.onnx"), [str(clip)], self.folder))
        self.assertGreaterEqual(len(peers), 3)
        for peer in peers:
            for command in peer.commands:
                done = self.checked(command, environment=peer.environment)
                measured = json.loads(done.stdout.splitlines()[-1])
                self.assertGreater(min(measured["wall"], measured["cpu"]), 0, peer.name)
            rows = (self.folder / f"{peer.name.replace(' ', '_')}.jsonl").read_text().splitlines()
            self.assertEqual(sorted(json.loads(row)["seq"] for row in rows), list(range(FRAMES)), peer.name)

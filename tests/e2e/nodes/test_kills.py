"""Nodes killed at random with SIGKILL and restarted: at the end no record may be missing or duplicated.
tools/soak/kills.py does it for longer."""
import random
import sys

from harness import MILLRACE, ROOT, SAMPLES, Case, call


class Kills(Case):
    def test_a_dozen_kills(self):
        if not (SAMPLES / "cockatoo.mp4").exists():
            self.skipTest(f"no {SAMPLES}/cockatoo.mp4")
        seed = random.randrange(1 << 32)
        done = call([sys.executable, ROOT / "tools/soak/kills.py", "--kills", "12", "--turns", "2", "--seed", seed,
                     "--millrace", MILLRACE], environment={"TMPDIR": str(self.folder)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

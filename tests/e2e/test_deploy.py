"""Deploying: what `millrace deploy` writes is right by those it is written for: systemd-analyze takes the units,
Kubernetes' published schemas the manifests."""
import json
import pathlib
import shutil
import unittest

import harness
from harness import MILLRACE, Case, call

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None

# Three nodes; `extra` goes to each of them that gives frames.
THREE = """\
version: 1
pipeline: "Three Nodes"
workers: 1
sources:
  numbers: {{type: "null", frames: 200}}
stages:
  first: {{type: "null", input: numbers}}
  second: {{type: "null", input: first}}
  out: {{type: jsonl, input: second, path: "{out}"}}
nodes:
  camera: {{stages: first{camera}}}
  worker: {{stages: second, replicas: {replicas}{worker}}}
  center: {{stages: out{center}}}
"""


class Deploy(Case):
    def pipeline(self, replicas=1, camera="", worker="", center=""):
        return self.write(THREE.format(out=self.folder / "out.jsonl", replicas=replicas, camera=camera, worker=worker,
                                       center=center))

    def deploy(self, path, target, *arguments, code=0):
        """The files that were written, by name."""
        done = call([MILLRACE, "deploy", path, "--target", target, "--output", self.folder / target, *arguments])
        self.assertEqual(done.returncode, code, done.stderr)
        written = {pathlib.Path(line).name: pathlib.Path(line) for line in done.stdout.splitlines()}
        if code == 0:
            self.assertEqual(sorted(written), sorted(one.name for one in (self.folder / target).iterdir()))
        return written if code == 0 else done.stderr

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units(self):
        """Words that systemd would read as its own stay as they are."""
        written = self.deploy(self.pipeline(replicas=2), "systemd", "--set", "pipeline=100% \"a$b\"")
        self.assertEqual(sorted(written), ["100---a-b--camera.service", "100---a-b--center.service",
                                           "100---a-b--worker@.service", "100---a-b-.target"])
        for name, path in written.items():
            name = name.replace("@.", "@1.")
            if "@" in name:
                shutil.copy(path, path.parent / name)
            done = call(["systemd-analyze", "verify", "--recursive-errors=no", path.parent / name])
            told = [line for line in done.stderr.splitlines() if "100---a-b-" in line]
            self.assertEqual(told, [], done.stderr)
        service = written["100---a-b--camera.service"].read_text()
        for line in ("Type=notify", "WatchdogSec=30", "Restart=on-failure",
                     "RestartPreventExitStatus=64 65 66 77 78"):
            self.assertIn(line + "\n", service)
        self.assertIn('"pipeline=100%% \\"a$$b\\"" --node camera --resume %t/millrace-100---a-b-/camera.checkpoint\n', service)
        self.assertIn("--node worker --replica %i\n", written["100---a-b--worker@.service"].read_text())

    @unittest.skipUnless(kubernetes_validate, "no kubernetes-validate")
    def test_manifests(self):
        keys = ', listen: "tcp://*:700{}", key: keys/{}.key'
        path = self.pipeline(replicas=3, camera=keys.format(1, "camera"), worker=keys.format(5, "worker"),
                             center=", key: keys/center.key")
        written = self.deploy(path, "kubernetes", "--image", "registry.example/millrace:1")
        items = json.loads(written["three-nodes.json"].read_text())["items"]
        for item in items:
            kubernetes_validate.validate(item, "1.30", strict=True)
        self.assertEqual([item["kind"] for item in items], ["ConfigMap"] + 3 * ["Service", "Job"])
        worker = items[4]["spec"]
        self.assertEqual((worker["completionMode"], worker["completions"], worker["parallelism"]), ("Indexed", 3, 3))
        container = worker["template"]["spec"]["containers"][0]
        # What reads or writes goes on where it was; a worker has nothing to go on from.
        self.assertNotIn("--resume", container["args"])
        camera = items[2]["spec"]["template"]["spec"]
        self.assertEqual(camera["containers"][0]["args"][-2:], ["--resume", "/var/lib/millrace/checkpoint"])
        self.assertIn({"name": "state", "emptyDir": {}}, camera["volumes"])
        self.assertEqual(container["image"], "registry.example/millrace:1")
        environment = {one["name"]: one["value"] for one in container["env"]}
        self.assertEqual(environment["MILLRACE_NODE"], "worker")
        self.assertEqual(environment["MILLRACE_HOSTS"].split(",")[1:4],
                         [f"three-nodes-worker-{i}.three-nodes-worker" for i in range(3)])
        self.assertEqual(items[0]["data"]["pipeline.yaml"], path.read_text())
        # What a pod makes of it: its own port, and where the others are.
        done = call([MILLRACE, "plan", path, "--offline", "--json"], environment=environment)
        self.assertEqual(done.returncode, 78, "without the hosts nobody can connect to tcp://*")

    def test_pods_do_not_share_folders(self):
        told = self.deploy(self.pipeline(), "kubernetes", code=78)
        self.assertIn("nodes.camera: pods reach each other by name only: write listen: tcp://*:7001", told)

    def test_a_pipeline_without_nodes(self):
        path = self.write(THREE.format(out="out.jsonl", replicas=1, camera="", worker="", center="").split("nodes:")[0])
        self.assertIn("has no nodes", self.deploy(path, "slurm", code=78))

    def test_a_batch_script(self):
        written = self.deploy(self.pipeline(replicas=2), "slurm", "--set", "pipeline=it's $HOME")
        script = written["it-s--home.sbatch"]
        self.assertEqual(call(["bash", "-n", script]).returncode, 0)
        text = script.read_text()
        self.assertIn("#SBATCH --ntasks=4\n", text)
        self.assertIn("#SBATCH --cpus-per-task=1\n", text)
        self.assertIn("#   tasks 1 to 2: worker\n", text)
        # What the shell makes of the command's words.
        line = text.splitlines()[-1].replace("exec srun", "printf '%s\\n'", 1)
        words = call(["bash", "-c", line]).stdout.splitlines()
        self.assertEqual(words[-2:], ["--set", "pipeline=it's $HOME"])


if __name__ == "__main__":
    harness.main()

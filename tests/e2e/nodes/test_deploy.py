"""`millrace deploy` writes what systemd-analyze and Kubernetes' published schemas accept."""
import json
import os
import pathlib
import random
import re
import shutil
import unicodedata
import unittest

import yaml

from harness import MILLRACE, MODELS, ROOT, VERSION, Case, call, need_models, pipeline

try:
    import kubernetes_validate
except ImportError:
    kubernetes_validate = None


# Three nodes; each one that produces frames also gets `extra`.
def three_nodes(out, replicas, camera="", worker="", center=""):
    return pipeline(dict(numbers='type: "null", frames: 200'), name='"Three Nodes"', top="workers: 1",
                    first='type: "null"', second='type: "null"', out=f'type: jsonl, path: "{out}"',
                    nodes=dict(camera=f"stages: first{camera}", worker=f"stages: second, replicas: {replicas}{worker}",
                               center=f"stages: out{center}"))


class Deploy(Case):
    def pipeline(self, replicas=1, camera="", worker="", center=""):
        return self.write(three_nodes(out=self.folder / "out.jsonl", replicas=replicas, camera=camera, worker=worker,
                                      center=center))

    def deploy(self, path, target, *arguments, code=0):
        """The written files, by name."""
        done = call([MILLRACE, "deploy", path, "--target", target, "--output", self.folder / target, *arguments])
        self.assertEqual(done.returncode, code, done.stderr)
        written = {pathlib.Path(line).name: pathlib.Path(line) for line in done.stdout.splitlines()}
        if code == 0:
            self.assertEqual(sorted(written), sorted(one.name for one in (self.folder / target).iterdir()))
        return written if code == 0 else done.stderr

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_units(self):
        """Words that mean something to systemd stay as they are."""
        written = self.deploy(self.pipeline(replicas=2), "systemd", "--set", "pipeline=100% \"a$b\"")
        written.pop("100---a-b-.env", None)  # if this environment has millrace variables
        self.assertEqual(sorted(written), ["100---a-b--camera.service", "100---a-b--center.service",
                                           "100---a-b--end.target", "100---a-b--worker@.service", "100---a-b-.target"])
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
        self.assertIn('"pipeline=100%% \\"a$$b\\"" --node camera --resume %S/millrace-100---a-b-/camera.checkpoint\n',
                      service)
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
        # Nodes that read or write resume; a worker has nothing to resume.
        self.assertNotIn("--resume", container["args"])
        camera = items[2]["spec"]["template"]["spec"]
        self.assertEqual(camera["containers"][0]["args"][-2:], ["--resume", "/var/lib/millrace/checkpoint"])
        self.assertIn({"name": "state", "emptyDir": {}}, camera["volumes"])
        # Secrets and volumes are root's; the user of the image reads and writes them by its group.
        (group,) = re.findall(r"^echo 'millrace:x:(\d+):' >>etc/group$", (ROOT / "tools/image").read_text(), re.M)
        self.assertEqual(camera["securityContext"], {"fsGroup": int(group), "fsGroupChangePolicy": "OnRootMismatch"})
        self.assertEqual(container["image"], "registry.example/millrace:1")
        environment = {one["name"]: one["value"] for one in container["env"]}
        self.assertEqual(environment["MILLRACE_NODE"], "worker")
        self.assertEqual(environment["MILLRACE_HOSTS"].split(",")[1:4],
                         [f"three-nodes-worker-{i}.three-nodes-worker" for i in range(3)])
        self.assertEqual(items[0]["data"]["pipeline.yaml"], path.read_text())
        # The text as a pod expands it: the pod's port, and the others' addresses.
        self.millrace("plan", path, "--offline", "--json", code=78, environment=environment)

    def test_images_for_gpus(self):
        """Without --image, a node with GPUs gets the image that has their libraries, as tools/image names it."""
        path = self.write(pipeline(
            {"a": 'uri: "lavfi:testsrc=size=64x48"'}, decode="", hog="type: hog, size: 32x32, device: cuda:0",
            out='type: "null"', nodes=dict(left='stages: [decode, hog], listen: "tcp://*:7001", key: keys/left.key',
                                           right="stages: out, key: keys/right.key")))
        (written,) = self.deploy(path, "kubernetes").values()
        jobs = json.loads(written.read_text())["items"][2::2]
        self.assertEqual([job["spec"]["template"]["spec"]["containers"][0]["image"] for job in jobs],
                         [f"millrace:{VERSION}-cuda", f"millrace:{VERSION}"])

    def test_a_password_in_a_manifest(self):
        """The pipeline's text becomes part of it."""
        text = pipeline(dict(a='uri: "rtsp://me:secret@camera/1"', b='uri: "rtsp://${USER_AND_WORD:-x}@camera/1"'),
                        decode="", out='type: "null"')
        done = self.millrace("deploy", self.write(text), "--target", "kubernetes", "--output", self.folder)
        self.assertRegex(done.stderr, r"pipeline.yaml:4: warning: whoever may read the ConfigMap sees this user or")
        self.assertEqual(done.stderr.count("warning"), 1)
        self.assertNotIn("secret", done.stderr)

    HTTP = ("http: {listen: '0.0.0.0:9100', token_file: keys/http.token, certificate: keys/http.crt, "
            "key: keys/http.key}\n")

    @unittest.skipUnless(kubernetes_validate, "no kubernetes-validate")
    def test_pods_are_probed(self):
        keys = ', listen: "tcp://*:700{}", key: keys/{}.key'
        path = self.pipeline(camera=keys.format(1, "camera"), worker=keys.format(5, "worker"),
                             center=", key: keys/center.key")
        path.write_text(path.read_text() + self.HTTP)
        written = self.deploy(path, "kubernetes", "--image", "registry.example/millrace:1")
        items = json.loads(written["three-nodes.json"].read_text())["items"]
        for item in items:
            kubernetes_validate.validate(item, "1.30", strict=True)
        for job in items[2::2]:
            pod = job["spec"]["template"]["spec"]
            container = pod["containers"][0]
            self.assertEqual(container["ports"], [{"name": "http", "containerPort": 9100}])
            self.assertEqual([container[name]["httpGet"]["path"] for name in
                              ("startupProbe", "livenessProbe", "readinessProbe")], ["/livez", "/livez", "/readyz"])
            self.assertEqual(container["livenessProbe"]["httpGet"]["scheme"], "HTTPS")
            self.assertIn("keys", [volume["name"] for volume in pod["volumes"]])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_nodes_on_one_machine_have_sockets_for_http(self):
        path = self.pipeline(replicas=2)
        path.write_text(path.read_text() + self.HTTP)
        written = self.deploy(path, "systemd")
        self.assertIn("--set http.listen=unix:%t/millrace-three-nodes/camera.http",
                      written["three-nodes-camera.service"].read_text())
        worker = written["three-nodes-worker@.service"].read_text()
        self.assertIn("/worker.%i.http", worker)
        options = re.search(r"ExecStart=.*? --node worker --replica %i (.*http)$", worker, re.M)[1].replace("%t", "/x")
        self.millrace("plan", "--offline", path, *options.split())
        script = next(iter(self.deploy(path, "slurm").values())).read_text()
        self.assertIn("--set http.listen=off", script)

    def test_pods_do_not_share_folders(self):
        told = self.deploy(self.pipeline(), "kubernetes", code=78)
        self.assertRegex(told, r"nodes.camera \(ipc:[^)]*\), nodes.worker \(ipc:[^)]*\): pods reach each other by name "
                               r"only: write listen: tcp://\*:7001")

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_one_process_as_a_unit(self):
        """The environment of `deploy` is in a file that only the owner can read; started as systemd does, it must
        run."""
        path = self.write('''version: 1
pipeline: one
sources: {numbers: {type: "null", frames: "${FRAMES:-3}"}}
stages: {out: {type: jsonl, input: numbers, path: "${OUT}"}}   # $${NOT}, ${UNSET:-x}
'''.replace(", ${UNSET:-x}", ""))
        out = self.folder / 'a "$b\\ `c`.jsonl'
        done = call([MILLRACE, "deploy", path, "--target", "systemd", "--output", self.folder / "units"],
                    environment={"OUT": str(out), "FRAMES": "20", "NOT": "x", "MILLRACE_ONNXRUNTIME": "/x/y.so"},
                    cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        unit, variables = self.folder / "units/one.service", self.folder / "units/one.env"
        self.assertEqual(done.stdout.split(), [str(variables), str(unit)])
        self.assertEqual(variables.stat().st_mode & 0o777, 0o600)
        said = call(["systemd-analyze", "verify", "--recursive-errors=no", unit])
        self.assertEqual([line for line in said.stderr.splitlines() if "one.service" in line], [], said.stderr)
        text = unit.read_text()
        for line in ("WantedBy=multi-user.target", f"EnvironmentFile={variables}", f"WorkingDirectory=-{self.folder}",
                     "StateDirectory=millrace-one"):
            self.assertIn(line + "\n", text)
        # A shell reads this file like systemd.
        command = re.search("^ExecStart=(.*)$", text, re.M)[1].replace("%S", str(self.folder))
        (self.folder / "millrace-one").mkdir()
        done = call(["env", "-i", "bash", "-c", f"set -a; . {variables}; printf %s \"$MILLRACE_ONNXRUNTIME$NOT\"; "
                     f"exec {command}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout, "/x/y.so")
        self.assertEqual(len(out.read_text().splitlines()), 20)

    def test_the_target_as_a_word(self):
        """`deploy systemd p.yaml` is `deploy p.yaml --target systemd`."""
        path = self.write(three_nodes(out=self.folder / "out.jsonl", replicas=1).split("nodes:")[0])
        texts = []
        for words in (("systemd", path), (path, "--target", "systemd")):
            done = self.millrace("deploy", *words, "--output", self.folder / "units")
            texts.append((self.folder / "units/three-nodes.service").read_text())
            self.assertIn("three-nodes.service", done.stdout)
        self.assertEqual(*texts)
        self.assertIn("one pipeline at a time",
                      self.checked([MILLRACE, "deploy", "systemd", path, "--target", "slurm"], code=64).stderr)
        self.assertIn('there is no target "sytemd"; did you mean "systemd"?',
                      self.checked([MILLRACE, "deploy", "sytemd", path], code=64).stderr)
        # A pipeline may have such a name.
        (self.folder / "systemd").write_text(path.read_text())
        self.checked([MILLRACE, "deploy", "systemd", "--target", "systemd", "--output", "units"], cwd=self.folder)

    def test_what_a_unit_reads_is_missing(self):
        """A machine that only writes the units need not have it, so it is a warning; addresses and globs are none."""
        text = pipeline(dict(a=f'uri: "{self.folder}/a.mp4"', b='uri: "rtsp://camera/1"'), decode="",
                        preprocess="size: 64x64", infer="model: no-such-net", out='type: "null"')
        path = self.write(text)
        told = self.millrace("deploy", "systemd", path, "--output", self.folder / "units").stderr
        self.assertIn(f'warning: sources.a.uri: there is no "{self.folder}/a.mp4" here\n', told)
        self.assertRegex(told, r'warning: stages.infer.model: there is no "[^"]*no-such-net" here\n')
        self.assertEqual(told.count("warning:"), 2, told)
        self.assertIn("`millrace plan` tells what helps", told)
        (self.folder / "a.mp4").touch()
        self.write("", "no-such-net")
        path.write_text(text.replace("no-such-net", f'"{self.folder}/no-such-net"'))
        told = self.millrace("deploy", "systemd", path, "--output", self.folder / "units").stderr
        self.assertNotIn("there is no", told)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_a_unit_may_do_little(self):
        """What systemd-analyze makes of it, 0 (safe) to 10. Files of others stay readable, so root's is not at 0."""
        unit = self.deploy(self.write(three_nodes(out="out.jsonl", replicas=1).split("nodes:")[0]),
                           "systemd")["three-nodes.service"]
        said = call(["systemd-analyze", "verify", "--recursive-errors=no", unit])
        self.assertEqual([line for line in said.stderr.splitlines() if "three-nodes" in line], [], said.stderr)
        judged = call(["systemd-analyze", "security", "--offline=yes", "--no-pager", unit]).stdout
        exposure = float(re.search(r"Overall exposure level for three-nodes.service: ([0-9.]+)", judged)[1])
        self.assertLess(exposure, 5.5 if os.geteuid() == 0 else 8)
        # Rights that a user's own service manager does not have must not be asked for in a user's units.
        self.assertEqual("CapabilityBoundingSet" in unit.read_text(), os.geteuid() == 0)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_a_unit_may_do_enough(self):
        """The system calls of a run with networks, pictures and a video are in the unit's list."""
        if not shutil.which("strace"):
            self.skipTest("no strace")
        need_models()
        lists = call(["systemd-analyze", "syscall-filter", "--no-pager"]).stdout
        members = {}
        for line in lists.splitlines():
            if line.startswith("@"):
                of = members.setdefault(line.strip(), [])
            elif line.startswith("    ") and not line.strip().startswith("#"):
                of.append(line.strip())

        def calls(name):
            return {one for part in members[name] for one in (calls(part) if part[0] == "@" else [part])}

        path = self.write(pipeline(dict(made='uri: "lavfi:testsrc=size=320x240:rate=10:duration=2"'), decode="",
                                   network="type: preprocess, mean: 127, std: 128",
                                   features="model: lite0-features, tensor: features",
                                   rows="type: jsonl, path: rows.jsonl", encode="input: decode",
                                   film="type: video, path: film", stills="type: images, input: decode, path: stills"))
        trace = self.folder / "trace"
        done = call(["strace", "-f", "-qq", "-o", trace, MILLRACE, "run", path, "--http", "127.0.0.1:0"])
        if "ptrace" in done.stderr:
            self.skipTest(f"no process can be traced here: {done.stderr.strip()}")
        self.assertEqual(done.returncode, 0, done.stderr)
        used = set(re.findall(r"^\d+ +([a-z0-9_]+)\(", trace.read_text(), re.M))
        self.assertGreater(len(used), 30)
        self.assertEqual(used - calls("@system-service"), set())

    def test_what_only_this_user_finds(self):
        """Models in the home folder, and ONNX Runtime in a Python environment of this shell's: a service that systemd
        starts has neither, so the unit names them."""
        need_models()
        data, env = self.folder / "data", self.folder / "env"
        (data / "millrace/models").mkdir(parents=True)
        for name in ("only-here.onnx", "only-here.npy"):
            shutil.copy(MODELS / {".onnx": "lite0-features.onnx", ".npy": "lite0-head.npy"}[name[9:]],
                        data / "millrace/models" / name)
        library = env / "lib/python3.11/site-packages/onnxruntime/capi/libonnxruntime.so.1"
        library.parent.mkdir(parents=True)
        library.symlink_to(os.environ["MILLRACE_ONNXRUNTIME"])
        path = self.write(pipeline(dict(made='uri: "lavfi:testsrc=size=320x240:rate=10:duration=1"'), name="found",
                                   decode="", network="type: preprocess, mean: 127, std: 128",
                                   features="model: only-here, tensor: features", classify="weights: only-here",
                                   rows=f"type: jsonl, path: {self.folder}/rows.jsonl"))
        command = self.folder / "bin/millrace"  # beside it are no models and no environment
        command.parent.mkdir()
        shutil.copy(MILLRACE, command)
        here = {"XDG_DATA_HOME": str(data), "VIRTUAL_ENV": str(env), "PATH": os.environ["PATH"]}
        for given in (here, {**here, "MILLRACE_MODELS": str(data / "millrace/models"),
                             "MILLRACE_ONNXRUNTIME": str(library)}):
            words = [f"{name}={value}" for name, value in given.items()]
            self.checked(["env", "-i", *words, command, "deploy", "systemd", path, "--output", self.folder / "units"])
            told = (self.folder / "units/found.env").read_text()
            self.assertIn(f'MILLRACE_MODELS="{data}/millrace/models"\n', told)
            self.assertRegex(told, r'MILLRACE_ONNXRUNTIME=".*onnxruntime/capi/libonnxruntime')
        text = (self.folder / "units/found.service").read_text()
        start = re.search("^ExecStart=(.*)$", text, re.M)[1].replace("%S", str(self.folder))
        (self.folder / "millrace-found").mkdir()
        bare = call(["env", "-i", "bash", "-c", f"exec {start}"])
        self.assertEqual(bare.returncode, 66, bare.stderr)
        done = call(["env", "-i", "bash", "-c", f"set -a; . {self.folder}/units/found.env; exec {start}"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len((self.folder / "rows.jsonl").read_text().splitlines()), 10)

    def test_what_a_restart_loses(self):
        """A camera service starts again after a reboot; one with files ends."""
        text = pipeline(dict(a="uri: %s"), decode="", rows="type: jsonl, path: 'rows%s.jsonl'",
                        images="input: decode, path: seen, name: '{source}%s-{seq}.jpg'",
                        video="input: a, path: kept%s", hls="type: video, input: a, path: hls, name: '{source}.m3u8'",
                        live="type: video, input: a, url: 'rtsp://127.0.0.1/y'")

        def told(text):
            done = self.millrace("deploy", self.write(text), "--target", "systemd", "--output", self.folder)
            return done.stderr

        camera = told(text % ("rtsp://127.0.0.1/x", "", "", ""))
        self.assertRegex(camera, r":7:3: warning: stages.rows.path: each start of the service empties \".*rows.jsonl\""
                                 r"\n    hint: put \{time\} into the name")
        for stage in ("images.name: files named \"{source}-{seq}.jpg\"", "video.name: files named \"{source}.mp4\""):
            self.assertIn(stage + " are replaced or refused if the service starts again\n", camera)
        self.assertEqual(camera.count("warning"), 3)
        timed = ("rtsp://127.0.0.1/x", "-{time}", "-{time}", ", name: '{source}-{time}.mp4', segment: 1h")
        self.write("", "a.mp4")
        for quiet in (timed, ("a.mp4", "", "", "")):
            self.assertEqual(told(text % quiet), "")

    def test_a_pipeline_without_nodes(self):
        """One task, or one Job without a service, runs all stages."""
        path = self.write(three_nodes(out="out.jsonl", replicas=1).split("nodes:")[0])
        script = self.deploy(path, "slurm")["three-nodes.sbatch"].read_text()
        self.assertIn("#SBATCH --ntasks=1\n", script)
        self.assertNotIn("#   task", script)
        if kubernetes_validate:
            items = json.loads(self.deploy(path, "kubernetes")["three-nodes.json"].read_text())["items"]
            for item in items:
                kubernetes_validate.validate(item, "1.30", strict=True)
            self.assertEqual([item["kind"] for item in items], ["ConfigMap", "Job"])
            container = items[1]["spec"]["template"]["spec"]["containers"][0]
            self.assertEqual([one["name"] for one in container["env"]], ["MILLRACE_RUN"])
            self.assertEqual(container["envFrom"],
                             [{"secretRef": {"name": "three-nodes-environment", "optional": True}}])

    def test_on_death(self):
        text = self.deploy(self.pipeline(), "slurm", "--on-death", "end")["three-nodes.sbatch"].read_text()
        self.assertIn("[ $tries -lt 0 ]", text)
        for words, restart in (((), "on-failure"), (("--on-death", "end"), "no")):
            units = self.deploy(self.pipeline(), "systemd", *words)
            camera = units["three-nodes-camera.service"].read_text()
            self.assertIn(f"\nRestart={restart}\n", camera)
            # One that has failed for good ends the others.
            self.assertIn("\nOnFailure=three-nodes-end.target\n", camera)
            self.assertIn("\nConflicts=three-nodes.target\n", units["three-nodes-end.target"].read_text())
        self.assertIn("Kubernetes starts each pod again",
                      self.deploy(self.pipeline(), "kubernetes", "--on-death", "end", code=64))

    def test_a_batch_script(self):
        written = self.deploy(self.pipeline(replicas=2), "slurm", "--set", "pipeline=it's $HOME")
        script = written["it-s--home.sbatch"]
        self.assertEqual(call(["bash", "-n", script]).returncode, 0)
        text = script.read_text()
        self.assertIn("#SBATCH --ntasks=4\n", text)
        self.assertIn("#SBATCH --cpus-per-task=1\n", text)
        self.assertIn("#   tasks 1 to 2: worker\n", text)
        # The script's nodes do not listen: they meet in a folder.
        self.assertIn("#SBATCH --nodes=1\n", text)
        # The command's words as the shell splits them.
        line = self.words_of(text)
        words = call(["bash", "-c", line]).stdout.splitlines()
        self.assertEqual(words[-2:], ["--set", "pipeline=it's $HOME"])
        words = call(["bash", "-c", line, "script", "--json", "a b"]).stdout.splitlines()
        self.assertEqual(words[-4:], ["--set", "pipeline=it's $HOME", "--json", "a b"])
        script.unlink()
        addresses = [f', listen: "tcp://*:700{i}", key: keys/{i}.key' for i in range(2)]
        away = self.deploy(self.pipeline(camera=addresses[0], worker=addresses[1], center=", key: keys/c.key"), "slurm")
        self.assertNotIn("--nodes", away["three-nodes.sbatch"].read_text())

    def words_of(self, script):
        """A shell line that prints the words which the script would start, one per line."""
        (line,) = [line for line in script.splitlines() if line.startswith("srun ")]
        return line.replace("srun", "printf '%s\\n'", 1).replace(" || status=$?", "")

    def test_force_reaches_the_run(self):
        for target in ("slurm", "systemd"):
            written = self.deploy(self.pipeline(replicas=2), target, "--force")
            self.assertTrue(all("--force" in path.read_text() for name, path in written.items()
                                if name.endswith((".sbatch", ".service"))), written)
        self.assertIn("a training makes one",
                      self.deploy(self.pipeline(), "slurm", "--force", *self.TRAINING, code=64))

    TRAINING = ("--train", "--", "--data", "photo's", "--output", "/data/head", "--cache", "/data/cache", "--penalty=1")

    def test_a_batch_script_that_trains(self):
        written = self.deploy(self.pipeline(replicas=2), "slurm", "--set", "workers=1", *self.TRAINING)
        script = written["three-nodes.sbatch"].read_text()
        words = call(["bash", "-c", self.words_of(script)]).stdout.splitlines()
        self.assertEqual(words[words.index("train"):],
                         ["train", str(self.folder / "pipeline.yaml"), "--set", "workers=1", *self.TRAINING[2:]])
        # Slurm sets this when it requeues the job; a task that a signal ended also continues.
        task = re.search(r"^task='\n(.*?)^done'", script, re.M | re.S)[1] + "done"
        mark = self.folder / "mark"
        kill_once = self.write(f'echo "$@"; test -e {mark} || {{ : >{mark}; kill -9 $$; }}', "once")
        told = call(["bash", "-c", task, "task", "bash", kill_once, "a b"], environment={"SLURM_PROCID": "0"})
        self.assertEqual((told.returncode, told.stdout), (0, "a b\na b --resume\n"), told.stderr)
        self.assertIn("task 0 was ended by signal 9: it is started again", told.stderr)
        told = call(["bash", "-c", task, "task", "echo", "a"], environment={"SLURM_RESTART_COUNT": "1"})
        self.assertEqual(told.stdout, "a --resume\n")
        self.checked(["bash", "-c", task, "task", "bash", "-c", "exit 74"], code=74)

    @unittest.skipUnless(kubernetes_validate, "no kubernetes-validate")
    def test_manifests_that_train(self):
        keys = ', listen: "tcp://*:700{}", key: keys/{}.key'
        path = self.pipeline(replicas=2, camera=keys.format(1, "camera"), worker=keys.format(5, "worker"),
                             center=", key: keys/center.key")
        written = self.deploy(path, "kubernetes", "--volume", "photos=/data", *self.TRAINING)
        items = json.loads(written["three-nodes.json"].read_text())["items"]
        for item in items:
            kubernetes_validate.validate(item, "1.30", strict=True)
        for item in items[2::2]:
            pod = item["spec"]["template"]["spec"]
            self.assertIn({"name": "shared", "persistentVolumeClaim": {"claimName": "photos"}}, pod["volumes"])
            container = pod["containers"][0]
            self.assertIn({"name": "shared", "mountPath": "/data", "readOnly": False}, container["volumeMounts"])
            words = container["args"]
            self.assertEqual(words[:-1], ["train", "/etc/millrace/pipeline.yaml", *self.TRAINING[2:]])
            # A restart resumes, either the node's work or the fit.
            self.assertRegex(words[-1], "^--resume(=/var/lib/millrace/checkpoint)?$")

    def test_trainings_that_cannot_be(self):
        for target, words, why in (("systemd", self.TRAINING, "a training is no service"),
                                   ("slurm", ("--train",), "--train takes options of train"),
                                   ("slurm", ("--volume", "photos=/data"), "--volume is for --target kubernetes"),
                                   ("slurm", ("--input", "a.png", *self.TRAINING), "a training reads --data"),
                                   ("kubernetes", self.TRAINING, "pods share no folder but a volume"),
                                   ("kubernetes", ("--volume", "data", *self.TRAINING), "a claim and an absolute path"),
                                   ("slurm", ("--train", "--", "--data", "a\nb", "--output", "h"),
                                    "holds a control character")):
            self.assertIn(why, self.deploy(self.pipeline(), target, *words, code=64))


# A file source, so that --input accepts any text; keys where Kubernetes needs them.
WORDS = pipeline(dict(pictures='uri: "/tmp/none.png"'), name="words", decode="input: sources.*",
                 out="type: jsonl, path: out.jsonl",
                 nodes=dict(first='stages: decode, listen: "tcp://*:7001", key: keys/first.key',
                            last="stages: out, key: keys/last.key"))
TARGETS = ("slurm", "systemd", "kubernetes")
SRUN = """\
#!/bin/bash
printf '%s\\0' "$@"
"""


def is_shown(text):
    """No control characters, none that end or reverse a line, and nothing that is not UTF-8."""
    return not any(unicodedata.category(one) in ("Cc", "Zl", "Zp", "Cs") or one in "\ufffe\uffff" or
                   unicodedata.bidirectional(one) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
                   for one in text)


def expand(word):
    """A container argument as Kubernetes expands it without variables: $$ becomes $, everything else stays."""
    return re.sub(r"\$\$", "$", word)


def variables(words):
    """Words as systemd reads them without variables."""
    for word in words:
        assert not re.search(r"\$", word.replace("$$", "")), word
    return [word.replace("$$", "$") for word in words]


class Words(Case):
    """Text from others becomes command words: each is one argument again, or is refused."""

    def setUp(self):
        super().setUp()
        self.path = self.write(WORDS)
        stub = self.folder / "bin/srun"
        stub.parent.mkdir()
        stub.write_text(SRUN)
        stub.chmod(0o755)

    def deploy(self, target, *arguments, path=None):
        return call([MILLRACE, "deploy", path or self.path, "--target", target, "--output", self.folder / target,
                     *arguments])

    def words_of(self, target, *arguments):
        """millrace's arguments, as the target's own reader splits them."""
        done = self.deploy(target, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder = self.folder / target
        if target == "kubernetes":
            text = (folder / "words.json").read_text()
            for read in (json.loads, yaml.safe_load):
                words = read(text)["items"][2]["spec"]["template"]["spec"]["containers"][0]["args"]
            return [expand(word) for word in words]
        if target == "slurm":
            self.assertEqual(call(["bash", "-n", folder / "words.sbatch"]).returncode, 0)
            environment = {"SLURM_JOB_ID": "7", "PATH": f"{self.folder}/bin:{os.environ['PATH']}"}
            said = self.checked(["bash", folder / "words.sbatch"], environment=environment, cwd=self.folder)
            return said.stdout.split("\0")[8:-1]  # after the words for srun and the loop
        lines = self.unit("words-first.service", "Command Line: ")
        # systemd prints them as a shell reads them.
        return variables(call(["bash", "-c", "printf '%s\\0' " + lines[0]]).stdout.split("\0")[1:-1])

    def unit(self, name, field):
        """A unit's fields as systemd reads them."""
        told = call(["systemd-analyze", "verify", "--recursive-errors=no", self.folder / "systemd" / name],
                    environment={"SYSTEMD_LOG_LEVEL": "debug", "LANG": "C.UTF-8"}).stdout
        return [line.lstrip()[len(field):] for line in told.splitlines() if line.lstrip().startswith(field)]

    def targets(self):
        return [target for target in TARGETS if target != "systemd" or shutil.which("systemd-analyze")]

    def test_any_text_is_one_word_or_refused(self):
        chance = random.Random(14)
        pieces = ["\n", "\r", "\t", "\x1b", "\x01", "\x7f", "\x85", "\x9b", "\u2028", "\u2029", "\u202e", "\u2066",
                  "\udcff", "\udc80"] + 4 * ["'", '"', "$", "$$", "%", "%%", "%n", "\\", "\\n", "\\x41", "`", "$(", ")",
                  "#", ";", " ; ", "&", "|", "<", ">", "!", "{", "}", "[", "]", "~", "=", ":", ",", " ", "  ", "日本",
                  "é", "-", "ExecStartPre=", "[Service]", "\u00a0", "\U0001f426", "a", "B", "7"]
        # ${..} is a YAML variable; only that is left out.
        texts = ["".join(chance.choices(pieces, k=chance.randrange(1, 12))) for _ in range(400)]
        texts = ["/" + text.replace("${", "$ {") for text in texts]
        good, bad = [one for one in texts if is_shown(one)], [one for one in texts if not is_shown(one)]
        self.assertGreater(min(len(good), len(bad)), 60)
        for target in self.targets():
            for i in range(0, len(good), 40):
                inputs = [word for text in good[i:i + 40] for word in ("--input", text)]
                self.assertEqual(self.words_of(target, *inputs)[2:len(inputs) + 2], inputs, target)
        for i, text in enumerate(bad[:60]):
            done = self.deploy(TARGETS[i % 3], "--input", text)
            self.assertEqual(done.returncode, 64, (text, done.stderr))
            self.assertIn("holds a control character", done.stderr)
            self.assertTrue(is_shown(done.stderr.replace("\n", "")), done.stderr)

    def test_nothing_becomes_a_line(self):
        line = "x\nExecStartPre=/bin/touch y\ntouch y\n#"
        strange = self.folder / "a\ntouch y"
        strange.mkdir()
        shutil.copy(self.path, strange / "p.yaml")
        for target in TARGETS:
            for told, code, arguments, path in (
                    ("the value of --set", 64, ("--set", "stages.out.path=x\rExecStartPre=/bin/touch y"), None),
                    ("the value of --set", 64, ("--set", f"stages.out.path={line}"), None),
                    ("--input", 64, ("--input", line), None),
                    ("--command", 64, ("--command", "/bin/" + line), None),
                    ("--image", 64, ("--image", line), None),
                    ("--output", 64, ("--output", self.folder / line), None),
                    ("the pipeline's path", 64, (), strange / "p.yaml"),
                    ("pipeline: the name", 78, ("--set", f"pipeline={json.dumps(line)}"), None)):
                done = self.deploy(target, *arguments, path=path)
                self.assertEqual(done.returncode, code, (target, arguments, done.stderr))
                self.assertIn(told, done.stderr)
                self.assertNotIn("\ntouch", done.stderr)
            self.assertFalse(list(self.folder.glob("x*")))

    def test_long_words_are_whole(self):
        text = "/" + "long" * 20000 + "/end"
        for target in self.targets():
            self.assertEqual(self.words_of(target, "--set", f"stages.out.path={text}")[2:4],
                             ["--set", f"stages.out.path={text}"])

    def test_the_command_is_a_path_or_a_name(self):
        for wrong in ("-x", "@/bin/true", "+/bin/true", "!x", "bin/millrace", "./millrace", "", " /bin/true"):
            done = self.deploy("systemd", "--command", wrong)
            self.assertEqual(done.returncode, 64, wrong)
            self.assertIn("--command takes an absolute path", done.stderr)
        for wrong in ('/a"b', "/a'b", "/a\\b"):
            self.assertIn("systemd takes no path with quotes", self.deploy("systemd", "--command", wrong).stderr)
        for right in ("millrace", "/opt/a$b %n;/é/millrace"):
            self.assertEqual(self.deploy("systemd", "--command", right).returncode, 0)
            said = call(["systemd-analyze", "verify", "--recursive-errors=no",
                         self.folder / "systemd/words-last.service"]).stderr
            self.assertIn(f"Command {right} is not executable", said)

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_the_folder_that_relative_paths_begin_in(self):
        """Whatever its name ends with, systemd reads it and the line after it."""
        variable = {"MILLRACE_KERNELS": "c"}
        for name in ("a b", "blank ", " blanks  ", "back\\", "\\\\", "back\\ ", "100%n%%", '"q"', "日本"):
            here = self.folder / name
            here.mkdir()
            done = call([MILLRACE, "deploy", self.path, "--target", "systemd", "--output", self.folder / "systemd"],
                        cwd=here, environment=variable)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(self.unit("words-first.service", "WorkingDirectory: "), [str(here)])
            self.assertEqual(self.unit("words-first.service", "EnvironmentFile: "),
                             [str(self.folder / "systemd/words.env")])
        for name in ("a\nb", "a\x01", b"\xff"):
            here = os.path.join(os.fsencode(self.folder), os.fsencode(name))
            os.mkdir(here)
            done = call([MILLRACE, "deploy", self.path, "--target", "systemd", "--output", self.folder / "none"],
                        cwd=here)
            self.assertEqual(done.returncode, 64, done.stderr)
            self.assertIn("the path of this folder, ", done.stderr)
            self.assertIn("holds a control character", done.stderr)
            self.assertEqual(list(self.folder.glob("none/*")), [])

    @unittest.skipUnless(shutil.which("systemd-analyze"), "no systemd-analyze")
    def test_descriptions(self):
        """A trailing backslash does not join the next line, and nothing in a description may act as a specifier."""
        name = "a 100%n \\"
        done = self.deploy("systemd", "--set", f"pipeline={name}")
        self.assertEqual(done.returncode, 0, done.stderr)
        for unit, of in (("a-100-n--.target", "the"), ("a-100-n---first.service", "Node first of the")):
            self.assertIn(f'{of} millrace pipeline "{name}"', self.unit(unit, "Description: "))
        self.assertIn("\nPartOf=a-100-n--.target\n", (self.folder / "systemd/a-100-n---first.service").read_text())

    def test_names_that_begin_with_a_dash(self):
        for target in TARGETS:
            done = self.deploy(target, "--set", "pipeline=日本")
            self.assertEqual(done.returncode, 78)
            self.assertIn('files of "日本" would be called "------"', done.stderr)

    def test_names_that_are_too_long_for_units(self):
        for length, code in ((241, 0), (242, 78)):
            done = self.deploy("systemd", "--set", "pipeline=" + length * "n")
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("nodes.first: its unit would have a name of 256 bytes", done.stderr)


class Objects(Case):
    """Kubernetes object names: those that it would refuse, and those that two nodes would share."""

    def deploy(self, name, *nodes, replicas=1):
        """Deploys a chain of stages, one per node."""
        listed = {node: f"stages: s{i}, replicas: {replicas if i == 1 else 1}, "
                        f'listen: "tcp://*:{7001 + 10 * i}", key: k' for i, node in enumerate(nodes)}
        path = self.write(pipeline(dict(numbers='type: "null", frames: 2'), name=f'"{name}"', nodes=listed,
                                   **{f"s{i}": 'type: "null"' for i in range(len(nodes))}))
        return call([MILLRACE, "deploy", path, "--target", "kubernetes", "--output", self.folder / "out"])

    def test_names_that_collide(self):
        for nodes in (("x_y", "x-y"), ("x-y", "X_y"), ("a", "X-Y", "b", "x-y")):
            done = self.deploy("k", *nodes)
            self.assertEqual(done.returncode, 78)
            self.assertRegex(done.stderr, r'nodes\.[xX][-_][yY] and nodes\.[xX][-_][yY] would both be called "k-x-y"')
            self.assertFalse((self.folder / "out/k.json").exists())

    def test_names_that_are_not_allowed(self):
        for name, nodes in (("k", ("a-", "b")), ("k", ("a_", "b")), ("1k", ("a", "b")), ("k-", ("a", "b")),
                            ("k" * 64, ("a", "b")), ("k", ("a" * 60, "b"))):
            done = self.deploy(name, *nodes)
            self.assertEqual(done.returncode, 78, (name, nodes))
            self.assertIn("in Kubernetes, where a name has at most 63 small letters", done.stderr)

    @unittest.skipUnless(kubernetes_validate, "no kubernetes-validate")
    def test_names_that_are_just_allowed(self):
        """Host names end with the process number."""
        for replicas, length in ((1, 59), (10, 59), (11, 58)):
            self.assertEqual(self.deploy("k", "a", "B" * length, replicas=replicas).returncode, 0)
            items = json.loads((self.folder / "out/k.json").read_text())["items"]
            names = [item["metadata"]["name"] for item in items]
            self.assertIn("k-" + "b" * length, names)
            for item in items:
                kubernetes_validate.validate(item, "1.30", strict=True)
            for name in names:
                self.assertRegex(name, r"\A[a-z]([-a-z0-9]{0,61}[a-z0-9])?\Z")
            self.assertEqual(self.deploy("k", "a", "B" * (length + 1), replicas=replicas).returncode, 78)

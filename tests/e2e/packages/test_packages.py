"""Debian packages and the container image, as a person gets them: built, installed into a bare Debian, used by an
ordinary user, upgraded while a run goes on, interrupted by a full disk, removed; the image is run by crun. If
MILLRACE_RELEASE names a folder with a release, or with packages and an image for GPUs (`tools/test cuda`), those are
tested."""
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

import harness
from harness import MILLRACE, ROOT, SAMPLES, VERSION, Case

BUILD = pathlib.Path(MILLRACE).resolve().parent
RELEASE = os.environ.get("MILLRACE_RELEASE")
# Those for GPUs have it in their versions, and the image in its name.
CUDA = bool(RELEASE and list(pathlib.Path(RELEASE).glob("millrace_*+cuda_*.deb")))
TAG = f"{VERSION}-cuda" if CUDA else VERSION
CLASSIFY = "/usr/share/millrace/pipelines/classify-video.yaml"
PACKAGES = ["libmillrace0.1", "libmillrace-dev", "millrace", "millrace-models", "millrace-onnxruntime",
            "python3-millrace"]
# Not of a package: what apt and the loader keep.
KEPT = re.compile(r"/(var/(lib|cache)/(apt|dpkg|debconf|ldconfig)|var/log|tmp|pool|proc|dev|run|sys)(/|$)|"
                  r"/etc/ld.so.cache$")
# crun takes control groups of version 1 or 2, but not both at once.
ONE_VERSION = ["unshare", "--mount", "sh", "-c", 'umount /sys/fs/cgroup/unified && exec "$@"', "sh"]
ONE_VERSION = ONE_VERSION if os.path.exists("/sys/fs/cgroup/unified") else []
# Packages are linked from the build's objects: compiling them again would take minutes.
SLOW = 900


def run(command, **options):
    return subprocess.run(list(map(str, command)), stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=SLOW, **options)


@functools.cache
def folder():
    kept = tempfile.TemporaryDirectory(prefix="millrace-packages-")
    unittest.addModuleCleanup(kept.cleanup)
    return pathlib.Path(kept.name)


@functools.cache
def packages():
    """The packages' folder; a text says why there is none."""
    if os.geteuid() != 0:
        return "only root makes root folders of Debian"
    for program in ("dpkg-buildpackage", "dh", "lintian", "mmdebstrap", "umoci", "crun", "heif-enc"):
        if not shutil.which(program):
            return f"no {program} (tools/test installs it)"
    if RELEASE:
        return pathlib.Path(RELEASE)
    earlier = folder() / "dist/millrace_0.0.9-1_amd64.deb"
    earlier.parent.mkdir()
    earlier.touch()
    # A release is packed as tightly as Debian does; here that would be a third of the processor time.
    made = run([ROOT / "tools/package", "--built", BUILD, "--output", folder() / "dist"],
               env={**os.environ, "DPKG_DEB_COMPRESSOR_TYPE": "gzip", "DPKG_DEB_COMPRESSOR_LEVEL": "1"})
    earlier.unlink()  # fails if it was removed
    assert made.returncode == 0, made.stderr
    return folder() / "dist"


@functools.cache
def has_cuda():
    """Whether CUDA is compiled in: in packages from a build, if it is in that."""
    if RELEASE:
        return CUDA
    return bool(json.loads(run([MILLRACE, "devices", "--json"]).stdout)["cuda"]["build_cuda"])


@functools.cache
def debian():
    """A bare Debian 12 with the machine's archives and their lists."""
    mirrors = run(["bash", "-c", f". {ROOT}/tools/setup && mirrors"]).stdout
    lines = folder() / "sources.list"
    lines.write_text(mirrors)
    root = folder() / "root"
    # Nothing here must survive a power cut: dpkg need not wait for the disk.
    made = run(["mmdebstrap", "--variant=apt", "--skip=cleanup/apt/lists", "--dpkgopt=force-unsafe-io", "bookworm",
                root, lines])
    assert made.returncode == 0, made.stderr[-2000:]
    for name in ("resolv.conf", "hosts"):
        shutil.copy(f"/etc/{name}", root / "etc" / name)
    (root / "pool").mkdir()
    for package in packages().glob("*.deb"):
        shutil.copy(package, root / "pool")
    return root


class Packaged(Case):
    def setUp(self):
        super().setUp()
        if isinstance(packages(), str):
            self.skipTest(packages())

    def ok(self, command, code=0, **options):
        done = run(command, **options)
        self.assertEqual(done.returncode, code, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done


class OtherProcessors(Case):
    def test_refused_at_once(self):
        uname = self.folder / "uname"
        uname.write_text("#!/bin/sh\necho aarch64\n")
        uname.chmod(0o755)
        there = os.environ | {"PATH": f"{self.folder}:{os.environ['PATH']}"}
        for tool, made in (("package", "packages"), ("image", "images")):
            done = run([ROOT / "tools" / tool, "--output", self.folder / "none"], env=there)
            self.assertEqual((done.returncode, done.stdout), (69, ""), done.stderr)
            self.assertEqual(done.stderr, f"tools/{tool}: makes {made} for x86-64 only, and this machine is aarch64: "
                                          "use tools/wheel, or cmake --install build\n")
            self.assertFalse((self.folder / "none").exists())


class ForGpus(Case):
    """Packages for GPUs have a version that apt and people can tell from the others'; models and ONNX Runtime are the
    same files in both."""

    @unittest.skipUnless(shutil.which("dh_gencontrol"), "no dh_gencontrol (tools/test installs it)")
    def test_versions(self):
        version = re.search(r"\((.*)\)", (ROOT / "tools/debian/changelog").read_text())[1]
        for kind, mark, says in (("OFF", "", "processors."), ("ON", "+cuda", "processors and NVIDIA's GPUs.")):
            tree = self.folder / kind
            shutil.copytree(ROOT / "tools/debian", tree / "debian")
            done = run(["make", "-C", tree, "-f", "debian/rules", "override_dh_gencontrol", f"CUDA={kind}"])
            self.assertEqual(done.returncode, 0, done.stderr)
            made = {package: (tree / "debian" / package / "DEBIAN/control").read_text() for package in PACKAGES}
            common = ("millrace-models", "millrace-onnxruntime")
            self.assertEqual({package: re.search("^Version: (.*)$", text, re.M)[1] for package, text in made.items()},
                             {package: version + ("" if package in common else mark) for package in PACKAGES})
            self.assertIn(f"libmillrace0.1 (= {version}{mark})", made["millrace"])
            self.assertIn(f"built for\n {says}\n", made["libmillrace0.1"])


class Built(Case):
    """The build that `tools/package --built` and `tools/wheel --built` link: stale objects made stale packages."""

    def setUp(self):
        super().setUp()
        self.tree, self.built = self.folder / "a tree", self.folder / "a tree/build"
        self.tree.mkdir()
        (self.tree / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.20)\nproject(p C)\n"
                                                  "add_library(millrace STATIC a.c)\n"
                                                  "add_custom_target(libmillrace DEPENDS millrace)\n"
                                                  "add_library(millrace-command STATIC a.c)\n"
                                                  "add_custom_target(libmillrace-command DEPENDS millrace-command)\n"
                                                  "add_library(python_core MODULE a.c)\n"
                                                  "foreach(n RANGE 99)\nadd_custom_target(zz${n})\nendforeach()\n")
        self.source("int a = 1;")

    def source(self, text):
        (self.tree / "a.c").write_text(text + "\n")

    def need(self, root=None, code=0):
        done = run(["bash", "-c", f'. "{ROOT}/tools/setup"; root=$1 log=$2/log; need_built "$3"',
                    ROOT / "tools/package", root or self.tree, self.folder, self.built])
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        return done.stderr

    def test_it_is_brought_up_to_date(self):
        for generator in ("Ninja", "Unix Makefiles"):
            with self.subTest(generator):
                self.source("int a = 1;")
                run(["cmake", "-G", generator, "-S", self.tree, "-B", self.built])
                run(["cmake", "--build", self.built])
                self.assertEqual(self.need(), "")
                self.source("int a = 1, b_is_new = 2;")
                self.assertIn("was older than the sources; it is up to date now", self.need())
                for made in ("libmillrace.a", "libmillrace-command.a", "libpython_core.so"):
                    self.assertTrue(b"b_is_new" in (self.built / made).read_bytes(), made)
                self.assertEqual(self.need(), "")
                self.source("int a = ;")
                self.assertRegex(self.need(code=69), r"cannot be brought up to date: .*a\.c:1:.*error")
                shutil.rmtree(self.built)

    def test_another_is_refused(self):
        self.assertIn(f"there is no static build in {self.built}", self.need(code=66))
        run(["cmake", "-S", self.tree, "-B", self.built])
        run(["cmake", "--build", self.built])
        self.assertIn(f"is a build of {self.tree}, not of {ROOT}", self.need(root=ROOT, code=66))
        (self.built / "CMakeCache.txt").unlink()
        self.assertIn("is a build of something else, not of", self.need(code=66))


class Purged(Case):
    """The script that runs at `apt purge`, alone, with folders of its own in place of the machine's."""
    PREPARE = """set -e
for each in /var/lib /var/cache /etc/systemd/system; do mount -t tmpfs none $each; done
mkdir -p /var/lib/private/millrace/lobby /var/lib/private/millrace/yard /var/cache/private
mkdir -p /var/cache/private/millrace /etc/systemd/system/multi-user.target.wants
ln -s private/millrace /var/lib/millrace
mount -t tmpfs none /var/lib/private/millrace/lobby
mount -t tmpfs none /var/cache/private/millrace
touch /var/lib/private/millrace/lobby/film.mp4 /var/lib/private/millrace/yard/rows.jsonl
touch /var/cache/private/millrace/plan
cd /etc/systemd/system/multi-user.target.wants
ln -s /lib/systemd/system/millrace@.service millrace@lobby.service
ln -s /dev/null millrace@yard.service
sh "$1" purge
sh "$1" purge
find /var/lib /var/cache /etc/systemd/system ! -type d"""

    def test_disks_that_are_mounted_stay(self):
        tried = run(["unshare", "-m", "true"])
        if tried.returncode:
            self.skipTest(f"nothing can be mounted here: {tried.stderr.strip()}")
        script = self.write((ROOT / "tools/debian/millrace.postrm").read_text(), "postrm")
        done = run(["unshare", "-m", "sh", "-c", self.PREPARE, "sh", script])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(sorted(done.stdout.split()), [
            "/etc/systemd/system/multi-user.target.wants/millrace@yard.service", "/var/cache/private/millrace/plan",
            "/var/lib/private/millrace/lobby/film.mp4"])


class Packages(Packaged):
    def test_the_build_needs_what_the_packages_need(self):
        setup = (ROOT / "tools/setup").read_text()
        known = re.search(r'^debian_build="([^"]*)"', setup, re.M)[1].split()
        known += re.search(r'^debian_package="([^"]*)"', setup, re.M)[1].split()
        control = (ROOT / "tools/debian/control").read_text()
        needed = re.findall(r"[a-z][a-z0-9.+-]+", re.search(r"^Build-Depends:(.*?)^\n", control, re.M | re.S)[1])
        self.assertLessEqual(set(needed) - {"debhelper-compat"}, set(known))
        self.assertLessEqual({one for one in known if one.startswith("lib") and one != "libc6-dev"}, set(needed))

    def test_rules_take_paths_with_spaces(self):
        """Each word of make's commands that names the folder or the build must be whole."""
        tree, built = self.folder / "a tree", "/of a/build"
        tree.mkdir()
        done = run(["make", "-n", "-f", ROOT / "tools/debian/rules", "override_dh_auto_configure",
                    "override_dh_auto_build", "execute_after_dh_auto_install", f"BUILT={built}"], cwd=tree)
        self.assertEqual(done.returncode, 0, done.stderr)
        words = [word for word in shlex.split(done.stdout) if "tree" in word or "a/build" in word or "/of" in word]
        self.assertEqual(words, [f"-DMILLRACE_BUILT={built}", f"LD_LIBRARY_PATH={tree}/obj",
                                 f"DESTDIR={tree}/debian/tmp"])

    def inside(self, command, code=0, user="root"):
        return self.ok(["chroot", f"--userspec={user}", debian(), "sh", "-c", command], code,
                       env={"PATH": os.environ["PATH"] + ":/usr/sbin:/sbin", "DEBIAN_FRONTEND": "noninteractive",
                            "HOME": "/nonexistent", "LC_ALL": "C.UTF-8"})

    def files(self):
        root = debian()
        return {path for where, folders, files in os.walk(root) for one in folders + files
                if not KEPT.search(path := "/" + os.path.relpath(os.path.join(where, one), root))}

    def start(self):
        """A run that goes on, as the service of an ordinary user."""
        runtime = debian() / "run/millrace/live"
        runtime.mkdir(parents=True, mode=0o700)
        shutil.chown(runtime, 65534, 65534)
        (debian() / "tmp/live.yaml").write_text(
            "version: 1\npipeline: live\nsources: {clock: {type: \"null\", rate: 20fps}}\n"
            "stages: {results: {type: jsonl, input: clock, path: /tmp/live.jsonl}}\n")
        return self.spawn(["chroot", "--userspec=nobody:nogroup", debian(), "millrace", "run", "/tmp/live.yaml"],
                          env={**os.environ, "MILLRACE_CONTROL": "/run/millrace/live"},
                          stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def test_install_use_upgrade_remove(self):
        self.inside("apt-get -q install -y --no-install-recommends /pool/*.deb")
        with self.subTest("every file is there, libraries are found, and the package's dependencies are enough"):
            listed = {package: self.inside(f"dpkg -L {package}").stdout.split("\n") for package in PACKAGES}
            for package in PACKAGES:
                for path in filter(None, listed[package]):
                    self.assertTrue(os.path.lexists(debian() / path.lstrip("/")), path)
            self.assertNotIn("not found", self.inside(
                "ldd /usr/bin/millrace /usr/lib/*/libmillrace*.so.* /usr/lib/*/millrace/*.so.*").stdout)
            self.assertIn("/usr/share/man/man1/millrace.1.gz", listed["millrace"])
            self.assertIn("/lib/systemd/system/millrace@.service", listed["millrace"])
        with self.subTest("installed pipelines run as they are, for an ordinary user"):
            shutil.copy(SAMPLES / "cockatoo.mp4", debian() / "tmp")
            rows = self.inside(f"millrace run {CLASSIFY} --input /tmp/cockatoo.mp4 --set sources.video.every=100",
                               user="nobody:nogroup").stdout.splitlines()
            self.assertEqual(len(rows), 3)
            self.assertIn("sulphur-crested cockatoo", rows[2])
            for path in sorted((debian() / "usr/share/millrace/pipelines").glob("*.yaml")):
                self.inside(f"millrace check /usr/share/millrace/pipelines/{path.name}")
                self.assertNotIn("build/", path.read_text())
            self.inside("cd /tmp && millrace run /usr/share/millrace/pipelines/database.yaml --input cockatoo.mp4",
                        user="nobody:nogroup")
            self.assertTrue((debian() / "tmp/results.db").exists())
            self.inside("mkdir /tmp/state && cd / && STATE_DIRECTORY=/tmp/state millrace run "
                        "/usr/share/millrace/pipelines/database.yaml --input /tmp/cockatoo.mp4", user="nobody:nogroup")
            self.assertTrue((debian() / "tmp/state/results.db").exists())
        with self.subTest("the program that makes models is found"):
            made = self.inside("millrace models get lite0 --to /usr/share/millrace/models", user="nobody:nogroup")
            self.assertIn("lite0: ", made.stdout)
        with self.subTest("a GPU is missed by name"):
            on_gpu = f"millrace run {CLASSIFY} --input /tmp/cockatoo.mp4 --set stages.preprocess.device=cuda:0"
            self.assertIn("machine has no NVIDIA driver" if has_cuda() else "this build of millrace has no CUDA",
                          self.inside(on_gpu, code=78).stderr)
        with self.subTest("the Python module works"):
            told = self.inside("python3 -c 'import millrace; print(millrace.__version__)'", user="nobody:nogroup")
            self.assertEqual(told.stdout, VERSION + "\n")
        with self.subTest("a run goes on while its package is upgraded"):
            self.upgrade()
        with self.subTest("a full disk while installing can be mended"):
            self.full_disk()
        with self.subTest("purged packages leave nothing"):
            before = self.files()
            (debian() / "var/lib/private/millrace/lobby").mkdir(parents=True)
            self.inside(f"apt-get -q purge -y {' '.join(PACKAGES)}")
            after = self.files()
            self.assertEqual([path for path in sorted(after) if "millrace" in path], [])
            owned = {path for paths in listed.values() for path in paths}
            self.assertEqual([path for path in sorted(before - after - owned) if "millrace" not in path], [])
            self.assertEqual(sorted(after - before - {"/var/lib/private"}), [])

    def upgrade(self):
        run_on = self.start()
        rows = debian() / "tmp/live.jsonl"
        self.wait_until(lambda: rows.exists() and rows.stat().st_size, running=run_on)
        self.assertEqual(json.loads(self.inside("millrace ctl status --json").stdout)["pipeline"], "live")
        self.assertIn("no run", self.inside("millrace ctl status", user="games:games", code=69).stderr)
        for package in PACKAGES:
            tree = self.folder / package
            self.ok(["dpkg-deb", "-R", next((debian() / "pool").glob(f"{package}_*.deb")), tree])
            control = tree / "DEBIAN/control"
            control.write_text(control.read_text().replace(f"{VERSION}-1", f"{VERSION}-2"))
            self.ok(["dpkg-deb", "--root-owner-group", "-Znone", "-b", tree, debian() / f"pool/{package}_2.deb"])
        self.inside("apt-get -q install -y --no-install-recommends /pool/*_2.deb")
        self.assertIn(f"{VERSION}-2", self.inside("dpkg-query -W millrace").stdout)
        size = rows.stat().st_size
        self.wait_until(lambda: rows.stat().st_size > size, running=run_on)
        self.ended(run_on, signal.SIGTERM)

    def full_disk(self):
        """The models do not fit: dpkg says so, keeps what was there, and finishes once there is room."""
        models = debian() / "usr/share/millrace/models"
        self.ok(["mount", "-t", "tmpfs", "-o", "size=8m", "none", models])
        try:
            failed = self.inside("dpkg -i /pool/millrace-models_2.deb", code=1)
        finally:
            self.ok(["umount", models])
        self.assertIn("No space left on device", failed.stderr)
        self.inside("dpkg -i /pool/millrace-models_2.deb")
        self.assertEqual(self.inside("dpkg --audit").stdout, "")
        self.assertTrue((models / "lite0-features.onnx").exists())

    def test_service(self):
        unit = ROOT / "tools/debian/millrace@.service"
        exposed = self.ok(["systemd-analyze", "security", "--offline=yes", unit]).stdout
        self.assertLess(float(re.search(r"exposure level for .*: ([\d.]+)", exposed)[1]), 3)
        (self.folder / "millrace@lobby.service").write_text(unit.read_text().replace("/usr/bin/millrace", MILLRACE))
        wrong = run(["systemd-analyze", "verify", "--man=no", self.folder / "millrace@lobby.service"])
        self.assertEqual((wrong.returncode, wrong.stderr), (0, ""))


@functools.cache
def image():
    """The image's archive, and the bundle that a runtime starts."""
    archive, layout, bundle = folder() / "image.tar", folder() / "layout", folder() / "bundle"
    if RELEASE:
        (archive,) = packages().glob("millrace-*oci-cuda.tar" if CUDA else "millrace-*-oci.tar")
    else:
        made = run([ROOT / "tools/image", "--packages", packages(), "--output", archive])
        assert made.returncode == 0, made.stderr
    layout.mkdir()
    subprocess.run(["tar", "-C", layout, "-xf", archive], check=True)
    bundle.mkdir()
    root = bundle / "rootfs"
    for verb, *words in (["unpack", root], ["runtime-config", "--rootfs", root, bundle / "config.json"]):
        subprocess.run(["umoci", "raw", verb, "--image", f"{layout}:millrace:{TAG}", *words], check=True,
                       capture_output=True)
    return archive, layout, bundle


class Image(Packaged):
    """A container as an orchestrator starts it: read-only root, an ordinary user, 64 MB of shared memory, PID 1."""

    def started(self, *arguments, memory=None, denied=None):
        """The command line of a new container; `denied` is a system call that its kernel lacks."""
        bundle = image()[2]
        first = folder() / "config.json"
        if not first.exists():
            shutil.copy(bundle / "config.json", first)
        config = json.loads(first.read_text())
        self.assertEqual(config["process"]["user"]["uid"], 65532)
        self.assertEqual(config["process"]["args"], ["/usr/bin/millrace", "--help"])
        config["process"].update(args=["/usr/bin/millrace", *arguments], terminal=False)
        config["root"]["readonly"] = True
        left_out = ("/dev/shm", "/sys/fs/cgroup", "/etc/resolv.conf")
        config["mounts"] = [one for one in config["mounts"] if one["destination"] not in left_out] + [
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "size=64m"]},
            {"destination": "/usr/share/millrace/models", "type": "bind", "source": str(self.models),
             "options": ["rbind", "ro"]},
            {"destination": "/var/lib/millrace", "type": "bind", "source": str(self.shared),
             "options": ["rbind", "rw"]}]
        if memory:
            config["linux"]["resources"] = {"memory": {"limit": memory}}
        if denied:
            config["linux"]["seccomp"] = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [
                {"names": [denied], "action": "SCMP_ACT_ERRNO", "errnoRet": 38}]}
        (bundle / "config.json").write_text(json.dumps(config))
        return [*ONE_VERSION, "crun", "run", "--bundle", bundle, f"millrace-{os.getpid()}"]

    def setUp(self):
        super().setUp()
        self.shared = self.folder / "shared"
        self.shared.mkdir()
        self.folder.chmod(0o755)
        shutil.copy(SAMPLES / "cockatoo.mp4", self.shared)
        self.models = self.folder / "models"
        self.models.mkdir()
        for file in [*harness.MODELS.glob("lite0*"), *harness.MODELS.glob("imagenet*")]:
            shutil.copy(file, self.models)
        shutil.chown(self.shared, 65532, 65532)
        trial = run(self.started("--version"))
        if trial.returncode:
            self.skipTest(f"crun cannot run containers here: {trial.stderr.strip()}")
        self.assertEqual(trial.stdout, f"millrace {VERSION}\n")

    def test_content(self):
        archive, layout, bundle = image()
        files = [path for path in (bundle / "rootfs").rglob("*") if path.is_file() and not path.is_symlink()]
        self.assertLess(sum(path.stat().st_size for path in files), 2.2e9 if CUDA else 250e6)
        self.assertEqual([path for path in files if path.suffix in (".onnx", ".npy")], [])
        self.assertEqual([path for path in files if path.stat().st_mode & 0o6000], [], "setuid programs")
        # `deploy` names the image like this; Kubernetes asks containerd for the longer name.
        index = json.loads((layout / "index.json").read_text())
        self.assertEqual(index["manifests"][0]["annotations"],
                         {"org.opencontainers.image.ref.name": f"millrace:{TAG}",
                          "io.containerd.image.name": f"docker.io/library/millrace:{TAG}"})
        # Any user of the group root may write there.
        here = (bundle / "rootfs/var/lib/millrace").stat()
        self.assertEqual((here.st_uid, here.st_gid, here.st_mode & 0o777), (65532, 0, 0o775))

    def test_without_libavfilter(self):
        """Pictures of HEIF are read; test patterns are refused, and the message names the library."""
        self.ok(["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "testsrc2=size=64x48", "-frames:v", "1",
                 self.folder / "small.png"])
        self.ok(["heif-enc", "-o", self.shared / "small.heic", self.folder / "small.png"])
        (self.shared / "any.yaml").write_text("version: 1\npipeline: any\nsources: {any: {uri: small.heic}}\n"
                                              "stages: {decode: {input: any}, results: {type: jsonl, input: decode}}\n")
        self.assertEqual(len(self.ok(self.started("run", "any.yaml")).stdout.splitlines()), 1)
        refused = self.ok(self.started("run", "any.yaml", "--input", "lavfi:testsrc=duration=1"), 69)
        self.assertIn("test patterns need libavfilter.so.", refused.stderr)

    def test_letters(self):
        """Fonts are found without a word, though nobody can write a cache of them: neither a file in the folder that is
        mounted nor fontconfig's complaint."""
        (self.shared / "draw.yaml").write_text(
            "version: 1\npipeline: p\nsources: {v: {uri: cockatoo.mp4, duration: 10ms}}\n"
            "stages: {decode: {input: v}, draw: {input: decode, caption: text}, out: {type: images, input: draw}}\n")
        self.shared.chmod(0o555)
        done = self.ok(self.started("run", "draw.yaml", "--control", "off", "--set", "stages.out.path=/dev/shm/out"))
        self.assertEqual(done.stderr, "")
        self.assertEqual(sorted(path.name for path in self.shared.iterdir()), ["cockatoo.mp4", "draw.yaml"])

    def test_podman(self):
        """As INSTALL.md says: the loaded image has the name that `deploy` gives."""
        if not shutil.which("podman"):
            self.skipTest("no podman (tools/test installs it)")
        store = ["podman", "--root", self.folder / "store", "--runroot", self.folder / "state", "--cgroup-manager",
                 "cgroupfs"]
        self.ok([*store, "load", "-i", image()[0]])
        self.ok([*store, "image", "exists", f"millrace:{TAG}"])
        command = [*ONE_VERSION, *store, "run", "--rm", "--network", "none", "--cgroups", "disabled", "--ulimit",
                   "nofile=1024:1024", "--ulimit", "nproc=1000:1000"]
        trial = run([*command, f"millrace:{TAG}", "--version"])
        if trial.returncode and re.search("namespace|cgroup|mount", trial.stderr):
            self.skipTest(f"podman cannot run containers here: {trial.stderr.strip()}")
        self.assertEqual((trial.returncode, trial.stdout), (0, f"millrace {VERSION}\n"), trial.stderr)
        self.ok([*command, "--read-only", "--shm-size", "64m", "-v", f"{self.shared}:/var/lib/millrace", "-v",
                 f"{self.models}:/usr/share/millrace/models:ro", f"millrace:{TAG}",
                 *self.classify("classify-video.yaml")])
        self.rows()

    def test_gpus_need_packages_for_gpus(self):
        kind, other = ([], "") if CUDA else (["--cuda"], "+cuda")
        refused = self.ok([ROOT / "tools/image", *kind, "--packages", packages(), "--output", "/dev/null"], 66)
        self.assertRegex(refused.stderr, rf"there is no .*/libmillrace0\.1_{VERSION}-1{re.escape(other)}_amd64\.deb: "
                                         f"tools/package{' '.join(['', *kind])} makes it")

    def test_without_a_gpu(self):
        """Both images name the device that is missing, and compute without it."""
        cuda = json.loads(self.ok(self.started("devices", "--json")).stdout)["cuda"]
        self.assertEqual(([one["code"] for one in cuda["findings"]], bool(cuda["build_cuda"])),
                         (["no-gpu"], has_cuda()))
        on_gpu = ["--set", "stages.preprocess.device=cuda:0"]
        refused = self.ok(self.started(*self.classify("classify-video.yaml", "--control", "off", *on_gpu)), 78)
        why = "machine has no NVIDIA driver" if has_cuda() else "build of millrace has no CUDA"
        self.assertIn(f"cuda:0: this {why}", refused.stderr)
        self.ok(self.started(*self.classify("classify-video.yaml", "--set", "stages.preprocess.device=sim:0")))
        self.rows()

    @unittest.skipUnless(CUDA, "an image for processors")
    def test_libraries_for_gpus(self):
        """Each library that one of them needs is there, but for the driver's and TensorRT's, and all licences are."""
        root = image()[2] / "rootfs/usr/lib"
        site = root / "python3/dist-packages"
        there = {path.name for path in [*(root / "x86_64-linux-gnu").iterdir(), *site.rglob("lib*.so*")]}
        needed = set()
        for library in site.rglob("lib*.so*"):
            needed |= set(re.findall(r"\(NEEDED\).*\[(.*)\]", self.ok(["readelf", "-d", library]).stdout))
        self.assertIn("libcudart.so.13", needed)
        self.assertEqual(needed - there - {"ld-linux-x86-64.so.2"},
                         {"libcuda.so.1", "libnvinfer.so.10", "libnvonnxparser.so.10"})
        texts = [path for path in site.rglob("*") if path.is_file() and re.match("(?i)licen[sc]e", path.name)]
        licensed = {path.relative_to(site).parts[0].split("-")[0] for path in texts}
        self.assertEqual(licensed, {name.replace("-", "_").replace("onnxruntime_gpu", "onnxruntime") for name in
                                    re.findall(r"^([a-z0-9-]+)==", (ROOT / "tools/requirements-gpu.txt").read_text(),
                                               re.M)})

    def classify(self, pipeline, *arguments):
        return ["run", f"/usr/share/millrace/pipelines/{pipeline}", "--input", "cockatoo.mp4", "--output",
                "rows.jsonl", "--set", "sources.video.every=50", *arguments]

    def rows(self):
        rows = harness.rows_in(self.shared / "rows.jsonl")
        self.assertEqual(len(rows), 6)
        self.assertTrue(any("cockatoo" in row["classes"][0]["label"] for row in rows), rows)
        (self.shared / "rows.jsonl").unlink()

    def test_runs(self):
        for name, mode in (("one process", "classify-video.yaml"), ("nodes share memory", "nodes.yaml")):
            with self.subTest(name):
                done = self.ok(self.started(*self.classify(mode)))
                self.assertNotIn("memfd", done.stderr)
                self.rows()

    def test_without_memfd(self):
        """Frames travel over sockets, and the run says why."""
        done = self.ok(self.started(*self.classify("nodes.yaml", "--log", "info"), denied="memfd_create"))
        self.assertIn("memfd_create: Function not implemented", done.stderr)
        self.rows()

    def test_ends_when_asked(self):
        (self.shared / "clock.yaml").write_text(
            'version: 1\npipeline: clock\nsources: {clock: {type: "null", rate: 20fps}}\n'
            "stages: {results: {type: jsonl, input: clock, path: clock.jsonl}}\n")
        child = self.spawn(self.started("run", "clock.yaml"), stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        rows = self.shared / "clock.jsonl"
        self.wait_until(lambda: rows.exists() and rows.stat().st_size, running=child)
        self.ok(["crun", "kill", f"millrace-{os.getpid()}", "TERM"])
        self.ended(child)

    def test_memory_limit(self):
        """400 MB are enough for the pipeline and its libraries; with 40 MB the run ends with an error or is killed."""
        self.ok(self.started(*self.classify("classify-video.yaml"), memory=400 << 20))
        self.rows()
        killed = run(self.started(*self.classify("classify-video.yaml"), memory=40 << 20))
        self.assertIn(killed.returncode, (69, 71, 137), killed.stderr)

    def test_reproducible(self):
        again = self.folder / "again.tar"
        self.ok([ROOT / "tools/image", *(["--cuda"] if CUDA else []), "--packages", packages(), "--output", again])
        self.assertEqual(again.read_bytes(), image()[0].read_bytes())

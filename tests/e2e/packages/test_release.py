"""tools/release: what it refuses, and what it does with the files that other scripts make. Here they make small ones,
in an instant. `tools/test release` makes a real release and has its files checked, too: MILLRACE_RELEASE names them."""
import hashlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tarfile
import unittest

import disks
from harness import ROOT, VERSION, Case, call

AT_ONCE = 3
MADE = os.environ.get("MILLRACE_RELEASE")
MAKER = """#!/bin/sh
while [ $# -gt 0 ]; do
    [ "$1" = --output ] && to=$2
    shift
done
{action}
"""


def git(folder, *words):
    return subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@example.com", *words],
                          check=True, capture_output=True, text=True).stdout


def key(folder):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "key"], check=True)
    return folder / "key"


def verifies(folder, public, sums):
    """Whether a signature is that key's, as INSTALL.md says."""
    signers = folder / "signers"
    signers.write_text(f"millrace {public.read_text()}")
    with open(sums, "rb") as signed:
        return subprocess.run(["ssh-keygen", "-Y", "verify", "-f", signers, "-I", "millrace", "-n", "millrace", "-s",
                               f"{sums}.sig"], stdin=signed, capture_output=True).returncode == 0


class Release(Case):
    def setUp(self):
        super().setUp()
        if not (ROOT / ".git").exists():
            self.skipTest("the sources are no clone")
        for program in ("ssh-keygen", "faketime"):
            if not shutil.which(program):
                self.skipTest(f"no {program} (tools/test installs it)")
        if os.geteuid() != 0 and call(["unshare", "--map-auto", "--map-root-user", "true"]).returncode:
            self.skipTest("this user makes no root folders")
        self.tree = self.folder / "tree"
        self.tree.mkdir()
        files = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "tools", "engine/include/millrace/version.h",
                                "README.md"], check=True, capture_output=True).stdout.split(b"\0")
        for name in map(os.fsdecode, filter(None, files)):
            (self.tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.tree / name)
        (self.tree / ".gitignore").write_text("/build/\n/dist/\n")
        self.make("package", 'echo package >"$to/millrace_1.deb"')
        self.make("wheel", 'echo wheel >"$to/millrace-1.whl"')
        self.make("image", 'echo image >"$to"')
        git(self.folder, "init", "-q", self.tree)
        self.commit()
        self.to = self.folder / "made"

    def make(self, name, action):
        (self.tree / f"tools/{name}").write_text(MAKER.format(action=action))

    def commit(self):
        git(self.tree, "add", "-A")
        git(self.tree, "commit", "-q", "-m", "all")

    def change(self, name, old, new):
        path = self.tree / name
        self.assertIn(old, path.read_text())
        path.write_text(path.read_text().replace(old, new, 1))

    def release(self, *words, code=0, says="", umask="022", **options):
        done = self.checked(["sh", "-c", 'umask "$0" && exec "$@"', umask, self.tree / "tools/release", *words],
                            code=code, says=says, **options)
        self.assertFalse((self.tree / "build/release").exists())
        return done

    def test_usage(self):
        for words, says in (((), "name the version"), (("1", "2"), '"2" is one too many'), (("--sign",), '"--sign"'),
                            (("1", "--key"), "--key needs a path")):
            self.release(*words, code=64, says=says)
        self.assertIn("release VERSION", self.release("--help").stdout)

    def test_refused(self):
        """One version everywhere, and nothing that is not committed."""
        header = "engine/include/millrace/version.h"
        self.release("9.9.9", code=65, says=f"{header}: has version {VERSION}, not 9.9.9")
        self.release(".*", code=65, says="not .*")
        (self.tree / "README.md").write_text("changed")
        self.release(VERSION, code=65, says="README.md: is not committed")
        git(self.tree, "checkout", "README.md")
        (self.tree / "stray.c").write_text("new")
        self.release(VERSION, code=65, says="stray.c: is not committed")
        (self.tree / "stray.c").unlink()
        for name, old, new in ((header, "_PATCH ", "_PATCH 9"),
                               ("tools/debian/changelog", f"({VERSION}-", "(9.9.9-"),
                               ("tools/CHANGELOG.md", f"\n## {VERSION}\n", f"\n## 9.9.9\n\n## {VERSION}\n")):
            self.change(name, old, new)
            self.commit()
            self.release(VERSION, code=65, says=f"{name}: ")
            self.change(name, new, old)
            self.commit()
        self.to.mkdir()
        self.release(VERSION, "--output", self.to, code=65, says="is there already")
        self.release(VERSION, "--output", "/dev/null/made", code=69, says="/dev/null/made: Not a directory")
        git(self.tree, "tag", f"v{VERSION}")
        git(self.tree, "commit", "-q", "--allow-empty", "-m", "later")
        tagged = git(self.tree, "rev-parse", "HEAD~").strip()
        self.release(VERSION, code=65, says=f"tag v{VERSION}: is of commit {tagged}")
        shutil.rmtree(self.tree / ".git")
        self.release(VERSION, code=65, says="git finds no commit: not a git repository")
        git(self.folder, "init", "-q", self.tree)
        self.release(VERSION, code=65, says="git finds no commit: Needed a single")

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files to others")
    def test_a_clone_of_another_user(self):
        subprocess.run(["chown", "-R", "65534", self.tree], check=True)
        self.release(VERSION, code=65, says="git finds no commit: detected dubious ownership",
                     environment={"GIT_CONFIG_GLOBAL": "/dev/null"})

    @unittest.skipUnless(os.geteuid() == 0, "as root, to be a user without subordinate ids")
    def test_an_image_that_cannot_be_made(self):
        """It is said at once, not after minutes of compiling."""
        subprocess.run(["chown", "-R", "65534:65534", self.folder], check=True)
        for folder in self.folder.parents:
            if not folder.stat().st_mode & 1:
                self.skipTest(f"other users cannot enter {folder}")
        done = self.checked(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups",
                             self.tree / "tools/release", VERSION, "--output", self.to], code=69,
                            says="subordinate ids (/etc/subuid)", environment={"HOME": str(self.folder)})
        self.assertNotIn(f"millrace {VERSION} from", done.stderr)

    def test_no_room(self):
        """It is said at once, not after minutes of compiling."""
        disk = disks.Mounted(self)
        self.release(VERSION, "--output", disk.folder / "made", code=69,
                     says=f"{disk.folder} has 4 MB of free space, and a release takes 500 MB there")
        self.assertEqual(list(disk.folder.iterdir()), [])

    def test_wrong_keys(self):
        (self.folder / "text").write_text("no key")
        for name in ("text", "absent"):
            self.release(VERSION, "--key", self.folder / name, "--output", self.to, code=66, says="cannot sign with")
        self.assertFalse(self.to.exists())
        self.release(VERSION, "--key", self.folder / "absent", code=66, says="cannot sign with")
        self.assertFalse((self.tree / "dist").exists())

    def test_a_key_that_fails_at_the_end(self):
        """As with a mistyped passphrase: the work is kept, and the commands in the message finish it."""
        own = key(self.folder)
        kept = own.rename(self.folder / "kept")
        shutil.copy(kept, own)
        self.make("wheel", f'rm {own}; echo wheel >"$to/millrace-1.whl"')
        self.commit()
        done = self.release(VERSION, "--key", own, "--output", self.to, code=69, says=f"in {self.to}.part. To finish")
        self.assertFalse(self.to.exists())
        shutil.copy(kept, own)
        self.checked(["sh", "-c", done.stderr.split("To finish the release:\n")[1]])
        self.assertTrue(verifies(self.folder, own.with_suffix(".pub"), self.to / "SHA256SUMS"))
        self.checked(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.to)

    def test_signed_and_made_twice(self):
        """Twice from different folders, by different users, at different dates."""
        self.make("wheel", 'umask >&2; pwd >&2; id -u >&2; date +%d >&2; echo wheel >"$to/millrace-1.whl"')
        self.commit()
        own = key(self.folder)
        done = self.release(VERSION, "--check", "--key", own, "--output", self.to, says="the same twice, signed")
        told = [tuple(lines) for lines in re.findall(r"^(0\d+)\n(.*)\n(\d+)\n(\d\d)$", done.stderr, re.M)]
        self.assertEqual([umask for umask, *_ in told], ["0022", "0077"], done.stderr)
        self.assertNotEqual(told[0][3], told[1][3])
        if os.geteuid() == 0:
            self.assertEqual([user for _, _, user, _ in told], ["0", "65534"])
        self.assertEqual(sorted(path.name for path in self.to.iterdir()),
                         ["SHA256SUMS", "SHA256SUMS.sig", f"millrace-{VERSION}-oci.tar",
                          f"millrace-{VERSION}.tar.gz", "millrace-1.whl", "millrace_1.deb"])
        self.checked(["sha256sum", "--check", "--strict", "SHA256SUMS"], cwd=self.to)
        public = own.with_suffix(".pub")
        self.assertTrue(verifies(self.folder, public, self.to / "SHA256SUMS"))
        with open(self.to / "SHA256SUMS", "a") as sums:
            sums.write("\n")
        self.assertFalse(verifies(self.folder, public, self.to / "SHA256SUMS"))
        self.assertEqual(list(self.folder.glob("made.*")), [])

    def test_the_environment(self):
        """What this person's says about compilers and dates is in no release; what reaches Debian and PyPI stays."""
        self.make("wheel", 'env >&2; echo wheel >"$to/millrace-1.whl"')
        self.commit()
        given = {"CC": "clang", "CPATH": "/opt", "MAKEFLAGS": "-k", "SOURCE_DATE_EPOCH": "1", "TAR_OPTIONS": "-v",
                 "XZ_OPT": "-1", "TZ": "Asia/Tokyo", "LANG": "de_DE.UTF-8", "PATH": f"/opt/bin:{os.environ['PATH']}",
                 "version": "9", "log": "/none", "root": "/none", "SHELLOPTS": "braceexpand"}  # as in the script
        done = self.release(VERSION, "--output", self.to, environment={**given, "https_proxy": "http://[::1]:9"})
        told = dict(line.split("=", 1) for line in done.stderr.splitlines() if "=" in line)
        self.assertEqual([name for name in given if told.get(name) == given[name]], [])
        self.assertEqual((told["https_proxy"], told["LC_ALL"]), ("http://[::1]:9", "C.UTF-8"))

    def test_the_archive(self):
        """What is committed, whatever this person's git and umask say."""
        settings = self.write("[core]\n\tautocrlf = true\n\tattributesFile = "
                              f"{self.write('*.md export-ignore', 'attributes')}\n", "gitconfig")
        for umask in ("022", "077"):
            self.release(VERSION, "--output", self.folder / f"made{umask}", says="not signed", umask=umask,
                         environment={"GIT_CONFIG_GLOBAL": str(settings)} if umask == "077" else None)
        one, two = (self.folder / f"made{umask}/millrace-{VERSION}.tar.gz" for umask in ("022", "077"))
        self.assertEqual(one.read_bytes(), two.read_bytes())
        with tarfile.open(one) as archive:
            names = {member.name.removeprefix(f"millrace-{VERSION}/") for member in archive if member.isfile()}
            modes = {member.mode for member in archive if member.isfile()}
        self.assertEqual(names, set(git(self.tree, "ls-files").splitlines()))
        self.assertEqual(modes, {0o644, 0o755})

    def test_not_the_same_twice(self):
        self.make("wheel", 'pwd >"$to/millrace-1.whl"; echo "$0" >>"$to/millrace-1.whl"')
        self.commit()
        self.release(VERSION, "--check", "--output", self.to, code=70,
                     says=f"not the same the second time: millrace-1.whl; compare {self.to}.part with {self.to}.again")
        self.assertFalse(self.to.exists())
        for kept in ("part", "again"):
            self.assertIn("tools/wheel", (self.folder / f"made.{kept}/millrace-1.whl").read_text())

    def test_a_part_fails(self):
        self.make("wheel", "echo the disk is full >&2; exit 74")
        self.commit()
        self.release(VERSION, "--output", self.to, code=74, says="the disk is full")
        self.assertFalse(self.to.exists())

    def test_no_network(self):
        """The cause is said, though pip names it in warnings alone, and the log is kept."""
        shutil.copy(ROOT / "tools/package", self.tree / "tools/package")
        self.commit()
        done = self.release(VERSION, "--output", self.to, code=69,
                            environment={"https_proxy": "http://127.0.0.1:9", "PIP_RETRIES": "1"})
        if "installing Debian packages" in done.stderr:
            self.skipTest("packages are missing (tools/test installs them)")
        self.assertIn("pip could not install them: no connection: Connection refused (all of it", done.stderr)
        self.assertRegex(done.stderr, r"the setup.log in .*/build/release/millrace is now build/release.log\n")
        self.assertIn("connection broken", (self.tree / "build/release.log").read_text())

    def test_interrupted(self):
        self.make("wheel", 'touch "$to/here"; exec sleep 100')
        self.commit()
        child = self.spawn([self.tree / "tools/release", VERSION, "--output", self.to], stderr=subprocess.PIPE,
                           text=True, start_new_session=True)
        self.wait_until((self.folder / "made.part/here").exists, running=child)
        os.killpg(child.pid, signal.SIGINT)
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, -signal.SIGINT)
        self.assertFalse(self.to.exists() or (self.tree / "build/release").exists())


@unittest.skipUnless(MADE, "tools/test release makes a release")
class Made(Case):
    def test_all_files(self):
        made = pathlib.Path(MADE)
        kinds = [re.sub(r"(?<=[_-])\d[\w.+~-]*?(?=(_amd64|_all|-cp39|-oci|\.tar\.gz))", "V", path.name)
                 for path in sorted(made.iterdir())]
        self.assertEqual([re.sub("manylinux.*x86_64", "P", kind) for kind in kinds],
                         ["SHA256SUMS", "SHA256SUMS.sig", "libmillrace-dev_V_amd64.deb", "libmillrace0.1_V_amd64.deb",
                          "millrace-V-cp39-abi3-P.whl", "millrace-V-oci.tar", "millrace-V.tar.gz",
                          "millrace-models_V_all.deb", "millrace-onnxruntime_V_amd64.deb", "millrace_V_amd64.deb",
                          "python3-millrace_V_amd64.deb"])
        for line in (made / "SHA256SUMS").read_text().splitlines():
            digest, name = line.split("  ")
            self.assertEqual(hashlib.sha256((made / name).read_bytes()).hexdigest(), digest, name)
        self.assertTrue(verifies(self.folder, made.with_name("release-key.pub"), made / "SHA256SUMS"))

    def test_the_archive_is_whole(self):
        """It can be configured, and knows its version without git."""
        with tarfile.open(next(pathlib.Path(MADE).glob("*.tar.gz"))) as archive:
            archive.extractall(self.folder)
        (tree,) = self.folder.glob("millrace-*")
        done = call(["cmake", "-S", tree, "-B", self.folder / "build", "-DMILLRACE_TESTS=OFF", "-G", "Ninja",
                     "-DMILLRACE_CUDA=OFF"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"CMAKE_PROJECT_VERSION:STATIC={VERSION}", (self.folder / "build/CMakeCache.txt").read_text())

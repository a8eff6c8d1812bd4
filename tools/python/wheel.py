"""Packs the wheel for tools/wheel.

    wheel.py pack ROOT TREE FOLDER [MARK]
                                        packs TREE, with the metadata, into a wheel in FOLDER. MARK, such as +cuda,
                                        follows the version
    wheel.py repair ARGUMENT...         runs auditwheel, and lets it leave out fewer libraries
    wheel.py repack WHEEL FOLDER [LEVEL]
                                        packs a wheel again, with files in order and one date; prints the path. LEVEL
                                        is zlib's"""
import base64
import hashlib
import io
import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

METADATA = """Metadata-Version: 2.1
Name: millrace
Version: {version}
Summary: Video and image analysis pipelines that are written in YAML
License: MIT (millrace), GPL-2.0-or-later (FFmpeg, x264 and x265 of Debian), and those of other libraries: see licenses/
Requires-Python: >=3.9
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Typing :: Typed
Provides-Extra: numpy
Requires-Dist: numpy ; extra == "numpy"
Provides-Extra: onnx
Requires-Dist: {onnxruntime} ; extra == "onnx"
Description-Content-Type: text/markdown

{description}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: tools/wheel\nRoot-Is-Purelib: false\nTag: cp39-abi3-linux_{machine}\n"
SCRIPTS = """[console_scripts]
millrace = millrace.__main__:main

[pyinstaller40]
hook-dirs = millrace._environment:hook_folders
"""
# Libraries that every Linux with Python has. The policies of manylinux also leave out those of a desktop (X11, GLib),
# which containers lack. There must be one C++ library in a process.
SYSTEM = {"libc.so.6", "libm.so.6", "libdl.so.2", "librt.so.1", "libpthread.so.0", "libresolv.so.2", "libutil.so.1",
          "libz.so.1", "libgcc_s.so.1", "libstdc++.so.6", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"}
DATE = (1980, 1, 1, 0, 0, 0)  # the first that ZIP has


def write(path, files, compression=zipfile.ZIP_DEFLATED, level=None):
    """Writes {name: (bytes, is a program)} as a wheel; RECORD lists the digests."""
    record = next(name for name in files if name.endswith(".dist-info/WHEEL")).replace("WHEEL", "RECORD")
    rows = []
    for name in sorted(files):
        if name != record:
            digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
            rows.append(f"{name},sha256={digest},{len(files[name][0])}\n")
    files[record] = ("".join([*rows, f"{record},,\n"]).encode(), False)
    part = path.with_suffix(".part")
    with zipfile.ZipFile(part, "w", compression) as made:
        for name in [*(one for one in sorted(files) if one != record), record]:
            data, program = files[name]
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = compression
            entry.create_system = 3
            entry.external_attr = (0o100755 if program else 0o100644) << 16
            made.writestr(entry, data, compresslevel=level)
    part.replace(path)
    return path


def pack(root, tree, folder, mark=""):
    import platform
    header = (root / "engine/include/millrace/version.h").read_text()
    version = re.search(r'MILLRACE_VERSION "(.*)"', header).group(1) + mark
    info = f"millrace-{version}.dist-info"
    machine = platform.machine()
    # PyPI has ONNX Runtime for GPUs for this processor alone. The two packages have the same files.
    gpu = mark == "+cuda" and machine == "x86_64"
    metadata = METADATA.format(version=version, description=(root / "tools/python/README.md").read_text(),
                               onnxruntime="onnxruntime-gpu[cuda,cudnn]" if gpu else "onnxruntime")
    files = {f"{info}/METADATA": (metadata.encode(), False),
             f"{info}/WHEEL": (WHEEL.format(machine=machine).encode(), False),
             f"{info}/entry_points.txt": (SCRIPTS.encode(), False),
             f"{info}/LICENSE": ((root / "LICENSE").read_bytes(), False)}
    for path in sorted(tree.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            data = path.read_bytes()
            files[str(path.relative_to(tree))] = (data, data[:4] == b"\x7fELF")
    folder.mkdir(parents=True, exist_ok=True)
    return write(folder / f"millrace-{version}-cp39-abi3-linux_{machine}.whl", files, zipfile.ZIP_STORED)


def owners(paths):
    """The Debian packages of files: {path: package}. Asks dpkg once, with paths: it takes long for names with a `*`.
    Packages older than Debian's one /usr have their files in /lib."""
    asked = {str(path).removeprefix(usr): str(path) for path in paths for usr in ("/usr", "")}
    found = subprocess.run(["dpkg", "-S", *sorted(asked)], capture_output=True, text=True).stdout
    return {asked[path]: package for package, path in re.findall(r"^([^:, ]+)(?::\w+)?: (/.*)$", found, re.M)}


def licences(files):
    """Yields names and bytes of the licence texts of all bundled libraries: those of the Debian packages that have
    files with their names (without the digest that auditwheel adds), and the licences that these refer to."""
    names = {re.sub(r"-[0-9a-f]{8}(?=\.)", "", pathlib.Path(name).name) for name in files
             if name.startswith("millrace.libs/") and "/libmillrace" not in name}
    installed = pathlib.Path("/usr/lib", sysconfig.get_config_var("MULTIARCH")).rglob("*.so*")
    packages = owners(path for path in installed if path.name in names)
    unknown = names - {pathlib.Path(path).name for path in packages}
    if unknown:
        sys.exit(f"no Debian package has {', '.join(sorted(unknown))}")
    referred = set()
    for package in sorted(set(packages.values())):
        text = pathlib.Path(f"/usr/share/doc/{package}/copyright").read_bytes()
        referred.update(re.findall(rb"/usr/share/common-licenses/([\w.-]*\w)", text))
        yield f"{package}/copyright", text
    for name in sorted(one.decode() for one in referred):
        path = pathlib.Path("/usr/share/common-licenses", name)
        if path.exists():  # some name a licence by a pattern, or wrongly
            yield f"common-licenses/{name}", path.read_bytes()


def repack(wheel, folder, level=None):
    with zipfile.ZipFile(io.BytesIO(wheel.read_bytes())) as given:
        files = {name: (given.read(name), given.read(name)[:4] == b"\x7fELF") for name in given.namelist()
                 if not name.endswith("/")}
    # auditwheel adds a list of what it found, which names no file of ours.
    info = next(name for name in files if name.endswith(".dist-info/WHEEL")).rpartition("/")[0]
    files.update({f"{info}/licenses/{name}": (text, False) for name, text in licences(files)})
    return write(folder / wheel.name, files, level=level)


def repair(arguments):
    import dataclasses

    from auditwheel import main, policy
    from auditwheel._vendor import whichprovides
    load = policy.WheelPolicies.__init__

    def load_stricter(self, *given, **options):
        load(self, *given, **options)
        self._policies = [dataclasses.replace(one, whitelist=frozenset(one.whitelist & SYSTEM))
                          for one in self._policies]

    class AllAtOnce(whichprovides.DpkgPackageProvider):
        """auditwheel lists the libraries' packages. It would run dpkg twice for each file, which takes most of its
        time."""
        _resolve_order = -1

        @classmethod
        def whichprovides(cls, paths):
            found = owners(paths)
            told = subprocess.run(["dpkg-query", "-W", "-f", "${Package} ${Version}\n", *sorted(set(found.values()))],
                                  capture_output=True, text=True, check=True).stdout
            version = dict(line.split() for line in told.splitlines())
            return {path: whichprovides.ProvidedBy("deb", package, version[package], cls.distro())
                    for path, package in found.items()}

    policy.WheelPolicies.__init__ = load_stricter
    sys.argv = ["auditwheel", "repair", *arguments]
    sys.exit(main.main())


if __name__ == "__main__":
    verb, *given = sys.argv[1:]
    if verb == "repair":
        repair(given)
    folders = map(pathlib.Path, given[:3 if verb == "pack" else 2])
    print(pack(*folders, *given[3:]) if verb == "pack" else repack(*folders, *map(int, given[2:])))

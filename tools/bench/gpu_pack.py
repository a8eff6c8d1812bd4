"""Makes the pack for tools/bench/gpu --pack: everything that a machine needs if it has a driver and Python, but no
network and no toolkit. Archives come in pieces below a size limit.

    FOLDER/programs.tar.xz.00, .01 ...   programs, libraries that they are linked with, clips, networks, this script
    FOLDER/wheels.tar.00, .01 ...        ONNX Runtime for CUDA and NVIDIA's libraries for it
    FOLDER/SHA256SUMS

On that machine: cat programs.tar.xz.* | tar xJ. For the step `network`, also cat wheels.tar.* | tar x. Then python3
gpu/gpu.py. The wheels are those in tools/requirements-gpu.txt, which pip downloads."""
import hashlib
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

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CLIP = "/usr/lib/python3/dist-packages/imageio/resources/images/cockatoo.mp4"
# The system provides these: glibc's libraries only work with its loader, and the driver's only with its kernel module.
OF_SYSTEM = re.compile(r"/(ld-linux|lib(c|m|dl|rt|pthread|resolv|util|anl|mvec)[-.]|lib(cuda|nvcuvid|nvidia))")
# The shared libraries in the wheels; the rest of a wheel is not needed.
LIBRARY = re.compile(r"/lib(onnxruntime(_providers_\w+)?|cudart|curand|nvrtc(-builtins)?|cublas(Lt)?|cudnn\w*)"
                     r"\.so[.\d]*$")


def run(*words, **more):
    subprocess.run([str(word) for word in words], check=True, stdout=sys.stderr, **more)


def make_clips(built, data):
    """Makes a 1080p clip, and test_nvdec_card's clips with their picture digests, unless they exist."""
    clip, short = data / "clips/1080p.mp4", data / "clips/nvdec"
    if not clip.exists():
        clip.parent.mkdir(parents=True, exist_ok=True)
        run("ffmpeg", "-v", "error", "-nostdin", "-y", "-i", CLIP, "-an", "-vf", "scale=1920:1080", "-c:v", "libx264",
            "-preset", "fast", "-crf", "26", "-bf", "2", "-pix_fmt", "yuv420p", clip)
    if not short.exists() and (built / "test_nvdec_card").exists():
        short.mkdir()
        run(built / "test_nvdec_card", "--make", env={**os.environ, "MILLRACE_CLIPS": str(short)})


def make_models(data):
    """Makes test_ort_card's networks with their results; tools/setup makes the others."""
    if not (data / "models/test").exists():
        run(data / "venv/bin/python", ROOT / "tests/reference/models.py", data / "models/test")


def copy_programs(built, programs, to):
    """Collects programs without debug information, and the libraries that they link."""
    for part in ("bin", "lib"):
        (to / part).mkdir(parents=True)
    for name in programs:
        run("strip", "-o", to / "bin" / name, built / name)
    linked = subprocess.run(["ldd", *(built / name for name in programs)], capture_output=True, text=True, check=True)
    for path in set(re.findall(r"=> (/\S+)", linked.stdout)):
        if not OF_SYSTEM.search(path):
            shutil.copy2(path, to / "lib")


def download_wheels(to):
    """pip compares their digests."""
    run(sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--require-hashes", "--only-binary", ":all:",
        "--python-version", "3.12", *(f"--platform=manylinux{tag}_x86_64" for tag in ("_2_28", "_2_27", "2014")),
        "-d", to, "-r", ROOT / "tools/requirements-gpu.txt")


def unpack_wheels(data):
    """On that machine: puts the libraries from delivered wheels into data/libraries."""
    for wheel in sorted((data / "wheels").glob("*.whl")):
        (data / "libraries").mkdir(exist_ok=True)
        with zipfile.ZipFile(wheel) as archive:
            for name in filter(LIBRARY.search, archive.namelist()):
                with archive.open(name) as source, open(data / "libraries" / pathlib.Path(name).name, "wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
        wheel.unlink()


def write_pieces(folder, out, name, limit):
    """Writes the folder as one archive, in pieces of at most `limit` bytes."""
    archive = out / name
    # The dictionary must span several programs, since each contains the same library.
    packer = [{"id": lzma.FILTER_X86}, {"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": 96 << 20}]
    opened = lzma.open(archive, "wb", filters=packer) if name.endswith("xz") else open(archive, "wb")
    with opened as file, tarfile.open(fileobj=file, mode="w|") as made:
        made.add(folder, "gpu")
    run("split", "-b", limit, "-d", archive, f"{archive}.")
    archive.unlink()
    return sorted(out.glob(f"{name}.*"))


def pack(built, programs, data, out, limit):
    out.mkdir(parents=True, exist_ok=True)
    make_clips(built, data)
    make_models(data)
    with tempfile.TemporaryDirectory(dir=out) as scratch:
        place = pathlib.Path(scratch)
        copy_programs(built, programs, place / "programs")
        for script in ("gpu.py", "gpu_pack.py"):
            shutil.copy2(HERE / script, place / "programs")
        for part in ("clips", "models"):
            shutil.copytree(data / part, place / "programs" / part)
        pieces = write_pieces(place / "programs", out, "programs.tar.xz", limit)
        (place / "libraries/wheels").mkdir(parents=True)
        download_wheels(place / "libraries/wheels")
        pieces += write_pieces(place / "libraries", out, "wheels.tar", limit)
    sums = [f"{hashlib.sha256(piece.read_bytes()).hexdigest()}  {piece.name}\n" for piece in pieces]
    (out / "SHA256SUMS").write_text("".join(sums))
    print("".join(f"{piece}: {piece.stat().st_size >> 20} MiB\n" for piece in pieces), end="")
    print("on the other machine: sha256sum -c SHA256SUMS; cat programs.tar.xz.* | tar xJ; cat wheels.tar.* | tar x; "
          "python3 gpu/gpu.py --json report.json --resume --budget 540")

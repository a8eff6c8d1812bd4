"""Libraries for tools/bench/gpu: which ones programs need, which of them belong to the C library or the driver, and
where those that are opened at run time (NVIDIA's, ONNX Runtime) lie on this machine."""
import glob
import os
import pathlib
import re
import shutil
import sys

from gpu_report import run

# Parts of glibc fit only the loader that they were built with (they use symbols of version GLIBC_PRIVATE).
GLIBC = re.compile(r"/(ld-linux[-\w]*|lib(c|m|dl|rt|pthread|resolv|util|anl|mvec|BrokenLocale|thread_db|memusage|"
                   r"pcprofile|c_malloc_debug|nss_(files|dns|compat|db|hesiod)))(-[\d.]+)?\.so|"
                   r"/libnsl(-[\d.]+\.so|\.so\.1)")
DRIVER = re.compile(r"/lib(cuda|nvcuvid|nvidia-[-\w]+)\.so")
# The compiler's: the newer one serves both, so the pack's is for machines that have none.
COMPILER = re.compile(r"/lib(stdc\+\+|gcc_s)\.so")
# Opened at run time: name, and the program or stage that wants it.
OPENED = {"libcuda.so.1": "CUDA", "libnvcuvid.so.1": "NVDEC", "libnvidia-encode.so.1": "NVENC",
          "libnvidia-ml.so.1": "devices", "libcublas.so.13": "matrices, ONNX Runtime", "libcublasLt.so.13": "cuBLAS",
          "libcudart.so.13": "ONNX Runtime", "libcurand.so.10": "ONNX Runtime", "libcudnn.so.9": "ONNX Runtime",
          "libnvrtc.so.13": "cuDNN", "libnvinfer.so.10": "TensorRT"}


def linked(programs, environment=None):
    """{program: {name: path, or None where it is missing}} of all that programs are linked with."""
    text = run(["ldd", *programs], 120, env=environment)[1]
    if len(programs) == 1:  # then ldd does not name it
        text = f"{programs[0]}:\n{text}"
    found = {}
    for line in text.splitlines():
        if not line.startswith("\t"):
            current = found.setdefault(line.rstrip(":"), {})
        elif library := re.match(r"\t(\S+) => (/\S+|not found)", line):
            current[library[1]] = None if library[2] == "not found" else library[2]
    return found


def closure(programs):
    """Paths of the libraries to take along: all that the programs are linked with,
    but for glibc's and the driver's parts."""
    paths = {path for libraries in linked(programs).values() for path in libraries.values() if path}
    return sorted(path for path in paths if not GLIBC.search(path) and not DRIVER.search(path))


def folders(own):
    """Where pip, the toolkit and the driver put libraries, beside the loader's own places; the pack's last."""
    pythons = {sys.executable, *(found for name in ("python3", "python") if (found := shutil.which(name)))}
    sites = {path for path in sys.path if path}
    for python in pythons:
        sites |= set(glob.glob(str(pathlib.Path(python).parent.parent / "lib/python3*/*-packages")))
    places = []
    for site in sorted(sites):
        places += sorted(glob.glob(f"{site}/nvidia/*/lib")) + glob.glob(f"{site}/tensorrt_libs")
    places += ["/usr/local/cuda/lib64", "/usr/local/cuda/targets/x86_64-linux/lib", "/usr/local/nvidia/lib64",
               "/usr/local/nvidia/lib"]
    return [place for place in os.environ.get("LD_LIBRARY_PATH", "").split(":") + places + [str(own)]
            if place and os.path.isdir(place)]


def of_loader():
    """{name: path} of what the loader finds by itself."""
    tool = shutil.which("ldconfig") or shutil.which("ldconfig", path="/sbin:/usr/sbin")
    text = run([tool, "-p"], 60)[1] if tool else ""
    return dict(reversed(re.findall(r"^\t(\S+) \(.*x86-64.*\) => (\S+)", text, re.M)))


def opened(own):
    """{name: path, or None} of the libraries that are opened at run time."""
    cached, places = of_loader(), folders(own)
    found = {}
    for name in OPENED:
        beside = [f"{place}/{name}" for place in places if os.path.exists(f"{place}/{name}")]
        found[name] = cached.get(name) or (beside[0] if beside else None)
    return found


def search_path(found):
    """The folders that programs have to be told of."""
    cached = set(of_loader().values())
    return list(dict.fromkeys(str(pathlib.Path(path).parent) for path in found.values() if path and path not in cached))

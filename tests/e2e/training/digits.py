"""Shared by the training tests: opencv-doc's handwritten digits, and vectors as in the cache."""
import csv
import pathlib
import random
import struct
import subprocess
import tempfile
import unittest

import clips
from harness import PICTURES, ROOT, Case

PIPELINE = ROOT / "pipelines/digits.yaml"


class Kept(Case):
    """With a folder for all tests of the class: `kept`."""
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        kept = tempfile.TemporaryDirectory(prefix="millrace-")
        cls.addClassCleanup(kept.cleanup)
        cls.kept = pathlib.Path(kept.name)


def need():
    if not (PICTURES / "digits.png").exists():
        raise unittest.SkipTest("opencv-doc is not installed")


def cut():
    """The folder with the digits, one folder per class: cut once, in the build folder. Nothing in it may be changed."""
    need()
    tool = ROOT / "tools/digits"

    def make(path):
        done = subprocess.run([tool, path], check=True, capture_output=True, text=True)
        assert done.stdout == f"{path}: 5000 pictures in 10 folders\n", done.stdout

    return clips.made("digits", tool.read_text(), make)


def files(digits, each=500):
    """(path, label) for the first pictures in each class, in folder order."""
    return [(path, path.parent.name) for label in sorted(digits.iterdir()) for path in sorted(label.iterdir())[:each]]


def write_list(path, rows, names=("path", "label", "group", "split")):
    with open(path, "w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(names)
        writer.writerows(rows)
    return path


def parts(count, seed=3):
    """A part for each row: 70% train, 15% validation, 15% test."""
    draw = random.Random(seed)
    return [draw.choices(("train", "validation", "test"), (70, 15, 15))[0] for _ in range(count)]


RECORD = struct.Struct("<4Q2IQ")  # key (low, high), time, number, sub, zero, checksum


def read_cache(path):
    """A cache's vectors by slot: those of pictures in the order in which they were requested. One that was half written
    by a killed program is left out."""
    import numpy
    width = struct.unpack_from("<8sQ", pathlib.Path(path).with_suffix(".made").read_bytes())[1]
    numbers = numpy.fromfile(path, numpy.float32)
    return numbers[:len(numbers) // width * width].reshape(-1, width)


def by_content(path):
    """A cache's vectors by key and number, whatever slots they are in."""
    made = pathlib.Path(path).with_suffix(".made").read_bytes()[64:]
    return {record[:5]: vector.tobytes() for record, vector in zip(RECORD.iter_unpack(made), read_cache(path))
            if record[-1]}


def join_key(low, high, part):
    """mr_content_key_join."""
    import xxhash
    added = xxhash.xxh3_128_intdigest(part, low)
    half = 2**64
    joined = xxhash.xxh3_128_intdigest(struct.pack("<4Q", added % half, added // half, low, high))
    return joined % half, joined // half


def change_number(path, at, number, value):
    """Changes one number in a cache's vector `at`, as if it had been made so."""
    vectors, made = read_cache(path), bytearray(path.with_suffix(".made").read_bytes())
    vectors[at, number] = value
    vectors.tofile(path)
    record = 64 + RECORD.size * at
    key = join_key(*struct.unpack_from("<QQ", made, record), vectors[at].tobytes())
    struct.pack_into("<Q", made, record + 40, join_key(*key, bytes(made[record + 16:record + 40]))[0])
    path.with_suffix(".made").write_bytes(made)

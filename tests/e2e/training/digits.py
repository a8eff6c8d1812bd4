"""Shared by the training tests: opencv-doc's handwritten digits, and vectors as in the cache."""
import csv
import os
import pathlib
import random
import shutil
import struct
import subprocess
import unittest

import clips
from harness import PICTURES, ROOT

PIPELINE = ROOT / "pipelines/digits.yaml"


def need():
    if not (PICTURES / "digits.png").exists():
        raise unittest.SkipTest("opencv-doc is not installed")


def link(source, path):
    try:
        os.link(source, path)
    except OSError:  # on another file system
        shutil.copyfile(source, path)


def cut(folder):
    """The digits in folder/digits, one folder per class: cut once, in the build folder, and linked from there. Files
    can be moved and replaced, but must not be overwritten."""
    need()
    tool = ROOT / "tools/digits"
    once = clips.made("digits", tool.read_text(), lambda path: subprocess.run([tool, path], check=True,
                                                                              capture_output=True))
    return shutil.copytree(once, folder / "digits", copy_function=link)


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


def read_cache(path):
    """A cache's vectors, in the order in which they were requested."""
    import numpy
    data = pathlib.Path(path).read_bytes()
    magic, width, slots = struct.unpack("<8sQQ", data[:24])
    assert magic == b"MRVECT03", magic
    return numpy.frombuffer(data, numpy.float32, width * slots, 64).reshape(slots, width)


def join_key(low, high, part):
    """mr_content_key_join."""
    import xxhash
    added = xxhash.xxh3_128_intdigest(part, low)
    half = 2**64
    joined = xxhash.xxh3_128_intdigest(struct.pack("<4Q", added % half, added // half, low, high))
    return joined % half, joined // half


def change_number(data, at, number, value):
    """A cache's bytes with one number in vector `at` changed, as if it had been made so."""
    width, slots = struct.unpack("<QQ", data[8:24])
    vector, record, changed = 64 + 4 * width * at, 64 + 4 * width * slots + 32 * at, bytearray(data)
    struct.pack_into("<f", changed, vector + 4 * number, value)
    key = join_key(*struct.unpack_from("<QQ", data, record), bytes(changed[vector:vector + 4 * width]))
    struct.pack_into("<Q", changed, record + 24, join_key(*key, data[record + 16:record + 24])[0])
    return bytes(changed)

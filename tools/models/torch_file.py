"""Reads a state dictionary from PyTorch's legacy (not zip) file format without PyTorch.

Such a file begins with four pickles: magic number, protocol version, facts about the machine, the dictionary. A fifth
lists the storage keys in file order. Then each storage has the number of elements (int64) and the raw data. Only the
few names that a dictionary of tensors needs can be unpickled. A file with any other name is refused, since a pickle
could call any function.
"""

import collections
import pickle
import struct

import numpy

MAGIC = 0x1950A86A20F9469CFC6C
VERSION = 1001
DTYPES = {"FloatStorage": "<f4", "DoubleStorage": "<f8", "HalfStorage": "<f2", "LongStorage": "<i8",
          "IntStorage": "<i4"}


class FormatError(ValueError):
    """The file does not have the format that this module reads."""


class Storage:
    def __init__(self, dtype, elements):
        self.dtype, self.elements, self.data = numpy.dtype(dtype), elements, None


class Tensor:
    """A view of a storage whose data comes later in the file."""

    def __init__(self, storage, offset, shape, strides):
        self.storage, self.offset, self.shape, self.strides = storage, offset, shape, strides

    def array(self):
        last = self.offset + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides))
        if min((self.offset, *self.shape, *self.strides)) < 0 or last >= self.storage.elements:
            raise FormatError("a tensor reaches beyond its storage")
        steps = [stride * self.storage.dtype.itemsize for stride in self.strides]
        view = numpy.lib.stride_tricks.as_strided(self.storage.data[self.offset:], self.shape, steps)
        return numpy.ascontiguousarray(view)


def rebuild_tensor(storage, offset, shape, strides, *_):
    return Tensor(storage, offset, shape, strides)


class Unpickler(pickle.Unpickler):
    def __init__(self, file):
        super().__init__(file)
        self.storages = {}

    def find_class(self, module, name):
        if (module, name) == ("collections", "OrderedDict"):
            return collections.OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return rebuild_tensor
        if module == "torch" and name in DTYPES:
            return DTYPES[name]
        raise FormatError(f"the file asks for {module}.{name}, which a dictionary of tensors does not need")

    def persistent_load(self, key):
        kind, dtype, name, _, elements, view = key
        if kind != "storage" or view is not None:
            raise FormatError(f"unknown kind of reference: {key}")
        return self.storages.setdefault(name, Storage(dtype, elements))


def load(file, name):
    """Returns the tensors in an open file as NumPy arrays by name. `name` is the file's, for messages."""
    try:
        if Unpickler(file).load() != MAGIC or Unpickler(file).load() != VERSION:
            raise FormatError("not PyTorch's legacy format")
        Unpickler(file).load()
        reader = Unpickler(file)
        tensors = reader.load()
        for key in Unpickler(file).load():
            storage = reader.storages[key]
            elements, = struct.unpack("<q", file.read(8))
            if elements != storage.elements:
                raise FormatError(f"a storage of {storage.elements} elements says it has {elements}")
            storage.data = numpy.frombuffer(file.read(elements * storage.dtype.itemsize), storage.dtype)
            if storage.data.size != elements:
                raise FormatError("the file is cut off")
        return {key: tensor.array() for key, tensor in tensors.items()}
    except (pickle.UnpicklingError, struct.error, EOFError, KeyError, ValueError, TypeError) as error:
        raise FormatError(f"{name}: not a PyTorch file of the legacy format: {error}") from error

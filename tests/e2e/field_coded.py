"""H.264 with pictures coded as two fields each, written here bit by bit: no available encoder makes it.

Every macroblock holds plain samples (I_PCM), so the decoded result is known without a decoder. Syntax: ITU-T H.264,
clauses 7.3.2.1 (sequence), 7.3.2.2 (picture parameters), 7.3.3 (slice header) and 7.3.5 (macroblock)."""
import numpy as np

MAIN_PROFILE, LEVEL, LOG2_POC_BITS, FIELDS_A_SECOND = 77, 30, 8, 50
INTRA_SLICE, PCM_MACROBLOCK = 7, 25
SLICE, FIRST_SLICE, SEQUENCE, PARAMETERS = 1, 5, 7, 8  # unit types


class Bits:
    def __init__(self):
        self.text = []

    def put(self, *fields):
        """Writes (bits, value) with that many bits, and a plain number as Exp-Golomb."""
        for field in fields:
            bits, value = field if isinstance(field, tuple) else (2 * (field + 1).bit_length() - 1, field + 1)
            self.text.append(f"{value:0{bits}b}")

    def align(self):
        text = "".join(self.text)
        self.text = [text + "0" * (-len(text) % 8)]

    def unit(self, kind):
        """Returns the content as a unit, with bytes inserted so that it contains no start code."""
        self.put((1, 1))
        self.align()
        out, zeros = bytearray([0, 0, 0, 1, 3 << 5 | kind]), 0
        for byte in int(self.text[0], 2).to_bytes(len(self.text[0]) // 8, "big"):
            if zeros >= 2 and byte <= 3:
                out.append(3)
                zeros = 0
            out.append(byte)
            zeros = zeros + 1 if byte == 0 else 0
        return bytes(out)


def parameters(width, height):
    sequence = Bits()
    sequence.put((8, MAIN_PROFILE), (8, 0), (8, LEVEL), 0, 0, 0, LOG2_POC_BITS - 4, 2, (1, 0))
    # Not frames alone, no switching between frame and field in a picture, 8x8 inference, no cropping.
    sequence.put(width // 16 - 1, height // 32 - 1, (1, 0), (1, 0), (1, 1), (1, 0))
    # Usability: only the rate.
    sequence.put((1, 1), (4, 0), (1, 1), (32, 1), (32, FIELDS_A_SECOND), (1, 1), (4, 0))
    picture = Bits()
    picture.put(0, 0, (1, 0), (1, 0), 0, 0, 0, (1, 0), (2, 0), 0, 0, 0, (1, 1), (1, 0), (1, 0))
    return sequence.unit(SEQUENCE) + picture.unit(PARAMETERS)


def field(planes, bottom, number, first):
    """One field in picture `number`, from the picture's planes (all lines); `first`: the first in the stream."""
    luma, *chroma = (plane[bottom::2] for plane in planes)
    bits = Bits()
    bits.put(0, INTRA_SLICE, 0, (4, number % 16), (1, 1), (1, bottom))
    if first:
        bits.put(0)
    bits.put((LOG2_POC_BITS, (2 * number + bottom) % (1 << LOG2_POC_BITS)), (2 if first else 1, 0), 0, 1)
    for y in range(0, len(luma), 16):
        for x in range(0, luma.shape[1], 16):
            bits.put(PCM_MACROBLOCK)
            bits.align()
            pieces = [luma[y:y + 16, x:x + 16], *(plane[y // 2:y // 2 + 8, x // 2:x // 2 + 8] for plane in chroma)]
            bits.put(*((8, int(sample)) for piece in pieces for sample in piece.flat))
    return bits.unit(FIRST_SLICE if first else SLICE)


def pictures(count, width=64, height=64):
    """[[luma, two chroma planes]] with something that moves."""
    y, x = np.mgrid[:height, :width]
    small_y, small_x = np.mgrid[:height // 2, :width // 2]
    return [[(2 * x + 3 * y + 16 * n) % 220 + 16, 2 * small_x + 9 * n + 20, 3 * small_y + 5 * n + 20]
            for n in range(count)]


def stream(planes):
    """A stream with these pictures, the upper field first."""
    height, width = planes[0][0].shape
    return parameters(width, height) + b"".join(
        field(picture, bottom, number, number == bottom == 0)
        for number, picture in enumerate(planes) for bottom in (0, 1))

"""What the programs of tools/bench/gpu have measured of a card, as the file that `like=FILE.json` and `plan --assume
cuda:1xFILE.json` read (engine/device/sim/card.h). Figures that were not measured come from the card's data sheet,
where millrace knows it."""
import json
import re


def found(report, *path):
    """A number of the report; None if it is not there."""
    for key in path:
        report = report.get(key) if isinstance(report, dict) else None
    return report if isinstance(report, (int, float)) and report > 0 else None


def words_of(model):
    """Words of a card's name, and neighbours written together: "NVIDIA GeForce RTX 4090" has "rtx4090"."""
    words = re.findall(r"[a-z0-9]+", model.lower())
    return {"".join(words[first:end]) for first in range(len(words)) for end in range(first + 1, len(words) + 1)}


def like_of(model, names):
    """The name of the card among those that millrace knows; None if it is not known. Of several the longest: an A100 of
    40 GB is a100-40gb, not a100."""
    words = words_of(model)
    known = [name for name in names if all(part in words for part in name.split("-"))]
    return max(known, key=len, default=None)


def card_of(report):
    """The figures, or None if nothing was measured."""
    machine = report.get("machine", {})
    device = next((one for one in machine.get("cuda", {}).get("devices", []) if one.get("name") == report["device"]),
                  {})
    scaled = {"memory_bytes_s": (1e9, "benchmarks", "preprocess", "copy_gb_per_s"),
              "upload_bytes_s": (1e9, "benchmarks", "upload", "bare_gb_per_s"),
              "download_bytes_s": (1e9, "benchmarks", "upload", "download_gb_per_s"),
              "launch_ns": (1e3, "benchmarks", "upload", "launch_us")}
    figures = {key: factor * number for key, (factor, *path) in scaled.items() if (number := found(report, *path))}
    # One stream is decoded by one decoder.
    if rate := found(report, "nvdec", "hardware rate 1", "per_s"):
        figures["decode_fps"] = {"h264": rate}
    if not figures:
        return None
    like = like_of(device.get("model", ""), machine.get("sim", {}).get("like", []))
    return {**({"like": like} if like else {}), "name": device.get("model", report["device"]),
            **({"memory_bytes": size} if (size := found(device, "memory_bytes")) else {}), **figures}


def write_card(report, path):
    """Whether there was something to write."""
    card = card_of(report)
    if card:
        path.write_text(json.dumps(card, indent=1) + "\n")
    return card is not None

"""Two stages in Python. The command knows them with --stages:

    python3 -m millrace --stages pipelines/python/stages.py run pipelines/python/stages.yaml --input lobby.mp4"""

from typing import Any, Dict, List

import millrace


@millrace.stage(accepts="picture", tensors={"brightness": "f32 1"})
def brightness(frames: List[millrace.Frame], *, step: int = 4) -> List[Dict[str, Any]]:
    """Adds the mean luma of each picture, from every step-th row and column."""
    return [{"brightness": frame.planes[0][::step, ::step].mean()} for frame in frames]


@millrace.stage
def bright(frames: List[millrace.Frame], *, above: float = 100) -> List[bool]:
    """Lets bright pictures through."""
    return [bool(frame.tensors["brightness"][0] > above) for frame in frames]

"""Shared by the plan tests."""
from harness import MILLRACE, call, pipeline

SMALL = pipeline({"entrance-of-the-north-building": 'type: "null", rate: 30fps, frames: 90, format: RGB24 640x480',
                  "clock": 'type: "null", format: f32 3x224x224'},
                 name="small", shrink="type: preprocess, input: entrance-of-the-north-building, size: 224x224",
                 both='type: "null", input: [shrink, clock], queue: {size: 2, when_full: drop-oldest}',
                 results="type: jsonl, path: out.jsonl")


def plan(path, *arguments):
    return call([MILLRACE, "plan", path, *arguments])

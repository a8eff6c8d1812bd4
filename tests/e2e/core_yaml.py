"""YAML as JSON by the YAML 1.2 core schema: how an editor or a validator reads a pipeline. PyYAML follows YAML 1.1,
where `on` is a boolean and 08 is not a number."""
import re

import yaml


class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
    yaml_implicit_resolvers = {}


def construct_map(loader, node):
    """Keys as text, as in JSON; no pipeline has a list or a map as a key."""
    return {loader.construct_scalar(key): loader.construct_object(value, deep=True) for key, value in node.value}


def construct_int(loader, node):
    text = loader.construct_scalar(node)
    return int(text, 10) if re.fullmatch("[-+]?[0-9]+", text) else int(text, 0)


for name, pattern, first in (
        ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
        ("int", r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+", "-+0123456789"),
        ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
         "-+.0123456789"),
        ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""])):
    Loader.add_implicit_resolver(f"tag:yaml.org,2002:{name}", re.compile(f"^({pattern})$"), list(first))
Loader.add_constructor("tag:yaml.org,2002:map", construct_map)
Loader.add_constructor("tag:yaml.org,2002:int", construct_int)


def load(text):
    return yaml.load(text, Loader)

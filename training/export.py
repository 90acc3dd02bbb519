"""Write what the package ships: the model as ONNX, and its tokens.

``python -m training.export --student run/student.pt --text packed --out FOLDER`` writes three
files. `student.npz` has the trained weights as whole numbers, `model.onnx` the graph that
onnxruntime runs, and `vocabulary.txt` a token a line. With ``--weights student.npz`` instead of
``--student``, only the last two are written.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tokenizers import Tokenizer
from training.lines import read_lines
from training.network import BEGIN, END

from memwell.embed.onnx_embedder import open_session
from memwell.embed.onnx_format import MICROSOFT, Graph

if TYPE_CHECKING:
    from training.network import Encoder

HEADS = 12
_FLOAT, _INT64 = 1, 7
_EPSILON = 1e-12
_WINDOW = 510
_SAMPLE = 1000
"""Texts whose mean is the centre, of each kind."""


def pack_weights(student: Encoder) -> dict[str, Any]:
    """Return the weights of a student by name; a matrix as whole numbers with scales."""
    import torch
    from training.network import EMBEDDING_LEVELS, WEIGHT_LEVELS, QuantisedLinear

    def quantise(values: Any, levels: int) -> tuple[Any, Any]:
        scale = values.abs().amax(-1).clamp_min(1e-8) / levels
        whole = (values / scale[:, None]).round().clamp(-levels, levels).to(torch.int8)
        return whole.numpy(), scale.numpy()

    packed: dict[str, Any] = {}
    with torch.no_grad():
        packed["tokens.q"], scale = quantise(student.tokens.weight, EMBEDDING_LEVELS)
        packed["tokens.s"] = scale[:, None]
        for name, module in student.named_modules():
            if isinstance(module, QuantisedLinear):
                packed[f"{name}.q"], packed[f"{name}.s"] = quantise(
                    module.even_weight(), WEIGHT_LEVELS
                )
                packed[f"{name}.factor"] = module.factor.numpy()
                scale, zero = module.input_scale()
                packed[f"{name}.scale"] = scale.numpy()
                packed[f"{name}.zero"] = zero.numpy().astype(np.uint8)
                packed[f"{name}.bias"] = module.bias.numpy()
            elif isinstance(module, torch.nn.LayerNorm):
                packed[f"{name}.weight"] = module.weight.numpy()
                packed[f"{name}.bias"] = module.bias.numpy()
        packed["positions"] = student.positions.weight.numpy()
        packed["rotation"] = student.rotation.weight.numpy()
        if student.centre.any():
            packed["centre"] = student.centre.numpy()
    return packed


def build_model(weights: dict[str, Any]) -> bytes:
    """Return an ONNX model that takes the tokens of one window and returns its vector."""
    return _Builder(_separate_attention(weights)).build()


def find_centre(weights: dict[str, Any], text: Path) -> Any:
    """Return the mean vector of the training text: half of it English, half of it not.

    All vectors share one large component. Without it, cosines tell texts apart better.
    """
    tokenizer = Tokenizer.from_file(str(text / "tokenizer.json"))
    tokenizer.enable_truncation(_WINDOW)
    nothing = np.zeros(len(weights["rotation"]), dtype=np.float32)
    session = open_session(build_model({**weights, "centre": nothing}))

    def mean(texts: list[str]) -> Any:
        encoded = (tokenizer.encode(one).ids for one in texts[:: len(texts) // _SAMPLE])
        return np.mean(
            [session.run(None, {"tokens": [[BEGIN, *ids, END]]})[0][0, 0] for ids in encoded],
            axis=0,
        )

    english = [line[2] for line in read_lines(text / "mono.txt.xz") if line[1] == "en"]
    foreign = [line[3] for line in read_lines(text / "parallel.txt.xz") if len(line) == 4]
    return (mean(english) + mean(foreign)) / 2


def _separate_attention(weights: dict[str, Any]) -> dict[str, Any]:
    """Cut the matrices for query, key and value apart: the last layer needs one query only."""
    separate: dict[str, Any] = {}
    for name, values in weights.items():
        layer, found, part = name.partition(".qkv.")
        if found and part in ("q", "s", "bias"):
            for kind, rows in zip(("query", "key", "value"), np.split(values, 3), strict=True):
                separate[f"{layer}.{kind}.{part}"] = rows
        else:
            separate[name] = values
    return separate


class _Builder:
    """Builds the graph; its constants have the names of the weights."""

    def __init__(self, weights: dict[str, Any]) -> None:
        self.weights = weights
        self.graph = Graph()
        self.known: dict[str, str] = {}
        self.layers = len({name.split(".")[1] for name in weights if name.startswith("layers.")})

    def constant(self, name: str) -> str:
        if name not in self.known:
            values = self.weights[name]
            # onnxruntime multiplies by columns.
            matrix = values.T if name.endswith(".q") and name != "tokens.q" else values
            self.known[name] = self.graph.constant(matrix, name)
        return self.known[name]

    def build(self) -> bytes:
        state = self.embeddings()
        for number in range(self.layers):
            state = self.layer(f"layers.{number}", state, last=number == self.layers - 1)
        rotation = self.graph.constant(self.weights["rotation"].T, "rotation")
        vector = self.graph.node("MatMul", state, rotation)
        unit = self.graph.node("LpNormalization", vector)
        return self.model(self.graph.node("Sub", unit, self.constant("centre")))

    def model(self, output: str) -> bytes:
        return self.graph.model(("tokens", _INT64, (1, "length")), output)

    def embeddings(self) -> str:
        """Add the vectors of each token and of its position, and normalise."""
        whole, scale = (
            self.graph.node("Gather", self.constant(name), "tokens")
            for name in ("tokens.q", "tokens.s")
        )
        rows = self.graph.node("Mul", self.graph.node("Cast", whole, to=_FLOAT), scale)
        zero = self.graph.constant(np.zeros(1, dtype=np.int64))
        length = self.graph.node("Shape", "tokens", start=1, end=2)
        places = self.graph.node("Slice", self.constant("positions"), zero, length, zero)
        return self.normalise("norm", self.graph.node("Add", rows, places))

    def layer(self, name: str, state: str, *, last: bool) -> str:
        """Add attention and two dense steps; the last layer only for the first token."""
        whole = self.quantise(f"{name}.qkv", state)
        first = self.first_row(whole) if last else whole
        attended = [
            self.multiply(f"{name}.qkv", f"{name}.{kind}", source)
            for kind, source in (("query", first), ("key", whole), ("value", whole))
        ]
        mixed = self.graph.node("MultiHeadAttention", *attended, domain=MICROSOFT, num_heads=HEADS)
        state = self.first_row(state) if last else state
        state = self.graph.node("Add", state, self.dense(f"{name}.out", mixed))
        state = self.normalise(f"{name}.norm1", state)
        inner = self.graph.node("Gelu", self.dense(f"{name}.up", state), domain=MICROSOFT)
        state = self.graph.node("Add", state, self.dense(f"{name}.down", inner))
        return self.normalise(f"{name}.norm2", state)

    def dense(self, name: str, values: str) -> str:
        return self.multiply(name, name, self.quantise(name, values))

    def quantise(self, name: str, values: str) -> str:
        """Turn inputs into whole numbers; an input outside of their range becomes its end."""
        even = self.graph.node("Mul", values, self.constant(f"{name}.factor"))
        scale, zero = self.constant(f"{name}.scale"), self.constant(f"{name}.zero")
        return self.graph.node("QuantizeLinear", even, scale, zero)

    def multiply(self, source: str, name: str, whole: str) -> str:
        """Multiply the whole numbers of `source` by a matrix, and add its bias."""
        return self.graph.node(
            "MatMulIntegerToFloat",
            whole,
            self.constant(f"{name}.q"),
            self.constant(f"{source}.scale"),
            self.constant(f"{name}.s"),
            self.constant(f"{source}.zero"),
            "",
            self.constant(f"{name}.bias"),
            domain=MICROSOFT,
        )

    def first_row(self, values: str) -> str:
        numbers = (self.graph.constant(np.array([number], dtype=np.int64)) for number in (0, 1, 1))
        return self.graph.node("Slice", values, *numbers)

    def normalise(self, name: str, values: str) -> str:
        constants = (self.constant(f"{name}.{part}") for part in ("weight", "bias"))
        return self.graph.node("LayerNormalization", values, *constants, epsilon=_EPSILON)


def main() -> None:
    """Write the files of the package."""
    parser = argparse.ArgumentParser(description=__doc__)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--student", type=Path, help="as `training.distil` saved it")
    source.add_argument("--weights", type=Path, help="as this command wrote them before")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    arguments = parser.parse_args()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    if arguments.student:
        from training.evaluate import load_student

        weights = pack_weights(load_student(arguments.student))
        np.savez(out / "student.npz", **weights)
    else:
        weights = dict(np.load(arguments.weights))
    if "centre" not in weights:
        weights["centre"] = find_centre(weights, arguments.text)
    model = build_model(weights)
    (out / "model.onnx").write_bytes(model)
    print(hashlib.sha256(model).hexdigest())
    pieces = json.loads((arguments.text / "pieces.json").read_text(encoding="utf-8"))["vocab"]
    (out / "vocabulary.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

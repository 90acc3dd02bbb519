"""Where the student begins: with the first teacher's layers, and a meaning for each token."""

from __future__ import annotations

from typing import Any

import torch
from tokenizers import Tokenizer
from torch import Tensor
from training.corpus import Tokens

_SPECIAL = (1, 3, 0, 2)
"""The first teacher's numbers of the student's first four tokens."""
_LINES, _ROWS = 16_384, 4096
_WEAKEST = 0.02
"""Pieces that occur together less exclusively are not translations of each other."""


def piece_vectors(
    known: Tensor, tokenizer: Tokenizer, vocabulary: list[str], taught: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """Return where the vector of each token begins, and which tokens the teacher does not have.

    A piece that the teacher knows has the teacher's vector. Any other piece of Latin letters has
    the mean of the teacher's pieces of it.
    """
    vectors = torch.randn(len(vocabulary), known.shape[1]) * known.std() * 0.3
    texts = [piece.removeprefix("##") if piece[:2] == "##" else f" {piece}" for piece in vocabulary]
    encoded = tokenizer.encode_batch(texts, add_special_tokens=False)
    for number, piece in enumerate(vocabulary):
        if piece in taught:
            vectors[number] = known[taught[piece][0]]
        elif piece.isascii() and encoded[number].ids:
            vectors[number] = known[encoded[number].ids].mean(0)
    vectors[:4] = known[list(_SPECIAL)]
    untaught = torch.tensor([piece not in taught for piece in vocabulary])
    untaught[:4] = False
    return vectors, untaught


def translate_pieces(
    vectors: Tensor, untaught: Tensor, foreign: Tokens, english: Tokens
) -> tuple[Tensor, int]:
    """Give pieces of other languages the vectors of the English pieces they occur with.

    What stands in translations gets the mean of the English pieces that stand in the same lines
    most exclusively. Return also how many pieces got one.
    """
    own, known = untaught.nonzero()[:, 0], (~untaught).nonzero()[:, 0]
    together = torch.zeros(len(own), len(known), device=vectors.device)
    own_lines = torch.zeros(len(own), device=vectors.device)
    known_lines = torch.zeros(len(known), device=vectors.device)
    lines = len(english.starts) - 1
    for at in range(0, lines, _LINES):
        end = min(at + _LINES, lines)
        left = _presence(foreign, at, end, len(vectors))[:, own]
        right = _presence(english, at, end, len(vectors))[:, known]
        together += left.T @ right
        own_lines += left.sum(0, dtype=torch.float)
        known_lines += right.sum(0, dtype=torch.float)
    moved = 0
    for at in range(0, len(own), _ROWS):
        rows = slice(at, at + _ROWS)
        dice = 2 * together[rows] / (own_lines[rows, None] + known_lines[None] + 5)
        strength, partner = dice.topk(4, dim=1)
        weight = strength.pow(2)
        mean = (vectors[known[partner]] * weight[..., None]).sum(1) / weight.sum(
            1, keepdim=True
        ).clamp_min(1e-6)
        use = strength[:, 0] > _WEAKEST
        vectors[own[rows][use]] = mean[use]
        moved += int(use.sum())
    return vectors, moved


def _presence(tokens: Tokens, first: int, last: int, size: int) -> Tensor:
    """Return which pieces stand in which line, as a matrix of ones and zeros."""
    device = tokens.tokens.device
    starts = torch.from_numpy(tokens.starts[first : last + 1]).to(device)
    line = torch.repeat_interleave(torch.arange(last - first, device=device), starts.diff())
    matrix = torch.zeros(_LINES, size, dtype=torch.bfloat16, device=device)
    matrix[line, tokens.tokens[starts[0] : starts[-1]].long()] = 1
    return matrix


def fit_rotation(states: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrix, and what to add to the states before it, that best give the targets."""
    ones = torch.ones(len(states), 1, device=states.device)
    inputs, wanted = torch.cat([states, ones], 1).double(), targets.double()
    gram = inputs.T @ inputs
    gram += 1e-6 * gram.diagonal().mean() * torch.eye(len(gram), device=gram.device)
    found = torch.linalg.solve(gram, inputs.T @ wanted)
    matrix, offset = found[:-1].T, found[-1]
    before = torch.linalg.lstsq(matrix.cpu(), offset.cpu()[:, None], driver="gelsd").solution[:, 0]
    return matrix.float(), before.float().to(states.device)

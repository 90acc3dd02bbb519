"""The encoder: BERT's layers, whose first state is the vector of a text.

Both teachers and the student are the same network with other sizes and other tokens. The student
is trained as it runs: weights of 7 bits with a scale for each row, and inputs of 8 bits with a
fixed range for each matrix. Before they are rounded, inputs are multiplied by a factor for each
channel, which the weights undo: a few channels reach much further than all others. With 7 bits, the
sum of two products never overflows on older processors, so that every processor returns the same
vector.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

PAD, UNKNOWN, BEGIN, END = range(4)
WEIGHT_LEVELS = 63
"""The largest whole number that a weight becomes."""
INPUT_LEVELS = 255
"""The largest whole number that an input becomes."""
EMBEDDING_LEVELS = 127
INNER_LIMIT = 12.0
"""Inputs of the two dense steps are cut here. A few of the teacher's reach 220, and 255 steps over
such a range would leave none for the others. Cut, the teacher's vectors hardly change (mean cosine
.997), and with whole numbers they are nearer (.993 instead of .981)."""
EVENNESS = 0.75
"""How far the factors make the ranges of channels equal: 0 not at all, 1 fully. The more, the finer
are the steps of most inputs, and the coarser those of the weights. Two implementations of one model
agree to a cosine of .993 at the least with 0, .9991 with 0.5, .9994 with 0.75 and .9993 with 1."""
_SAMPLE = 1 << 14
"""Inputs that the range of each channel is read from, of each batch."""
_NARROWEST = 0.02
"""The narrowest range of a channel, as a share of the widest."""
_EPSILON = 1e-12


@dataclass(frozen=True)
class Shape:
    """The sizes of an encoder."""

    vocabulary: int
    layers: int = 6
    width: int = 384
    heads: int = 12
    inner: int = 1536
    positions: int = 512
    limit: float = math.inf
    """Of the inputs of the dense steps."""


def quantise_rows(weight: Tensor, levels: int) -> Tensor:
    """Return the values that a matrix has when each row is stored as small whole numbers.

    The gradient is that of the values themselves.
    """
    scale = weight.detach().abs().amax(-1, keepdim=True).clamp_min(1e-8) / levels
    return round_to(weight, scale)


def round_to(values: Tensor, step: Tensor) -> Tensor:
    """Round values to multiples of a step. The gradient is that of the values themselves."""
    return values + ((values / step).round() * step - values).detach()


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return the mean of the values for each query, weighted by how well its key fits.

    PyTorch's own function takes three times as long for the gradients on a processor.
    """
    if query.is_cuda:
        return F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    fit = query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5
    weights = fit.float().masked_fill(~mask, -1e4).softmax(-1)
    return weights.to(value.dtype) @ value


class QuantisedLinear(nn.Linear):
    """A matrix with a bias whose weights and inputs become whole numbers, once that is enabled."""

    def __init__(self, inputs: int, outputs: int, limit: float = math.inf) -> None:
        super().__init__(inputs, outputs)
        self.limit = limit
        self.quantised = False
        self.watching = False
        self.register_buffer("factor", torch.ones(inputs))
        self.register_buffer("low", torch.zeros(()))
        self.register_buffer("high", torch.zeros(()))

    def forward(self, values: Tensor) -> Tensor:  # noqa: D102
        if self.limit < math.inf:
            values = values.clamp(-self.limit, self.limit)
        if self.watching:
            self._watch(values)
        if not self.quantised:
            return super().forward(values)
        scale, zero = self.input_scale()
        even = values.float() * self.factor
        low, high = -zero * scale, (INPUT_LEVELS - zero) * scale
        whole = round_to(even.clamp(low, high), scale)
        return F.linear(whole, quantise_rows(self.even_weight(), WEIGHT_LEVELS), self.bias)

    def even_weight(self) -> Tensor:
        """Return the weights for inputs that were multiplied by their factors."""
        return self.weight / self.factor

    def input_scale(self) -> tuple[Tensor, Tensor]:
        """Return the step between two inputs, and the whole number that stands for zero."""
        scale = (self.high - self.low) / INPUT_LEVELS
        return scale, (-self.low / scale).round().to(torch.int32)

    def watch(self, watching: bool) -> None:
        """Watch the inputs from now on, or stop and take the ranges that they had."""
        self.watching = watching
        if watching:
            self.lowest, self.highest = torch.zeros_like(self.factor), torch.zeros_like(self.factor)
            return
        reach = torch.maximum(self.highest, -self.lowest)
        reach = reach.clamp_min(_NARROWEST * float(reach.max()))
        self.factor.copy_(reach.pow(-EVENNESS))
        self.low.copy_((self.lowest * self.factor).min())
        self.high.copy_((self.highest * self.factor).max())

    @torch.no_grad()
    def _watch(self, values: Tensor) -> None:
        """Widen the range of each channel to what a sample of the inputs shows."""
        rows = values.float().flatten(0, -2)
        sample = rows[torch.randint(len(rows), (_SAMPLE,), device=rows.device)]
        self.lowest = torch.minimum(self.lowest, sample.amin(0))
        self.highest = torch.maximum(self.highest, sample.amax(0))


class Layer(nn.Module):
    """Attention and two dense steps; each half adds its input to its output."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = QuantisedLinear(shape.width, 3 * shape.width)
        self.out = QuantisedLinear(shape.width, shape.width)
        self.norm1 = nn.LayerNorm(shape.width, eps=_EPSILON)
        self.up = QuantisedLinear(shape.width, shape.inner, shape.limit)
        self.down = QuantisedLinear(shape.inner, shape.width, shape.limit)
        self.norm2 = nn.LayerNorm(shape.width, eps=_EPSILON)

    def forward(self, states: Tensor, mask: Tensor, *, first: bool = False) -> Tensor:
        """Return the next state of all tokens, or only of the first one."""
        batch, length, width = states.shape
        qkv = self.qkv(states).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        if first:
            query, states = query[:, :, :1], states[:, :1]
        mixed = attend(query, key, value, mask)
        states = self.norm1(states + self.out(mixed.transpose(1, 2).reshape(states.shape)))
        return self.norm2(states + self.down(F.gelu(self.up(states))))


class Encoder(nn.Module):
    """Tokens in, one normalised vector for each text out."""

    def __init__(self, shape: Shape, *, rotated: bool = False, averaged: bool = False) -> None:
        """Take the state of the first token as the vector, or the mean of all if `averaged`."""
        super().__init__()
        self.shape = shape
        self.averaged = averaged
        self.tokens = nn.Embedding(shape.vocabulary, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.norm = nn.LayerNorm(shape.width, eps=_EPSILON)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.rotation = nn.Linear(shape.width, shape.width, bias=False) if rotated else None
        self.register_buffer("centre", torch.zeros(shape.width), persistent=False)
        self.quantised = False

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:  # noqa: D102
        return self.vector(self.state(tokens, mask))

    def vector(self, state: Tensor) -> Tensor:
        """Return the vectors of texts by what the last layer says of them."""
        if self.rotation is not None:
            state = self.rotation(state)
        return F.normalize(F.normalize(state.float(), dim=1) - self.centre, dim=1)

    def state(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Return what the last layer says of each text."""
        rows = self.tokens(tokens)
        if self.quantised:
            flat = quantise_rows(rows.flatten(0, 1), EMBEDDING_LEVELS)
            rows = flat.view_as(rows)
        states = self.norm(rows + self.positions.weight[: tokens.shape[1]])
        wide = mask[:, None, None, :]
        for layer in self.layers[:-1]:
            states = layer(states, wide)
        states = self.layers[-1](states, wide, first=not self.averaged)
        if self.averaged:
            return (states.float() * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return states[:, 0]

    def matrices(self) -> list[QuantisedLinear]:
        """Return the matrices that become whole numbers."""
        return [module for module in self.modules() if isinstance(module, QuantisedLinear)]

    def watch_ranges(self, watching: bool) -> None:
        """Watch the inputs of all matrices in the next batches, or take the ranges they had."""
        for matrix in self.matrices():
            matrix.watch(watching)

    def quantise(self, quantised: bool = True) -> None:
        """Run and train with whole numbers from now on, or again without."""
        self.quantised = quantised
        for matrix in self.matrices():
            matrix.quantised = quantised


@torch.no_grad()
def load_layers(encoder: Encoder, weights: dict[str, Any], numbers: Sequence[int]) -> None:
    """Copy the numbered layers of the teacher, and all else but its token embeddings."""
    take = lambda name: torch.from_numpy(weights[name])  # noqa: E731
    places = take("pos_emb")[2 : 2 + encoder.shape.positions] + take("type_emb")[0]
    encoder.positions.weight.copy_(places)
    _load(encoder.norm, weights, "emb_ln")
    for layer, number in zip(encoder.layers, numbers, strict=True):
        for module, name in (
            (layer.qkv, "qkv"),
            (layer.out, "ao"),
            (layer.norm1, "aln"),
            (layer.up, "f1"),
            (layer.down, "f2"),
            (layer.norm2, "fln"),
        ):
            _load(module, weights, f"l{number}.{name}")


def _load(module: nn.LayerNorm | nn.Linear, weights: dict[str, Any], name: str) -> None:
    module.weight.copy_(torch.from_numpy(weights[f"{name}.w"]))
    module.bias.copy_(torch.from_numpy(weights[f"{name}.b"]))

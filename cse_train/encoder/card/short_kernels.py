"""Triton kernels of `short_attention`: one program per row and head, which holds all of the row's tokens at once.

A row's query, key and value are in one slot each of the packed [T, 3H]. What the gradient needs is computed again:
nothing but queries, keys, values and a number for dropout's masks is kept.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"
# What Triton compiles is no Python that mypy could follow.

import triton
import triton.language as tl


@triton.jit
def read_row(places, row, packed_rows, views: tl.constexpr):
    """Returns first slot, width and length of a row; a group's views lie one after the other."""
    view = row // packed_rows
    at = places + (row % packed_rows) * 5
    group_slot, in_group, group_rows = tl.load(at), tl.load(at + 1), tl.load(at + 2)
    width, length = tl.load(at + 3), tl.load(at + 4)
    return group_slot * views + (view * group_rows + in_group) * width, width, length


@triton.jit
def weigh(query, key, inside, scale):
    """Returns softmax(scale * query key'), fp32 [BLOCK, BLOCK], over the keys that are `inside`."""
    scores = tl.dot(query, tl.trans(key)) * scale
    scores = tl.where(inside[None, :], scores, float("-inf"))
    weights = tl.exp(scores - tl.max(scores, 1)[:, None])
    return weights / tl.sum(weights, 1)[:, None]


@triton.jit
def draw(seed, program, slots, rate, block: tl.constexpr):
    """Draws dropout's factors for the weights: 1 / (1 - rate) where a weight stays, else 0."""
    at = (program * block + slots[:, None]) * block + slots[None, :]
    return tl.where(tl.rand(seed, at) >= rate, 1.0 / (1.0 - rate), 0.0)


@triton.jit(do_not_specialize=["packed_rows", "seed"])
def mix(
    qkv, mixed, places, packed_rows, seed, rate, scale, heads: tl.constexpr, views: tl.constexpr, size: tl.constexpr,
    block: tl.constexpr, dropout: tl.constexpr,
):  # fmt: skip
    """Writes the attention's output of one row and head."""
    program = tl.program_id(0)
    first, width, length = read_row(places, program // heads, packed_rows, views)
    slots, inner = tl.arange(0, block), tl.arange(0, size)
    there = (slots < width)[:, None]
    at = (first + slots).to(tl.int64)[:, None] * (3 * heads * size) + (program % heads) * size + inner[None, :]
    query = tl.load(qkv + at, mask=there, other=0.0)
    key = tl.load(qkv + at + heads * size, mask=there, other=0.0)
    value = tl.load(qkv + at + 2 * heads * size, mask=there, other=0.0)
    weights = weigh(query, key, slots < length, scale)
    if dropout:
        weights *= draw(seed, program, slots, rate, block)
    heads_row = tl.dot(weights.to(value.dtype), value)
    to = (first + slots).to(tl.int64)[:, None] * (heads * size) + (program % heads) * size + inner[None, :]
    tl.store(mixed + to, heads_row.to(value.dtype), mask=there)


@triton.jit(do_not_specialize=["packed_rows", "seed"])
def mix_back(
    qkv, by_mixed, by_qkv, places, packed_rows, seed, rate, scale, heads: tl.constexpr, views: tl.constexpr,
    size: tl.constexpr, block: tl.constexpr, dropout: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of one row's query, key and value in one head."""
    program = tl.program_id(0)
    first, width, length = read_row(places, program // heads, packed_rows, views)
    slots, inner = tl.arange(0, block), tl.arange(0, size)
    there = (slots < width)[:, None]
    at = (first + slots).to(tl.int64)[:, None] * (3 * heads * size) + (program % heads) * size + inner[None, :]
    to = (first + slots).to(tl.int64)[:, None] * (heads * size) + (program % heads) * size + inner[None, :]
    query = tl.load(qkv + at, mask=there, other=0.0)
    key = tl.load(qkv + at + heads * size, mask=there, other=0.0)
    value = tl.load(qkv + at + 2 * heads * size, mask=there, other=0.0)
    given = tl.load(by_mixed + to, mask=there, other=0.0)
    weights = weigh(query, key, slots < length, scale)
    by_weights = tl.dot(given, tl.trans(value))
    dropped = weights
    if dropout:
        kept = draw(seed, program, slots, rate, block)
        dropped = weights * kept
        by_weights *= kept
    by_scores = weights * (by_weights - tl.sum(weights * by_weights, 1)[:, None]) * scale
    by_scores = by_scores.to(value.dtype)
    tl.store(by_qkv + at, tl.dot(by_scores, key).to(value.dtype), mask=there)
    tl.store(by_qkv + at + heads * size, tl.dot(tl.trans(by_scores), query).to(value.dtype), mask=there)
    by_value = tl.dot(tl.trans(dropped.to(value.dtype)), given)
    tl.store(by_qkv + at + 2 * heads * size, by_value.to(value.dtype), mask=there)

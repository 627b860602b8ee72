"""Triton kernels of `card` (LayerNorm and all between it and a layer's product) and `card_attention` (short rows).

LayerNorm: a row of `width` numbers is in one program's registers. The backward kernel adds and normalises again what
the forward one did, from the same draws. Attention: one program per row and head holds all of the row's tokens, whose
query, key and value are in one slot each of the packed [T, 3H]. Nothing is kept but what the products keep anyway, and
a number for dropout's masks.
"""

# mypy: disable-error-code="import-not-found, import-untyped, no-untyped-def, untyped-decorator"
# What Triton compiles is no Python that mypy could follow.

import triton
import triton.language as tl


@triton.jit
def draw_row(seed, row, rate, block: tl.constexpr):
    """Draws dropout's factors for a row: 1 / (1 - rate) where a number stays, else 0; four numbers a draw."""
    quarter: tl.constexpr = block // 4
    a, b, c, d = tl.rand4x(seed, row * quarter + tl.arange(0, quarter))
    draws = tl.reshape(tl.join(tl.join(a, b), tl.join(c, d)), [block])
    return tl.where(draws >= rate, 1.0 / (1.0 - rate), 0.0)


@triton.jit
def add_row(product, bias, x, at, inside, kept):
    """Returns x + dropout(product + bias) of a row in fp32, 0 outside the row."""
    value = (tl.load(product + at, mask=inside, other=0.0).to(tl.float32) + bias) * kept
    return value + tl.load(x + at, mask=inside, other=0.0).to(tl.float32)


@triton.jit
def standardise(values, inside, width: tl.constexpr, epsilon):
    """Returns a row scaled to mean 0 and variance 1, and the factor by which it was scaled."""
    centred = tl.where(inside, values - tl.sum(values, 0) / width, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, 0) / width + epsilon)
    return centred * scale, scale


@triton.jit(do_not_specialize=["seed"])
def norm(
    product, bias, x, weight, shift, full, cast, seed, rate, epsilon, dropout: tl.constexpr, width: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Writes LayerNorm(x + dropout(product + bias)) of one row, in the dtypes of `full` and of `cast`."""
    row = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    at = row.to(tl.int64) * width + column
    kept = 1.0
    if dropout:
        kept = draw_row(seed, row, rate, block)
    added = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    values, _ = standardise(add_row(product, added, x, at, inside, kept), inside, width, epsilon)
    scaled = values * tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    result = scaled + tl.load(shift + column, mask=inside, other=0.0).to(tl.float32)
    tl.store(full + at, result.to(full.dtype.element_ty), mask=inside)
    tl.store(cast + at, result.to(cast.dtype.element_ty), mask=inside)


@triton.jit(do_not_specialize=["rows", "seed"])
def norm_back(
    by_full, by_cast, product, bias, x, weight, by_product, by_x, sums, rows, seed, rate, epsilon,
    dropout: tl.constexpr, has_full: tl.constexpr, has_cast: tl.constexpr,
    width: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Writes the gradients of a program's rows, and its sums over rows for the gradients of weight, shift and bias."""
    program = tl.program_id(0)
    column = tl.arange(0, block)
    inside = column < width
    added = tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(weight + column, mask=inside, other=0.0).to(tl.float32)
    by_weight = tl.zeros([block], tl.float32)
    by_shift = tl.zeros([block], tl.float32)
    by_bias = tl.zeros([block], tl.float32)
    for row in range(program, rows, tl.num_programs(0)):
        at = tl.cast(row, tl.int64) * width + column
        by = tl.zeros([block], tl.float32)
        if has_full:
            by += tl.load(by_full + at, mask=inside, other=0.0).to(tl.float32)
        if has_cast:
            by += tl.load(by_cast + at, mask=inside, other=0.0).to(tl.float32)
        kept = tl.full([block], 1.0, tl.float32)
        if dropout:
            kept = draw_row(seed, row, rate, block)
        values, scale = standardise(add_row(product, added, x, at, inside, kept), inside, width, epsilon)
        by_weight += by * values
        by_shift += by
        by_values = by * factor
        by_sum = by_values - tl.sum(by_values, 0) / width - values * (tl.sum(by_values * values, 0) / width)
        by_sum = by_sum * scale
        tl.store(by_x + at, by_sum.to(by_x.dtype.element_ty), mask=inside)
        by_sum = by_sum * kept
        by_bias += by_sum
        tl.store(by_product + at, by_sum.to(by_product.dtype.element_ty), mask=inside)
    to = sums + program * (3 * width) + column
    tl.store(to, by_weight, mask=inside)
    tl.store(to + width, by_shift, mask=inside)
    tl.store(to + 2 * width, by_bias, mask=inside)


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

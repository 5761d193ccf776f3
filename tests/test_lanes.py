"""Many numbers at a time: each operation against NumPy's, for every number of groups, compiled and as plain Python."""

from types import FunctionType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from loglinear.kernels import LaneFunction, loose_kernel
from loglinear.kernels import lanes as lane_functions
from loglinear.kernels.lanes import (
    MOST_GROUPS,
    above,
    added,
    block_length,
    exponential,
    greater,
    greatest,
    lesser,
    load,
    prefetch,
    row_length,
    same,
    store,
    total,
    towards_zero,
    where_there,
    width_of,
)

F = np.float32
WIDTHS = [8 * k for k in range(1, MOST_GROUPS + 1)]


def as_plain_python(compiled):
    """A kernel as the Python that it is, lane functions included."""
    function = getattr(compiled, "py_func", compiled)
    named = {
        name: getattr(lane_functions, name) for name in function.__code__.co_names if hasattr(lane_functions, name)
    }
    plain = {name: value.py_func if isinstance(value, LaneFunction) else value for name, value in named.items()}
    return FunctionType(function.__code__, {**function.__globals__, **plain})


@loose_kernel
def everything(a, b, number, width, out):
    w, x, y = block_length(width), load(a, 0, width), load(b, 0, width)
    prefetch(a, 0, width)
    store(out, 0, x + y)
    store(out, w, x - y)
    store(out, 2 * w, x * y + number * x)
    store(out, 3 * w, x / (y * y + number))
    store(out, 4 * w, greater(x, y) - lesser(x, y))
    store(out, 5 * w, above(x, number))
    store(out, 6 * w, towards_zero(x, number))
    store(out, 7 * w, same(number, width) + x * number)
    store(out, 8 * w, where_there(x, y))
    store(out, 9 * w, added(x, number * y))
    out[10 * w], out[10 * w + 1], out[10 * w + 2] = total(x), greatest(x), row_length(width)


@st.composite
def rows(draw):
    """Two rows of the same width; some numbers of the first are -0.0, some are 0.0."""
    n = draw(st.sampled_from(WIDTHS))
    numbers = st.sampled_from([0.0, -0.0]) | st.floats(-100, 100, width=32)
    return tuple(draw(hnp.arrays(np.float32, n, elements=numbers)) for _ in range(2))


@given(pair=rows(), number=st.floats(0.5, 2, width=32))
def test_operations_are_those_of_numpy(pair, number):
    (a, b), number = pair, F(number)
    x, y = a.astype(np.float64), b.astype(np.float64)
    missing = (x == 0.0) & np.signbit(x)
    expected = [
        x + y, x - y, x * y + number * x, x / (y * y + number), np.maximum(x, y) - np.minimum(x, y),
        np.where(x > number, x, 0.0), np.sign(x) * np.maximum(np.abs(x) - number, 0.0), number + x * number,
        np.where(missing, 0.0, y), np.where(missing, x, x + number * y), [x.sum(), x.max(), len(x)],
    ]  # fmt: skip
    for function in (everything, as_plain_python(everything)):
        out = np.zeros(10 * len(a) + 3, dtype=np.float32)
        function(a, b, number, width_of(len(a)), out)
        np.testing.assert_allclose(out, np.concatenate(expected), rtol=1e-5, atol=1e-3)
        sums = out[9 * len(a) : 10 * len(a)]
        assert np.array_equal((sums == 0.0) & np.signbit(sums), missing)


@loose_kernel
def add_product(a, b, c, width, out):
    store(out, 0, added(load(a, 0, width), load(b, 0, width) * load(c, 0, width)))


def test_no_sum_becomes_minus_zero_by_underflow():
    a = np.array([0.0, -0.0, 0.0, 1.0, -1.0, 0.0, -0.0, 0.0], dtype=np.float32)
    b = np.array([-1e-30, -1e-30, -0.0, -1.0, 1.0, 1e-30, 3.0, 1e-45], dtype=np.float32)
    c = np.array([1e-30, 1e-30, 1.0, 1.0, 1.0, -1e-30, 1.0, -1e-3], dtype=np.float32)
    for function in (add_product, as_plain_python(add_product)):
        out = np.ones(8, dtype=np.float32)
        function(a, b, c, width_of(8), out)
        assert not out.any()
        assert np.flatnonzero(np.signbit(out)).tolist() == [1, 6]


@loose_kernel
def exponentials(x, width, out):
    for c in range(0, x.shape[0], block_length(width)):
        store(out, c, exponential(load(x, c, width)))


@pytest.mark.parametrize("n", WIDTHS)
def test_exponentials_are_right_to_the_last_digits_and_end_at_minus_sixty(n):
    x = np.concatenate([np.linspace(-60.0, 0.0, 6_712), [0.0, -60.0, -60.01, -1e30, -np.inf, -1e-8, -0.35, -0.3466]])
    x = x.astype(np.float32)
    assert len(x) % n == 0
    exact = np.where(x >= -60.0, np.exp(x.astype(np.float64)), 0.0)
    for function in (exponentials, as_plain_python(exponentials)):
        out = np.ones_like(x)
        function(x, width_of(n), out)
        np.testing.assert_allclose(out, exact, rtol=3e-7)
        assert out[6_712] == 1.0


@loose_kernel
def write(place, width, out):
    store(out, place, same(F(3.0), width))


@pytest.mark.parametrize("n", WIDTHS)
def test_only_a_block_is_written(n):
    out = np.zeros(n + 16, dtype=np.float32)
    write(8, width_of(n), out)
    assert out.tolist() == [0.0] * 8 + [3.0] * n + [0.0] * 8


@loose_kernel
def numbers_in(width):
    return block_length(width), row_length(width)


@pytest.mark.parametrize("n", range(1, 300))
def test_a_row_has_as_few_blocks_as_possible_and_little_room_to_spare(n):
    width = width_of(n)
    block, row = as_plain_python(numbers_in)(width)
    n_blocks = row // block
    assert n <= row and row % block == 0 and block <= 8 * MOST_GROUPS
    assert n_blocks == -(-n // (8 * MOST_GROUPS)) and row - n < 8 * n_blocks
    assert (width.blocks == ()) == (n_blocks == 1)
    if n % 37 == 0:
        assert numbers_in(width) == (block, row)

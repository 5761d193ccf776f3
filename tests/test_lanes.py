"""Eight numbers at a time: each operation against NumPy's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from loglinear.kernels import loose_kernel
from loglinear.kernels.lanes import above, exponential, greater, greatest, lesser, load, load_flags, same, store, total

F = np.float32
eights = hnp.arrays(np.float32, 8, elements=st.floats(-100, 100, width=32))


@loose_kernel
def everything(a, b, flags, number, out):
    x, y = load(a, 0), load(b, 0)
    store(out, 0, x + y)
    store(out, 8, x - y)
    store(out, 16, x * y + number * x)
    store(out, 24, x / (y * y + number))
    store(out, 32, greater(x, y) - lesser(x, y))
    store(out, 40, above(x, number))
    store(out, 48, x * load_flags(flags, 0))
    store(out, 56, same(number) + x * number)
    out[64], out[65] = total(x), greatest(x)


@given(a=eights, b=eights, flags=hnp.arrays(np.int8, 8, elements=st.integers(0, 1)), number=st.floats(0.5, 2, width=32))
def test_operations_are_those_of_numpy(a, b, flags, number):
    out = np.zeros(66, dtype=np.float32)
    number = F(number)
    everything(a, b, flags, number, out)
    x, y = a.astype(np.float64), b.astype(np.float64)
    expected = [
        x + y, x - y, x * y + number * x, x / (y * y + number), np.maximum(x, y) - np.minimum(x, y),
        np.where(x > number, x, 0.0), x * flags, number + x * number, [x.sum(), x.max()],
    ]  # fmt: skip
    np.testing.assert_allclose(out, np.concatenate(expected), rtol=1e-5, atol=1e-3)


@loose_kernel
def exponentials(x, out):
    for c in range(0, x.shape[0], 8):
        store(out, c, exponential(load(x, c)))


def test_exponentials_are_right_to_the_last_digits_and_end_at_minus_sixty():
    x = np.concatenate([np.linspace(-60.0, 0.0, 79_992), [0.0, -60.0, -60.01, -1e30, -np.inf, -1e-8, -0.35, -0.3466]])
    x = x.astype(np.float32)
    out = np.ones_like(x)
    exponentials(x, out)
    exact = np.where(x >= -60.0, np.exp(x.astype(np.float64)), 0.0)
    np.testing.assert_allclose(out, exact, rtol=3e-7)
    assert out[79_992] == 1.0


def test_only_eight_are_written():
    out = np.zeros(24, dtype=np.float32)

    @loose_kernel
    def write(out):
        store(out, 8, same(np.float32(3.0)))

    write(out)
    assert out.tolist() == pytest.approx([0.0] * 8 + [3.0] * 8 + [0.0] * 8)

"""The functions of :mod:`~loglinear.kernels.lanes` as LLVM's instructions: an extension of Numba.

Lanes are an array of K vectors of eight, which LLVM takes apart: vectors of 24 numbers, say, it would widen to 32.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import lower_builtin
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, models, register_model

from loglinear.kernels.lanes import LOWEST_EXPONENT, N_LANES

_LOG2_E, _LN2_HIGH, _LN2_LOW = 1.44269504, 0.693359375, -2.12194440e-4
_COEFFICIENTS = (1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1)
_FLOAT, _INT = ir.FloatType(), ir.IntType(32)
_VECTOR, _INTS = ir.VectorType(_FLOAT, N_LANES), ir.VectorType(_INT, N_LANES)
_FOR_READING_INTO_ALL_CACHES = (0, 3, 1)  # of data
_NUMBERS_IN_A_LINE = 16  # of a cache
_MINUS_ZEROS = ir.Constant(_INTS, [-(2**31)] * N_LANES)  # the bits of -0.0
_FLAGS = ("contract", "reassoc", "nsz", "arcp")


class LanesType(types.Type):
    """Numba's type of lanes: ``groups`` times eight numbers."""

    def __init__(self, groups: int) -> None:
        self.groups = groups
        super().__init__(name=f"Lanes{groups}x8xFloat32")


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.ArrayType(_VECTOR, kind.groups))


def _lanes_of(width: Any) -> LanesType:
    """The lanes that a block of a ``Width`` has."""
    return LanesType(width.types[0].count)


def _groups(builder: Any, lanes: Any) -> list[Any]:
    """The vectors of lanes."""
    return [builder.extract_value(lanes, k) for k in range(lanes.type.count)]


def _lanes(builder: Any, groups: list[Any]) -> Any:
    """Lanes of vectors."""
    lanes = ir.Constant(ir.ArrayType(_VECTOR, len(groups)), ir.Undefined)
    for k, group in enumerate(groups):
        lanes = builder.insert_value(lanes, group, k)
    return lanes


def _by_group(make: Callable[..., Any]) -> Callable[..., Any]:
    """The code of a function of lanes: ``make(builder, vector, ...)`` for each group; other arguments are splat."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        count = next(kind.groups for kind in sig.args if isinstance(kind, LanesType))
        columns = [
            _groups(builder, arg) if isinstance(kind, LanesType) else [_splat(builder, arg)] * count
            for kind, arg in zip(sig.args, args, strict=True)
        ]
        return _lanes(builder, [make(builder, *vectors) for vectors in zip(*columns, strict=True)])

    return generate


def _splat(builder: Any, number: Any) -> Any:
    """A vector of eight times the same."""
    one = builder.insert_element(ir.Constant(_VECTOR, ir.Undefined), number, ir.Constant(_INT, 0))
    return builder.shuffle_vector(one, ir.Constant(_VECTOR, ir.Undefined), ir.Constant(_INTS, [0] * N_LANES))


def _constant(number: float) -> Any:
    return ir.Constant(_VECTOR, [ir.Constant(_FLOAT, float(np.float32(number)))] * N_LANES)


@infer_global(operator.add)
@infer_global(operator.sub)
@infer_global(operator.mul)
@infer_global(operator.truediv)
class _Arithmetic(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        lanes = [kind for kind in args if isinstance(kind, LanesType)]
        if len(args) == 2 and lanes and set(args) <= {lanes[0], types.float32}:
            return signature(lanes[0], *args)
        return None


def _lower(operation: Any, name: str) -> None:
    lowered = _by_group(lambda builder, one, other: getattr(builder, name)(one, other, flags=_FLAGS))
    for kinds in ((LanesType, LanesType), (types.Float, LanesType), (LanesType, types.Float)):
        lower_builtin(operation, *kinds)(lowered)


for _operation, _name in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
):  # fmt: skip
    _lower(_operation, _name)


def _address(context: Any, builder: Any, kind: Any, array: Any, place: Any, offset: int, target: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    there = builder.gep(builder.gep(data, [place]), [ir.Constant(_INT, offset)])
    return builder.bitcast(there, target.as_pointer())


@intrinsic
def block_length(typing: Any, width: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return context.get_constant(types.intp, N_LANES * width.types[0].count)

    return types.intp(width), generate


@intrinsic
def row_length(typing: Any, width: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        block = context.get_constant(types.intp, N_LANES * width.types[0].count)
        if not isinstance(width.types[1], types.Integer):
            return block
        return builder.mul(block, builder.extract_value(args[0], 1))

    return types.intp(width), generate


@intrinsic
def load(typing: Any, array: Any, place: Any, width: Any) -> Any:
    lanes = _lanes_of(width)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        groups = []
        for k in range(lanes.groups):
            group = builder.load(_address(context, builder, sig.args[0], args[0], args[1], N_LANES * k, _VECTOR))
            group.align = 4
            groups.append(group)
        return _lanes(builder, groups)

    return lanes(array, types.intp, width), generate


@intrinsic
def store(typing: Any, array: Any, place: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        for k, group in enumerate(_groups(builder, args[2])):
            stored = builder.store(
                group, _address(context, builder, sig.args[0], args[0], args[1], N_LANES * k, _VECTOR)
            )
            stored.align = 4
        return context.get_dummy_value()

    return types.none(array, types.intp, lanes), generate


def _prefetch(context: Any, builder: Any, sig: Any, args: Any, offsets: range) -> Any:
    byte = ir.IntType(8)
    kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), _INT, _INT, _INT])
    function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
    how = [ir.Constant(_INT, number) for number in _FOR_READING_INTO_ALL_CACHES]
    for offset in offsets:
        builder.call(function, [_address(context, builder, sig.args[0], args[0], args[1], offset, byte), *how])
    return context.get_dummy_value()


@intrinsic
def prefetch(typing: Any, array: Any, place: Any, width: Any) -> Any:
    offsets = range(0, N_LANES * width.types[0].count, _NUMBERS_IN_A_LINE)
    return types.none(array, types.intp, width), functools.partial(_prefetch, offsets=offsets)


@intrinsic
def prefetch_line(typing: Any, array: Any, place: Any) -> Any:
    return types.none(array, types.intp), functools.partial(_prefetch, offsets=range(1))


@intrinsic
def same(typing: Any, number: Any, width: Any) -> Any:
    lanes = _lanes_of(width)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _lanes(builder, [_splat(builder, args[0])] * lanes.groups)

    return lanes(types.float32, width), generate


def _least(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", one, other), one, other)


def _most(builder: Any, one: Any, other: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", one, other), one, other)


def _sum(builder: Any, one: Any, other: Any) -> Any:
    return builder.fadd(one, other, flags=_FLAGS)


@intrinsic
def greater(typing: Any, one: Any, other: Any) -> Any:
    return one(one, one), _by_group(_most)


@intrinsic
def lesser(typing: Any, one: Any, other: Any) -> Any:
    return one(one, one), _by_group(_least)


@intrinsic
def above(typing: Any, lanes: Any, least: Any) -> Any:
    def make(builder: Any, vector: Any, limit: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", vector, limit), vector, _constant(0.0))

    return lanes(lanes, types.float32), _by_group(make)


@intrinsic
def towards_zero(typing: Any, lanes: Any, less: Any) -> Any:
    def make(builder: Any, vector: Any, less: Any) -> Any:
        lower, higher = builder.fsub(vector, less, flags=_FLAGS), builder.fadd(vector, less, flags=_FLAGS)
        return _sum(builder, _most(builder, lower, _constant(0.0)), _least(builder, higher, _constant(0.0)))

    return lanes(lanes, types.float32), _by_group(make)


def _is_missing(builder: Any, vector: Any) -> Any:
    return builder.icmp_signed("==", builder.bitcast(vector, _INTS), _MINUS_ZEROS)


@intrinsic
def where_there(typing: Any, numbers: Any, lanes: Any) -> Any:
    def make(builder: Any, number: Any, vector: Any) -> Any:
        return builder.select(_is_missing(builder, number), _constant(0.0), vector)

    return lanes(lanes, lanes), _by_group(make)


@intrinsic
def added(typing: Any, numbers: Any, lanes: Any) -> Any:
    def make(builder: Any, number: Any, vector: Any) -> Any:
        sum_bits = builder.bitcast(builder.fadd(number, vector, flags=_FLAGS), _INTS)
        is_minus_zero = builder.icmp_signed(
            "==", sum_bits, _MINUS_ZEROS
        )  # bits: Numba flags all floats as unsigned zeros
        positive = builder.select(is_minus_zero, ir.Constant(_INTS, [0] * N_LANES), sum_bits)
        return builder.bitcast(builder.select(_is_missing(builder, number), _MINUS_ZEROS, positive), _VECTOR)

    return lanes(lanes, lanes), _by_group(make)


def _joined(builder: Any, lanes: Any, join: Callable[..., Any]) -> Any:
    """One number of all: groups joined with groups, then halves with halves."""
    groups, width = _groups(builder, lanes), N_LANES
    while len(groups) > 1:
        pairs = [join(builder, *groups[k : k + 2]) for k in range(0, len(groups) - 1, 2)]
        groups = pairs + groups[2 * len(pairs) :]
    vector = groups[0]
    while width > 1:
        width //= 2
        indices = [ir.Constant(_INT, k) for k in range(width)], [ir.Constant(_INT, width + k) for k in range(width)]
        low, high = (
            builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT, width), part)) for part in indices
        )
        vector = join(builder, low, high)
    return builder.extract_element(vector, ir.Constant(_INT, 0))


@intrinsic
def total(typing: Any, lanes: Any) -> Any:
    return types.float32(lanes), lambda context, builder, sig, args: _joined(builder, args[0], _sum)


@intrinsic
def greatest(typing: Any, lanes: Any) -> Any:
    return types.float32(lanes), lambda context, builder, sig, args: _joined(builder, args[0], _most)


@intrinsic
def exponential(typing: Any, lanes: Any) -> Any:
    def make(builder: Any, vector: Any) -> Any:
        def fused(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

        there = builder.fcmp_ordered(">=", vector, _constant(LOWEST_EXPONENT))
        x = builder.select(there, vector, _constant(0.0))
        nearest = builder.fptosi(fused(x, _constant(_LOG2_E), _constant(-0.5)), _INTS)  # towards zero, and x <= 0
        n = builder.sitofp(nearest, _VECTOR)
        rest = fused(n, _constant(-_LN2_LOW), fused(n, _constant(-_LN2_HIGH), x))
        polynomial = _constant(_COEFFICIENTS[0])
        for coefficient in _COEFFICIENTS[1:]:
            polynomial = fused(polynomial, rest, _constant(coefficient))
        value = fused(polynomial, builder.fmul(rest, rest), builder.fadd(rest, _constant(1.0)))
        biased = builder.add(nearest, ir.Constant(_INTS, [127] * N_LANES))
        power = builder.bitcast(builder.shl(biased, ir.Constant(_INTS, [23] * N_LANES)), _VECTOR)
        return builder.select(there, builder.fmul(value, power), _constant(0.0))

    return lanes(lanes), _by_group(make)

"""The functions of :mod:`~loglinear.kernels.lanes` as LLVM's instructions: an extension of Numba."""

from __future__ import annotations

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
_FLAGS = ("contract", "reassoc", "nsz", "arcp")


class LanesType(types.Type):
    """Numba's type of lanes."""

    def __init__(self) -> None:
        super().__init__(name="Lanes8xFloat32")


_lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


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
        if len(args) == 2 and _lanes in args and set(args) <= {_lanes, types.float32}:
            return signature(_lanes, *args)
        return None


def _lower(operation: Any, name: str) -> None:
    def lowered(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one, other = (
            _splat(builder, arg) if kind == types.float32 else arg for kind, arg in zip(sig.args, args, strict=True)
        )
        return getattr(builder, name)(one, other, flags=_FLAGS)

    for kinds in ((_lanes, _lanes), (types.float32, _lanes), (_lanes, types.float32)):
        lower_builtin(operation, *kinds)(lowered)


for _operation, _name in (
    (operator.add, "fadd"), (operator.sub, "fsub"), (operator.mul, "fmul"), (operator.truediv, "fdiv"),
):  # fmt: skip
    _lower(_operation, _name)


def _address(context: Any, builder: Any, kind: Any, array: Any, place: Any, vector: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [place]), vector.as_pointer())


@intrinsic
def load(typing: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        loaded = builder.load(_address(context, builder, sig.args[0], args[0], args[1], _VECTOR))
        loaded.align = 4
        return loaded

    return _lanes(array, types.intp), generate


@intrinsic
def load_flags(typing: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        small = ir.VectorType(ir.IntType(8), N_LANES)
        loaded = builder.load(_address(context, builder, sig.args[0], args[0], args[1], small))
        loaded.align = 1
        return builder.sitofp(loaded, _VECTOR)

    return _lanes(array, types.intp), generate


@intrinsic
def store(typing: Any, array: Any, place: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        stored = builder.store(args[2], _address(context, builder, sig.args[0], args[0], args[1], _VECTOR))
        stored.align = 4
        return context.get_dummy_value()

    return types.none(array, types.intp, _lanes), generate


@intrinsic
def prefetch(typing: Any, array: Any, place: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        byte = ir.IntType(8).as_pointer()
        address = _address(context, builder, sig.args[0], args[0], args[1], ir.IntType(8))
        kind = ir.FunctionType(ir.VoidType(), [byte, _INT, _INT, _INT])
        function = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0i8")
        builder.call(function, [address, *(ir.Constant(_INT, number) for number in _FOR_READING_INTO_ALL_CACHES)])
        return context.get_dummy_value()

    return types.none(array, types.intp), generate


@intrinsic
def same(typing: Any, number: Any) -> Any:
    return _lanes(types.float32), lambda context, builder, sig, args: _splat(builder, args[0])


@intrinsic
def greater(typing: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args), *args)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def lesser(typing: Any, one: Any, other: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return _lanes(_lanes, _lanes), generate


@intrinsic
def above(typing: Any, lanes: Any, least: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        there = builder.fcmp_ordered(">", args[0], _splat(builder, args[1]))
        return builder.select(there, args[0], _constant(0.0))

    return _lanes(_lanes, types.float32), generate


def _halved(builder: Any, vector: Any, join: Callable[[Any, Any], Any]) -> Any:
    """One number of eight, halves joined with halves."""
    width = N_LANES
    while width > 1:
        width //= 2
        indices = [ir.Constant(_INT, k) for k in range(width)], [ir.Constant(_INT, width + k) for k in range(width)]
        low, high = (
            builder.shuffle_vector(vector, vector, ir.Constant(ir.VectorType(_INT, width), part)) for part in indices
        )
        vector = join(low, high)
    return builder.extract_element(vector, ir.Constant(_INT, 0))


@intrinsic
def total(typing: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _halved(builder, args[0], lambda low, high: builder.fadd(low, high, flags=_FLAGS))

    return types.float32(_lanes), generate


@intrinsic
def greatest(typing: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _halved(
            builder, args[0], lambda low, high: builder.select(builder.fcmp_ordered(">", low, high), low, high)
        )

    return types.float32(_lanes), generate


@intrinsic
def exponential(typing: Any, lanes: Any) -> Any:
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        def fused(a: Any, b: Any, c: Any) -> Any:
            return builder.fadd(builder.fmul(a, b, flags=_FLAGS), c, flags=_FLAGS)

        there = builder.fcmp_ordered(">=", args[0], _constant(LOWEST_EXPONENT))
        x = builder.select(there, args[0], _constant(0.0))
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

    return _lanes(_lanes), generate

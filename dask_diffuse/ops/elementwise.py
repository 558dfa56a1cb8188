"""The rows of the element-wise operations."""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from dask_diffuse.errors import UnsupportedError
from dask_diffuse.ops.dtypes import Loop, float_loop, select_loop, ufunc_loop
from dask_diffuse.ops.table import Cost, ScalarOp, decline, register

__all__: list[str] = []


def _ufunc(
    ufunc: np.ufunc,
    *functions: Callable[..., object],
    refuse: Callable[[Loop], None] | None = None,
    **properties: Any,
) -> None:
    """Add the row of a ufunc; `functions` mean the same."""
    typing = partial(ufunc_loop, ufunc, refuse)
    op = ScalarOp(ufunc.__name__, ufunc.nin, ufunc, typing, **properties)
    register(op, ufunc, *functions)


def _libm(ufunc: np.ufunc, *, core: str = "f", slow: bool = True) -> None:
    """Add the row of a function of the math library; NumPy promises 4 ulp itself."""
    refuse = partial(_refuse_complex, ufunc.__name__)
    _ufunc(ufunc, refuse=refuse, core=core, ulp=4, cost=Cost.LIBM, slow_in_numpy=slow)


def _refuse_complex(name: str, loop: Loop) -> None:
    if loop[0][0].kind == "c":
        message = f"{name!r} of complex numbers has no scalar form"
        raise UnsupportedError(message, "unsupported-dtype")


def _refuse_power(loop: Loop) -> None:
    _refuse_complex("power", loop)
    kind = loop[0][0].kind
    if kind == "i":
        message = "an integer to the power of a negative integer raises"
        raise UnsupportedError(message, "may-raise")
    if kind == "u":
        message = "'power' of integers has a scalar form for literal exponents only"
        raise UnsupportedError(message, "unsupported-argument")


# Arithmetic. NumPy multiplies complex numbers with fused multiply-adds where the
# processor has them, and so differs from itself between machines by an ulp.
_ufunc(np.add, operator.add, operator.iadd, core="iuf")
_ufunc(np.subtract, operator.sub, operator.isub, core="iuf")
_ufunc(np.multiply, operator.mul, operator.imul, core="iuf", complex_ulp=2)
_ufunc(np.divide, operator.truediv, operator.itruediv, core="f", complex_ulp=4)
_ufunc(
    np.floor_divide,
    *(operator.floordiv, operator.ifloordiv),
    cost=Cost.LIBM,
    slow_in_numpy=True,
)
_ufunc(
    np.remainder,
    *(operator.mod, operator.imod),
    cost=Cost.LIBM,
    slow_in_numpy=True,
)
_ufunc(np.fmod, core="f", cost=Cost.LIBM, slow_in_numpy=True)
_ufunc(
    np.power,
    *(operator.pow, operator.ipow),
    refuse=_refuse_power,
    core="f",
    ulp=4,
    cost=Cost.LIBM,
    slow_in_numpy=True,
)
_libm(np.float_power, core="")
_ufunc(np.negative, operator.neg, core="iuf")
_ufunc(np.positive, operator.pos)
_ufunc(np.absolute, operator.abs, abs, complex_ulp=4)
_ufunc(np.fabs, core="f")
_ufunc(np.sign, complex_ulp=4)
_ufunc(np.square, complex_ulp=2)
_ufunc(np.reciprocal, complex_ulp=4)
_ufunc(np.sqrt, refuse=partial(_refuse_complex, "sqrt"), core="f")
_ufunc(np.conjugate)
_ufunc(np.heaviside, slow_in_numpy=True)

# Comparison and logic.
_ufunc(np.equal, operator.eq, core="iuf")
_ufunc(np.not_equal, operator.ne, core="iuf")
_ufunc(np.less, operator.lt, core="iuf")
_ufunc(np.less_equal, operator.le, core="iuf")
_ufunc(np.greater, operator.gt, core="iuf")
_ufunc(np.greater_equal, operator.ge, core="iuf")
_ufunc(np.logical_and)
_ufunc(np.logical_or)
_ufunc(np.logical_xor)
_ufunc(np.logical_not)
_ufunc(np.maximum)
_ufunc(np.minimum)
_ufunc(np.fmax)
_ufunc(np.fmin)
_ufunc(np.isfinite)
_ufunc(np.isinf)
_ufunc(np.isnan)
_ufunc(np.signbit, core="f")
register(ScalarOp("where", 3, np.where, select_loop))

# Bits.
_ufunc(np.bitwise_and, operator.and_, operator.iand, core="biu")
_ufunc(np.bitwise_or, operator.or_, operator.ior, core="biu")
_ufunc(np.bitwise_xor, operator.xor, operator.ixor, core="biu")
_ufunc(np.invert, operator.invert, core="biu")
_ufunc(np.left_shift, operator.lshift, operator.ilshift)
_ufunc(np.right_shift, operator.rshift, operator.irshift)

# Rounding and the parts of floats.
_ufunc(np.floor, core="f")
_ufunc(np.ceil, core="f")
_ufunc(np.trunc, core="f")
_ufunc(np.rint, core="f")
_ufunc(np.copysign, core="f")
_ufunc(np.nextafter, core="f", cost=Cost.LIBM, slow_in_numpy=True)
_ufunc(np.spacing, cost=Cost.LIBM, slow_in_numpy=True)

# The math library.
_libm(np.exp, slow=False)
_libm(np.exp2)
_libm(np.expm1)
_libm(np.log, slow=False)
_libm(np.log2)
_libm(np.log10)
_libm(np.log1p)
# The unit in which these two err is that of the larger operand, where the sum cancels.
_libm(np.logaddexp, core="")
_libm(np.logaddexp2, core="")
_libm(np.cbrt)
_libm(np.hypot)
_libm(np.sin)
_libm(np.cos)
_libm(np.tan)
_libm(np.arcsin)
_libm(np.arccos)
_libm(np.arctan)
_libm(np.arctan2)
_libm(np.sinh)
_libm(np.cosh)
_libm(np.tanh, slow=False)
_libm(np.arcsinh)
_libm(np.arccosh)
_libm(np.arctanh)
_ufunc(np.deg2rad)
_ufunc(np.rad2deg)
_ufunc(np.degrees)
_ufunc(np.radians)


# Functions of SciPy. The table must not import it, and has to work without it.


def _scipy(name: str, reference: Callable[[float], float], core: str = "") -> None:
    op = ScalarOp(
        name,
        1,
        partial(_evaluate_scipy, name, reference),
        partial(float_loop, name),
        core,
        ulp=4,
        cost=Cost.LIBM,
        slow_in_numpy=True,
    )
    register(op, scipy=name)


def _evaluate_scipy(
    name: str, reference: Callable[[float], float], x: np.ndarray
) -> np.ndarray:
    special = sys.modules.get("scipy.special")
    if special is not None:
        return np.asarray(getattr(special, name)(x))
    values = [reference(value) for value in np.ravel(x).tolist()]
    return np.array(values, x.dtype).reshape(np.shape(x))


def _ndtr(x: float) -> float:
    return 0.5 * math.erfc(-x * math.sqrt(0.5))


def _expit(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else math.exp(max(x, -800.0))


_scipy("erf", math.erf, "f")
_scipy("erfc", math.erfc, "f")
_scipy("ndtr", _ndtr)
_scipy("expit", _expit)


# Ops that only legalization makes. Their operands are never those for which their
# meaning would need words: zero divisors, shifts past the width.


def _int_divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    whole: np.ndarray = np.subtract(x, np.fmod(x, y))
    return np.asarray(np.floor_divide(whole, y))


def _complex(real: np.ndarray, imag: np.ndarray) -> np.ndarray:
    real, imag = np.broadcast_arrays(real, imag)
    value = np.empty(real.shape, np.result_type(real.dtype, np.complex64))
    value.real = real
    value.imag = imag
    return value


register(ScalarOp("select", 3, np.where, core="b"))
register(ScalarOp("int_div", 2, _int_divide, core="iu", cost=Cost.LIBM))
register(ScalarOp("int_rem", 2, np.fmod, core="iu", cost=Cost.LIBM))
register(ScalarOp("shift_left", 2, np.left_shift, core="iu"))
register(ScalarOp("shift_right", 2, np.right_shift, core="iu"))
register(ScalarOp("complex", 2, _complex, core="f"))
register(ScalarOp("real", 1, np.real, core="c"))
register(ScalarOp("imag", 1, np.imag, core="c"))


# What has no row.

decline("divmod", "has two results", np.divmod, divmod)
decline("modf", "has two results", np.modf)
decline("frexp", "has two results", np.frexp)
decline("gcd", "loops until it converges", np.gcd)
decline("lcm", "loops until it converges", np.lcm)
decline("ldexp", "has no scalar form that rounds once", np.ldexp)
decline("bitwise_count", "counts bits, which is not a core op", np.bitwise_count)
decline("isnat", "is about dates, which kernels do not handle", np.isnat)
decline("i0", "is a sum of Chebyshev polynomials", np.i0)
decline("matmul", "is not element-wise", np.matmul, operator.matmul)
for _name in ("vecdot", "matvec", "vecmat"):
    # The last two came with NumPy 2.2.
    if hasattr(np, _name):
        decline(_name, "is not element-wise", getattr(np, _name))

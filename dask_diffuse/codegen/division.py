"""Divisions that processors have no vector instruction for, and that matter.

Each is a function of a module: quick for vectors of which all lanes are of moderate
size, lane by lane for the others. The results are exact either way.
"""

from __future__ import annotations

from dask_diffuse.codegen.mathlib import MathLibrary
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import splat, suffix, vector

__all__ = ["call_fmod", "call_int_division"]

_DIGITS = {"float": 24, "double": 53}
"""Binary digits of floats."""
_SAFE_DIGITS = 51
"""Integers of so many bits have a quotient as float64 that has the right integer part.

A quotient that is no integer is at least ``1 / y`` away from the next one, and
``2**51`` times that is no less than ``x / y``.
"""


def call_fmod(
    text: FunctionText, library: MathLibrary, args: list[str], lanes: int, type_: str
) -> str:
    """Write a call of C's ``fmod``."""
    if not library.target.fuses:
        return library.call(text, "fmod", args, lanes, type_)
    name = f"fmod.{suffix(lanes, type_)}"
    if name not in library.functions:
        library.functions[name] = _fmod(name, library, lanes, type_)
    return _call(text, name, args, vector(lanes, type_))


def call_int_division(
    text: FunctionText,
    library: MathLibrary,
    op: str,
    args: list[str],
    lanes: int,
    is_signed: bool,
) -> str:
    """Write a call of ``int_div`` or ``int_rem`` of 64-bit integers."""
    name = f"{op}.{'i' if is_signed else 'u'}{lanes}"
    if name not in library.functions:
        library.functions[name] = _int_division(name, op, lanes, is_signed)
    return _call(text, name, args, vector(lanes, "i64"))


def _call(text: FunctionText, name: str, args: list[str], wide: str) -> str:
    operands = ", ".join(f"{wide} {arg}" for arg in args)
    return text.let("call", f"call {wide} @{name}({operands})")


def _fmod(name: str, library: MathLibrary, lanes: int, type_: str) -> str:
    """Return the function that divides, and corrects the remainder.

    The quotient is rounded, and so its integer part may be one too large, but never too
    small. The remainder for it is exact in a fused multiply-add.
    """
    wide = vector(lanes, type_)
    kind = suffix(lanes, type_)
    text = FunctionText(name, ((wide, "%x"), (wide, "%y")), result=wide)

    def intrinsic(op: str, *args: str) -> str:
        types = ", ".join([wide] * len(args))
        library.intrinsics[f"llvm.{op}.{kind}"] = (
            f"declare {wide} @llvm.{op}.{kind}({types})"
        )
        return _call(text, f"llvm.{op}.{kind}", list(args), wide)

    quotient = text.let("quotient", f"fdiv {wide} %x, %y")
    size = intrinsic("fabs", quotient)
    limit = splat(lanes, type_, 2.0 ** _DIGITS[type_])
    is_small = text.let("small", f"fcmp olt {wide} {size}, {limit}")
    # Zero times infinity is NaN.
    divisor = intrinsic("fabs", "%y")
    infinity = splat(lanes, type_, float("inf"))
    is_finite = text.let("finite", f"fcmp olt {wide} {divisor}, {infinity}")
    mask = vector(lanes, "i1")
    is_small = text.let("quick", f"and {mask} {is_small}, {is_finite}")
    with text.returning_unless(_all_lanes(text, is_small, lanes)):
        text.give(library.call(text, "fmod", ["%x", "%y"], lanes, type_))
    whole = intrinsic("trunc", quotient)
    opposite = text.let("opposite", f"fneg {wide} {whole}")
    rest = intrinsic("fma", opposite, "%y", "%x")
    # Where the quotient was too large, the remainder is on the other side of zero.
    sided = intrinsic("copysign", rest, "%x")
    is_right = text.let("right", f"fcmp oeq {wide} {rest}, {sided}")
    step = intrinsic("copysign", "%y", "%x")
    corrected = text.let("corrected", f"fadd {wide} {rest}, {step}")
    result = text.let(
        "result", f"select {mask} {is_right}, {wide} {sided}, {wide} {corrected}"
    )
    return text.finish(result)


def _int_division(name: str, op: str, lanes: int, is_signed: bool) -> str:
    """Return the function that divides as float64."""
    words, doubles = vector(lanes, "i64"), vector(lanes, "double")
    text = FunctionText(name, ((words, "%x"), (words, "%y")), result=words)
    letter = "s" if is_signed else "u"
    digits = _SAFE_DIGITS
    limit = splat(lanes, "i64", 2 ** (digits + is_signed))
    checks = []
    for arg in ("%x", "%y"):
        number = arg
        if is_signed:
            half = splat(lanes, "i64", 2**digits)
            number = text.let("shifted", f"add {words} {arg}, {half}")
        checks.append(text.let("small", f"icmp ult {words} {number}, {limit}"))
    lanes_ = vector(lanes, "i1")
    both = text.let("both", f"and {lanes_} {checks[0]}, {checks[1]}")
    slow = f"{letter}{'div' if op == 'int_div' else 'rem'}"
    with text.returning_unless(_all_lanes(text, both, lanes)):
        text.give(text.let("slow", f"{slow} {words} %x, %y"))
    x, y = (
        text.let("float", f"{letter}itofp {words} {arg} to {doubles}")
        for arg in ("%x", "%y")
    )
    quotient = text.let("quotient", f"fdiv {doubles} {x}, {y}")
    whole = text.let("whole", f"fpto{letter}i {doubles} {quotient} to {words}")
    if op == "int_div":
        return text.finish(whole)
    product = text.let("product", f"mul {words} {whole}, %y")
    return text.finish(text.let("rest", f"sub {words} %x, {product}"))


def _all_lanes(text: FunctionText, mask: str, lanes: int) -> str:
    bits = text.let("bits", f"bitcast {vector(lanes, 'i1')} {mask} to i{lanes}")
    return text.let("all", f"icmp eq i{lanes} {bits}, -1")

"""Random arrays and programs for hypothesis."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import dask.array as da
import numpy as np
from hypothesis import strategies as st

from dask_diffuse.ops import OPS
from tests.helpers import Tolerance

__all__ = [
    "DTYPES",
    "SPECIAL_FLOATS",
    "Program",
    "approximate_programs",
    "chunkings",
    "exact_programs",
    "shapes",
    "values",
]

_INTEGERS = ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")
DTYPES = tuple(np.dtype(code) for code in ("?", *_INTEGERS, "f4", "f8", "c8", "c16"))
_FOREIGN = (np.dtype("f2"), np.dtype(">f8"), np.dtype(">i4"))
SPECIAL_FLOATS = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0)


# Arrays.


def lengths(smallest: int = 0) -> st.SearchStrategy[int]:
    """Lengths of an axis: short ones, primes, and past some vectors."""
    return st.sampled_from(
        [n for n in (3, 1, 2, 5, 8, 17, 0, 33, 129) if n >= smallest]
    )


def shapes(
    smallest: int = 0, min_dims: int = 1, max_dims: int = 3
) -> st.SearchStrategy[tuple[int, ...]]:
    """Shapes of at most some thousand elements."""
    all_shapes = st.lists(lengths(smallest), min_size=min_dims, max_size=max_dims)
    return all_shapes.map(tuple).filter(lambda shape: np.prod(shape) <= 3000)


@st.composite
def _tiles(draw: st.DrawFn, length: int) -> tuple[int, ...]:
    way = draw(st.sampled_from(["whole", "halves", "fives", "cuts"]))
    if way == "whole" or length < 2:
        return (length,)
    if way == "halves":
        return (length - length // 2, length // 2)
    if way == "fives":
        return (5,) * (length // 5) + ((length % 5,) if length % 5 else ())
    # Cuts in the same place make empty tiles, which Dask allows.
    cuts = sorted(draw(st.lists(st.integers(0, length), min_size=1, max_size=3)))
    edges = [0, *cuts, length]
    return tuple(b - a for a, b in pairwise(edges))


def chunkings(shape: tuple[int, ...]) -> st.SearchStrategy[tuple[tuple[int, ...], ...]]:
    """Ways to cut an array into tiles."""
    return st.tuples(*(_tiles(length) for length in shape))


def values(
    dtype: np.dtype, shape: tuple[int, ...], seed: int, *, special: bool = True
) -> np.ndarray:
    """An array of values: extremes, NaN and zeros among them, or only tame ones."""
    return np.asarray(_values(dtype, shape, seed, special))


def _values(
    dtype: np.dtype, shape: tuple[int, ...], seed: int, special: bool
) -> np.ndarray:
    random = np.random.default_rng(seed)
    if dtype.kind == "b":
        return random.random(shape) < 0.5
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        low = max(info.min, -20)
        array = random.integers(low, 20, shape).astype(dtype)
        if special:
            extremes = np.array([info.min, info.max, info.max - 1, 0, 1], dtype)
            array = np.where(random.random(shape) < 0.2, random.choice(extremes), array)
            chosen = extremes[random.integers(0, len(extremes), shape)]
            array = np.where(random.random(shape) < 0.2, chosen, array)
        return array.astype(dtype)
    if dtype.kind == "c":
        parts = [
            values(np.dtype("f8"), shape, seed + n, special=special) for n in (0, 1)
        ]
        array = np.empty(shape, "c16")
        array.real, array.imag = parts
        return array.astype(dtype)
    array = random.normal(0, 2, shape)
    if special:
        chosen = random.choice(SPECIAL_FLOATS, shape)
        array = np.where(random.random(shape) < 0.3, chosen, array)
    return array.astype(dtype)


# Programs.


@dataclass(frozen=True)
class _Node:
    """A value of a program, as NumPy has it."""

    value: Any
    is_exact: bool = True


@dataclass(frozen=True)
class _Step:
    """One line of a program: what it does to the values so far, and how it reads."""

    text: str
    run: Callable[[list[Any]], Any]


@dataclass
class Program:
    """Lines of NumPy that run on Dask arrays as well. Prints as Python."""

    inputs: list[tuple[np.ndarray, Any]] = field(default_factory=list)
    steps: list[_Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    nodes: list[_Node] = field(default_factory=list)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        results = list(arrays)
        for step in self.steps:
            results.append(step.run(results))
        return tuple(results[number] for number in self.outputs)

    def __repr__(self) -> str:
        lines = [
            f"v{number} = {array.dtype}{list(array.shape)} in {chunks}"
            for number, (array, chunks) in enumerate(self.inputs)
        ]
        start = len(self.inputs)
        lines += [f"v{start + n} = {step.text}" for n, step in enumerate(self.steps)]
        lines.append("return " + ", ".join(f"v{number}" for number in self.outputs))
        return "\n".join(["", *lines])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print as Python in the reports of hypothesis, too."""
        printer.text(repr(self))

    def add_input(self, array: np.ndarray, chunks: Any) -> None:
        """Add an array that the program gets."""
        self.inputs.append((array, chunks))
        self.nodes.append(_Node(array))

    def try_step(self, step: _Step, operands: tuple[int, ...], is_exact: bool) -> bool:
        """Add a line, unless NumPy refuses it."""
        with np.errstate(all="ignore"):
            try:
                value = step.run([node.value for node in self.nodes])
            except (TypeError, ValueError, OverflowError, ZeroDivisionError):
                return False
        exact = is_exact and all(self.nodes[number].is_exact for number in operands)
        self.steps.append(step)
        self.nodes.append(_Node(value, exact))
        return True

    @property
    def tolerance(self) -> Tolerance:
        """What rounding in another order may change, from the largest value met."""
        floats = [
            node.value.dtype for node in self.nodes if node.value.dtype.kind in "fc"
        ]
        if not floats:
            return Tolerance()
        largest = 1.0
        for node in self.nodes:
            magnitude = np.abs(np.asarray(node.value, np.complex128))
            finite = magnitude[np.isfinite(magnitude)]
            largest = max(largest, float(finite.max(initial=0.0)))
        epsilon = max(float(np.finfo(dtype).eps) for dtype in floats)
        atol = 2e4 * min(largest, 1e300)
        return Tolerance(rtol=2e4, atol=atol, epsilon=epsilon)


def _ufuncs(*, exact: bool) -> dict[int, list[np.ufunc]]:
    """NumPy's functions that have a row in the table, by number of operands."""
    found: dict[int, list[np.ufunc]] = {1: [], 2: []}
    for name, op in sorted(OPS.items()):
        function = getattr(np, name, None)
        if isinstance(function, np.ufunc) and op.typing and not (exact and op.ulp):
            found[op.arity].append(function)
    return found


_EXACT_UFUNCS = _ufuncs(exact=True)
_UFUNCS = _ufuncs(exact=False)
_OPERATORS = (
    *(operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv),
    *(operator.mod, operator.and_, operator.or_, operator.xor, operator.lshift),
    *(operator.rshift, operator.lt, operator.le, operator.gt, operator.ge),
    *(operator.eq, operator.ne),
)
# What moves by little if its operands do; anything else only reads exact values.
_SMOOTH = {
    1: (
        *("negative", "absolute", "positive", "sin", "cos", "tanh", "arctan"),
        *("square", "conjugate", "expm1"),
    ),
    2: ("add", "subtract", "multiply", "maximum", "minimum"),
}
_PICKS = {"maximum", "minimum", "fmax", "fmin", "clip"}
_SIGN_READERS = {"signbit", "copysign"}


def _mixes_zeros(*operands: Any) -> bool:
    """Whether zeros of both signs meet: NumPy picks one or the other, by chance."""
    zeros = [np.asarray(x)[np.asarray(x) == 0] for x in operands]
    floats = [z for z in zeros if z.dtype.kind == "f"]
    signs = {bool(sign) for z in floats for sign in np.signbit(z).ravel()}
    return len(signs) > 1 or (
        bool(signs) and len(floats) < len([z for z in zeros if z.size])
    )


def _has_nan(*operands: Any) -> bool:
    return any(bool(np.isnan(x).any()) for x in operands)


LITERALS: tuple[Any, ...] = (
    *(2, 0, -1, 3, 200, 70000),
    *(0.5, -2.0, 0.0, 1e-3, float("nan"), float("inf")),
    *(True, 1 - 2j),
    *(np.float32(2.5), np.float64(-0.1), np.int8(3), np.uint8(200), np.int64(-7)),
    *(np.bool_(True), np.array(2.5), np.array(3, "i4")),
)


class _Author:
    """Writes the lines of a program, asking hypothesis what comes next."""

    def __init__(self, draw: st.DrawFn, program: Program, *, exact: bool) -> None:
        self.draw = draw
        self.program = program
        self.exact = exact

    def pick(self, *, exact: bool = False) -> int:
        """Choose a value, the later the likelier."""
        nodes = self.program.nodes
        allowed = [n for n, node in enumerate(nodes) if node.is_exact or not exact]
        return self.draw(st.sampled_from(allowed[::-1]))

    def partner(self, number: int, *, exact: bool = False) -> int:
        """Choose a value that broadcasts with another."""
        nodes = self.program.nodes
        shape = nodes[number].value.shape
        allowed = [
            n
            for n, node in enumerate(nodes)
            if (node.is_exact or not exact) and _broadcast(shape, node.value.shape)
        ]
        return self.draw(st.sampled_from(allowed[::-1] or [number]))

    def write(self, *kinds: str) -> None:
        """Write one line of one of some kinds; it may come to nothing."""
        getattr(self, self.draw(st.sampled_from(kinds)))()

    def _emit(
        self, text: str, run: Any, operands: tuple[int, ...], is_exact: bool = True
    ) -> None:
        self.program.try_step(_Step(text, run), operands, is_exact)

    def unary(self) -> None:
        function = self.draw(
            st.sampled_from((_EXACT_UFUNCS if self.exact else _UFUNCS)[1])
        )
        smooth = function.__name__ in _SMOOTH[1]
        a = self.pick(exact=not smooth)
        self._apply(function, function.__name__, (a,))

    def binary(self) -> None:
        functions = (_EXACT_UFUNCS if self.exact else _UFUNCS)[2]
        function = self.draw(st.sampled_from(functions))
        smooth = function.__name__ in _SMOOTH[2]
        a = self.pick(exact=not smooth)
        self._apply(function, function.__name__, (a, self.partner(a, exact=not smooth)))

    def operator(self) -> None:
        function = self.draw(st.sampled_from(_OPERATORS))
        smooth = function in (operator.add, operator.sub, operator.mul)
        a = self.pick(exact=not smooth)
        self._apply(function, function.__name__, (a, self.partner(a, exact=not smooth)))

    def literal(self) -> None:
        functions = [*_OPERATORS, *(_EXACT_UFUNCS if self.exact else _UFUNCS)[2]]
        function = self.draw(st.sampled_from(functions))
        literal = self.draw(st.sampled_from(LITERALS))
        name = function.__name__
        smooth = name in ("add", "sub", "subtract", "mul", "multiply")
        a = self.pick(exact=not smooth)
        value = self.program.nodes[a].value
        if not self._is_defined(name, (value, literal)):
            return
        if self.draw(st.booleans()):
            run, text = lambda v: function(v[a], literal), f"{name}(v{a}, {literal!r})"
        else:
            run, text = lambda v: function(literal, v[a]), f"{name}({literal!r}, v{a})"
        self._emit(text, run, (a,), self._is_exact(name, (value, literal)))

    def _apply(self, function: Any, name: str, operands: tuple[int, ...]) -> None:
        read = [self.program.nodes[n].value for n in operands]
        if not self._is_defined(name, read):
            return
        arguments = ", ".join(f"v{n}" for n in operands)
        self._emit(
            f"{name}({arguments})",
            lambda v: function(*(v[n] for n in operands)),
            operands,
            self._is_exact(name, read),
        )

    def _is_exact(self, name: str, operands: Any) -> bool:
        """Whether NumPy and a kernel agree bit for bit."""
        op = OPS.get(
            {"sub": "subtract", "mul": "multiply", "truediv": "divide"}.get(name, name)
        )
        if op is None:
            return True
        is_complex = any(np.asarray(x).dtype.kind == "c" for x in operands)
        return not (op.complex_ulp if is_complex else op.ulp)

    def _is_defined(self, name: str, operands: Any) -> bool:
        """Whether NumPy itself gives the same answer on every machine."""
        if self.exact and not self._is_exact(name, operands):
            return False
        if name in _PICKS and _mixes_zeros(*operands):
            return False
        if name in _SIGN_READERS and _has_nan(*operands):
            return False
        if name == "reciprocal":
            x = np.asarray(operands[0])
            return x.dtype.kind not in "biu" or bool(np.all(x != 0))
        return True

    def where(self) -> None:
        a, c = self.pick(), self.pick(exact=True)
        b = self.partner(a)
        shapes = [self.program.nodes[n].value.shape for n in (a, b, c)]
        if not _broadcast(*shapes):
            c = a if self.program.nodes[a].is_exact else c
        self._emit(
            f"np.where(v{c} > 0, v{a}, v{b})",
            lambda v: np.where(v[c] > 0, v[a], v[b]),
            (a, b),
        )

    def cast(self) -> None:
        a = self.pick(exact=True)
        dtype = self.draw(st.sampled_from(DTYPES))
        value = self.program.nodes[a].value
        if value.dtype.kind == "c" and dtype.kind != "c":
            return
        if dtype.kind in "iu" and value.dtype.kind == "f":
            # What a float that does not fit becomes, C leaves open.
            info = np.iinfo(dtype)
            fits = (value >= info.min / 2) & (value <= info.max / 2)
            if not bool(np.all(fits)):
                return
        self._emit(f"v{a}.astype({str(dtype)!r})", lambda v: v[a].astype(dtype), (a,))

    def composite(self) -> None:
        a = self.pick(exact=True)
        value = self.program.nodes[a].value
        calls: dict[str, Callable[[Any], Any]] = {
            "np.clip(v{}, -1, 2)": lambda x: np.clip(x, -1, 2),
            "np.clip(v{}, 0.5, None)": lambda x: np.clip(x, 0.5, None),
            "np.nan_to_num(v{})": np.nan_to_num,
            "np.round(v{}, 1)": lambda x: np.round(x, 1),
            "np.isclose(v{}, 1)": lambda x: np.isclose(x, 1),
            "np.real(v{})": np.real,
            "np.imag(v{})": np.imag,
            "v{} ** 2": lambda x: x**2,
            "-v{}": operator.neg,
            "abs(v{})": abs,
        }
        text = self.draw(st.sampled_from(sorted(calls)))
        if "clip" in text and _mixes_zeros(value, np.zeros(1, value.dtype)):
            return
        if "**" in text and not value.ndim and value.dtype == bool:
            # NumPy has one dtype for the square of a bool, another for arrays of them.
            return
        exact = value.dtype.kind != "c" or ("abs" not in text and "**" not in text)
        if self.exact and not exact:
            return
        function = calls[text]
        self._emit(text.format(a), lambda v: function(v[a]), (a,), exact)

    def transpose(self) -> None:
        a = self.pick()
        self._emit(f"v{a}.T", lambda v: v[a].T, (a,))

    def reduction(self) -> None:
        a = self.pick()
        node = self.program.nodes[a]
        value = node.value
        if value.ndim == 0:
            return
        names = ["sum", "prod", "any", "all"]
        if value.size:
            names += ["min", "max"]
        inexact = value.dtype.kind in "fc"
        if not self.exact:
            names = ["sum", "mean", *(names[4:] if value.dtype.kind != "c" else [])]
            if value.size and float(np.abs(value).max()) < 1000:
                names.append("var")
        elif inexact:
            names = [n for n in names if n not in ("sum", "prod")]
        name = self.draw(st.sampled_from(names))
        if name in ("min", "max") and (value.dtype.kind == "c" or _mixes_zeros(value)):
            return
        if name in ("any", "all") and not node.is_exact:
            return
        axes = (
            st.sets(st.integers(0, value.ndim - 1), min_size=1).map(sorted).map(tuple)
        )
        axis = self.draw(st.none() | axes)
        keepdims = self.draw(st.booleans())
        if name in ("mean", "var") and not value.size:
            return
        self._emit(
            f"np.{name}(v{a}, axis={axis}, keepdims={keepdims})",
            lambda v: getattr(np, name)(v[a], axis=axis, keepdims=keepdims),
            (a,),
            not (name in ("mean", "var") or (name == "sum" and inexact)),
        )

    def arg_reduction(self) -> None:
        a = self.pick(exact=True)
        value = self.program.nodes[a].value
        if not value.ndim or not value.size or value.dtype.kind == "c":
            return
        axis = self.draw(st.integers(0, value.ndim - 1))
        name = self.draw(st.sampled_from(["argmin", "argmax"]))
        self._emit(
            f"np.{name}(v{a}, axis={axis})",
            lambda v: getattr(np, name)(v[a], axis=axis),
            (a,),
        )

    def opaque(self) -> None:
        a = self.pick()
        value = self.program.nodes[a].value
        calls = _opaque_calls(value)
        if not calls:
            return
        text = self.draw(st.sampled_from(sorted(calls)))
        function = calls[text]
        # They may negate zeros or add in another order, but not here.
        self._emit(text.format(a), lambda v: function(v[a]), (a,))


def _broadcast(*shapes: tuple[int, ...]) -> bool:
    try:
        np.broadcast_shapes(*shapes)
    except ValueError:
        return False
    return True


def _unknown_function(block: np.ndarray) -> np.ndarray:
    """A function that has no row in any table."""
    return block[...].copy()


def _opaque_calls(value: Any) -> dict[str, Callable[[Any], Any]]:
    """What kernels do not do, as functions of a Dask array or a NumPy array."""
    if not value.ndim:
        return {}

    def only_dask(change: Callable[[da.Array], da.Array]) -> Callable[[Any], Any]:
        return lambda x: change(x) if isinstance(x, da.Array) else x

    dtype = value.dtype
    calls: dict[str, Callable[[Any], Any]] = {
        "v{}[::-1]": lambda x: x[::-1],
        "v{}[1:]": lambda x: x[1:],
        "v{}[..., :-1]": lambda x: x[..., :-1],
        "v{}[..., None]": lambda x: x[..., None] if x.ndim < 3 else x,
        "v{}.rechunk(4)": only_dask(lambda x: x.rechunk(4)),
        "v{}.map_blocks(_unknown_function)": only_dask(
            lambda x: x.map_blocks(_unknown_function, dtype=dtype)
        ),
    }
    if value.size:
        # Dask adds two arrays of no length but other chunks in too few blocks.
        calls["np.concatenate([v{0}, v{0}])"] = lambda x: np.concatenate([x, x])
    if value.size and min(value.shape) > 2:
        calls["v{}.map_overlap(_unknown_function, depth=1)"] = only_dask(
            lambda x: x.map_overlap(
                _unknown_function, depth=1, boundary="none", dtype=dtype
            )
        )
    if value.ndim == 2 and dtype in ("i8", "u8") and value.size:
        # Dask adds up the products of smaller integers in larger ones.
        calls["v{0} @ v{0}.T"] = lambda x: x @ x.T
    return calls


@st.composite
def _programs(draw: st.DrawFn, *, exact: bool, max_steps: int) -> Program:
    program = Program()
    base = draw(shapes(0 if exact else 1))
    grid = draw(chunkings(base))
    pool = (
        (*DTYPES, *_FOREIGN)
        if exact
        else tuple(map(np.dtype, ("f8", "f4", "i4", "c16")))
    )
    few = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3))
    for _ in range(draw(st.integers(1, 3))):
        dropped = draw(st.sampled_from([0, 0, 0, len(base) - 1, len(base)]))
        shape, chunks = base[dropped:], grid[dropped:]
        for axis in range(len(shape)):
            if draw(st.integers(0, 5)) == 5:
                shape = (*shape[:axis], 1, *shape[axis + 1 :])
                chunks = (*chunks[:axis], (1,), *chunks[axis + 1 :])
        if draw(st.integers(0, 5)) == 5:
            chunks = draw(chunkings(shape))
        dtype = draw(st.sampled_from(few))
        seed = draw(st.integers(0, 1000))
        program.add_input(values(dtype, shape, seed, special=exact), chunks)
    author = _Author(draw, program, exact=exact)
    plain = ("unary", "binary", "operator", "literal")
    rest = ("where", "cast", "composite", "transpose", "reduction", "opaque")
    for _ in range(draw(st.integers(3, max_steps))):
        author.write(*plain, *plain, *rest, *(("arg_reduction",) if exact else ()))
    numbers = range(len(program.inputs), len(program.nodes))
    chosen = draw(st.sets(st.sampled_from(numbers), max_size=3)) if numbers else set()
    program.outputs = tuple(sorted(chosen | {len(program.nodes) - 1}))
    return program


def exact_programs(max_steps: int = 10) -> st.SearchStrategy[Program]:
    """Programs for which kernels and NumPy agree bit for bit, on any values."""
    return _programs(exact=True, max_steps=max_steps)


def approximate_programs(max_steps: int = 10) -> st.SearchStrategy[Program]:
    """Programs with math functions and sums of floats, on tame values."""
    return _programs(exact=False, max_steps=max_steps)

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from dask_diffuse.codegen.llvm import KernelSource, assembly, compile_source
from dask_diffuse.codegen.target import host_target
from dask_diffuse.codegen.text import FunctionText
from dask_diffuse.codegen.types import constant, suffix, vector_of
from dask_diffuse.errors import CompileError
from dask_diffuse.runtime.engine import link

ATTRIBUTES = "attributes #0 = { nounwind }\n"


def compiled(function: FunctionText, name: str):
    """The function of a table of words and a number of them."""
    text = function.finish() + ATTRIBUTES
    source = KernelSource("test", text, (name,))
    code = link(source, compile_source(source, host_target()))
    prototype = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)
    call = prototype(code.functions[name])

    def run(words: np.ndarray) -> None:
        assert words.dtype == np.int64
        call(words.ctypes.data, words.size)
        assert code.owner is not None

    return run


def new_function(name: str) -> FunctionText:
    return FunctionText(name, (("ptr", "%p"), ("i64", "%n")))


def test_loop_runs_for_each_step():
    function = new_function("steps")
    with function.loop("%n", 3) as loop:
        function.set_word(loop.index, "%p", loop.index)
    run = compiled(function, "steps")
    words = np.full(10, -1)
    run(words)
    np.testing.assert_array_equal(words, [0, -1, -1, 3, -1, -1, 6, -1, -1, 9])


@pytest.mark.parametrize("length", [1, 2, 7])
def test_carried_values(length):
    function = new_function("total")
    with function.loop("%n") as loop:
        total = loop.carry("i64", "0")
        word = function.word("%p", loop.index)
        loop.advance(total, function.math("add", total, word))
    function.set_word(loop.after(total), "%p", 0)
    words = np.arange(5, 5 + length)
    expected = words.sum()
    compiled(function, "total")(words)
    assert words[0] == expected


def test_nested_loops_and_branches():
    # Counts for each place how many before it are smaller.
    function = new_function("ranks")
    with function.loop("%n") as outer:
        one = function.word("%p", outer.index)
        with function.loop(outer.index) as inner:
            other = function.math("and", function.word("%p", inner.index), 255)
            smaller = function.test("slt", other, one)
            with function.when(smaller):
                word = function.word("%p", outer.index)
                more = function.math("add", word, 256)
                function.set_word(more, "%p", outer.index)
            with function.otherwise(smaller):
                function.comment("not smaller")
    words = np.array([3, 1, 2, 9, 0, 5])
    expected = [sum(words[:i] < words[i]) for i in range(words.size)]
    compiled(function, "ranks")(words)
    np.testing.assert_array_equal(words >> 8, expected)


def test_forever_until_left():
    # The first power of two that is no less.
    function = new_function("power")
    limit = function.word("%p", 0)
    function.set_word(1, "%p", 0)
    with function.forever() as end:
        power = function.word("%p", 0)
        function.leave_if(function.test("sge", power, limit), end)
        function.set_word(function.math("shl", power, 1), "%p", 0)
    run = compiled(function, "power")
    for number, expected in [(1, 1), (5, 8), (64, 64), (65, 128)]:
        words = np.array([number])
        run(words)
        assert words[0] == expected


def test_names_do_not_repeat():
    function = new_function("names")
    names = [function.new_name("x") for _ in range(3)]
    assert len(set(names)) == 3


def test_errors_show_the_source():
    source = KernelSource("broken", "define void @f() {\n  ret i64 0\n}\n", ("f",))
    with pytest.raises(CompileError, match="kernel 'broken' does not compile") as info:
        compile_source(source, host_target())
    assert "   2 |   ret i64 0" in str(info.value)


def test_assembly():
    function = new_function("nothing")
    source = KernelSource("test", function.finish() + ATTRIBUTES, ("nothing",))
    assert "nothing:" in assembly(source, host_target())


class TestTypes:
    @pytest.mark.parametrize(
        ("value", "type_", "text"),
        [
            (0.1, "double", "0x3FB999999999999A"),
            (0.1, "float", "0x3FB99999A0000000"),
            (float("-inf"), "float", "0xFFF0000000000000"),
            (2**63, "i64", "9223372036854775808"),
            (False, "i1", "false"),
        ],
    )
    def test_constants(self, value, type_, text):
        assert constant(value, type_) == text

    def test_vectors(self):
        assert vector_of("i8", [1, -2]) == "<i8 1, i8 -2>"
        assert suffix(4, "double") == "v4f64"
        assert suffix(8, "i32") == "v8i32"

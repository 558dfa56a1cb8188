"""A small builder of LLVM IR text: names, instructions, loops and branches.

Text and not a library of objects: what is printed for people is, letter for letter,
what is compiled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

__all__ = ["FunctionText", "Loop"]


class Loop:
    """One counted loop under construction.

    Parameters
    ----------
    function
        Where its text goes.
    index
        The counter.
    """

    def __init__(self, function: FunctionText, index: str) -> None:
        self.index = index
        self._function = function
        self._carried: list[tuple[int, str, str, str]] = []
        self._next: dict[str, str] = {}
        self._after: dict[str, str] = {}

    def carry(self, type_: str, start: str) -> str:
        """Return a value that is `start` at first and later what `advance` says.

        All of these come before any other instruction of the body.
        """
        name = self._function.new_name("carry")
        line = self._function.reserve()
        self._carried.append((line, name, type_, start))
        return name

    def advance(self, name: str, value: str) -> None:
        """Say what a carried value is in the next round, and after the loop."""
        self._next[name] = value

    def after(self, name: str) -> str:
        """Return a carried value as it is after the loop."""
        return self._after[name]

    def close(self, entry: str, latch: str) -> None:
        """Fill in the carried values, once it is known where the body ends."""
        for line, name, type_, start in self._carried:
            value = self._next[name]
            text = f"{name} = phi {type_} [ {start}, %{entry} ], [ {value}, %{latch} ]"
            self._function.fill(line, text)

    def leave(self, entry: str, latch: str) -> None:
        """Write what the carried values are after the loop, which may not have run."""
        for _, name, type_, start in self._carried:
            value = self._next[name]
            self._after[name] = self._function.let(
                "after",
                f"phi {type_} [ {start}, %{entry} ], [ {value}, %{latch} ]",
            )


class FunctionText:
    """One function of an LLVM module, written instruction by instruction.

    Parameters
    ----------
    name
        Of the function.
    params
        Type and name of each parameter, as in ``("i64", "%n")``.
    attributes
        Number of the attribute group.
    result
        Type of the result. A function that has one is for its own module only.

    Examples
    --------
    >>> function = FunctionText("fill", (("ptr", "%p"), ("i64", "%n")))
    >>> with function.loop("%n", 4) as loop:
    ...     function.store("i64", loop.index, function.at("i64", "%p", loop.index))
    >>> print(function.finish())
    define void @fill(ptr %p, i64 %n) #0 {
    begin:
      %some.0 = icmp sgt i64 %n, 0
      br i1 %some.0, label %body.1, label %end.2
    body.1:
      %i.3 = phi i64 [ 0, %begin ], [ %next.5, %body.1 ]
      %at.4 = getelementptr inbounds i64, ptr %p, i64 %i.3
      store i64 %i.3, ptr %at.4
      %next.5 = add nsw i64 %i.3, 4
      %more.6 = icmp slt i64 %next.5, %n
      br i1 %more.6, label %body.1, label %end.2
    end.2:
      ret void
    }
    <BLANKLINE>
    """

    def __init__(
        self,
        name: str,
        params: Sequence[tuple[str, str]],
        attributes: int = 0,
        result: str = "void",
    ) -> None:
        declared = ", ".join(f"{type_} {param}" for type_, param in params)
        kind = result if result == "void" else f"internal {result}"
        self._lines = [f"define {kind} @{name}({declared}) #{attributes} {{", "begin:"]
        self._result = result
        self._block = "begin"
        self._count = 0

    def new_name(self, stem: str) -> str:
        """Return a name for a value that is not taken."""
        name = f"%{stem}.{self._count}"
        self._count += 1
        return name

    def let(self, stem: str, text: str) -> str:
        """Write an instruction with a result, and return the name of the result."""
        name = self.new_name(stem)
        self._lines.append(f"  {name} = {text}")
        return name

    def do(self, text: str) -> None:
        """Write an instruction without a result."""
        self._lines.append(f"  {text}")

    def comment(self, text: str) -> None:
        """Write a comment."""
        self._lines.append(f"  ; {text}")

    def reserve(self) -> int:
        """Leave a line to be filled in later."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, line: int, text: str) -> None:
        """Fill in a line that was reserved."""
        self._lines[line] = f"  {text}"

    def load(
        self,
        type_: str,
        pointer: str,
        align: int | None = None,
        *,
        volatile: bool = False,
    ) -> str:
        """Load from memory."""
        word = "load volatile" if volatile else "load"
        suffix = "" if align is None else f", align {align}"
        return self.let("load", f"{word} {type_}, ptr {pointer}{suffix}")

    def store(
        self, type_: str, value: str, pointer: str, align: int | None = None
    ) -> None:
        """Store to memory."""
        suffix = "" if align is None else f", align {align}"
        self.do(f"store {type_} {value}, ptr {pointer}{suffix}")

    def at(self, type_: str, pointer: str, index: str | int) -> str:
        """Return the address of an element."""
        return self.let(
            "at", f"getelementptr inbounds {type_}, ptr {pointer}, i64 {index}"
        )

    def word(self, pointer: str, index: str | int) -> str:
        """Load one of a table of 64-bit integers."""
        return self.load("i64", self.at("i64", pointer, index))

    def set_word(self, value: str | int, pointer: str, index: str | int) -> None:
        """Store one of a table of 64-bit integers."""
        self.store("i64", str(value), self.at("i64", pointer, index))

    def pointer(self, word: str) -> str:
        """Return a word as a pointer."""
        return self.let("ptr", f"inttoptr i64 {word} to ptr")

    def math(self, op: str, left: str | int, right: str | int) -> str:
        """Compute with words: ``add``, ``mul``, ``and``, ..."""
        return self.let(op, f"{op} i64 {left}, {right}")

    def test(self, condition: str, left: str | int, right: str | int) -> str:
        """Compare words: ``eq``, ``slt``, ..."""
        return self.let("test", f"icmp {condition} i64 {left}, {right}")

    def choose(self, condition: str, left: str | int, right: str | int) -> str:
        """Return one of two words."""
        return self.let("pick", f"select i1 {condition}, i64 {left}, i64 {right}")

    @contextmanager
    def loop(self, stop: str | int, step: str | int = 1) -> Iterator[Loop]:
        """Write a loop from 0 while the counter is less than `stop`."""
        some = self.let("some", f"icmp sgt i64 {stop}, 0")
        body, end = self._label("body"), self._label("end")
        entry = self._block
        self.do(f"br i1 {some}, label %{body}, label %{end}")
        self.begin(body)
        index = self.new_name("i")
        line = self.reserve()
        loop = Loop(self, index)
        yield loop
        following = self.let("next", f"add nsw i64 {index}, {step}")
        more = self.let("more", f"icmp slt i64 {following}, {stop}")
        latch = self._block
        self.do(f"br i1 {more}, label %{body}, label %{end}")
        self.fill(line, f"{index} = phi i64 [ 0, %{entry} ], [ {following}, %{latch} ]")
        loop.close(entry, latch)
        self.begin(end)
        loop.leave(entry, latch)

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Write instructions that run only if a condition holds."""
        then, end = self._label("then"), self._label("end")
        self.do(f"br i1 {condition}, label %{then}, label %{end}")
        self.begin(then)
        yield
        self.do(f"br label %{end}")
        self.begin(end)

    @contextmanager
    def otherwise(self, condition: str) -> Iterator[None]:
        """Write instructions that run only if a condition does not hold."""
        then, end = self._label("else"), self._label("end")
        self.do(f"br i1 {condition}, label %{end}, label %{then}")
        self.begin(then)
        yield
        self.do(f"br label %{end}")
        self.begin(end)

    @contextmanager
    def forever(self) -> Iterator[str]:
        """Write a loop that ends by a jump to the label it is given."""
        again, end = self._label("again"), self._label("end")
        self.do(f"br label %{again}")
        self.begin(again)
        yield end
        self.do(f"br label %{again}")
        self.begin(end)

    def leave_if(self, condition: str, end: str) -> None:
        """Leave a `forever` loop if a condition holds."""
        stay = self._label("stay")
        self.do(f"br i1 {condition}, label %{end}, label %{stay}")
        self.begin(stay)

    def begin(self, label: str) -> None:
        """Begin a basic block."""
        self._lines.append(f"{label}:")
        self._block = label

    @contextmanager
    def returning_unless(self, condition: str) -> Iterator[None]:
        """Write instructions that run only if a condition does not hold, and `give`."""
        then, end = self._label("then"), self._label("end")
        self.do(f"br i1 {condition}, label %{end}, label %{then}")
        self.begin(then)
        yield
        self.begin(end)

    def give(self, value: str = "") -> None:
        """Return from the function."""
        self.do(f"ret {self._result} {value}".rstrip())

    def finish(self, value: str = "") -> str:
        """Return the text of the function."""
        self.give(value)
        return "\n".join([*self._lines, "}", ""])

    def _label(self, stem: str) -> str:
        return self.new_name(stem)[1:]

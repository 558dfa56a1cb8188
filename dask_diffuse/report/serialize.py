"""Programs as JSON can hold them: structure and literals, no data.

A saved program names layers, not values of arrays, so that it can be sent with a bug
report and planned again anywhere.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, assert_never

import numpy as np

from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.ir.partition import Partition, PartitionTable, Replicated, Tiling
from dask_diffuse.ir.program import Program
from dask_diffuse.ir.store import Origin, Store
from dask_diffuse.ir.task import (
    Access,
    Body,
    Elementwise,
    IndexTask,
    Opaque,
    Partial,
    Privilege,
    Reduction,
    Statistic,
)
from dask_diffuse.kernel.function import Instruction, ScalarFunction

__all__ = ["load_program", "program_from_dict", "program_to_dict"]

JSON = dict[str, Any]


def load_program(path: str | Path) -> Program:
    """Read the program that ``Explanation.save`` wrote.

    Parameters
    ----------
    path
        Name of the JSON file.
    """
    saved = json.loads(Path(path).read_text(encoding="utf-8"))
    return program_from_dict(saved["program"])


def program_to_dict(program: Program) -> JSON:
    """Return a program as nested dicts, lists, strings and numbers."""
    partitions: dict[Partition, int] = {}
    tasks = [_task_to_dict(task, partitions) for task in program.tasks]
    return {
        "stores": [_store_to_dict(store) for store in program.stores.values()],
        "partitions": [_partition_to_dict(partition) for partition in partitions],
        "tasks": tasks,
        "requested": sorted(program.requested),
        "decisions": [_decision_to_dict(decision) for decision in program.decisions],
    }


def program_from_dict(saved: JSON) -> Program:
    """Return the program that `program_to_dict` described."""
    table = PartitionTable()
    partitions = [_partition_from_dict(item, table) for item in saved["partitions"]]
    stores = [_store_from_dict(item) for item in saved["stores"]]
    return Program(
        stores={store.name: store for store in stores},
        tasks=tuple(
            _task_from_dict(i, item, partitions)
            for i, item in enumerate(saved["tasks"])
        ),
        requested=frozenset(saved["requested"]),
        decisions=tuple(map(_decision_from_dict, saved["decisions"])),
    )


def _store_to_dict(store: Store) -> JSON:
    return {
        "name": store.name,
        "shape": list(store.shape),
        "dtype": None if store.dtype is None else store.dtype.str,
        "origin": [store.origin.layer, store.origin.label],
    }


def _store_from_dict(saved: JSON) -> Store:
    dtype = saved["dtype"]
    return Store(
        saved["name"],
        tuple(saved["shape"]),
        None if dtype is None else np.dtype(dtype),
        Origin(*saved["origin"]),
    )


def _partition_to_dict(partition: Partition) -> JSON:
    match partition:
        case Replicated():
            return {"kind": "replicated"}
        case Tiling(chunks, axes):
            lengths = [list(along) for along in chunks]
            return {"kind": "tiling", "chunks": lengths, "axes": list(axes)}
        case _:
            assert_never(partition)


def _partition_from_dict(saved: JSON, table: PartitionTable) -> Partition:
    if saved["kind"] == "replicated":
        return table.replicated
    chunks = tuple(tuple(along) for along in saved["chunks"])
    return table.tiling(chunks, tuple(saved["axes"]))


def _task_to_dict(task: IndexTask, partitions: dict[Partition, int]) -> JSON:
    def number(partition: Partition) -> int:
        return partitions.setdefault(partition, len(partitions))

    return {
        "launch": list(task.launch),
        "accesses": [
            [a.store, number(a.partition), a.privilege.value, a.reduction]
            for a in task.accesses
        ],
        "body": _body_to_dict(task.body),
        "origin": [task.origin.layer, task.origin.label],
        "space": None if task.space is None else number(task.space),
        "scalars": [[s.dtype.str, repr(s.item())] for s in task.scalars],
        "annotations": [[key, repr(value)] for key, value in task.annotations],
    }


def _task_from_dict(i: int, saved: JSON, partitions: list[Partition]) -> IndexTask:
    space = None if saved["space"] is None else partitions[saved["space"]]
    assert space is None or isinstance(space, Tiling)
    return IndexTask(
        id=i,
        launch=tuple(saved["launch"]),
        accesses=tuple(
            Access(store, partitions[number], Privilege(privilege), reduction)
            for store, number, privilege, reduction in saved["accesses"]
        ),
        body=_body_from_dict(saved["body"]),
        origin=Origin(*saved["origin"]),
        space=space,
        scalars=tuple(_scalar_from_text(*item) for item in saved["scalars"]),
        annotations=tuple((key, value) for key, value in saved["annotations"]),
    )


def _scalar_from_text(dtype: str, text: str) -> np.generic:
    kind = np.dtype(dtype)
    match kind.kind:
        case "b":
            value: object = text == "True"
        case "i" | "u":
            value = int(text)
        case "c":
            value = complex(text)
        case _:
            value = float(text)
    scalar: np.generic = kind.type(value)
    return scalar


def _body_to_dict(body: Body) -> JSON:
    match body:
        case Elementwise(function, operands):
            return {
                "kind": "elementwise",
                "function": _function_to_dict(function),
                "operands": [list(axes) for axes in operands],
            }
        case Reduction(function, operands):
            return {
                "kind": "reduction",
                "function": _function_to_dict(function),
                "operands": [list(axes) for axes in operands],
                "axes": list(body.axes),
                "statistics": [
                    [s.reduction, list(s.values), s.dtype.str] for s in body.statistics
                ],
                "partial": body.partial.value,
                "partial_dtype": body.partial_dtype.str,
            }
        case Opaque(decision, partly):
            return {
                "kind": "opaque",
                "decision": _decision_to_dict(decision),
                "partly": list(partly),
            }
        case _:
            assert_never(body)


def _body_from_dict(saved: JSON) -> Body:
    if saved["kind"] == "opaque":
        decision = _decision_from_dict(saved["decision"])
        return Opaque(decision, tuple(saved["partly"]))
    function = _function_from_dict(saved["function"])
    operands = tuple(tuple(axes) for axes in saved["operands"])
    if saved["kind"] == "elementwise":
        return Elementwise(function, operands)
    return Reduction(
        function,
        operands,
        axes=tuple(saved["axes"]),
        statistics=tuple(
            Statistic(reduction, tuple(values), np.dtype(dtype))
            for reduction, values, dtype in saved["statistics"]
        ),
        partial=Partial(saved["partial"]),
        partial_dtype=np.dtype(saved["partial_dtype"]),
    )


def _function_to_dict(function: ScalarFunction) -> JSON:
    return {
        "instructions": [
            [i.op, list(i.args), i.dtype.str, _attr_to_list(i.attr)]
            for i in function.instructions
        ],
        "results": list(function.results),
    }


def _function_from_dict(saved: JSON) -> ScalarFunction:
    return ScalarFunction(
        tuple(
            Instruction(op, tuple(args), np.dtype(dtype), _attr_from_list(attr))
            for op, args, dtype, attr in saved["instructions"]
        ),
        tuple(saved["results"]),
    )


_ATTRS = {"bool": bool, "int": int, "float": float, "complex": complex}


def _attr_to_list(attr: object) -> list[str] | None:
    """Return type and text of an attribute: JSON has neither nan nor complex."""
    if attr is None:
        return None
    return [type(attr).__name__, repr(attr)]


def _attr_from_list(saved: list[str] | None) -> Any:
    if saved is None:
        return None
    kind, text = saved
    return text == "True" if kind == "bool" else _ATTRS[kind](text)


def _decision_to_dict(decision: Decision) -> JSON:
    return {
        "rule": decision.rule.value,
        "accepted": decision.accepted,
        "subject": decision.subject,
        "other": decision.other,
        "detail": decision.detail,
        "remedy": decision.remedy,
    }


def _decision_from_dict(saved: JSON) -> Decision:
    return Decision(
        rule=Rule(saved["rule"]),
        accepted=saved["accepted"],
        subject=saved["subject"],
        other=saved["other"],
        detail=saved["detail"],
        remedy=saved["remedy"],
    )

from __future__ import annotations

import dataclasses
import json

import pytest

from dask_diffuse.ir.decision import Decision, Rule
from dask_diffuse.report import Explanation, TaskCounts, load_program, program_to_dict
from dask_diffuse.report.groups import short_name, size_text

MEGABYTES = 1000 * 1000 * 8


@pytest.fixture
def explanation(plan):
    return Explanation(plan, TaskCounts(graph=11, dask=9, fused=6))


def test_counts_bytes_and_tasks_of_a_group(explanation):
    (group,) = explanation.groups
    assert group.label == "mul, add, sum"
    assert group.launch == (2, 1)
    assert group.bytes_not_written == MEGABYTES
    # NumPy reads the temporary once, and once more what it has just written.
    assert group.bytes_not_read == 2 * MEGABYTES
    assert group.exact
    assert group.tasks_before == 6
    # The kernel, and a selection for each of the two requested stores.
    assert group.tasks_after == 6


def test_unknown_shapes_make_bytes_a_lower_bound(plan):
    stores = dict(plan.program.stores)
    name = plan.groups[0].temporaries[0]
    stores[name] = dataclasses.replace(stores[name], shape=(None, 1000))
    program = dataclasses.replace(plan.program, stores=stores)
    explanation = Explanation(
        dataclasses.replace(plan, program=program), TaskCounts(11, None, 6)
    )
    assert not explanation.groups[0].exact
    assert "at least 0 B written" in str(explanation)
    assert "Dask's own" not in str(explanation)


def test_text(explanation):
    assert str(explanation) == TEXT


TEXT = """\
4 layers, 1 group; 11 tasks become 6 (9 by Dask's own optimizer)

group 0: mul, add, sum
  blocks       2 x 1; 6 tasks become 6, 3 values per element
  reads        array-012345 float64[1000, 1000]
  writes       add-012345 float64[1000, 1000]
  writes       sum-012345 (partial results)
  temporaries  mul-012345
  saves        8 MB written, 16 MB read

not fused
  unknown-function:
    opaque: calls f
    remedy: Register f"""


def test_refusals_are_sorted_by_rule_and_listed_once(plan):
    cost = Decision(Rule.COST, False, "a", "b", "one operation")
    decisions = (*plan.decisions, cost, cost)
    explanation = Explanation(
        dataclasses.replace(plan, decisions=decisions), TaskCounts(1, None, 1)
    )
    assert [d.rule for d in explanation.refusals] == [Rule.COST, Rule.UNKNOWN_FUNCTION]
    assert "a with b: one operation" in str(explanation)


def test_layers_that_are_never_fused_are_counted_and_not_listed(plan):
    token = "0123456789abcdef0123456789abcdef"
    names = (f"sum-partial-{token}", f"finalize-hlgfinalizecompute-{token}", "slice")
    decisions = [
        Decision(Rule.MATERIALIZED, False, name, detail="tasks") for name in names
    ]
    decisions.append(Decision(Rule.SOURCE, False, "random"))
    text = str(
        Explanation(
            dataclasses.replace(plan, decisions=tuple(decisions)),
            TaskCounts(1, None, 1),
        )
    )
    assert text.partition("not fused\n")[2] == (
        "  materialized:\n"
        "    slice: tasks\n"
        "    and 2 combine steps and results\n"
        "  source: 1 layer"
    )


def test_tokens_in_details_are_shortened(plan):
    detail = "'mul-0123456789abcdef0123456789abcdef' is between"
    decisions = (Decision(Rule.CONVEXITY, False, "a", "b", detail),)
    text = str(
        Explanation(
            dataclasses.replace(plan, decisions=decisions), TaskCounts(1, None, 1)
        )
    )
    assert "a with b: 'mul-012345' is between" in text


def test_many_temporaries_are_wrapped(plan):
    names = tuple(f"temporary-{i}" for i in range(20))
    (group,) = plan.groups
    stores = plan.program.stores
    store = next(iter(stores.values()))
    program = dataclasses.replace(
        plan.program, stores={**stores, **dict.fromkeys(names, store)}
    )
    group = dataclasses.replace(group, temporaries=names)
    text = str(
        Explanation(
            dataclasses.replace(plan, program=program, groups=(group,)),
            TaskCounts(1, None, 1),
        )
    )
    assert all(name in text for name in names)
    assert max(map(len, text.splitlines())) <= 88


def test_long_lists_are_cut(plan):
    many = tuple(Decision(Rule.COST, False, f"layer{i}") for i in range(100))
    explanation = Explanation(
        dataclasses.replace(plan, decisions=many), TaskCounts(1, None, 1)
    )
    assert len(explanation.refusals) == 100
    assert "and 92 more" in str(explanation)


def test_html_escapes(plan):
    evil = (Decision(Rule.COST, False, "<script>"),)
    page = Explanation(
        dataclasses.replace(plan, decisions=evil), TaskCounts(1, None, 1)
    )._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page


def test_saves_what_can_be_loaded(explanation, tmp_path):
    path = tmp_path / "case.json"
    explanation.save(path)
    saved = json.loads(path.read_text())
    assert saved == explanation.to_dict()
    assert saved["groups"][0]["label"] == "mul, add, sum"
    program = load_program(path)
    assert program_to_dict(program) == saved["program"]


def test_short_names_keep_what_is_not_a_token():
    assert short_name("my-array") == "my-array"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (999.7, "1000 B"),
        (1000, "1 kB"),
        (2.56e9, "2.56 GB"),
        (5e15, "5 PB"),
    ],
)
def test_sizes(size, text):
    assert size_text(size) == text

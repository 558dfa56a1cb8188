"""Groups stay acyclic, and paths between them are found."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_diffuse.fusion.quotient import Quotient


def quotient(size: int, *edges: tuple[int, int], barriers=()) -> Quotient:
    made = Quotient(size)
    for before, after in sorted(edges, key=lambda edge: edge[1]):
        made.add_dependence(before, after, (before, after) in barriers)
    return made


def test_triangle_may_not_be_merged_across():
    triangle = quotient(3, (0, 1), (1, 2), (0, 2))
    assert triangle.path_between(0, 2) == 1
    assert triangle.path_between(2, 0) == 1
    assert triangle.path_between(0, 1) is None
    assert triangle.path_between(1, 2) is None


def test_merging_makes_paths():
    #  0 -> 1    2 -> 3     and 1, 2 become one: then 0 -> {1, 2} -> 3
    groups = quotient(5, (0, 1), (2, 3), (0, 4), (3, 4))
    assert groups.path_between(0, 3) is None
    groups.merge(1, 2)
    assert groups.path_between(0, 3) == groups.find(1)
    assert groups.find(1) == groups.find(2)
    assert groups.rank(groups.find(1)) < groups.rank(3) < groups.rank(4)


def test_barriers_survive_merging():
    groups = quotient(4, (0, 2), (1, 2), (2, 3), barriers={(0, 2)})
    assert groups.has_barrier(0, 2)
    assert not groups.has_barrier(1, 2)
    merged = groups.merge(0, 1)
    assert groups.has_barrier(merged, 2)
    assert groups.has_barrier(2, merged)


def test_tasks_come_in_order():
    with pytest.raises(ValueError, match="task 0 reads what task 1 writes"):
        Quotient(2).add_dependence(1, 0, False)


@st.composite
def graphs(draw):
    size = draw(st.integers(2, 12))
    pairs = list(itertools.combinations(range(size), 2))
    edges = draw(st.sets(st.sampled_from(pairs)))
    merges = draw(st.lists(st.sampled_from(pairs), max_size=8))
    return size, edges, merges


def reachable(size, edges, find):
    """By brute force: which groups reach which, and in how many steps at most."""
    groups = {find(task) for task in range(size)}
    steps = {(find(a), find(b)) for a, b in edges if find(a) != find(b)}
    reach = set(steps)
    for middle, first, last in itertools.product(groups, repeat=3):
        if (first, middle) in reach and (middle, last) in reach:
            reach.add((first, last))
    return groups, reach


@given(graphs())
def test_paths_are_those_of_brute_force(graph):
    size, edges, merges = graph
    groups = quotient(size, *edges)
    for one, other in merges:
        first, second = groups.find(one), groups.find(other)
        if first == second:
            continue
        roots, reach = reachable(size, edges, groups.find)
        between = {
            group
            for group in roots - {first, second}
            if {(first, group), (group, second)} <= reach
            or {(second, group), (group, first)} <= reach
        }
        found = groups.path_between(first, second)
        assert (found is None) == (not between)
        if found is None:
            groups.merge(first, second)
        else:
            assert found in between
        for before, after in edges:
            before, after = groups.find(before), groups.find(after)
            assert before == after or groups.rank(before) < groups.rank(after)
            assert before == after or before in groups.predecessors(after)

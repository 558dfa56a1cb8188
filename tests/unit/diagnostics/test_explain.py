from __future__ import annotations

import json

import dask
import dask.array as da
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse import Options, explain
from dask_diffuse.dask_api import Blockwise
from dask_diffuse.errors import DiffuseError, OptionError
from dask_diffuse.ir.decision import Rule
from dask_diffuse.optimizer import hook_counts

RNG = np.random.default_rng(0)


def source(shape=(60, 40), chunks=(20, 20)):
    return da.from_array(RNG.random(shape), chunks=chunks)


def explained(*collections):
    return explain(*collections, min_bytes=0, verify=True)


def rules(report):
    return {decision.rule for decision in report.refusals}


class TestPrograms:
    def test_a_chain_is_one_group(self):
        report = explained(da.sqrt(source()) * 2 + 1)
        (group,) = report.groups
        assert group.label == "sqrt, mul, add"
        assert group.launch == (3, 2)
        assert len(group.temporaries) == 2
        assert len(group.reads) == len(group.writes) == 1
        assert group.bytes_not_written == 2 * 60 * 40 * 8
        assert group.tasks_after == 6

    def test_two_outputs_are_one_kernel(self):
        x = source()
        y = da.exp(x)
        report = explained(y + 1, y * 2)
        (group,) = report.groups
        assert len(group.writes) == 2
        assert len(report.kernels[0].kernel.statements) == 2

    def test_a_reduction_takes_its_maps_along(self):
        report = explained((source() * 2).sum())
        (group,) = report.groups
        assert group.label == "mul, sum"

    def test_a_reduction_that_is_read_again_is_a_boundary(self):
        x = source()
        report = explained(x * 3 - (x * 2).mean())
        labels = [group.label for group in report.groups]
        assert any("mean" in label for label in labels)
        assert not any("mean" in label and "sub" in label for label in labels)
        assert report.refusals

    def test_an_unknown_function_is_named(self):
        x = source() + 1
        y = x.map_blocks(np.linalg.norm, dtype=float, keepdims=True, chunks=(1, 1))
        report = explained(y * 2 + 1)
        (refusal,) = [d for d in report.refusals if d.rule is Rule.UNKNOWN_FUNCTION]
        assert "norm" in refusal.detail
        assert refusal.remedy
        assert "unknown-function" in str(report)

    def test_every_refusal_has_a_reason(self):
        x = source()
        y = (x @ x.T)[::2] + 1
        z = da.concatenate([y, y]).rechunk((7, 9)).astype("float16") * 2
        report = explained(z.sum(axis=0), x.astype("M8[s]"))
        assert report.refusals
        assert all(d.detail or d.rule is Rule.SOURCE for d in report.refusals)
        assert {Rule.MATERIALIZED, Rule.UNSUPPORTED_DTYPE} <= rules(report)

    def test_xarray(self):
        xr = pytest.importorskip("xarray")
        array = xr.DataArray(source(), dims=("y", "x"))
        report = explained(xr.Dataset({"a": array * 2 + 1, "b": (array - 3).mean("x")}))
        assert {len(g.writes) for g in report.groups} == {2}


class TestCounts:
    def test_tasks_at_three_stages(self):
        x = source()
        y = da.sqrt(x) * 2 + 1
        report = explained(y)
        with dask_diffuse.disable():
            dask_tasks = len(dask.optimize(y)[0].dask.to_dict())
        # The hook sees one task more, which puts the result together.
        assert report.counts.graph == len(y.dask.to_dict()) + 1
        assert report.counts.dask in (dask_tasks, dask_tasks + 1)
        assert report.counts.fused <= report.counts.graph

    def test_as_computed(self):
        seen = []
        y = (da.sqrt(source()) * 2 + 1).sum()
        report = explained(y)

        def get(dsk, keys, **kwargs):
            graph = dsk.__dask_graph__()
            seen.append(len(graph))
            return dask.get(graph, keys, **kwargs)

        with dask_diffuse.enable(min_bytes=0):
            y.compute(scheduler=get)
        assert seen == [report.counts.fused]

    def test_large_graphs_are_not_run_through_another_optimizer(self):
        x = source((400, 400), (2, 2))
        report = explained(x * 2 + 1)
        assert report.counts.graph > 20_000
        assert report.counts.dask is None
        assert report.counts.fused < report.counts.graph
        report = explained(x)
        assert report.counts.graph > 20_000
        assert report.counts.dask is report.counts.fused is None
        assert "left to Dask's own optimizer" in str(report)


class TestLeavesThingsAlone:
    def test_layers_stay_symbolic(self):
        y = (da.sqrt(source()) * 2 + 1).map_blocks(np.linalg.norm, dtype=float)
        explained(y)
        symbolic = [x for x in y.dask.layers.values() if isinstance(x, Blockwise)]
        assert len(symbolic) == 4
        assert not any(layer.is_materialized() for layer in symbolic)

    def test_nothing_is_computed_and_nothing_counted(self):
        calls = []

        def block(x):
            calls.append(x)
            return x

        before = hook_counts()
        x = source().map_blocks(block, dtype=float, meta=np.empty((0, 0)))
        explained(x + 1)
        assert not calls
        assert hook_counts() == before

    def test_the_configuration_is_as_it_was(self):
        before = dict(dask.config.config)
        explained(source() + 1)
        assert dask.config.config == before


class TestOptions:
    def test_those_of_the_hook_that_is_enabled(self):
        y = source() * 2 + 1
        assert not explain(y).groups
        with dask_diffuse.enable(min_bytes=0):
            assert explain(y).groups
            assert not explain(y, options=Options()).groups
            assert not explain(y, min_bytes=1 << 20).groups

    def test_a_small_graph_says_so(self):
        report = explain(source() * 2 + 1)
        (refusal,) = [d for d in report.refusals if d.rule is Rule.TOO_SMALL]
        assert "262 kB" in refusal.detail
        assert "min_bytes=0" in str(report)
        assert report.counts.fused == report.counts.dask

    def test_wrong_ones_are_refused(self):
        with pytest.raises(OptionError, match="Did you mean 'min_bytes'"):
            explain(source(), min_byte=0)


class TestNothingToExplain:
    def test_a_result(self):
        with pytest.raises(DiffuseError, match="given ndarray: no Dask array"):
            explain(np.ones(3))

    def test_nothing(self):
        with pytest.raises(DiffuseError, match="given nothing"):
            explain()

    def test_delayed(self):
        with pytest.raises(DiffuseError, match="given Delayed"):
            explain(dask.delayed(sum)([1, 2]))


class TestForms:
    @pytest.fixture
    def report(self):
        x = source()
        return explained((da.exp(x) * 2.5 + 1).sum(), x.max())

    def test_text(self, report):
        text = str(report)
        assert text.splitlines()[0].startswith(f"{len(report.program.tasks)} layers, ")
        assert "group 0" in text
        assert "saves" in text
        assert repr(report) == text
        assert repr(report.kernels[0]).startswith("<KernelReport 'exp-")
        assert len(repr(report.groups[0])) < 1000

    def test_html(self, report):
        page = report._repr_html_()
        assert page.count("<tr>") == 1 + len(report.groups)

    def test_json(self, report):
        saved = json.loads(json.dumps(report.to_dict()))
        assert saved["tasks"]["fused"] == report.counts.fused
        assert len(saved["groups"]) == len(report.groups)

    @pytest.mark.parametrize(
        ("form", "word"),
        [
            ("ir", "multiply"),
            ("core", "multiply"),
            ("llvm", "fmul"),
            ("asm", "mul"),
        ],
    )
    def test_sources(self, report, form, word):
        assert word in report.kernels[0].source(form)

    def test_an_unknown_form(self, report):
        with pytest.raises(OptionError, match=r"'ptx'.*one of ir, core, llvm, asm"):
            report.kernels[0].source("ptx")

    def test_programs_print(self, report):
        assert str(report.program).startswith("program")

    def test_equal_graphs_give_equal_text(self):
        data = np.arange(12.0)

        def text():
            x = da.from_array(data, chunks=4)
            return str(explained(da.exp(x) * 2 + 1, x.sum()))

        assert "group 0" in text()
        assert text() == text()

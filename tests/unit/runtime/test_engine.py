from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from dask_diffuse.codegen.target import host_target
from dask_diffuse.kernel.construct import FunctionBuilder
from dask_diffuse.kernel.nest import ArrayParam, Assign, Kernel
from dask_diffuse.options import Options
from dask_diffuse.runtime import engine
from dask_diffuse.runtime.cpu import compile_kernel


def test_kernels_outlive_the_linker_that_is_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linkers = []
    create = engine._linker

    def remembered(generation: int) -> object:
        linker = create(generation)
        linkers.append(weakref.ref(linker))
        return linker

    monkeypatch.setattr(engine, "_LINKS", 2)
    monkeypatch.setattr(engine, "_linker", remembered)
    double = np.dtype(np.float64)
    builder = FunctionBuilder()
    value = builder.apply("negative", builder.input(0, double))
    kernel = Kernel(
        "negative",
        1,
        (ArrayParam(double, (0,)),),
        (),
        builder.build([value]),
        (Assign(value.position, (0,)),),
    )
    options = Options(cache_disk=False)
    kernels = [compile_kernel(kernel, options, host_target())[0] for _ in range(6)]
    gc.collect()
    assert len(linkers) >= 6
    assert len({linker() for linker in linkers} - {None}) == 1
    block = np.arange(5.0)
    for compiled in kernels[::-1]:
        np.testing.assert_array_equal(compiled([block], (), (5,))[0], -block)
    del kernels[:3]
    gc.collect()
    for compiled in kernels:
        np.testing.assert_array_equal(compiled([block], (), (5,))[0], -block)

from __future__ import annotations

import pytest

from dask_diffuse.errors import OptionError
from dask_diffuse.options import Options
from dask_diffuse.report import sources
from dask_diffuse.report.sources import KERNEL_FORMS, render_kernel
from dask_diffuse.runtime.cpu import get_kernel


@pytest.fixture
def kernel(plan):
    return plan.groups[0].kernel


@pytest.mark.parametrize("form", KERNEL_FORMS)
def test_equal_kernels_give_equal_text(kernel, form):
    assert render_kernel(kernel, form) == render_kernel(kernel, form)


@pytest.mark.parametrize("form", ["llvm", "asm"])
def test_text_is_what_is_compiled(kernel, form):
    compiled = get_kernel(kernel, Options(cache_disk=False))
    assert render_kernel(kernel, form) == compiled.source(form)


def test_an_unknown_form_is_refused():
    with pytest.raises(OptionError, match="one of ir, core, llvm, asm"):
        render_kernel(None, "cuda")  # type: ignore[arg-type]
    assert set(KERNEL_FORMS) == set(sources._RENDER)

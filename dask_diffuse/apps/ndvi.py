"""Vegetation seen by a satellite: the normalized difference of two bands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from dask_diffuse.apps.problem import Arrays, Problem

__all__ = ["NDVI", "NDVI_MEAN", "make_bands", "ndvi"]

GREEN = 0.3
"""Where the index is larger, plants cover the ground."""


def _index(red: Any, nir: Any) -> Any:
    red, nir = red.astype(np.float64), nir.astype(np.float64)
    total = nir + red
    # Pixels at the edge of a scene hold no data and are zero in every band.
    return np.where(total > 0, (nir - red) / total, 0.0)


def ndvi(red: Any, nir: Any) -> tuple[Any, ...]:
    """Return the index as float32, its mean, and the share of green land.

    Parameters
    ----------
    red, nir
        Reflected light, red and near infrared, as the unsigned 16-bit integers that
        satellites send.
    """
    index = _index(red, nir)
    return index.astype(np.float32), index.mean(), (index > GREEN).mean()


def _mean(red: Any, nir: Any) -> tuple[Any, ...]:
    return (_index(red, nir).mean(),)


def make_bands(size: int, chunk: int) -> Arrays:
    """Return two bands of a made-up scene: fields, water, noise and a dark corner.

    Parameters
    ----------
    size
        Rows and columns.
    chunk
        Rows and columns of a block.
    """
    rng = da.random.default_rng(1972)
    shape, chunks = (size, size), (chunk, chunk)
    row = da.arange(size, chunks=chunk, dtype=np.float64)[:, None] / size
    column = da.arange(size, chunks=chunk, dtype=np.float64)[None, :] / size
    green = 0.5 + 0.4 * da.sin(23 * row + 3 * da.sin(9 * column)) * da.cos(17 * column)
    seen = row + column > 0.2
    red = (1 - green) * 3000 + rng.uniform(200, 400, shape, chunks=chunks)
    nir = green * 6000 + rng.uniform(200, 400, shape, chunks=chunks)
    return (red * seen).astype(np.uint16), (nir * seen).astype(np.uint16)


def _draw(results: tuple[Any, ...], path: Path) -> None:
    from dask_diffuse.apps.picture import new_figure, save

    index, mean, share = results
    step = max(1, len(index) // 800)
    figure = new_figure(8, 7)
    axes = figure.subplots()
    image = axes.imshow(index[::step, ::step], cmap="RdYlGn", vmin=-1, vmax=1)
    figure.colorbar(image, ax=axes, label="normalized difference vegetation index")
    axes.set(xticks=[], yticks=[])
    axes.set_title(f"mean {float(mean):.3f}, {float(share):.0%} green")
    save(figure, path)


NDVI = Problem(
    name="ndvi",
    summary="vegetation index of two bands of 16-bit integers",
    unit="pixels a side",
    size=8000,
    tiny=60,
    blocks=8,
    inputs=make_bands,
    program=ndvi,
    reference=ndvi,
    outputs=("index", "mean", "green_share"),
    draw=_draw,
)

NDVI_MEAN = Problem(
    name="ndvi_mean",
    summary="mean of the vegetation index of two bands",
    unit="pixels a side",
    size=8000,
    tiny=60,
    blocks=8,
    inputs=make_bands,
    program=_mean,
    reference=_mean,
    outputs=("mean",),
    goal=3,
)

"""The shape of a landscape: slope, aspect and shade from its elevations.

The landscape is the surroundings of Jacksboro, Tennessee, as a digital elevation model
that matplotlib brings along, continued by its mirror images to any size.
"""

from __future__ import annotations

import math
from functools import lru_cache
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np

from dask_diffuse.apps.problem import Arrays, Problem
from dask_diffuse.errors import MissingPackageError

__all__ = ["TERRAIN", "elevation_model", "terrain"]

LATITUDE = 36.6
DEGREES = 0.00083333
"""Width and height of a pixel."""
METRES_PER_DEGREE = 111_320.0
NORTH_SOUTH = DEGREES * METRES_PER_DEGREE
EAST_WEST = NORTH_SOUTH * math.cos(math.radians(LATITUDE))
SUN_AZIMUTH = math.radians(315.0)
SUN_ALTITUDE = math.radians(45.0)
STEEP = 20.0
"""Degrees."""


@lru_cache(maxsize=1)
def elevation_model() -> np.ndarray[Any, Any]:
    """Return the elevations in metres; the first row is the northernmost.

    Raises
    ------
    MissingPackageError
        Without matplotlib, which has them.
    """
    try:
        from matplotlib import cbook
    except ImportError as error:
        raise MissingPackageError("matplotlib", "terrain", "demo") from error
    path = cbook.get_sample_data("jacksboro_fault_dem.npz", asfileobj=False)
    with np.load(path) as data:
        elevation: np.ndarray[Any, Any] = np.asarray(data["elevation"])
    elevation.flags.writeable = False
    return elevation


def _mirrored(length: int, positions: slice) -> np.ndarray[Any, Any]:
    """Return indices that run forth and back, so that no cliff appears at a seam."""
    index = np.arange(positions.start, positions.stop) % (2 * length)
    mirrored: np.ndarray[Any, Any] = np.minimum(index, 2 * length - 1 - index)
    return mirrored


def _block(
    model: np.ndarray[Any, Any], block_info: dict[Any, Any]
) -> np.ndarray[Any, Any]:
    rows, columns = (slice(*place) for place in block_info[None]["array-location"])
    height, width = model.shape
    index = np.ix_(_mirrored(height, rows), _mirrored(width, columns))
    return np.asarray(model[index])


def _landscape(size: int, chunk: int) -> Arrays:
    # A gradient needs two rows, also in the last block.
    chunk = min(max(chunk, 2), size)
    edges = [*range(0, max(size - 1, 1), chunk), size]
    lengths = tuple(int(n) for n in np.diff(edges))
    model = elevation_model()
    elevation = da.map_blocks(
        _block, model=model, chunks=(lengths, lengths), dtype=model.dtype
    )
    return (elevation,)


def terrain(elevation: Any, gradient: Any = da.gradient) -> tuple[Any, ...]:
    """Return slope, aspect, shade and some statistics.

    Parameters
    ----------
    elevation
        In metres; rows run from north to south, columns from west to east.
    gradient
        How to take differences.

    Returns
    -------
    tuple
        Slope in degrees; aspect, the direction that water runs to, in degrees clockwise
        from north; shade, the light of a sun in the north-west, 0 to 1; then the mean
        and the range of the elevations, the mean and the standard deviation of the
        slope, and the share of the land that is steep.
    """
    southward, eastward = gradient(elevation, NORTH_SOUTH, EAST_WEST)
    steepness = np.hypot(southward, eastward)
    incline = np.arctan(steepness)
    slope = np.degrees(incline)
    facing = np.arctan2(-eastward, southward)
    aspect = np.degrees(facing) % 360.0
    light = math.sin(SUN_ALTITUDE) * np.cos(incline)
    light = light + math.cos(SUN_ALTITUDE) * np.sin(incline) * np.cos(
        SUN_AZIMUTH - facing
    )
    shade = light.clip(0.0, 1.0)
    return (
        slope,
        aspect,
        shade,
        elevation.mean(),
        elevation.max() - elevation.min(),
        slope.mean(),
        slope.std(),
        (slope > STEEP).mean(),
    )


def _reference(elevation: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    return terrain(elevation, np.gradient)


def _draw(results: tuple[Any, ...], path: Path) -> None:
    """Draw the landscape once, without its mirror images."""
    from dask_diffuse.apps.picture import new_figure, save

    model = elevation_model()
    height, width = model.shape
    slope, aspect, shade = (layer[:height, :width] for layer in results[:3])
    model = model[: shade.shape[0], : shade.shape[1]]
    figure = new_figure(11, 9)
    panels = figure.subplots(2, 2)
    shape = NORTH_SOUTH / EAST_WEST

    relief = panels[0, 0]
    relief.imshow(shade, cmap="gray", vmin=0, vmax=1, aspect=shape)
    ground = relief.imshow(model, cmap="terrain", alpha=0.55, aspect=shape)
    figure.colorbar(ground, ax=relief, label="elevation, m")
    relief.set_title("elevation, lit from the north-west")

    layers = (
        (panels[0, 1], shade, "gray", "shade"),
        (panels[1, 0], slope, "magma", "slope, degrees"),
        (panels[1, 1], aspect, "twilight_shifted", "aspect, degrees from north"),
    )
    for panel, layer, colours, label in layers:
        image = panel.imshow(layer, cmap=colours, aspect=shape)
        figure.colorbar(image, ax=panel, label=label)
        panel.set_title(label.partition(",")[0])
    for panel in panels.flat:
        panel.set(xticks=[], yticks=[])

    mean, relief_range, mean_slope, slope_spread, steep = map(float, results[3:])
    figure.suptitle(
        f"Jacksboro, Tennessee: {mean:.0f} m on average, {relief_range:.0f} m from the "
        f"lowest to the highest point\nslope {mean_slope:.1f} ± {slope_spread:.1f} "
        f"degrees, {steep:.0%} steeper than {STEEP:.0f} degrees"
    )
    save(figure, path)


TERRAIN = Problem(
    name="terrain",
    summary="slope, aspect, shade and statistics of an elevation model",
    unit="pixels a side",
    size=4096,
    tiny=50,
    least=2,
    blocks=4,
    inputs=_landscape,
    program=terrain,
    reference=_reference,
    outputs=(
        "slope",
        "aspect",
        "shade",
        "mean_elevation",
        "relief",
        "mean_slope",
        "slope_spread",
        "steep_share",
    ),
    atol=1e-11,
    draw=_draw,
    picture="terrain.png",
)

"""The programs compute what they say: checked by what is known about it."""

from __future__ import annotations

from pathlib import Path

import dask
import numpy as np
import pytest

import dask_diffuse
from dask_diffuse.apps import PROBLEMS
from dask_diffuse.apps.black_scholes import RATE, VOLATILITY, black_scholes
from dask_diffuse.apps.ndvi import make_bands, ndvi
from dask_diffuse.apps.picture import check_picture
from dask_diffuse.apps.standardize import make_table, standardize
from dask_diffuse.apps.terrain import (
    EAST_WEST,
    NORTH_SOUTH,
    TERRAIN,
    elevation_model,
    terrain,
)
from dask_diffuse.errors import MissingPackageError, OptionError


class TestBlackScholes:
    def test_parity(self):
        rng = np.random.default_rng(0)
        price, strike = rng.uniform(50, 150, (2, 1000))
        years = rng.uniform(0.1, 2, 1000)
        call, put = black_scholes(price, strike, years)
        forward = price - strike * np.exp(-RATE * years)
        np.testing.assert_allclose(call - put, forward, atol=1e-11)

    def test_an_option_at_the_money(self):
        from scipy.stats import norm

        call, put = black_scholes(np.float64(100), np.float64(100), np.float64(1))
        d1 = (RATE + VOLATILITY**2 / 2) / VOLATILITY
        expected = 100 * (norm.cdf(d1) - np.exp(-RATE) * norm.cdf(d1 - VOLATILITY))
        assert call == pytest.approx(expected, rel=1e-14)
        assert 0 < put < call


class TestTerrain:
    @pytest.mark.parametrize(
        ("east", "south", "aspect"),
        [(-1, 0, 90), (1, 0, 270), (0, 1, 0), (0, -1, 180), (-1, 1, 45)],
    )
    def test_a_plane(self, east: float, south: float, aspect: float):
        rows, columns = np.mgrid[:20, :30]
        plane = east * columns * EAST_WEST + south * rows * NORTH_SOUTH
        results = terrain(plane, np.gradient)
        steepness = np.degrees(np.arctan(np.hypot(east, south)))
        np.testing.assert_allclose(results[0], steepness)
        np.testing.assert_allclose(np.cos(np.radians(results[1] - aspect)), 1)
        assert results[7] == 1

    def test_light_comes_from_the_north_west(self):
        rows, columns = np.mgrid[:9, :9] * 30.0
        lit = terrain(columns + rows, np.gradient)[2]
        dark = terrain(-columns - rows, np.gradient)[2]
        assert (lit > 0.9).all()
        assert (dark < 0.4).all()

    def test_level_ground(self):
        slope, aspect, shade, mean, relief, *_ = terrain(
            np.full((5, 5), 7), np.gradient
        )
        assert (slope == 0).all()
        assert (aspect == 0).all()
        np.testing.assert_allclose(shade, np.sin(np.radians(45)))
        assert (mean, relief) == (7, 0)

    def test_the_model_and_its_mirror_images(self):
        model = elevation_model()
        height, width = model.shape
        (elevation,) = TERRAIN.make_inputs(2 * width, 100)
        values = elevation.compute(scheduler="synchronous")
        assert values.dtype == model.dtype
        np.testing.assert_array_equal(values[:height, :width], model)
        np.testing.assert_array_equal(values[:height, width:], model[:, ::-1])
        np.testing.assert_array_equal(values[height : 2 * height, :width], model[::-1])

    @pytest.mark.parametrize("size", [2, 3, 7, 21])
    @pytest.mark.parametrize("chunk", [1, 2, 3, 50])
    def test_any_size_and_chunk(self, size: int, chunk: int):
        # A gradient needs two rows in every block.
        (elevation,) = TERRAIN.make_inputs(size, chunk)
        assert elevation.shape == (size, size)
        assert min(elevation.chunks[0]) >= 2
        dask.compute(*terrain(elevation), scheduler="synchronous")


class TestNdvi:
    def test_values(self):
        red = np.array([0, 100, 300, 65535], np.uint16)
        nir = np.array([0, 300, 100, 0], np.uint16)
        index, mean, share = ndvi(red, nir)
        assert index.dtype == np.float32
        np.testing.assert_array_equal(index, np.float32([0, 0.5, -0.5, -1]))
        assert (mean, share) == (-0.25, 0.25)

    def test_the_scene(self):
        red, nir = dask.compute(*make_bands(200, 50), scheduler="synchronous")
        assert red.dtype == nir.dtype == np.uint16
        dark = (red == 0) & (nir == 0)
        assert 0.005 < dark.mean() < 0.1
        assert 0.2 < ndvi(red, nir)[2] < 0.8


def test_standardize():
    (table,) = dask.compute(*make_table(500, 100), scheduler="synchronous")
    scores, far_out = standardize(table)
    np.testing.assert_allclose(scores.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(scores.std(axis=0), 1)
    assert far_out.shape == (500,)
    assert 0 < far_out.mean() < 5


DRAWN = [name for name, problem in PROBLEMS.items() if problem.draw is not None]


class TestPictures:
    def test_there_are_some(self):
        assert {"terrain", "ndvi", "black_scholes"} <= set(DRAWN)

    @pytest.mark.parametrize("name", DRAWN)
    def test_is_drawn(self, name: str, tmp_path: Path):
        from matplotlib.image import imread

        problem = PROBLEMS[name]
        assert problem.draw is not None
        size = 400 if name == "terrain" else problem.tiny
        outputs = problem.program(*problem.make_inputs(size))
        with dask_diffuse.enable(min_bytes=0):
            results = dask.compute(*outputs, scheduler="synchronous")
        path = tmp_path / "picture.png"
        problem.draw(results, path)
        picture = imread(path)
        assert min(picture.shape[:2]) > 300
        assert len(np.unique(picture.reshape(-1, picture.shape[2]), axis=0)) > 20

    def test_bad_paths(self, tmp_path: Path):
        check_picture(tmp_path / "a.png")
        check_picture(tmp_path / "a.SVG")
        for path in ("a.docx", "a", "no/such/folder/a.png"):
            with pytest.raises(OptionError, match="output"):
                check_picture(tmp_path / path)


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("matplotlib", "terrain"),
        ("scipy.special", "black_scholes"),
    ],
)
def test_missing_packages(monkeypatch: pytest.MonkeyPatch, module: str, name: str):
    import sys

    elevation_model.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    problem = PROBLEMS[name]
    with pytest.raises(
        MissingPackageError, match=r"pip install 'dask-diffuse\[demo\]'"
    ):
        problem.program(*problem.make_inputs(problem.tiny))

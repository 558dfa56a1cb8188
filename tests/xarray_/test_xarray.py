"""xarray programs run as they are."""

from __future__ import annotations

import dask
import numpy as np
import pytest

from tests.helpers import fused

xr = pytest.importorskip("xarray")


@pytest.fixture(autouse=True)
def _sync():
    with dask.config.set(scheduler="sync"):
        yield


def weather(chunks) -> xr.Dataset:
    random = np.random.default_rng(0)
    shape = (24, 6, 8)
    dims = ("time", "lat", "lon")
    temperature = random.normal(280, 10, shape).astype("f4")
    temperature[3, 2, 1] = np.nan
    data = xr.Dataset(
        {
            "temperature": (dims, temperature, {"units": "K"}),
            "pressure": (dims, random.normal(1e5, 1e3, shape)),
            "land": (("lat", "lon"), random.random((6, 8)) < 0.5),
        },
        coords={
            "time": np.datetime64("2000-01-01", "ns")
            + np.arange(24) * np.timedelta64(15, "D"),
            "lat": np.linspace(-50, 50, 6),
            "lon": np.arange(8) * 45.0,
        },
        attrs={"title": "weather"},
    )
    return data.chunk(chunks) if chunks else data


def potential(data):
    return data.temperature * (1e5 / data.pressure) ** 0.286


def anomaly(data):
    groups = potential(data).groupby("time.month")
    return groups - groups.mean("time")


def weighted(data):
    return potential(data).weighted(np.cos(np.deg2rad(data.lat))).mean(("lat", "lon"))


def masked(data):
    return potential(data).where(data.land).fillna(-1).clip(0, 300)


def standard(data):
    x = potential(data)
    return abs((x - x.mean("time")) / x.std("time")).max()


def converted(data):
    celsius = (data.temperature - 273.15).astype("f8").rename("celsius")
    return (celsius * 1.8 + 32).round(1).transpose("lon", "lat", "time")


def over_latitudes(data):
    return (potential(data) * data.lat - data.lon).isel(time=slice(3, 20, 2))


PROGRAMS = [potential, anomaly, weighted, masked, standard, converted, over_latitudes]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_data_arrays(program):
    chunks = {"time": 7, "lat": 3}
    eager = program(weather(None))
    lazy = program(weather(chunks))
    expected = lazy.compute()
    with fused() as activity:
        actual = lazy.compute()
        persisted = lazy.persist().load()
    assert activity.calls
    for result in (actual, persisted):
        xr.testing.assert_allclose(result, expected, rtol=1e-6)
        xr.testing.assert_allclose(result, eager, rtol=1e-5)
        assert result.dtype == expected.dtype
        assert result.attrs == expected.attrs
        assert result.dims == expected.dims


class TestDatasets:
    CHUNKS = {"time": 6, "lon": 4}  # noqa: RUF012

    def test_compute_and_load(self):
        data = weather(self.CHUNKS)
        program = (data[["temperature", "pressure"]] * 2 + 1).assign(
            potential=potential(data)
        )
        expected = program.compute()
        with fused() as activity:
            actual = program.compute()
            loaded = program.copy().load()
        assert activity.graphs == 2
        xr.testing.assert_allclose(actual, expected, rtol=1e-6)
        xr.testing.assert_allclose(loaded, expected, rtol=1e-6)

    def test_with_dask_compute(self):
        # One key stands for the whole dataset, and its variables read each other.
        data = weather(self.CHUNKS)
        double = data.pressure * 2
        program = xr.Dataset({"once": double, "twice": double * 2 + 1})
        with fused() as activity:
            (actual,) = dask.compute(program)
        expected = weather(None).pressure
        xr.testing.assert_equal(actual.once, expected * 2)
        xr.testing.assert_equal(actual.twice, expected * 4 + 1)
        assert activity.calls

    def test_there_and_back_through_zarr(self, tmp_path):
        data = weather(self.CHUNKS)
        with fused() as activity:
            (data.assign(potential=potential(data))).to_zarr(
                tmp_path / "w.zarr", consolidated=False
            )
            back = xr.open_zarr(tmp_path / "w.zarr", consolidated=False)
            result = (back.potential - back.temperature).mean("time").compute()
        plain = weather(None)
        expected = (potential(plain) - plain.temperature).mean("time")
        xr.testing.assert_allclose(result, expected, rtol=1e-5)
        assert activity.calls

    def test_apply_ufunc(self):
        data = weather(self.CHUNKS)
        program = xr.apply_ufunc(
            np.hypot, data.temperature, data.pressure, dask="allowed"
        )
        parallel = xr.apply_ufunc(
            lambda block: block * 2, program, dask="parallelized", output_dtypes=["f8"]
        )
        expected = (parallel + 1).compute()
        with fused() as activity:
            actual = (parallel + 1).compute()
        xr.testing.assert_allclose(actual, expected, rtol=1e-12)
        assert activity.groups

    def test_map_blocks(self):
        data = weather(self.CHUNKS)

        def scale(block):
            return block * 2

        program = (data.pressure + 1).map_blocks(scale, template=data.pressure) - 1
        with fused():
            actual = program.compute()
        xr.testing.assert_allclose(actual, (weather(None).pressure + 1) * 2 - 1)

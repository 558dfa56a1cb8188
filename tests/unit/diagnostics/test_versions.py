from __future__ import annotations

import io

import dask
import pytest

from dask_diffuse.diagnostics.versions import cluster_info, show_versions, system_info


def test_names_what_matters():
    info = system_info()
    packages = dict(info.packages)
    assert packages["dask"] == dask.__version__
    assert packages["dask-diffuse"] is not None
    assert dict(info.machine)["python"].startswith("3.")


def test_a_missing_package_is_said_to_be_missing(monkeypatch):
    monkeypatch.setattr(
        "dask_diffuse.diagnostics.versions._PACKAGES", ("no-such-package",)
    )
    assert system_info().packages == (("no-such-package", None),)
    assert "no-such-package  not installed" in str(system_info())


def test_show_versions_writes_to_the_given_file():
    file = io.StringIO()
    show_versions(file)
    assert file.getvalue() == f"{system_info()}\n"


@pytest.mark.distributed
def test_asks_every_node():
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, processes=False, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        nodes = cluster_info(client)
    assert len(nodes) == 4
    assert set(nodes.values()) == {system_info()}

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from dask_diffuse.debug import log_debug
from dask_diffuse.errors import OptionError
from dask_diffuse.options import DEBUG_TOPICS, Options

CODE = """
{setup}
from dask_diffuse.debug import log_debug
from dask_diffuse.options import Options
log_debug(Options(debug={level}), "fusion", "%d groups", 3)
"""


def stderr_of(level: int, setup: str = "") -> str:
    code = CODE.format(level=level, setup=setup)
    finished = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stderr


@pytest.mark.parametrize("topic", DEBUG_TOPICS)
def test_each_topic_from_its_level_on(topic):
    level = DEBUG_TOPICS[topic]
    assert [Options(debug=n).logs(topic) for n in range(6)] == [
        n >= level for n in range(6)
    ]
    assert Options(debug_topics=(topic,)).logs(topic)


def test_unknown_topics_are_refused():
    with pytest.raises(OptionError, match=r"'fsion'.*names among optimizer, frontend"):
        Options(debug_topics=("fsion",))


def test_not_logged_below_its_level(caplog):
    with caplog.at_level(logging.DEBUG):
        log_debug(Options(debug=1), "fusion", "%d groups", 3)
    assert not caplog.records


def test_visible_where_nobody_has_set_up_logging():
    assert stderr_of(2) == "dask_diffuse.fusion: 3 groups\n"
    assert stderr_of(1) == ""


def test_goes_where_the_application_wants_it():
    setup = "import logging; logging.basicConfig(format='app|%(message)s')"
    assert stderr_of(2, setup) == "app|3 groups\n"


def test_the_application_may_still_turn_it_off():
    setup = "import logging; logging.getLogger('dask_diffuse').setLevel('ERROR')"
    assert stderr_of(2, setup) == ""

"""What `DIFFUSE_DEBUG` shows: messages by topic, on loggers below ``dask_diffuse``."""

from __future__ import annotations

import logging
import threading

from dask_diffuse.options import Options

__all__ = ["log_debug", "open_log"]

_root = logging.getLogger("dask_diffuse")
_lock = threading.Lock()


def log_debug(options: Options, topic: str, message: str, *args: object) -> None:
    """Log a message if the options ask for its topic.

    Parameters
    ----------
    options
        Of the hook. They travel to the scheduler and the workers, where the
        configuration of logging does not.
    topic
        One of `dask_diffuse.options.DEBUG_TOPICS`.
    message, *args
        As for ``logging.Logger.info``.
    """
    if options.logs(topic):
        open_log()
        logging.getLogger(f"dask_diffuse.{topic}").info(message, *args)


def open_log() -> None:
    """Make messages visible where nobody has set up logging.

    The first message that the options ask for does this, not the import: whoever asks
    wants to see it. What the application has set up is left as it is.
    """
    with _lock:
        if _root.level == logging.NOTSET:
            _root.setLevel(logging.INFO)
        if not _root.hasHandlers():
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
            _root.addHandler(handler)

"""Compiled object code on disk, found again by the next process.

What lies here is native code that will be run, so the folder has to belong to the user
and nobody else may write to it; one that does not is refused. Trouble with the disk
never reaches the caller: what cannot be read is compiled, and what cannot be written is
compiled again by the next process.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import secrets
import stat
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dask_diffuse.errors import FallbackWarning
from dask_diffuse.options import Options

__all__ = [
    "KernelStore",
    "StoreUsage",
    "cache_folder",
    "forget_stores",
    "store_counts",
    "why_refused",
]

logger = logging.getLogger(__name__)

MAX_BYTES = 256 << 20
"""Once the files take more than this, the least recently used ones go."""

_MAGIC = b"DDIFFUS1"
"""First bytes of a file. The digit is the version of the layout."""
_HEADER = len(_MAGIC) + hashlib.sha256().digest_size
_SUFFIX = ".kernel"
_TEMPORARY = ".part"
_STALE = 3600.0
"""Seconds after which a temporary file was left behind by a process that died."""
_PLAIN_KEY = re.compile(r"[0-9A-Za-z_-]{1,128}")
_COUNTS = (
    "hits",
    "misses",
    "written",
    "evicted",
    "damaged",
    "read_errors",
    "write_errors",
)
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_RESCAN = 64
"""After so many files of our own we look at what other processes have written."""


@dataclass(frozen=True, slots=True)
class StoreUsage:
    """What a store takes on disk.

    Parameters
    ----------
    files
        How many kernels there are.
    nbytes
        Their size in all.
    """

    files: int
    nbytes: int


class KernelStore:
    """Files with compiled code in one folder, by key.

    Neither reading nor writing raises for trouble with the disk. Processes and threads
    may share a folder: a file appears whole or not at all.

    Parameters
    ----------
    folder
        An existing folder.
    max_bytes
        Limit of the size of all files.

    Examples
    --------
    >>> import tempfile
    >>> store = KernelStore(Path(tempfile.mkdtemp()))
    >>> store.put("a1", b"code")
    >>> store.get("a1")
    b'code'
    >>> store.get("b2") is None
    True
    """

    def __init__(self, folder: Path, max_bytes: int = MAX_BYTES) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self._counts: Counter[str] = Counter()
        self._nbytes: int | None = None
        self._unseen = 0

    @classmethod
    def open(cls, options: Options) -> KernelStore | None:
        """Return the store of these options, or None if there is to be none.

        A folder that cannot be made, or that others could write to, gives None and one
        warning in the life of the process; every kernel is then compiled.

        Parameters
        ----------
        options
            ``cache_disk`` and ``cache_dir`` matter.
        """
        if not options.cache_disk:
            return None
        with _stores_lock:
            if options.cache_dir not in _stores:
                _stores[options.cache_dir] = cls._open(options)
            return _stores[options.cache_dir]

    @classmethod
    def _open(cls, options: Options) -> KernelStore | None:
        folder = cache_folder(options)
        try:
            _make_folder(folder)
        except (OSError, ValueError) as error:
            # A home that is read-only or does not exist is nobody's mistake.
            logger.info("no kernels are kept on disk: %s", error)
            return None
        reason = why_refused(folder)
        if not reason:
            return cls(folder)
        if "cache-refused" not in options.silence:
            warnings.warn(
                f"the folder of compiled kernels {str(folder)!r} is not used: {reason} "
                "Kernels are compiled in each process instead. To silence this "
                "warning, add 'cache-refused' to the option 'diffuse.silence', or set "
                "'diffuse.cache-disk' to false. [cache-refused]",
                FallbackWarning,
                stacklevel=4,
            )
        return None

    def get(self, key: str) -> bytes | None:
        """Return what was stored under a key, or None.

        Parameters
        ----------
        key
            Anything; different keys never share a file.
        """
        try:
            content = self._read(self._path(key))
        except FileNotFoundError:
            self._count("misses")
            return None
        except OSError as error:
            self._count("read_errors")
            logger.info("cannot read a compiled kernel: %s", error)
            return None
        data = _unpacked(key, content)
        if data is None:
            self._count("damaged")
            logger.info("the compiled kernel %s is damaged, and removed", key)
            _remove(self._path(key))
            return None
        self._count("hits")
        return data

    def put(self, key: str, data: bytes) -> None:
        """Store something under a key, in place of what was there.

        Parameters
        ----------
        key
            Anything.
        data
            The code. More than the whole store may take is not stored.
        """
        content = _packed(key, data)
        if len(content) > self.max_bytes:
            return
        try:
            try:
                self._write(self._path(key), content)
            except FileNotFoundError:
                # Somebody removed the folder while this process was running.
                _make_folder(self.folder)
                self._write(self._path(key), content)
            self._count("written")
            self._make_room(len(content))
        except OSError as error:
            self._count("write_errors")
            logger.info("cannot store a compiled kernel: %s", error)

    def usage(self) -> StoreUsage:
        """Return what there is on disk now."""
        sizes = [entry.nbytes for entry in self._entries() if not entry.temporary]
        return StoreUsage(len(sizes), sum(sizes))

    def clear(self) -> StoreUsage:
        """Remove all kernels, and return what they took."""
        files = nbytes = 0
        for entry in self._entries():
            if _remove(entry.path) and not entry.temporary:
                files += 1
                nbytes += entry.nbytes
        with _counts_lock:
            self._nbytes = None
        return StoreUsage(files, nbytes)

    def counts(self) -> dict[str, int]:
        """Return what this process did with the store."""
        with _counts_lock:
            return {name: self._counts[name] for name in _COUNTS}

    def _count(self, name: str, number: int = 1) -> None:
        with _counts_lock:
            self._counts[name] += number

    def _path(self, key: str) -> Path:
        plain = _PLAIN_KEY.fullmatch(key)
        name = key if plain else "x-" + hashlib.sha256(key.encode()).hexdigest()
        return self.folder / (name + _SUFFIX)

    def _read(self, path: Path) -> bytes:
        descriptor = os.open(path, os.O_RDONLY | _NO_FOLLOW)
        with open(descriptor, "rb") as file:
            # The file is asked, not the path: nobody can swap it in between.
            reason = _why_not_private(os.fstat(descriptor), "file")
            if reason:
                raise PermissionError(errno.EPERM, reason, str(path))
            content = file.read()
        try:
            os.utime(path)
        except OSError as error:
            # On a read-only disk nothing is evicted, so nobody needs the time.
            logger.debug("cannot mark a kernel as used: %s", error)
        return content

    def _write(self, path: Path, content: bytes) -> None:
        temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}{_TEMPORARY}")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
        descriptor = os.open(temporary, flags, 0o600)
        try:
            with open(descriptor, "wb") as file:
                file.write(content)
            os.replace(temporary, path)
        except BaseException:
            _remove(temporary)
            raise

    def _make_room(self, added: int) -> None:
        """Evict, once the files that we know of take too much."""
        with _counts_lock:
            self._unseen += 1
            known = self._nbytes is not None and self._unseen < _RESCAN
            if known:
                assert self._nbytes is not None
                self._nbytes += added
                if self._nbytes <= self.max_bytes:
                    return
            self._unseen = 0
        entries = sorted(self._entries(), key=lambda entry: entry.used)
        total = sum(entry.nbytes for entry in entries)
        # With some room to spare, so that the next kernels cost no listing.
        goal = self.max_bytes if total <= self.max_bytes else self.max_bytes * 3 // 4
        stale = time.time() - _STALE
        for entry in entries:
            if entry.temporary:
                if entry.used < stale and _remove(entry.path):
                    total -= entry.nbytes
            elif total > goal and _remove(entry.path):
                total -= entry.nbytes
                self._count("evicted")
        with _counts_lock:
            self._nbytes = total

    def _entries(self) -> Iterator[_Entry]:
        try:
            with os.scandir(self.folder) as found:
                listed = list(found)
        except OSError as error:
            logger.info("cannot list the compiled kernels: %s", error)
            return
        for item in listed:
            temporary = item.name.endswith(_TEMPORARY)
            if not temporary and not item.name.endswith(_SUFFIX):
                continue
            try:
                status = item.stat(follow_symlinks=False)
            except OSError as error:
                # Another process was faster.
                logger.debug("a compiled kernel vanished: %s", error)
                continue
            path = Path(item.path)
            yield _Entry(path, status.st_size, status.st_mtime, temporary)


@dataclass(frozen=True, slots=True)
class _Entry:
    path: Path
    nbytes: int
    used: float
    temporary: bool


_stores: dict[str | None, KernelStore | None] = {}
_stores_lock = threading.Lock()
_counts_lock = threading.Lock()


def _renew_locks() -> None:
    """Give a forked process locks of its own, which nobody holds."""
    global _stores_lock, _counts_lock
    _stores_lock, _counts_lock = threading.Lock(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


def forget_stores() -> None:
    """Open each store anew, as in a new process. For tests and after clearing."""
    with _stores_lock:
        _stores.clear()


def store_counts() -> dict[str, int]:
    """Return what this process did with all its stores."""
    with _stores_lock:
        stores = [store for store in _stores.values() if store is not None]
    total = dict.fromkeys(_COUNTS, 0)
    for store in stores:
        for name, count in store.counts().items():
            total[name] += count
    return total


def cache_folder(options: Options) -> Path:
    """Return where compiled kernels are kept, whether or not the folder exists.

    Parameters
    ----------
    options
        ``cache_dir`` names the folder; None is the cache folder of the user.
    """
    if options.cache_dir is not None:
        folder = os.path.expandvars(os.path.expanduser(options.cache_dir))
        return Path(os.path.abspath(folder))
    from platformdirs import user_cache_path

    return Path(user_cache_path("dask-diffuse", appauthor=False)) / "kernels"


def why_refused(folder: Path) -> str:
    """Return why native code from a folder is not to be trusted, or an empty text.

    Parameters
    ----------
    folder
        A path.
    """
    try:
        status = folder.stat()
    except OSError as error:
        return f"{error}."
    if not stat.S_ISDIR(status.st_mode):
        return "it is not a folder. Name another one with 'diffuse.cache-dir'."
    reason = _why_not_private(status, "folder")
    if not reason:
        return ""
    return (
        f"it holds native code, and {reason}. Name another folder with "
        f"'diffuse.cache-dir', or make this one private with chmod 700."
    )


def _why_not_private(status: os.stat_result, what: str) -> str:
    if not hasattr(os, "geteuid"):
        # Windows keeps the folders of users apart by other means.
        return ""
    if status.st_uid != os.geteuid():
        return f"the {what} belongs to user {status.st_uid}, not {os.geteuid()}"
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        mode = stat.S_IMODE(status.st_mode)
        return f"others may write to the {what}, whose mode is {mode:04o}"
    return ""


def _make_folder(folder: Path) -> None:
    if folder.exists():
        return
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Only the folder itself: where it lies is the user's business.
    folder.mkdir(mode=0o700, exist_ok=True)


def _packed(key: str, data: bytes) -> bytes:
    return _MAGIC + _checksum(key, data) + data


def _unpacked(key: str, content: bytes) -> bytes | None:
    data = content[_HEADER:]
    return data if content[:_HEADER] == _MAGIC + _checksum(key, data) else None


def _checksum(key: str, data: bytes) -> bytes:
    """Return a digest that also tells a file that was renamed to another key."""
    name = key.encode()
    return hashlib.sha256(b"%d:%s" % (len(name), name) + data).digest()


def _remove(path: Path) -> bool:
    try:
        path.unlink()
    except OSError as error:
        # Gone already, open on Windows, or on a read-only disk: all the same to us.
        logger.debug("cannot remove a compiled kernel: %s", error)
        return False
    return True

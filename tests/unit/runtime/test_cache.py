"""The folder of compiled code: what it keeps, what it refuses, what it survives."""

from __future__ import annotations

import errno
import logging
import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dask_diffuse.errors import FallbackWarning
from dask_diffuse.options import Options
from dask_diffuse.runtime import cache
from dask_diffuse.runtime.cache import (
    KernelStore,
    StoreUsage,
    cache_folder,
    forget_stores,
    store_counts,
)

needs_posix = pytest.mark.skipif(
    not hasattr(os, "geteuid"), reason="owners and modes are those of POSIX"
)


@pytest.fixture(autouse=True)
def _fresh_stores() -> Iterator[None]:
    forget_stores()
    yield
    forget_stores()


@pytest.fixture
def store(tmp_path: Path) -> KernelStore:
    store = KernelStore.open(Options(cache_dir=str(tmp_path / "kernels")))
    assert store is not None
    return store


def files(store: KernelStore) -> list[Path]:
    return sorted(store.folder.iterdir())


class TestKeeping:
    def test_what_was_put(self, store: KernelStore):
        store.put("aa", b"one")
        store.put("bb", b"")
        assert store.get("aa") == b"one"
        assert store.get("bb") == b""
        assert store.get("cc") is None
        assert store.counts() == {
            "hits": 2,
            "misses": 1,
            "written": 2,
            "evicted": 0,
            "damaged": 0,
            "read_errors": 0,
            "write_errors": 0,
        }

    def test_the_last_of_two(self, store: KernelStore):
        store.put("aa", b"one")
        store.put("aa", b"another")
        assert store.get("aa") == b"another"
        assert store.usage().files == 1

    @pytest.mark.parametrize("key", ["", "../up", "a/b", "ü", "x" * 300, "a.kernel"])
    def test_any_key_stays_inside(self, store: KernelStore, key: str):
        store.put(key, b"code")
        assert store.get(key) == b"code"
        (path,) = files(store)
        assert path.parent == store.folder

    def test_nothing_else_is_left(self, store: KernelStore):
        store.put("aa", b"code")
        assert [path.name for path in files(store)] == ["aa.kernel"]

    def test_in_another_process(self, store: KernelStore):
        store.put("aa", b"from here")
        finished = run(
            "assert store.get('aa') == b'from here'; store.put('bb', b'back')",
            store.folder,
        )
        assert finished.returncode == 0, finished.stderr
        assert store.get("bb") == b"back"

    def test_clear(self, store: KernelStore):
        store.put("aa", b"x" * 1000)
        (store.folder / "notes.txt").write_text("mine")
        before = store.usage()
        assert before.files == 1
        assert before.nbytes > 1000
        assert store.clear() == before
        assert store.usage() == StoreUsage(0, 0)
        assert [path.name for path in files(store)] == ["notes.txt"]


class TestOpening:
    def test_one_store_for_the_same_folder(self, tmp_path: Path):
        options = Options(cache_dir=str(tmp_path))
        first = KernelStore.open(options)
        assert first is not None
        assert KernelStore.open(options.replace(exact_math=True)) is first
        first.put("aa", b"code")
        assert store_counts()["written"] == 1

    def test_off(self, tmp_path: Path):
        folder = tmp_path / "kernels"
        assert (
            KernelStore.open(Options(cache_dir=str(folder), cache_disk=False)) is None
        )
        assert not folder.exists()

    def test_the_users_folder(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.setenv("HOME", str(tmp_path))
        folder = cache_folder(Options())
        assert folder.is_relative_to(tmp_path)
        assert not folder.exists()
        store = KernelStore.open(Options())
        assert store is not None
        assert store.folder == folder
        assert folder.is_dir()

    def test_home_and_variables(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setenv("SCRATCH", "/scratch/me")
        assert cache_folder(Options(cache_dir="$SCRATCH/k")) == Path("/scratch/me/k")
        assert cache_folder(Options(cache_dir="~/k")) == Path.home() / "k"

    @needs_posix
    def test_is_private(self, tmp_path: Path):
        before = os.umask(0)
        try:
            store = KernelStore.open(Options(cache_dir=str(tmp_path / "a" / "kernels")))
            assert store is not None
            store.put("aa", b"code")
        finally:
            os.umask(before)
        assert stat.S_IMODE(store.folder.stat().st_mode) == 0o700
        (path,) = files(store)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600

    def test_a_folder_that_cannot_be_made(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ):
        (tmp_path / "file").write_text("in the way")
        options = Options(cache_dir=str(tmp_path / "file" / "kernels"))
        with caplog.at_level(logging.INFO):
            assert KernelStore.open(options) is None
        assert "no kernels are kept on disk" in caplog.text
        assert KernelStore.open(Options(cache_dir="nul\0byte")) is None


def refused(options: Options, *words: str) -> None:
    with pytest.warns(FallbackWarning, match="cache-refused") as warned:
        assert KernelStore.open(options) is None
    assert len(warned) == 1
    for word in words:
        assert word in str(warned[0].message)
    # Once is enough, and it stays refused.
    assert KernelStore.open(options) is None


class TestRefusing:
    @needs_posix
    @pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
    def test_others_may_write(self, tmp_path: Path, mode: int):
        tmp_path.chmod(mode)
        options = Options(cache_dir=str(tmp_path))
        refused(options, "others may write", f"{mode:04o}", str(tmp_path), "chmod 700")

    @needs_posix
    def test_others_may_read(self, tmp_path: Path):
        tmp_path.chmod(0o755)
        assert KernelStore.open(Options(cache_dir=str(tmp_path))) is not None

    @needs_posix
    def test_somebody_else_owns_it(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ):
        owner = tmp_path.stat().st_uid
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        refused(Options(cache_dir=str(tmp_path)), f"belongs to user {owner}")

    def test_no_folder(self, tmp_path: Path):
        path = tmp_path / "kernels"
        path.write_text("a file")
        refused(Options(cache_dir=str(path)), "it is not a folder")

    @needs_posix
    def test_silenced(self, tmp_path: Path):
        tmp_path.chmod(0o777)
        options = Options(cache_dir=str(tmp_path), silence=("cache-refused",))
        assert KernelStore.open(options) is None

    @needs_posix
    def test_a_file_of_somebody_else(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch
    ):
        store.put("aa", b"code")
        owner = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
        assert store.get("aa") is None
        assert store.counts()["read_errors"] == 1

    @needs_posix
    def test_a_file_others_may_write(self, store: KernelStore):
        store.put("aa", b"code")
        files(store)[0].chmod(0o666)
        assert store.get("aa") is None

    @needs_posix
    def test_a_link(self, store: KernelStore, tmp_path: Path):
        store.put("aa", b"code")
        (path,) = files(store)
        elsewhere = path.rename(tmp_path / "elsewhere")
        path.symlink_to(elsewhere)
        assert store.get("aa") is None
        assert store.counts()["read_errors"] == 1


class TestDamage:
    @pytest.mark.parametrize("length", [0, 1, 7, 8, 20, 39, 40, 41, 139])
    def test_truncated(self, store: KernelStore, length: int):
        store.put("aa", b"x" * 100)
        (path,) = files(store)
        content = path.read_bytes()
        assert length < len(content)
        path.write_bytes(content[:length])
        assert store.get("aa") is None
        assert store.counts()["damaged"] == 1
        assert files(store) == []

    @pytest.mark.parametrize("position", [0, 7, 8, 39, 40, 100, -1])
    def test_one_bit(self, store: KernelStore, position: int):
        store.put("aa", b"x" * 100)
        (path,) = files(store)
        content = bytearray(path.read_bytes())
        content[position] ^= 1
        path.write_bytes(content)
        assert store.get("aa") is None

    def test_longer(self, store: KernelStore):
        store.put("aa", b"x")
        (path,) = files(store)
        path.write_bytes(path.read_bytes() + b"y")
        assert store.get("aa") is None

    def test_renamed_to_another_key(self, store: KernelStore):
        store.put("aa", b"x")
        (path,) = files(store)
        path.rename(path.with_name("bb.kernel"))
        assert store.get("bb") is None

    def test_is_replaced(self, store: KernelStore):
        store.put("aa", b"x")
        files(store)[0].write_bytes(b"")
        assert store.get("aa") is None
        store.put("aa", b"x")
        assert store.get("aa") == b"x"

    def test_a_folder_in_place_of_a_file(self, store: KernelStore):
        (store.folder / "aa.kernel").mkdir()
        assert store.get("aa") is None
        store.put("aa", b"x")
        assert store.get("aa") is None
        assert store.counts()["write_errors"] == 1


def failing(code: int):
    def fail(*args: object, **kwargs: object):
        raise OSError(code, os.strerror(code))

    return fail


class TestTrouble:
    @pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
    def test_full_disk(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch, code: int
    ):
        class Full:
            def __init__(self, descriptor: int, mode: str) -> None:
                self.file = os.fdopen(descriptor, mode)

            def __enter__(self) -> Full:
                return self

            def __exit__(self, *exception: object) -> None:
                self.file.close()

            def write(self, content: bytes) -> None:
                self.file.write(content[:10])
                raise OSError(code, os.strerror(code))

        with monkeypatch.context() as patch:
            patch.setattr(cache, "open", Full, raising=False)
            store.put("aa", b"x" * 100)
        assert files(store) == []
        assert store.get("aa") is None
        assert store.counts()["write_errors"] == 1
        store.put("aa", b"there is room again")
        assert store.get("aa") == b"there is room again"

    @pytest.mark.parametrize("name", ["replace", "open"])
    def test_read_only_disk(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch, name: str
    ):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failing(errno.EROFS))
            store.put("aa", b"x")
        assert store.counts()["write_errors"] == 1
        assert store.get("aa") is None

    def test_unreadable(self, store: KernelStore, monkeypatch: pytest.MonkeyPatch):
        store.put("aa", b"x")
        with monkeypatch.context() as patch:
            patch.setattr(os, "open", failing(errno.EIO))
            assert store.get("aa") is None
        assert store.counts()["read_errors"] == 1
        assert store.get("aa") == b"x"

    def test_times_cannot_be_set(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch
    ):
        store.put("aa", b"x")
        monkeypatch.setattr(os, "utime", failing(errno.EROFS))
        assert store.get("aa") == b"x"

    def test_nothing_can_be_listed_or_removed(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch
    ):
        store.put("aa", b"x" * 100)
        store.max_bytes = 200
        monkeypatch.setattr(Path, "unlink", failing(errno.EACCES))
        store.put("bb", b"x" * 100)
        assert store.clear() == StoreUsage(0, 0)
        monkeypatch.setattr(os, "scandir", failing(errno.EACCES))
        store.put("cc", b"x" * 100)
        assert store.usage() == StoreUsage(0, 0)
        assert store.get("bb") == b"x" * 100

    def test_the_folder_went_away(self, store: KernelStore):
        store.folder.rmdir()
        assert store.get("aa") is None
        store.put("aa", b"x")
        assert store.get("aa") == b"x"

    def test_writing_never_shows_half_a_file(
        self, store: KernelStore, monkeypatch: pytest.MonkeyPatch
    ):
        store.put("aa", b"old")
        seen = []
        replace = os.replace

        def look(source: object, target: object) -> None:
            seen.append(store.get("aa"))
            replace(source, target)

        monkeypatch.setattr(os, "replace", look)
        store.put("aa", b"new")
        assert seen == [b"old"]
        assert store.get("aa") == b"new"


class TestRoom:
    def put_aged(self, store: KernelStore, key: str, age: float) -> None:
        store.put(key, b"x" * 960)
        past = time.time() - age
        os.utime(store.folder / f"{key}.kernel", (past, past))

    def test_the_least_recently_used_go(self, store: KernelStore):
        for number in range(8):
            self.put_aged(store, f"k{number}", 100 - number)
        assert store.get("k0") is not None  # is now the most recently used
        store.max_bytes = 8500
        store.put("new", b"x" * 960)
        left = {path.stem for path in files(store)}
        assert left == {"k0", "k4", "k5", "k6", "k7", "new"}
        assert store.counts()["evicted"] == 3
        assert store.usage().nbytes <= 8500

    def test_stays_within_the_limit(self, store: KernelStore):
        store.max_bytes = 10_000
        for number in range(100):
            store.put(f"k{number}", b"x" * 500)
            assert store.usage().nbytes <= 10_000
        assert store.get("k99") is not None

    def test_counts_what_others_write(self, store: KernelStore):
        store.put("mine", b"x")
        store.max_bytes = 10_000
        other = KernelStore(store.folder)
        for number in range(40):
            other.put(f"k{number}", b"x" * 500)
        for number in range(cache._RESCAN):
            store.put(f"m{number}", b"x")
        assert store.usage().nbytes <= 10_000

    def test_what_is_larger_than_all_room(self, store: KernelStore):
        store.put("small", b"x")
        store.max_bytes = 1000
        store.put("huge", b"x" * 1000)
        assert store.get("huge") is None
        assert store.get("small") == b"x"

    def test_leftovers_of_the_dead(self, store: KernelStore):
        dead = store.folder / "aa.kernel.0123.part"
        dead.write_bytes(b"x")
        os.utime(dead, (0, 0))
        alive = store.folder / "aa.kernel.4567.part"
        alive.write_bytes(b"x")
        store.put("bb", b"x")
        assert not dead.exists()
        assert alive.exists()


START = """
import sys
from pathlib import Path
from dask_diffuse.runtime.cache import KernelStore
store = KernelStore(Path(sys.argv[1]))
"""

HAMMER = """
for number in range(150):
    key = f"k{number % 5}"
    data = store.get(key)
    assert data is None or (len(data) > 1000 and len(set(data)) == 1), len(data)
    store.put(key, bytes([number % 251]) * (1001 + number * 97))
    store.max_bytes = 40_000
counts = store.counts()
assert counts["damaged"] == counts["read_errors"] == counts["write_errors"] == 0, counts
"""


def start(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", START + code, str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(code: str, folder: Path) -> subprocess.CompletedProcess[str]:
    process = start(code, folder)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class TestProcesses:
    def test_many_at_once(self, store: KernelStore):
        processes = [start(HAMMER, store.folder) for _ in range(4)]
        for process in processes:
            _, error = process.communicate(timeout=60)
            assert process.returncode == 0, error
        assert not list(store.folder.glob("*.part"))
        assert store.usage().nbytes <= 40_000 + 4 * 20_000

    def test_killed_while_writing(self, store: KernelStore):
        store.put("aa", b"old")
        code = """
import os
os.replace = lambda *paths: os._exit(9)
store.put("aa", b"new")
"""
        assert run(code, store.folder).returncode == 9
        assert store.get("aa") == b"old"

    @pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks here")
    def test_a_fork_while_another_thread_is_busy(self, store: KernelStore):
        code = """
import os
from dask_diffuse.runtime import cache
cache._counts_lock.acquire()
cache._stores_lock.acquire()
child = os.fork()
if child == 0:
    store.put("aa", b"code")
    os._exit(0 if store.get("aa") == b"code" and cache.store_counts() else 1)
assert os.waitpid(child, 0)[1] == 0
"""
        assert run(code, store.folder).returncode == 0
        assert store.get("aa") == b"code"

    def test_loads_neither_a_compiler_nor_platformdirs(self, store: KernelStore):
        code = "print([n for n in ('platformdirs', 'llvmlite') if n in sys.modules])"
        assert run(code, store.folder).stdout.strip() == "[]"

"""Each platform call on Linux, macOS and Windows; doubles stand in for what this machine lacks."""

from __future__ import annotations

import ast
import ctypes
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

import memwell
from memwell.files import hold_lock
from memwell.platform import CURRENT, LINUX, MACOS, WINDOWS, files, mounts
from memwell.platform.folders import service_file, user_config_folder, user_data_folder
from memwell.platform.memory import limit_memory
from memwell.platform.sockets import connect_local, has_local_sockets, listen_local
from memwell.platform.stop import event_on_stop, stop_signals
from memwell.platform.watching import choose_watched

SOURCE = Path(memwell.__file__).parent
on_unix = pytest.mark.skipif(CURRENT == WINDOWS, reason="needs calls that Windows lacks")

FORBIDDEN_MODULES = {"fcntl", "msvcrt", "resource", "pwd", "grp", "termios", "tty", "platformdirs"}
FORBIDDEN_NAMES = {
    "os.fork",
    "os.geteuid",
    "os.getuid",
    "os.kill",
    "os.killpg",
    "os.mkfifo",
    "os.name",
    "os.setsid",
    "os.statvfs",
    "os.umask",
    "os.uname",
    "signal.SIGALRM",
    "signal.SIGHUP",
    "signal.SIGKILL",
    "signal.SIGUSR1",
    "signal.setitimer",
    "socket.AF_UNIX",
    "socket.socketpair",
    "sys.platform",
}


def test_no_other_package_makes_a_call_that_differs_between_platforms() -> None:
    for file in SOURCE.rglob("*.py"):
        if file.parent == SOURCE / "platform":
            continue
        where = file.relative_to(SOURCE)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported = {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported = {(node.module or "").split(".")[0]}
            else:
                imported = set()
            assert not imported & FORBIDDEN_MODULES, where
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert f"{node.value.id}.{node.attr}" not in FORBIDDEN_NAMES, where
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                is_proc = node.value.startswith("/proc/")
                assert not is_proc or where.name == "filesystem.py", where  # a default argument


def test_this_machine_is_one_of_the_platforms() -> None:
    assert CURRENT in (LINUX, MACOS, WINDOWS)


# -- files -----------------------------------------------------------------------------------------


class WindowsLocks:
    """Stands in for msvcrt: locks one byte of a file until it is closed."""

    LK_NBLCK = 2

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.positions: list[int] = []

    def locking(self, descriptor: int, mode: int, size: int) -> None:
        assert (mode, size) == (self.LK_NBLCK, 1)
        self.positions.append(os.lseek(descriptor, 0, os.SEEK_CUR))
        if self.refusals:
            self.refusals -= 1
            raise OSError(36, "Resource deadlock avoided")


def test_a_lock_on_windows_waits_or_gives_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locks = WindowsLocks(refusals=2)
    monkeypatch.setitem(sys.modules, "msvcrt", locks)
    with open(tmp_path / "lock", "w+b") as file:
        file.write(b"x" * 10)
        file.flush()
        assert not files.lock_file(file.fileno(), wait=False, on=WINDOWS)
        assert files.lock_file(file.fileno(), wait=True, on=WINDOWS)
    assert locks.positions == [0, 0, 0]  # always the same byte


def test_a_lock_on_unix_is_exclusive_until_it_is_closed(tmp_path: Path) -> None:
    with hold_lock(tmp_path / "lock", wait=True) as first:
        assert first
        with hold_lock(tmp_path / "lock", wait=False) as second:
            assert not second
    with hold_lock(tmp_path / "lock", wait=False) as third:
        assert third


@on_unix
def test_flushing_asks_each_system_in_its_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    file = tmp_path / "file"
    file.write_bytes(b"x")
    calls: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE
        calls.append("written" if flags == os.O_RDWR else "read")
        real(descriptor)

    def full_fsync(_: int, command: int) -> None:
        calls.append(f"full {command}")

    monkeypatch.setattr(os, "fsync", fsync)
    files.flush_file(file, on=LINUX)
    files.flush_file(file, on=WINDOWS)  # a handle for reading could not be flushed there
    files.flush_folder(tmp_path, on=LINUX)
    files.flush_folder(tmp_path / "missing", on=WINDOWS)  # nothing to do
    assert calls == ["read", "written", "read"]
    double = SimpleNamespace(fcntl=full_fsync, F_FULLFSYNC=51)
    monkeypatch.setitem(sys.modules, "fcntl", double)
    files.flush_file(file, on=MACOS)
    assert calls[3:] == ["full 51"]


def test_a_file_that_is_open_elsewhere_is_replaced_on_windows_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = [PermissionError(13, "in use")] * 2
    real = os.replace

    def replace(source: Path, target: Path) -> None:
        if refusals:
            raise refusals.pop()
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    new, old = tmp_path / "new", tmp_path / "old"
    new.write_text("new")
    files.replace_file(new, old, on=WINDOWS)
    assert old.read_text() == "new"
    refusals += [PermissionError(13, "not allowed")]
    with pytest.raises(PermissionError):
        files.replace_file(old, new, on=LINUX)


@on_unix
def test_modes_count_on_unix_only(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    file.chmod(0o644)
    assert files.modes_of_others(file, on=LINUX) == 0o044
    assert files.modes_of_others(file, on=WINDOWS) == 0


# -- folders ---------------------------------------------------------------------------------------


def test_folders_are_those_of_the_platform(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert user_data_folder("memwell").name == "memwell"
    assert user_config_folder("memwell").name == "memwell"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    unit, plist = service_file("memwell", on=LINUX), service_file("memwell", on=MACOS)
    assert unit == tmp_path / ".config/systemd/user/memwell.service"
    assert plist == tmp_path / "Library/LaunchAgents/memwell.plist"
    assert service_file("memwell", on=WINDOWS) is None


# -- mounts ----------------------------------------------------------------------------------------


@on_unix
def test_network_drives_are_found_on_linux(tmp_path: Path) -> None:
    table = tmp_path / "mounts"
    table.write_text(f"/dev/sda / ext4 rw 0 0\nserver:/x {tmp_path}/my\\040share nfs4 rw 0 0\n")
    assert mounts.network_kind(tmp_path / "my share" / "a", mounts=table, on=LINUX) == "nfs4"
    assert mounts.network_kind(tmp_path, mounts=table, on=LINUX) is None
    assert mounts.network_kind(tmp_path, mounts=tmp_path / "missing", on=LINUX) is None


@on_unix
def test_network_drives_are_found_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = tmp_path / "mount"
    command.write_text(
        "#!/bin/sh\necho '/dev/disk3s1 on / (apfs, sealed, local)'\n"
        f"echo '//me@server/share on {tmp_path}/Shared Files (smbfs, nodev, nosuid)'\n"
    )
    command.chmod(0o755)
    monkeypatch.setattr(mounts, "_MAC_MOUNT", str(command))
    assert mounts.network_kind(tmp_path / "Shared Files" / "a", on=MACOS) == "smbfs"
    assert mounts.network_kind(tmp_path, on=MACOS) is None
    monkeypatch.setattr(mounts, "_MAC_MOUNT", str(tmp_path / "missing"))
    assert mounts.network_kind(tmp_path, on=MACOS) is None


@pytest.mark.parametrize(("kind", "expected"), [(3, None), (4, "network drive")])
def test_network_drives_are_found_on_windows(
    kind: int, expected: str | None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernel = SimpleNamespace(GetDriveTypeW=lambda drive: kind if drive.endswith("\\") else 0)
    monkeypatch.setattr(ctypes, "windll", SimpleNamespace(kernel32=kernel), raising=False)
    assert mounts.network_kind(tmp_path, on=WINDOWS) == expected


# -- sockets, signals, watching --------------------------------------------------------------------


@on_unix
def test_local_sockets_are_private_and_only_on_unix(tmp_path: Path) -> None:
    assert not has_local_sockets(on=WINDOWS)
    assert has_local_sockets(on=LINUX) == hasattr(socket, "AF_UNIX")
    path = tmp_path / "s"
    with listen_local(path, 1) as listener, connect_local(path, 1.0) as client:
        assert path.stat().st_mode & 0o777 == 0o600
        peer, _ = listener.accept()
        with peer:
            client.sendall(b"x")
            assert peer.recv(1) == b"x"
    with pytest.raises(OSError, match=r"refused|No such file"):
        connect_local(path, 1.0)


@pytest.fixture
def own_handlers() -> Iterator[None]:
    """Handlers of signals that a test may replace."""
    before = {number: signal.getsignal(number) for number in [*stop_signals(), signal.SIGUSR1]}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@on_unix
@pytest.mark.usefixtures("own_handlers")
def test_windows_also_stops_on_ctrl_break(monkeypatch: pytest.MonkeyPatch) -> None:
    assert stop_signals(on=LINUX) == [signal.SIGINT, signal.SIGTERM]
    monkeypatch.setattr(signal, "SIGBREAK", signal.SIGUSR1, raising=False)
    assert stop_signals(on=WINDOWS)[2:] == [signal.SIGUSR1]
    stop = event_on_stop(on=WINDOWS)
    signal.raise_signal(signal.SIGUSR1)
    assert stop.wait(60)


@on_unix
@pytest.mark.usefixtures("own_handlers")
def test_a_signal_may_arrive_while_the_event_is_locked() -> None:
    stop = event_on_stop()
    with vars(stop)["_cond"]:  # The main thread holds it when a wait begins and ends.
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert stop.wait(60)


def test_linux_watches_folders_and_the_others_the_tree(tmp_path: Path) -> None:
    inside = [tmp_path, tmp_path / "a"]
    assert choose_watched(tmp_path, inside, on=LINUX) == (inside, False)
    assert choose_watched(tmp_path, inside, on=MACOS) == ([tmp_path], True)
    assert choose_watched(tmp_path, inside, on=WINDOWS) == ([tmp_path], True)


@pytest.mark.process
def test_a_file_in_a_watched_tree_is_noticed_as_on_macos_and_windows(tmp_path: Path) -> None:
    """The branch of the others runs on Linux, too: watchfiles accepts a tree everywhere."""
    code = (
        "import sys, threading; from pathlib import Path; from watchfiles import watch\n"
        "from memwell.platform import MACOS; from memwell.platform.watching import choose_watched\n"
        "root = Path(sys.argv[1]); paths, recursive = choose_watched(root, [root], on=MACOS)\n"
        "def act():\n    (root / 'a' / 'b').mkdir(parents=True); (root / 'a' / 'b' / 'n.md').touch()\n"
        "threading.Timer(0.3, act).start()\n"
        "for changes in watch(*paths, recursive=recursive, rust_timeout=20000, yield_on_timeout=True):\n"
        "    print(len(changes) > 0); break\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "True\n", done.stderr


def test_windows_has_no_limit_of_memory() -> None:
    assert not limit_memory(1, on=WINDOWS)


@on_unix
def test_the_memory_of_a_process_is_limited() -> None:
    if CURRENT == MACOS:
        pytest.skip("macOS refuses some limits")
    code = (
        "from memwell.platform.memory import limit_memory; assert limit_memory(300_000_000)\n"
        "try: bytearray(1_000_000_000)\n"
        "except MemoryError: print('refused')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "refused\n"


@on_unix
def test_a_byte_is_locked_by_one_process(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "wb") as file:
        assert files.lock_byte(file.fileno(), 0, wait=False)
        code = (
            "import sys; from memwell.platform.files import lock_byte\n"
            "print([lock_byte(int(sys.argv[1]), byte, wait=False) for byte in (0, 1)])"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(file.fileno())],
            pass_fds=[file.fileno()],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout == "[False, True]\n"
        files.unlock_byte(file.fileno(), 0)

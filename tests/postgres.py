"""A PostgreSQL server for the tests: on a port and in a folder of its own, with its own process."""

import glob
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

#: Where packages put the programs that are on no PATH.
PLACES = ("/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql*/bin", "/usr/pgsql-*/bin")


def program(name: str) -> str:
    """The path of one of PostgreSQL's programs."""
    places = sorted((path for pattern in PLACES for path in glob.glob(pattern)), key=_version, reverse=True)
    found = shutil.which(name, path=os.pathsep.join([*places, os.environ.get("PATH", "")]))
    assert found, f"{name} is not installed. On Debian or Ubuntu: apt-get install postgresql"
    return found


def _version(path: str) -> int:
    return int("".join(filter(str.isdigit, path)) or 0)


class Server:
    """One server; `start` and `stop` may be called again and again."""

    def __init__(self) -> None:
        # Not in pytest's own folder, which nobody but its owner may enter: PostgreSQL refuses to run as root.
        self.folder = Path(tempfile.mkdtemp(prefix="flownb-pg-"))
        self._as: dict[str, str] = {}
        if os.geteuid() == 0:
            self._as = {"user": "nobody"}
            shutil.chown(self.folder, "nobody")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        command = [program("initdb"), "-D", self._data, "-U", "flow", "-A", "trust", "-E", "UTF8", "--no-sync"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as)  # type: ignore[call-overload]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    def url(self, schema: str = "flownb") -> str:
        """Of its one database; the password is one that nobody asks for."""
        return f"postgresql://flow:sesame@127.0.0.1:{self.port}/postgres?schema={schema}"

    def start(self) -> None:
        import psycopg

        settings = [
            f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.folder}",
            "fsync=off", "max_connections=60",
        ]  # fmt: skip
        command = [program("postgres"), "-D", self._data, *(word for one in settings for word in ("-c", one))]
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd="/", **self._as)  # type: ignore[call-overload]
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url().partition("?")[0], connect_timeout=5).close()
                return
            except psycopg.OperationalError:
                alive = self._process.poll() is None and time.monotonic() < deadline
                assert alive, (self.folder / "log").read_text()
                time.sleep(0.05)

    def stop(self) -> None:
        """At once: its connections break."""
        if self._process is not None:
            self._process.send_signal(signal.SIGINT)
            self._process.wait(30)
            self._process = None

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

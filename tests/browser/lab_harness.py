"""Drive a real JupyterLab or Notebook 7 in headless Chromium.

* `LabServer` starts the application on 127.0.0.1 with throw-away configuration, data, runtime and IPython folders:
  nothing of the user's settings leaks in, and the kernel is the interpreter that runs the tests.
* `Browser` is one Chromium for all of them. It refuses what would leave loopback and writes it into `external`.
* `Lab` is one page with a notebook: run cells (waiting or not), read outputs, click, interrupt, restart, reload, shoot.
* `make_notebook` writes an .ipynb from the sources of its cells.

    with LabServer(root) as server, Browser() as browser:
        make_notebook(root / "a.ipynb", [CELL0, CELL1])
        lab = Lab(server, browser)
        lab.open("a.ipynb")
        lab.run(0)                                  # and wait until it is done
        lab.run(1, wait=False)                      # a cell that awaits a click
        lab.click(0, "button:has-text('Approve')")  # a real DOM click in the output of cell 0
        lab.wait_text(1, "approved")

Learnt from failures:

* `expose_app_in_browser` puts the application on `window.jupyterapp`: cells are run by its command, not by key
  strokes, so that the focus does not matter. Clicks on widgets are genuine.
* The notebook's windowing is off, else cells outside the viewport have no DOM. News, update checks and the LSP
  extension are off: they want the network or a language server.
* Playwright's synchronous API keeps an event loop running in this thread and can be started only once in it: hence one
  `Browser` for several servers, and a pytest process of its own.
* Processes are ended by the handle that started them, never by name.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Literal, Self

from playwright.sync_api import BrowserContext, Locator, Page, Playwright, Route, WebSocket, sync_playwright
from playwright.sync_api import TimeoutError as PlaywrightTimeout

App = Literal["lab", "notebook"]
Theme = Literal["light", "dark"]

KERNEL = "python3"

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_ARGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

#: Settings of the application by plugin: `{plugin id: {name: value}}`, as in its settings editor.
SETTINGS: dict[str, dict[str, Any]] = {
    "@jupyterlab/notebook-extension:tracker": {
        "windowingMode": "none",
        "recordTiming": True,
        "autoStartDefaultKernel": True,
    },
    "@jupyterlab/apputils-extension:notification": {
        "checkForUpdates": False,
        "fetchNews": "false",
        "doNotDisturbMode": True,
    },
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
}
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}


def chromium() -> str:
    """Path of the browser: `$CHROMIUM`, else the first of the usual names on the PATH.

    Raises:
        RuntimeError: There is none. Not a skip: a browser test without a browser has failed.
    """
    named = os.environ.get("CHROMIUM")
    for name in (named,) if named else CHROMIUM_NAMES:
        path = shutil.which(name)
        if path:
            return path
    what = f"CHROMIUM={named!r} is no program" if named else f"None of {', '.join(CHROMIUM_NAMES)} is on the PATH"
    raise RuntimeError(f"{what}. Install Chromium (apt-get install chromium) or set CHROMIUM to a browser's path.")


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listened on a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port: int = s.getsockname()[1]
        return port


def make_notebook(path: Path, cells: Sequence[str], kernel: str = KERNEL) -> Path:
    """Write a notebook whose code cells are `cells`, not yet run; return its path."""
    notebook = {
        "nbformat": 4,
        "nbformat_minor": 5,
        "metadata": {
            "kernelspec": {"name": kernel, "display_name": kernel, "language": "python"},
            "language_info": {"name": "python"},
        },
        "cells": [
            {
                "cell_type": "code",
                "id": f"c{i}",
                "metadata": {},
                "outputs": [],
                "execution_count": None,
                "source": source.strip("\n"),
            }
            for i, source in enumerate(cells)
        ],
    }
    path.write_text(json.dumps(notebook), encoding="utf-8")
    return path


class LabServer:
    """`jupyter lab` (app="lab") or Notebook 7 (app="notebook") in a child process; a context manager.

    Args:
        root: The folder that it serves; made if it is missing.
        app: Which of the two.
        theme: The theme that pages start with; `Lab.set_theme` changes it later.
        kernels: More kernels by name, each the path of a Python with ipykernel. "python3" is this interpreter.
        settings: Further application settings, as `SETTINGS`.
        python: The interpreter that runs the server.
        timeout_s: Seconds until the server must answer.
    """

    def __init__(
        self,
        root: Path,
        *,
        app: App = "lab",
        theme: Theme = "light",
        kernels: Mapping[str, str] | None = None,
        settings: Mapping[str, dict[str, Any]] | None = None,
        python: str = sys.executable,
        timeout_s: float = 60.0,
    ) -> None:
        self.root, self.app, self.python, self.timeout_s = root, app, python, timeout_s
        self.kernels = {KERNEL: sys.executable, **(kernels or {})}
        themes = {"@jupyterlab/apputils-extension:themes": {"theme": THEMES[theme], "adaptive-theme": False}}
        self.settings = {**SETTINGS, **themes, **(settings or {})}
        self.url = ""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        self._home = Path(tempfile.mkdtemp(prefix="flownb-lab-"))
        env = self._environment()
        self._write_kernels()
        self._write_settings()
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._log: IO[bytes] = (self._home / "server.log").open("wb")
        self._process = subprocess.Popen(
            self._command(port), env=env, stdout=self._log, stderr=subprocess.STDOUT, start_new_session=True
        )
        self._wait_until_up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)  # the server ends its own kernels
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)  # a session of its own: the server and its kernels only
                self._process.wait()
        self._log.close()
        shutil.rmtree(self._home, ignore_errors=True)

    def log_text(self) -> str:
        """What the server has written so far."""
        return (self._home / "server.log").read_text(encoding="utf-8", errors="replace")

    def _folder(self, name: str) -> Path:
        folder = self._home / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def _environment(self) -> dict[str, str]:
        own = ("JUPYTER", "IPYTHON", "JPY_", "COLAB", "VSCODE")
        env = {name: value for name, value in os.environ.items() if not name.startswith(own)}
        for name in ("CONFIG_DIR", "DATA_DIR", "RUNTIME_DIR"):
            env[f"JUPYTER_{name}"] = str(self._folder(name.lower()))
        env["IPYTHONDIR"] = str(self._folder("ipython"))
        env["JUPYTERLAB_SETTINGS_DIR"] = str(self._folder("settings"))
        env["JUPYTERLAB_WORKSPACES_DIR"] = str(self._folder("workspaces"))
        env["PYTHONUNBUFFERED"] = "1"
        return env

    def _write_kernels(self) -> None:
        for name, python in self.kernels.items():
            spec = {
                "argv": [python, "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                "display_name": name,
                "language": "python",
                "metadata": {"debugger": False},
            }
            (self._folder(f"data_dir/kernels/{name}") / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")

    def _write_settings(self) -> None:
        for plugin, values in self.settings.items():
            package, name = plugin.split(":")
            file = self._folder(f"settings/{package}") / f"{name}.jupyterlab-settings"
            file.write_text(json.dumps(values), encoding="utf-8")

    def _command(self, port: int) -> list[str]:
        if self.app == "lab":
            program = ["jupyterlab", "--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"]
            program += ["--LabApp.extension_manager=readonly"]
        else:
            program = ["notebook", "--JupyterNotebookApp.expose_app_in_browser=True"]
        return [
            self.python,
            "-m",
            *program,
            "--no-browser",
            "--allow-root",
            "--ServerApp.ip=127.0.0.1",
            f"--ServerApp.port={port}",
            "--ServerApp.port_retries=0",
            "--IdentityProvider.token=",
            "--ServerApp.password=",
            f"--ServerApp.root_dir={self.root}",
            "--ServerApp.jpserver_extensions={'jupyter_lsp': False}",
        ]

    def _wait_until_up(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + self.timeout_s
        while True:
            try:
                with urllib.request.urlopen(f"{self.url}/api", timeout=2) as reply:
                    reply.read()
                return
            except OSError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    said = self.log_text()
                    self.__exit__(None, None, None)
                    raise RuntimeError(f"The {self.app} server did not start. It said:\n{said}") from None
                time.sleep(0.1)


class Browser:
    """One headless Chromium with an empty profile; a context manager. One for all servers of a process."""

    def __init__(self, *, width: int = 1300, height: int = 1000) -> None:
        self._size = (width, height)
        #: Addresses that a page asked for outside loopback; each was refused. Empty proves "works offline".
        self.external: list[str] = []

    def __enter__(self) -> Self:
        program = chromium()
        width, height = self._size
        self._playwright: Playwright = sync_playwright().start()
        self._profile = tempfile.mkdtemp(prefix="flownb-chromium-")
        self.context: BrowserContext = self._playwright.chromium.launch_persistent_context(
            self._profile, executable_path=program, args=CHROMIUM_ARGS, viewport={"width": width, "height": height}
        )
        self.context.route(lambda url: not _is_local(url), self._refuse)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.context.close()
        finally:
            self._playwright.stop()
            shutil.rmtree(self._profile, ignore_errors=True)

    def new_page(self) -> Page:
        """An empty page whose web sockets are watched too: routes do not see those."""
        page = self.context.new_page()
        page.on("websocket", self._note_socket)
        return page

    def _refuse(self, route: Route) -> None:
        self.external.append(route.request.url)
        route.abort()

    def _note_socket(self, socket: WebSocket) -> None:
        if not _is_local(socket.url):
            self.external.append(socket.url)


def _is_local(url: str) -> bool:
    return url.startswith(("http://127.0.0.1:", "ws://127.0.0.1:", "data:", "blob:", "about:", "chrome-error:"))


#: In page code: the notebook that is in front.
_NOTEBOOK = "const notebook = window.jupyterapp.shell.currentWidget;"
_PROMPT = f"{_NOTEBOOK} const prompt = notebook.content.widgets[i].inputArea.promptNode.textContent;"
_IS_OPEN = """() => {
    const notebook = window.jupyterapp?.shell?.currentWidget;
    return Boolean(notebook?.content?.widgets?.length && notebook.context?.isReady);
}"""


class Lab:
    """One page of a `Browser` on a `LabServer`: a tab with a notebook. Times are in seconds, cells count from 0."""

    def __init__(self, server: LabServer, browser: Browser) -> None:
        self.server, self.browser = server, browser
        #: Lines of the browser's console, as "error: text" ("pageerror: text" for what a script did not catch).
        self.console: list[str] = []
        self.page: Page = browser.new_page()
        self.page.on("console", lambda message: self.console.append(f"{message.type}: {message.text}"))
        self.page.on("pageerror", lambda error: self.console.append(f"pageerror: {error}"))
        self._path = ""

    @property
    def external(self) -> list[str]:
        """Requests that tried to leave loopback, of all pages of this browser."""
        return self.browser.external

    # ---- the notebook's life -----------------------------------------------------------------------------------

    def open(self, path: str, *, timeout: float = 60.0) -> None:
        """Show the notebook at `path` (relative to the server's root) and wait for its kernel."""
        self._path = path
        where = f"lab/tree/{path}?reset" if self.server.app == "lab" else f"notebooks/{path}"
        self.page.bring_to_front()  # behind another tab its timers come once a second and nothing is drawn
        self.page.goto(f"{self.server.url}/{where}")
        self.wait_open(timeout=timeout)

    def wait_open(self, *, timeout: float = 60.0) -> None:
        """Wait until the notebook is drawn and its kernel idle."""
        self.page.wait_for_function(_IS_OPEN, timeout=timeout * 1000)
        self.wait_kernel("idle", timeout=timeout)

    def second_tab(self) -> Lab:
        """The same notebook, with the same kernel, in another tab of the browser. Close it with `close`."""
        other = Lab(self.server, self.browser)
        other._path = self._path
        # In Lab a workspace of its own, else the two tabs fight over one layout.
        where = f"lab/workspaces/tab-{id(other)}/tree" if self.server.app == "lab" else "notebooks"
        other.page.goto(f"{self.server.url}/{where}/{self._path}")
        other.wait_open()
        return other

    def shut_down(self) -> None:
        """End the notebook's kernel and leave an empty page."""
        self.page.evaluate(f"async () => {{ {_NOTEBOOK} await notebook?.sessionContext?.shutdown(); }}")
        self.page.goto("about:blank")

    def close(self) -> None:
        """Close the tab; the kernel lives on."""
        self.page.close()

    def reload(self, *, timeout: float = 60.0) -> None:
        """Load the page again. What was not saved is gone; the kernel lives on."""
        self.page.reload()
        self.wait_open(timeout=timeout)

    def save(self) -> None:
        """Save the notebook."""
        self.page.evaluate(f"async () => {{ {_NOTEBOOK} await notebook.context.save(); }}")

    # ---- the kernel --------------------------------------------------------------------------------------------

    def kernel_status(self) -> str | None:
        """ "idle", "busy", "starting", ... as the page knows it; None without a kernel."""
        code = f"() => {{ {_NOTEBOOK} return notebook.sessionContext.session?.kernel?.status ?? null; }}"
        status: str | None = self.page.evaluate(code)
        return status

    def wait_kernel(self, status: str = "idle", *, timeout: float = 30.0) -> None:
        """Wait until the kernel is connected and has this status."""
        code = f"""status => {{
            {_NOTEBOOK}
            const kernel = notebook.sessionContext.session?.kernel;
            return kernel?.status === status && kernel.connectionStatus === "connected";
        }}"""
        self.page.wait_for_function(code, arg=status, timeout=timeout * 1000)

    def interrupt(self) -> None:
        """Press stop: a KeyboardInterrupt for the cell that runs. Does not wait for its effect."""
        self.page.evaluate(f"() => {{ {_NOTEBOOK} notebook.sessionContext.session.kernel.interrupt(); }}")

    def restart(self) -> None:
        """Restart the kernel, which forgets everything; outputs stay. Waits until the new one is idle."""
        code = f"async () => {{ {_NOTEBOOK} await notebook.sessionContext.session.kernel.restart(); }}"
        self.page.evaluate(code)
        self.wait_kernel("idle")

    # ---- cells -------------------------------------------------------------------------------------------------

    def command(self, name: str, args: Mapping[str, Any] | None = None) -> None:
        """Run a command of the application; does not wait for its promise."""
        code = "([name, args]) => { window.jupyterapp.commands.execute(name, args); }"
        self.page.evaluate(code, [name, dict(args or {})])

    def n_cells(self) -> int:
        """How many cells the notebook has, text cells too."""
        count: int = self.page.evaluate(f"() => {{ {_NOTEBOOK} return notebook.content.widgets.length; }}")
        return count

    def set_source(self, i: int, source: str) -> None:
        """Replace the text of cell `i`, as a user who edits it; it is not run."""
        code = f"([i, text]) => {{ {_NOTEBOOK} notebook.content.widgets[i].model.sharedModel.setSource(text); }}"
        self.page.evaluate(code, [i, source])

    def run(self, i: int, *, wait: bool = True, timeout: float = 60.0) -> None:
        """Run cell `i`. With wait=False it returns once the front end has taken the request ("[*]").

        Raises:
            RuntimeError: The front end did not take it within 15 s.
        """
        start = f"""i => {{
            {_NOTEBOOK}
            notebook.content.activeCellIndex = i;
            notebook.content.deselectAll();
            notebook.content.widgets[i].model.executionCount = null;
            window.jupyterapp.commands.execute("notebook:run-cell");
        }}"""
        taken = f"i => {{ {_PROMPT} return /\\[(\\*|\\d+)\\]/.test(prompt); }}"
        for _ in range(5):
            # The old prompt is cleared first, so that "running" and "done" can be told from an earlier run. Right
            # after `open` the command may still be disabled: hence the next try.
            self.page.evaluate(start, i)
            try:
                self.page.wait_for_function(taken, arg=i, timeout=3000)
                break
            except PlaywrightTimeout:
                continue
        else:
            raise RuntimeError(f"Cell {i} of {self._path} could not be started. The kernel is {self.kernel_status()}.")
        if wait:
            self.wait_done(i, timeout=timeout)

    def run_all(self, *, timeout: float = 120.0) -> None:
        """Run every code cell, each within `timeout`."""
        kinds = f"() => {{ {_NOTEBOOK} return notebook.content.widgets.map(cell => cell.model.type); }}"
        for i, kind in enumerate(self.page.evaluate(kinds)):
            if kind == "code":
                self.run(i, timeout=timeout)

    def prompt(self, i: int) -> str:
        """The prompt of cell `i`: "[ ]:", "[*]:" while it runs or waits its turn, "[3]:" when it is done."""
        text: str = self.page.evaluate(f"i => {{ {_PROMPT} return prompt; }}", i)
        return text

    def wait_done(self, i: int, *, timeout: float = 60.0) -> None:
        """Wait until the prompt of cell `i` is a number: the kernel has replied to it."""
        self.page.wait_for_function(
            f"i => {{ {_PROMPT} return /\\[\\d+\\]/.test(prompt); }}", arg=i, timeout=timeout * 1000
        )

    # ---- outputs -----------------------------------------------------------------------------------------------

    def cell(self, i: int) -> Locator:
        """Cell `i` of the notebook."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(i)

    def output(self, i: int) -> Locator:
        """The outputs of cell `i`."""
        return self.cell(i).locator(".jp-Cell-outputWrapper")

    def text(self, i: int) -> str:
        """What a user reads in the output of cell `i`."""
        return self.output(i).inner_text()

    def model_outputs(self, i: int) -> list[dict[str, Any]]:
        """The outputs of cell `i` as nbformat JSON, as they would be saved."""
        code = f"i => {{ {_NOTEBOOK} return notebook.content.widgets[i].model.outputs?.toJSON() ?? []; }}"
        outputs: list[dict[str, Any]] = self.page.evaluate(code, i)
        return outputs

    def wait_text(self, i: int, text: str, *, timeout: float = 30.0) -> None:
        """Wait until the output of cell `i` shows `text`."""
        self.output(i).get_by_text(text).first.wait_for(timeout=timeout * 1000)

    def click(self, i: int, selector: str, *, timeout: float = 10.0) -> None:
        """Click the first element of cell `i`'s output that `selector` finds, once it can be clicked."""
        self.output(i).locator(selector).first.click(timeout=timeout * 1000)

    # ---- looks -------------------------------------------------------------------------------------------------

    def set_theme(self, theme: Theme) -> None:
        """Switch the application's theme and wait until the page wears it."""
        self.command("apputils:change-theme", {"theme": THEMES[theme]})
        light = "true" if theme == "light" else "false"
        body = self.page.locator(f"body[data-jp-theme-light='{light}']")
        body.wait_for(state="attached")  # not "visible": a body without a height of its own counts as hidden
        self.page.wait_for_timeout(300)  # the style sheet of the theme is swapped after the attribute

    def screenshot(self, path: Path, *, cell: int | None = None) -> Path:
        """Write a PNG of the page, or of one cell's output; return its path."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if cell is None:
            self.page.screenshot(path=path)
        else:
            self.output(cell).screenshot(path=path)
        return path


#: `notebook(cells)` of conftest.py: writes a notebook with these cells, opens it and returns its page.
Opener = Callable[[Sequence[str]], Lab]

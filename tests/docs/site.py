"""The site built once for the slow tests, from a copy, so that the tree itself stays as it is; and served over HTTP."""

from __future__ import annotations

import contextlib
import functools
import http.server
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

DOCS = Path(__file__).resolve().parents[2] / "docs"
MADE = ("_build", "api", "gallery", "__pycache__", "sg_execution_times.rst")


def build(folder: Path, *, examples: bool) -> tuple[Path, str, int]:
    """HTML folder, what Sphinx said, its exit code. Without ``examples`` the gallery's scripts are shown, not run."""
    source, target = folder / "docs", folder / "html"
    shutil.copytree(DOCS, source, ignore=shutil.ignore_patterns(*MADE))
    shutil.copy(DOCS.parent / "CHANGELOG.md", folder)  # the page of what is new reads it
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q"]
    environment = {**os.environ, "CERTEQ_DOCS_EXAMPLES": "1" if examples else "0"}
    done = subprocess.run(
        [*command, str(source), str(target)], capture_output=True, text=True, timeout=1500, env=environment
    )
    return target, done.stdout + done.stderr, done.returncode


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on the screen."""


@contextlib.contextmanager
def serve(folder: Path) -> Iterator[str]:
    """The folder at an address of this machine; ``make docs-serve`` does the same."""
    handler = functools.partial(_Quiet, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join(10)

"""A real OpenAI-compatible server on 127.0.0.1: vLLM on CPU, in an environment of its own."""

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

#: How long a server may take to come up, in seconds.
PATIENCE = 600


@contextmanager
def serving(model: Path, venv: Path, log: Path, name: str) -> Iterator[str]:
    """Serve a model under a name; yield the base URL. The server is stopped by its own pid."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    given = f"--host 127.0.0.1 --port {port} --dtype float32 --max-model-len 1024 --enforce-eager"
    command = [f"{venv}/bin/python", f"{venv}/bin/vllm", "serve", str(model), *given.split()]
    command += ["--served-model-name", name]
    environment = {
        **os.environ,
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "PATH": f"{venv}/bin:{os.environ['PATH']}",
    }
    with log.open("wb") as output:
        server = subprocess.Popen(
            command,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )
        try:
            for _ in range(PATIENCE):
                try:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2):
                        break
                except OSError:
                    assert server.poll() is None, log.read_text()[-3000:]
                    time.sleep(1)
            else:
                pytest.fail(f"the server did not come up: {log.read_text()[-3000:]}")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            os.killpg(server.pid, signal.SIGINT)
            try:
                server.wait(30)
            except subprocess.TimeoutExpired:
                os.killpg(server.pid, signal.SIGKILL)
                server.wait()

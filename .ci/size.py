"""Measure the repository against its budget (`size.toml`); exit with 1 above it."""

import ast
import io
import sys
import tokenize
from pathlib import Path

import tomllib

ROOT = Path(__file__).parents[1]
SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
DOCUMENTED = (ast.Module, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def code_lines(path: Path) -> int:
    """Count lines that are neither blank nor comment nor docstring."""
    text = path.read_text(encoding="utf-8")
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in SKIPPED and token.type != tokenize.ENDMARKER
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(code - docstrings)


def measured() -> dict[str, int]:
    """Return what `size.toml` limits."""
    package = [code_lines(path) for path in (ROOT / "lm_eval_epidemia").rglob("*.py")]
    web = [p for p in (ROOT / "lm_eval_epidemia/report/web").iterdir() if p.suffix != ".json"]
    written = [page for page in (ROOT / "docs").rglob("*.md") if "generated" not in page.parts]
    pages = [page.read_text(encoding="utf-8") for page in written]
    return {
        "package": sum(package),
        "files": len(package),
        "largest": max(package),
        "web": sum(len(path.read_text(encoding="utf-8").splitlines()) for path in web),
        "tests": sum(code_lines(path) for path in (ROOT / "tests").rglob("*.py")),
        "words": sum(len(page.split()) for page in pages),
        "pages": len(pages),
    }


if __name__ == "__main__":
    limits = tomllib.loads((ROOT / ".ci/size.toml").read_text(encoding="utf-8"))
    above = False
    for name, number in measured().items():
        too_many = number > limits[name]
        above |= too_many
        print(f"{name:8} {number:7,} of {limits[name]:,}{' ABOVE THE BUDGET' if too_many else ''}")
    sys.exit("take something away, or name the allowance of the issue" if above else 0)

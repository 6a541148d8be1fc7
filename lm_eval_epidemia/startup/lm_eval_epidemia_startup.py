"""Start-up hook of lm-eval-epidemia: wait for lm-eval, then tell it of our tasks and models.

lm-eval 0.4.13 has no way for a package to announce its tasks. Installed beside this module, the
file ``lm_eval_epidemia_startup.pth`` makes the interpreter import it at start. It only puts a
watcher on ``sys.meta_path``; the work is done by ``lm_eval_epidemia.harness.discovery`` when, and
only when, lm-eval is imported. ``EPIDEMIA_AUTOLOAD=0`` (or false, no, off, or empty) switches it
off. See docs/evidence/discovery.md.
"""

import os
import sys

_WATCHED = {
    "lm_eval.tasks.manager": "extend_tasks",
    "lm_eval.models": "extend_models",
    "lm_eval.evaluator": "extend_evaluator",
}
_OFF = ("", "0", "false", "no", "off")


class _Watcher:
    """A finder that finds nothing itself; it calls us back after a watched module was imported.

    It stays: a module that is only looked for, reloaded, or imported anew is watched as well.
    """

    def __init__(self):
        self.asking = set()

    def find_spec(self, name, path=None, target=None):
        if name not in _WATCHED or name in self.asking:
            return None
        self.asking.add(name)
        try:
            from importlib.util import find_spec

            spec = find_spec(name)
            loader = spec.loader

            def exec_module(module):
                # Taken off first: the loader of a zip file executes other modules too.
                vars(loader).pop("exec_module", None)
                loader.exec_module(module)
                if module.__name__ == name:
                    _call_back(name, module)

            loader.exec_module = exec_module
            return spec
        except Exception:
            return None  # the import goes on as if we were not here
        finally:
            self.asking.discard(name)


def _call_back(name, module):
    try:
        from lm_eval_epidemia.harness import discovery

        getattr(discovery, _WATCHED[name])(module)
    except Exception as error:
        # Where there is no terminal, there is no stderr either.
        if sys.stderr is not None:
            sys.stderr.write(
                f"lm-eval-epidemia could not announce itself to lm-eval ({error!r}); use "
                '--include_path "$(epidemia path)", or silence this with EPIDEMIA_AUTOLOAD=0\n'
            )


if os.environ.get("EPIDEMIA_AUTOLOAD", "1").strip().lower() not in _OFF:
    sys.meta_path.insert(0, _Watcher())

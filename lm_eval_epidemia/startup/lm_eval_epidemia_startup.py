"""Start-up hook of lm-eval-epidemia: wait for lm-eval, then tell it of our tasks and models.

lm-eval 0.4.13 has no way for a package to announce its tasks. Installed beside this module, the
file ``lm_eval_epidemia_startup.pth`` makes the interpreter import it at start. It only puts a
watcher on ``sys.meta_path``; the work is done by ``lm_eval_epidemia.harness.discovery`` when, and
only when, lm-eval is imported. ``EPIDEMIA_AUTOLOAD=0`` switches it off. See docs/discovery.md.
"""

import os
import sys

_WATCHED = {
    "lm_eval.tasks.manager": "extend_tasks",
    "lm_eval.models": "extend_models",
    "lm_eval.evaluator": "extend_evaluator",
}


class _Watcher:
    """A finder that finds nothing itself; it calls us back after a watched module was imported."""

    def __init__(self):
        self.waiting = dict(_WATCHED)

    def find_spec(self, name, path=None, target=None):
        if name not in self.waiting:
            return None
        action = self.waiting.pop(name)
        if not self.waiting and self in sys.meta_path:
            sys.meta_path.remove(self)
        try:
            from importlib.util import find_spec

            # Not found again by this watcher: it no longer waits for the name.
            spec = find_spec(name)
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                _call_back(action, module)

            spec.loader.exec_module = exec_module
            return spec
        except Exception:
            return None  # the import goes on as if we were not here


def _call_back(action, module):
    try:
        from lm_eval_epidemia.harness import discovery

        getattr(discovery, action)(module)
    except Exception as error:
        sys.stderr.write(
            f"lm-eval-epidemia could not announce itself to lm-eval ({error!r}); use "
            '--include_path "$(epidemia path)", or silence this with EPIDEMIA_AUTOLOAD=0\n'
        )


if os.environ.get("EPIDEMIA_AUTOLOAD", "1") != "0":
    sys.meta_path.insert(0, _Watcher())

"""The truths, scores and questions in Python, without lm-eval and without torch.

`load_truth` returns what a survey says, `score` compares beliefs with it, and `score_answers`
scores a table of answers to many tasks. `joint_error` and `difference` give the errors of means and
differences; `other_scales` and `calibration_line` describe in other ways how beliefs are wrong.
`tasks` lists the tasks, `questions` returns their prompts, and `compare` compares two models from
lm-eval's result files. Import them from here: ``lm_eval_epidemia`` itself imports nothing.
"""

from lm_eval_epidemia.api.answers import score_answers
from lm_eval_epidemia.api.comparing import Compared, compare
from lm_eval_epidemia.api.listing import questions, tasks
from lm_eval_epidemia.api.scores import Score, calibration_line, other_scales, score
from lm_eval_epidemia.api.truths import Source, Truth, load_truth
from lm_eval_epidemia.benchmarks.observation.other_scales import Tilt
from lm_eval_epidemia.score.joint import Draws, difference, joint_error

__all__ = [
    "Compared",
    "Draws",
    "Score",
    "Source",
    "Tilt",
    "Truth",
    "calibration_line",
    "compare",
    "difference",
    "joint_error",
    "load_truth",
    "other_scales",
    "questions",
    "score",
    "score_answers",
    "tasks",
]

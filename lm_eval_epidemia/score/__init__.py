"""How well: anchors, scores, joint errors, means with their errors; shared by all benchmarks.

`collect` puts the answers of a task, whatever the way of asking, into the places of its cells and
prompts. Nothing here knows lm-eval or the wording of a prompt.
"""

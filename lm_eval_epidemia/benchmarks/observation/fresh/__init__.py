"""Unpublished tasks: drawn from a survey's variables, checked, and built.

`surveys.fresh` declares them, `findings.probe` compares them with published ones.
"""

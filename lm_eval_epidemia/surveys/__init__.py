"""Surveys: one declarative record per survey, and readers for raw files.

A survey is a YAML file, checked when it is read (`record`): source, weights, design, variables with
their codes, tasks. `raw` fetches and unpacks files; `read`, `microdata` and `tables` turn them into
levels and weights. No code is specific to one survey.
"""

"""Surveys: one declarative record per survey, and readers for raw files.

A survey is a YAML file, checked when it is read (`record`): source, weights, design, variables with
their codes, tasks. `read`, `microdata` and `tables` turn raw files into levels and weights;
`download` fetches them, `check` compares them with the record. No code is specific to one survey.
"""

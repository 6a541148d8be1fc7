"""What the world recorded: one declarative record per survey, and the readers for raw files.

A survey is a YAML file here, checked when it is read (`record`): source, weights, design, variables
with their codes, tasks. `read`, `microdata` and `tables` turn its raw files into tidy levels and
weights; `download` fetches them, `check` compares them with the record. No code is of one survey.
"""

"""From a survey file to the draft of its record.

Data flow one way: what the columns are (`columns`), which carry the design (`design`), what values
they have (`tally`), the variable that each becomes or why none (`variables`, with `cuts`), the
tasks (`tasks`), the text of the record (`text`); `drafting` puts these together, and `words` holds
what names and labels are known by. Nothing of a file is ever executed, and nothing is guessed
without a mark or a question.
"""

"""Draft a survey record from the survey's files.

Data flow one way: the columns (`columns`), those that carry the design, and the records that are
used (`design`), the columns' values (`tally`), the variable that each becomes, or the reason for
none (`variables`, with `amounts`), the tasks (`tasks`), the text of the record (`writing`);
`drafting` combines these, and `words` lists the words that identify columns and labels. Nothing in
a file is ever executed, and every guess is marked.
"""

"""Does training on text from the true distribution teach a model the distribution?

card        what a dataset and a tuned model say of themselves
facts       from a survey's file to sampled people and the facts that stand in their notes
notes       texts about people; check tells whether a note says its facts, each once
kinds       the other datasets: answers, distributions, statements, shuffled
train       TRL's trainer with what the kinds need, and the curve of losses
"""

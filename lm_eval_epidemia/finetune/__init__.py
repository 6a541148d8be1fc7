"""Does training on text from the true distribution teach a model the distribution?

make        from a survey to a dataset of each kind, in two splits on disk
facts       from a survey's file to sampled people and the facts that their notes state; shuffled
notes       texts about people, by template or by a model; `check` tells whether a model's story
            has a place for each fact, and tells none outside of it
rows        the benchmark's own prompts, answers and distributions; shares as sentences
hold_out    what is left out of training
train       TRL's trainer with what the kinds need, rows as tokens, and the curve of losses
"""

"""Does training on text from the true distribution teach a model the distribution?

card cards of datasets and tuned models make from a survey to a dataset of each kind facts from a
survey's file to sampled people and the facts that stand in their notes; shuffled notes texts about
people, by template or by a model, their facts in tags; check tells whether
            a note tells its facts, each once (words: in which words)
prompts     the benchmark's own prompts: answers and distributions
statements  shares as sentences
hold_out    what is left out of training
dataset     rows on disk
train       TRL's trainer with what the kinds need, and the curve of losses (tokens: rows as tokens)
"""

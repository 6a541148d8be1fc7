"""Reading long and hostile replies: does the time grow with their length, or with its square?

    python benchmarks/replies.py

For each piece of text, repeated: processor time of 200,000 characters over that of 50,000. What is
linear takes four times as long, what is quadratic sixteen times.
"""

from __future__ import annotations

import time

from lm_eval_epidemia.ask.replies.letters import read_letter

PIECES = [
    "A",
    "B",
    "I",
    "a",
    " ",
    ", ",
    ". ",
    "\n",
    ": ",
    " or ",
    " is ",
    "the answer",
    " not ",
    "I cannot ",
    "as an AI",
    " but ",
    "so ",
    "→",
    "(",
    "*",
    "\\boxed{",
    "<think>",
    "</think>",
    "<answer>",
    "Option ",
    " wrong",
    "?",
    "%",
    "是",
    "I, ",
    "A, ",
    "A or ",
    "A is ",
    "\nA. ",
    "the answer is ",
    "答",
    "I can't ",
    "sorry ",
    "I as an ",
    "\n \n",
    "A?",
    "not A ",
    "<a>",
    "<|",
    "A 1",
    "A Bb ",
    "say ",
    "…",
]


def seconds(piece: str, characters: int) -> float:
    text, taken = piece * (characters // len(piece)) + "\nB", []
    for _ in range(3):
        begun = time.process_time()
        read_letter(text, 22)
        taken.append(time.process_time() - begun)
    return min(taken)


def main() -> None:
    found = {piece: (seconds(piece, 200_000), seconds(piece, 50_000)) for piece in PIECES}
    for piece, (long, short) in sorted(found.items(), key=lambda one: -one[1][0])[:10]:
        print(f"{piece!r:20} {long:.2f} s for 200,000 characters, {long / short:.1f} times 50,000")
    growth = sorted(long / short for long, short in found.values())
    print(
        f"growth for 4 times the text: median {growth[len(growth) // 2]:.1f}, most {growth[-1]:.1f}"
    )


if __name__ == "__main__":
    main()

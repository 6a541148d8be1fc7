"""What a model writes, and the letter read from it."""

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lm_eval_epidemia.elicit.replies import answer_text, letter

A, B, C, D = range(4)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("B", B),
        (" b", B),
        ("B.", B),
        ("b)", B),
        ("(B)", B),
        ("**B.** 18-24", B),
        ("B. Yes\n\nBecause A is rare.", B),
        ("B - Yes", B),
        ("Answer: C", C),
        ("The answer is (C).", C),
        ("\\boxed{C}", C),
        ("C\n", C),
        ("A because most people do.", A),
        ("A or B", A),
        ("B, C or D", B),
        # Words, not letters.
        ("A person like this would say B.", B),
        ("I think it is D", D),
        ("a typical person would pick D", D),
        ("e.g. C", C),
        ("It's C", C),
        ("Plan-B is out: C", C),
        # Other languages.
        ("Antwort: B", B),
        ("La respuesta es b) no", B),
        ("Réponse : C", C),
        ("答案是B。", B),
        # No answer.
        ("", None),
        ("   \n", None),
        ("Yes", None),
        ("I cannot answer questions about individuals.", None),
        ("I'm sorry, but I can't help with that.", None),
        ("As an AI model, I do not know.", None),
        ("E", None),
        ("1", None),
        ("我无法回答。", None),
        # Reasoning.
        ("<think>A? No, it must be</think>B", B),
        ("<think>A</think>\n<think>B</think>\n\nC", C),
        ("The options are A and B, so A.</think> B", B),
        ("<think>It could be A, or", None),
        ("<think>A</think>", None),
        ("<Reasoning>A</Reasoning>D", D),
        ("[THINK]A[/THINK]B", B),
        ("<|channel|>analysis<|message|>A?<|end|><|channel|>final<|message|>D", D),
    ],
)
def test_the_first_letter_that_stands_alone(reply, expected):
    assert letter(reply, 4) == expected


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("I cannot say.", None),
        ("I", 8),
        ("I. 35%-40%", 8),
        ("In the U.S., about half: L", 11),
        ("A 0%", 0),
        ("V", 21),
        ("W", None),
        ("y la V", 21),
    ],
)
def test_of_22_intervals_too(reply, expected):
    assert letter(reply, 22) == expected


@given(st.text(max_size=200), st.integers(2, 26))
def test_any_text_gives_a_letter_that_was_offered_or_none(reply, letters):
    found = letter(reply, letters)
    assert found is None or 0 <= found < letters


@given(
    st.integers(0, 25),
    st.sampled_from(["{}", "{}.", "{})", "({})", " {}\n", "Answer: {}", "**{}**"]),
    st.booleans(),
    st.text(string.ascii_letters + " \n", max_size=50),
)
def test_every_usual_form_is_read_whatever_was_thought_before(number, form, lower, thought):
    said = string.ascii_uppercase[number]
    reply = form.format(said.lower() if lower else said)
    assert letter(reply, 26) == number
    assert letter(f"<think>{thought}</think>{reply}", 26) == number
    assert "think" not in answer_text(f"<think>{thought}</think>{reply}")

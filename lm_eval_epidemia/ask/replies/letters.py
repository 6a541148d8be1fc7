r"""Reading the letter out of what a model wrote.

The thought is taken away first (`forms`), and the next question of a model that goes on to ask
itself one. Full-width, circled and other forms of a letter become the plain one (Unicode NFKC),
markup (Markdown, LaTeX, JSON, XML) becomes plain text, and every letter that is no word ("I", "a")
becomes a sign of its own. Then the reply is cut into clauses, and each is one of these:

=============  ===================================================================================
an answer      a letter alone or with its text ("B", "B) No", "Answer: B"), an explicit statement
               ("the answer is B", "I'd go with B", "B is the best choice"), a ticked box
a weak one     as an answer, but of most people or "maybe": it counts where nothing else answers
no answer      all others: what is denied, asked, compared or supposed ("not A", "A or B?", "if she
               were older, B"), what other people would choose, the least likely letter, a
               confidence, names ("hepatitis C"), lists of all answers, crossed and empty boxes
=============  ===================================================================================

The first answer counts. Another one after it replaces it only after a word that corrects ("wait",
"actually", "final answer"); without one the reply contradicts itself, and nothing is read. So is a
reply that takes its answer back and gives no other, and one whose answer was not offered.

Only the reply and the number of letters are known here: a reply that repeats an answer's text
without its letter stays unread. So do Cyrillic and Greek letters that look like Latin ones.

Every repetition in the patterns is bounded or ends at the first character it excludes, so that a
reply is read in time linear in its length.
"""

from __future__ import annotations

import re
import unicodedata

from lm_eval_epidemia.ask.orderings import LETTERS
from lm_eval_epidemia.ask.replies.forms import WORD, Rewriting, any_of, signs, unwrap_answer, words

# ---- Plain text

#: What NFKC does not make plain: emoji of letters, quotes and dashes.
_SIGNS = signs("of letters") | {
    block + place: letter
    for block in (0x1F150, 0x1F170, 0x1F1E6)
    for place, letter in enumerate(LETTERS)
}
_TICK, _CROSS = "\u2713", "\u2717"
_to_plain = Rewriting("letters")

#: Prompts begin so, ours and others: a base model goes on to ask itself the next one.
_NEXT_QUESTION = re.compile(
    r"(?<=.)\n(?:(?:Consider|What is the probability)\b|(?:Question|(?P<q>Q)|User|Human):)"
)

# ---- What is a letter, and what is a word

#: A letter with none of these around it, no part of "C-section", "N/A", "U.S." or "e.g.".
_LETTER = re.compile(
    rf"(?<!{WORD})(?<![-/])(?<!{WORD}\.)([A-Za-z])(?!{WORD})(?![-/]\w)(?!\.[A-Za-z](?!{WORD}))"
)
#: After it, "a", "A" and "I" are words: "A person", "A 49-year-old", "A Black household would".
#: "A because ...", "A or B", "A 0%" and "A Employed" are answers.
_RUNS_ON = re.compile(
    r" (?:(?!(?:or|and|because|since|is|as|over|seems?|fits|looks|appears|rather|here)\b)"
    r"[^\W\d_A-Z]|\d[\d.,%-]{0,12} ?[a-z]|- [a-z]"
    r"|[A-Z][^ .\n]{0,20}(?: [^ .\n]{1,20}){0,12}?"
    r" (?i:is|are|was|were|would|has|have|will|can|may|might|tends?)\b)"
)
#: What stands before a letter within a sentence.
_WITHIN = re.compile(r"[a-zà-ÿ',] \Z")
#: "I" is a letter here, where it does not begin a line of its own.
_BEFORE_I = re.compile(
    r"(?:\b(?:is|be|say|guess|choose|pick|with|option|interval|letter|answer|to|in)|%[,.)]{0,2}"
    r"(?: (?:so|therefore|thus|hence|that is),?)?|[→⇒>(\[:=|]|i\.e\.,?) ?\Z"
)
#: Stand for the letters while the rest is read.
_FIRST = 0xE000
_L = f"[{chr(_FIRST)}-{chr(_FIRST + 25)}]"

#: Names that end in a letter, and probabilities of a letter.
_NAMED = re.compile(
    rf"(?:{words('name')}) {_L}(?: (?:and|or) {_L})?"
    rf"|{_L}(?:: (?=what|consider)|\((?=[^\d\n]{{1,40}}\) ?[=<>≈~])| ?[=<>≈~] ?[01]?\.\d)",
    re.IGNORECASE,
)
#: Several letters at once: "A, B or C", "A/B", "A and B". "B, maybe C" is none of these.
_SEVERAL = re.compile(
    rf"{_L}(?:(?:,? ?(?:\b(?:and|or|nor|und|oder|et|ou|y|o|e|en|of|through)\b"
    rf"|[&<>和或与/,、]|\d[.)]) ?){{1,2}}{_L}){{1,25}}"
)
#: What a letter looks like in a list of the answers: "A. ...", "- B: 20%", ", C) ...".
_LABEL = re.compile(rf"[\n,;|] ?[-•(\d.) ]{{0,5}}(?:Option )?({_L})(?: ?[.):=(]| -)")

# ---- Clauses

#: After these another sentence begins; after those another clause of it.
_CUTS = re.compile(
    r"(?P<hard>\n|[;。]|\.{2,9}|[.!?](?=[\s\"')\]]|\Z)|(?<=[^\x00-\x7f])[!?])"
    rf"|(?P<label>[:=→⇒|]|->)|(?<={_L})[.)]|[,、()\[\]]| - |(?=[{_TICK}{_CROSS}])"
    rf"|\s(?={words('turn', 'concedes')}|(?:because|since|given|based)\b)",
    re.IGNORECASE,
)


_TURN, _IDIOMS, _WEAK, _SUPPOSED = map(any_of, ("turn", "idiom", "weak", "supposed"))
_AGAINST, _LABELLING, _CONCEDES = any_of("label", "denied"), any_of("label"), any_of("concedes")
_CORRECTS, _TAKEN_BACK = any_of("retracts", "corrects"), any_of("retracts")
_PAD = rf"(?:(?:{words('pad')})[ .]{{1,2}}|[-•>{_TICK}👉\d.]{{1,3}} ?|选项|選項){{0,8}}"
_TAIL = rf"(?=\Z| ?(?:です|だ|입니다|이다|,)| (?:{words('tail')}))"
#: An answer, each with the letter as its group: alone, "the answer is B", "I'd say B", "B is best".
_STATES = [
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\A ?{_PAD}({_L}){_TAIL}",
        rf"(?:{words('noun')})[^\n]{{0,60}}?(?:{words('is')}) ?{_PAD}({_L}){_TAIL}",
        rf"(?:{words('say')}) ?{_PAD}({_L}){_TAIL}",
        rf"({_L}) (?:{words('fits')})(?: (?!not|less|least)[a-z]{{1,12}}){{0,2}}?"
        rf" (?:{words('best')})",
    )
]
#: "B No", "A Employed", "I 35%": a letter with its text, if nothing else answers.
_WITH_TEXT = re.compile(rf"\A({_L}) (?:[\d$<>+]|(?<!{chr(_FIRST + 8)} )[A-Z])")


def before_next_question(text: str, q_answers: bool = False) -> str:
    """Return a text up to the next question that a model asks itself.

    Parameters
    ----------
    text : str
    q_answers : bool
        Whether a line that begins with "Q:" is about the answer Q: of 17 or more.
    """
    for question in _NEXT_QUESTION.finditer(text):
        if not (q_answers and question["q"]):
            return text[: question.start()]
    return text


def read_letter(reply: str, letters: int) -> int | None:
    """Return the number of the letter that a reply gives as its answer.

    Parameters
    ----------
    reply : str
        For example "B", "b)", "**B.** No", "Option A is wrong. The correct answer is (B)."
    letters : int
        How many answers there were, from 2 to 26.

    Returns
    -------
    int or None
        Below `letters`; None for a refusal, an empty reply, one that was cut in its thought, and
        anything that leaves more than one answer.
    """
    text = unicodedata.normalize("NFKC", unwrap_answer(reply).translate(_SIGNS))
    text = before_next_question(_to_plain(f"\n{text}")).rstrip()
    found, is_clear, is_corrected, weak = None, True, False, set()
    for clause, kind in _clauses(_lettered(text, letters)):
        if _CORRECTS.search(clause):
            is_corrected = True
            is_clear = is_clear and not (found is not None and _TAKEN_BACK.search(clause))
        place = _stated(clause)
        if place is None:
            if with_text := _WITH_TEXT.match(clause):
                weak.add(ord(with_text[1]) - _FIRST)
            continue
        if kind == "weak":
            weak.add(place)
        elif found is None or is_corrected:
            found, is_clear, is_corrected = place, True, False
        else:
            is_clear = is_clear and place == found
    if found is None and len(weak) == 1:
        found = weak.pop()
    return found if is_clear and found is not None and found < letters else None


def _lettered(text: str, letters: int) -> str:
    """Put signs in the place of letters, but of those in names and in lists of all answers."""

    def sign(match: re.Match[str]) -> str:
        place = LETTERS.index(match[1].upper())
        is_letter = place < letters or (match[1].isupper() and match[1] != "I")
        return chr(_FIRST + place) if is_letter and not _is_word(text, match) else match[0]

    signed = _NAMED.sub(" ", _LETTER.sub(sign, text))
    # "A (Yes) is rare"
    signed = re.sub(rf"({_L}) \([^()\n]{{1,60}}\)(?= [a-z])", r"\1", signed)
    characters, run = list(signed), list[re.Match[str]]()
    for label in (*_LABEL.finditer(signed), None):
        if label and ord(label[1]) - _FIRST == len(run):
            run.append(label)
            continue
        if len(run) > 1:
            for listed in run:
                characters[listed.start(1)] = ","
        run = [label] if label and ord(label[1]) == _FIRST else []
    return _SEVERAL.sub("…", "".join(characters))


def _is_word(text: str, match: re.Match[str]) -> bool:
    """Whether a letter is the pronoun "I", an article, or a small word of another language."""
    letter, (start, end) = match[1], match.span(1)
    before, after = text[max(start - 24, 0) : start], text[end : end + 2]
    if letter == "I" and (after == ".." or not (before[-1:] == "\n" or _BEFORE_I.search(before))):
        return True
    is_set_off = before.rstrip(" ")[-1:] in tuple("\n([:=→|>")
    if letter in "aeiouy" and after[:1] in (" ", ",") and not is_set_off:
        return True
    if letter.islower() and re.match(r" \d", after):
        return True
    # The article has its capital at the beginning of a sentence only.
    if letter == "A" and _WITHIN.search(before):
        return False
    if letter == "I" and after[:1] == ",":
        return before[-1:] == "\n"
    return (letter in "AI" or letter.islower()) and bool(_RUNS_ON.match(text, end))


def _clauses(text: str) -> list[tuple[str, str]]:
    """Cut a text into clauses, each with "weak" or "", without the letters of those that deny."""
    found: list[tuple[str, str]] = []
    text = _IDIOMS.sub("so", text)
    is_question, carried, labelled, weak, start = len(text) > 4, False, False, False, 0
    for cut in (*_CUTS.finditer(text), None):
        clause = text[start : cut.start() if cut else len(text)].strip()
        start = cut.end() if cut else start
        if _TURN.match(clause):
            carried = weak = False
        carried = carried or bool(_SUPPOSED.search(clause))
        weak = weak or bool(_WEAK.search(clause))
        is_asked = is_question and cut is not None and cut[0] == "?"
        is_out = carried or labelled or is_asked or _CROSS in clause
        found.append((re.sub(_L, "", clause) if is_out else clause, "weak" if weak else ""))
        labelled = bool(cut and (cut["label"] or cut[0] == "(") and _LABELLING.search(clause))
        if (cut and cut["hard"]) or _CONCEDES.match(clause):
            carried = weak = False
    return found


def _stated(clause: str) -> int | None:
    """Return the letter that a clause gives as its answer, its last one."""
    against = _AGAINST.search(clause)
    found = [
        match.start(1)
        for pattern in _STATES
        for match in pattern.finditer(clause)
        if against is None or against.end() > match.start(1)
    ]
    return ord(clause[max(found)]) - _FIRST if found else None

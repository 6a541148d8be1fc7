"""Reading the letter out of what a model wrote.

A reply is read in this order, see `letter`:

1. What is not the reply is cut off: reasoning, and the next question of a model that goes on to
   ask itself one. Full-width, circled and other forms of a letter become the plain one (Unicode
   NFKC), and markup (Markdown, LaTeX, JSON, XML) becomes plain text.
2. Letters that are no answers are taken out: clauses that refuse ("I cannot choose between A and
   B"), names ("hepatitis C"), what is rejected, compared or asked ("not A", "option A is wrong",
   "between A and B", "A or B? It depends."), and lists of the answers ("A. ... B. ... C. ...").
3. Of the explicit statements that are left ("the answer is B", "I'd say B", "B is the best
   choice", "so B", a line that ends in ": B" or ". B"), the last one counts.
4. Without one, the first letter that stands alone counts, unless it stands in a text that speaks of
   three or more (reasoning that was cut off). "I" and "a" in a sentence are words.

Otherwise nothing is read. Only the reply and the number of letters are known here: a reply that
repeats an answer's text without its letter stays unread. So do Cyrillic and Greek letters that look
like Latin ones: some are also another letter of their own alphabet (the Cyrillic B-like one is its
third), and reading some of them and not others would tilt the shares of the answers.

Every repetition in the patterns is bounded or ends at the first character it excludes, so that a
reply is read in time linear in its length.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable

from lm_eval_epidemia.elicit.orderings import LETTERS
from lm_eval_epidemia.elicit.replies.rewriting import Rewriting

#: What reasoning models write before their answer, as (opening, closing) pairs.
_REASONING = {
    "<think>": "</think>",
    "<thinking>": "</thinking>",
    "<thought>": "</thought>",
    "<reasoning>": "</reasoning>",
    "<analysis>": "</analysis>",
    "[think]": "[/think]",
    "◁think▷": "◁/think▷",
    # With or without <|message|> after them
    "<|channel|>analysis": "<|channel|>final",
}

# ---- 1. Plain text

#: What NFKC does not make plain: emoji of letters, quotes and dashes. Information is no "i".
_SIGNS = {
    **{block + i: sign for block in (0x1F150, 0x1F170, 0x1F1E6) for i, sign in enumerate(LETTERS)},
    **dict.fromkeys((0x2018, 0x2019), "'"),
    **dict.fromkeys((0x201C, 0x201D, 0x201E, 0xAB, 0xBB, 0x300C, 0x300D, 0x300E, 0x300F), '"'),
    **dict.fromkeys((0x2010, 0x2011), "-"),
    ord("\N{EM DASH}"): " - ",
    ord("\N{HORIZONTAL ELLIPSIS}"): "..",
    # The only two that NFKC would make much longer: they are phrases.
    **dict.fromkeys((0xFDFA, 0xFDFB), " "),
    ord("\N{INFORMATION SOURCE}"): None,
    ord("\N{VARIATION SELECTOR-16}"): None,
}

_to_plain = Rewriting(
    (r"\\boxed|<(?:answer|choice|option)>", " answer: "),
    (r"<\|[^|<>\n]{0,40}\|>|</?[a-z]{1,20}>", "\n"),
    (r"\\[A-Za-z]{0,20}|[*`$\"{}#]|(?<=\n)>", " "),
    # Quotes and underscores around a word, not those inside.
    (r"(?<![A-Za-z0-9])['_]|['_](?![A-Za-z0-9])", " "),
    # A dash between a letter and its answer; any other joins: "18-24", "A-D"
    (r"\u2013(?=[A-Z][a-z])", " - "),
    (r"\u2013", "-"),
    (r"[^\S\n]+", " "),
    (r"\n[\n ]*| \n[\n ]*", "\n"),
)

#: Prompts begin so, ours and others: a base model goes on to ask itself the next one.
_NEXT_QUESTION = re.compile(
    r"(?<=.)\n(?:(?:Consider|What is the probability)\b|(?:Question|(?P<q>Q)|User|Human):)"
)

# ---- What is a letter, and what is a word

#: Latin letters, digits and apostrophes: scripts written without spaces may touch an answer.
_WORD = r"[A-Za-z0-9_\u00c0-\u024f'°]"

#: A letter with none of these around it, no part of "C-section", "N/A", "U.S." or "e.g.". When case
#: is ignored, A-Z also has the Turkish dotted and dotless I.
_ANY = (
    rf"(?<!{_WORD})(?<![-/])(?<!{_WORD}\.)(?-i:[A-Za-z])"
    rf"(?!{_WORD})(?![-/]\w)(?!\.[A-Za-z](?!{_WORD}))"
)
_LETTER = rf"({_ANY})"
_ALONE = re.compile(_LETTER)
_MORE = rf"(?:(?:,? (?:and|or|nor|und|oder|et|ou|y|o|e) |,? ?[,&和或] ?){_ANY})"
_SEVERAL = rf"{_ANY}{_MORE}{{0,3}}"

#: After it, "a", "A" and "I" are words: "A person", "A 49-year-old", "A Black household would".
#: "A because ...", "A or B", "A 0%" and "A Employed" are answers.
_RUNS_ON = re.compile(
    r" (?:(?!(?:or|and|because|since|is|as|over|seems?|fits|looks|appears|feels)\b)[^\W\d_A-Z]"
    r"|\d[\d.,%-]{0,12} ?[a-z]"
    r"|[A-Z][^ .\n]{0,20}(?: [^ .\n]{1,20}){0,12}?"
    r" (?i:is|are|was|were|would|has|have|will|can|may|might|tends?)\b)"
)


#: What stands before a letter within a sentence.
_WITHIN = re.compile(r"[a-zà-ÿ',] \Z")


def _words(alternatives: str) -> str:
    """Any of these as whole words, as a pattern."""
    return rf"(?<!{_WORD})(?:{alternatives})(?!{_WORD})"


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(patterns), re.IGNORECASE)


# ---- 2. Letters that are no answers

#: From a refusal to its end, where an answer may follow after all: "I can't know, but B".
_CLAUSE = (
    r"[^.!?;\n]*?(?=[.!?;\n]| - |\Z"
    r"|,? (?:but|however|yet|though|although|so|still|if|probably|perhaps|maybe|most likely"
    r"|likely|statistically)\b"
    r"|, (?:it's|it is|the|my|I'd|I would)\b)"
)
_REFUSAL = _any_of(
    # "I cannot ...", "I, as an AI language model, am not able to ...", "We would need more ..."
    rf"(?<!{_WORD})(?:I|we)"
    r"(?:(?:,| \(| -) ?[^.!?;,()\n-]{0,60}(?:,|\)| -)| as an? [^.!?;,\n]{0,40}?)?"
    r"(?:'m|'ve|'d| am| can| have| do| must| would| will| just| simply| really| truly| also"
    r"| respectfully| unfortunately){0,3}"
    r" (?:not|no(?! doubt)|cannot|[a-z]{2,6}n't|unable|sorry|refuse|decline|apologi[sz]e|lack"
    r"|need (?:more|additional|further))\b" + _CLAUSE,
    _words(
        r"sorry|apologies|unfortunately|impossible|not possible|not enough|isn't enough"
        r"|insufficient|inappropriate|not appropriate"
        r"|(?:cannot|can't) be (?:determined|known|answered|inferred|said)"
    )
    + _CLAUSE,
    _words(r"(?:je )?ne peux pas|je refuse|no puedo|non posso|não posso|ich kann nicht") + _CLAUSE,
    rf"(?:无法|無法|不能|抱歉){_CLAUSE}",
)
#: Stands for a refusal that was taken out; NFKC leaves none in a text.
_REFUSED = "…"
#: An "I" at the very end after a refusal began a sentence that was cut off.
_CUT_OFF = re.compile(
    r"(?<![:=] )(?<!%, so )(?<! is )(?<! be )(?<! say )(?<! guess )(?<! choose )"
    r"(?<! pick )(?<! with )(?<! option )\bI\Z"
)

_NO_ANSWER = _any_of(
    # Names
    _words(
        r"hepatitis|h[eé]patite|vitamin[ae]?s?|t[iy]p[eo]?|plan|part|generation|gen|schedule"
        r"|title|appendix|table|figure|phase|stage|influenza|omega|world war"
    )
    + f" {_SEVERAL}",
    # "neither A nor B", "between A and B"
    _words(
        r"not|nor|neither|isn't|cannot|can't|rul(?:e|ed|ing) out|eliminat(?:e|ed|ing)"
        r"|exclud(?:e|ed|ing)|rather than|instead of|than|plutôt que|unlike|whether|between"
        r"|nicht|weder|zwischen|pas|entre"
    )
    + f" (?:(?:option|choice|answer|letter|the|to|be|both|either) ){{0,3}}{_SEVERAL}",
    f"(?:不是|并非) ?{_SEVERAL}",
    # "any of A, B and C", "either A or B could apply"
    _words(r"(?:any|all|one|each|which) of|(?:options|choices)(?: are)?|consider(?:ed|ing)?")
    + f" {_SEVERAL}",
    rf"{_ANY}{_MORE}{{1,3}} (?:could|can|may|might|all|both|each|apply)\b",
    # "both A and B", "A, B, C and D"
    rf"{_words('both')} {_ANY}{_MORE}",
    rf"(?<!{_WORD})a, ?b,? ?(?:(?:and|or) )?c(?!{_WORD})"
    rf"(?:,? ?(?:(?:and|or) )?[d-z](?!{_WORD})){{0,23}}",
    # "Q: What ..."
    r"(?<=\n)q: (?=what|consider)",
    # "P(ever used) = 0.37", "p < 0.05"
    rf"(?<!{_WORD})p(?:\((?!\d)| ?[=<>≈~] ?[01]?\.\d)",
    # "A is wrong", "A and B are both too low", "A or B? ..."; "B?" alone is an answer.
    rf"{_SEVERAL}(?:"
    r" (?:(?:is|are|was|were|does|do|seems?|looks?|appears?|would be|can be|could be)"
    r"(?: (?:also|both|very|quite|clearly|likely|probably|even|almost|certainly)){0,2}"
    r" (?:not|wrong|incorrect|false|unlikely|improbable|implausible"
    r"|impossible|less|least|rare|out|ruled|excluded|eliminated|too)"
    r"|[a-z]{2,6}n't|cannot)\b"
    r"| ?(?:ではな|じゃな|不对|不正确|错误)"
    r"| ?\?(?=\s?\S))",
)
#: What a letter looks like in a list of the answers: "A. ...", "- B: 20%", ", C) ...".
_LABEL = re.compile(rf"[\n,;|] ?[-•(\d.) ]{{0,5}}(?:Option )?{_LETTER}(?: ?[.):=]| -)")

# ---- 3. Explicit statements

_ANSWER = (
    r"answer|response|antwort|réponse|respuesta|risposta|resposta|antwoord|svar|odpowiedź|cevap"
    r"|jawaban|ответ|الإجابة|الجواب|उत्तर|답|答案|答え|回答|正解|choice|option|letter|selection|pick"
    r"|guess|estimate|prediction|conclusion|interval|opción|opção|auswahl|choix|scelta"
)
_IS = (
    r"(?:[:=→|\n]| - |是|为|為|は|은|는|"
    + _words(r"is|be|was|ist|lautet|wäre|est|serait|es|sería|è|é|seria|är|er|jest|هو|هي|है")
    + ")"
)
_SAY = (
    r"say|choos(?:e|es|ing)|chose|pick|picks|select|selects|guess|go with|going with|go for|opt for"
    r"|lean to|lean towards?|leaning towards?|settle on|answer|respond with|reply with|estimate"
    r"|conclude|corresponds? to|corresponding to|falls? (?:in|into|under|within)|leaves|leaving"
)
_SO = (
    "so|therefore|thus|hence|but|however|wait|actually|no|rather|instead|probably|maybe|perhaps"
    "|(?:on|upon) reflection|on second thought"
)
#: Between a statement's words and its letter.
_PAD = (
    r"[ :(\[=→\n]{0,3}(?:(?:option|choice|answer|letter|interval|category|the|la|le|die|el|most"
    r"|likely|probably|definitely|that|it|is|it's|would|be|either|lettre|opción|opção|réponse)"
    r"[ :(\[]{1,3}){0,4}"
)
#: After a letter that ends a clause.
_END = r"(?=[ \n]?(?:[.;:!,)\]|(\n-]|\Z))"

_STATEMENTS = [
    _any_of(pattern)
    for pattern in (
        # "The answer for this person is B", from the last such noun on
        rf"(?<!{_WORD})(?:{_ANSWER})(?:(?!{_ANSWER})[^.!?;:\n{_REFUSED}]){{0,60}}?"
        rf"{_IS}{_PAD}{_LETTER}(?! (?:is|are|was|would|could|seems?)\b)",
        # "I'd go with B"
        rf"(?:{_words(_SAY)}|选择?|選択?){_PAD}{_LETTER}",
        # "B is the best choice"
        rf"{_LETTER} (?:is|was|would be|seems|looks|appears|remains|fits|feels)"
        r"(?: [a-z]{1,12}){0,2}? (?:correct|right|best|better|most|more|likeliest"
        r"|(?:the|my) answer)\b",
        # "about 37%, so I", "→ B"
        rf"(?:%\)?,? (?:so|therefore|thus|hence)|{_words('it is|that is')}|it's|→|⇒|=>|->),?{_PAD}"
        rf"(?!I,){_LETTER}{_END}",
        # "so B", "no wait, B"; before "I" these begin a sentence
        rf"{_words(_SO)},?{_PAD}(?!I\b){_LETTER}{_END}",
        # ": B", ". B", "(B)" or B at the end of a line; of lines of letters the first
        rf"(?:(?<!\n[a-z])(?<!\n[a-z][.)])\n|[:.!?)\]|{_REFUSED}] |[(\[])"
        r"(?:(?:option|choice|answer|letter|interval) )?"
        # ". I" there begins a sentence that was cut off, "38%. I" does not
        rf"(?!(?<=[^%)][.!?)\]{_REFUSED}] )I){_LETTER}[.!)\]]{{0,3}}(?= ?[\n|]|\Z)",
    )
]


def answer_text(reply: str) -> str:
    """Return a reply without its reasoning.

    A block that was opened and never closed is all reasoning: the model ran out of tokens. One
    that is closed only was opened in the prompt.
    """
    for opening, closing in _REASONING.items():
        kept: list[str] = []
        thinking = False
        for piece in re.split(
            f"({re.escape(opening)}|{re.escape(closing)})", reply, flags=re.IGNORECASE
        ):
            if piece.lower() == opening:
                thinking = True
            elif piece.lower() == closing:
                if not thinking:
                    kept.clear()
                thinking = False
            elif not thinking:
                kept.append(piece)
        reply = " ".join(kept)
    return reply


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


def letter(reply: str, letters: int) -> int | None:
    """Return the number of the letter that a reply gives as its answer.

    Parameters
    ----------
    reply : str
        For example "B", "b)", "**B.** No", "Option A is wrong. The correct answer is (B)."
    letters : int
        How many answers there were, from 2 to 26; letters beyond them are not looked at.

    Returns
    -------
    int or None
        Below `letters`: the letter of the last explicit statement, else the first that stands
        alone (the module says what these are). None for a refusal, an empty reply or anything else
        without such a letter.
    """
    text = _plain(answer_text(reply))
    if not _ALONE.search(text):
        return None
    text = _without_mentions(text)

    def offered(matches: Iterable[re.Match[str]]) -> list[tuple[int, int]]:
        places = ((match, LETTERS.index(match[1].upper())) for match in matches)
        return [
            (match.start(1), place)
            for match, place in places
            if place < letters and not _is_word(text, match)
        ]

    if stated := offered(match for pattern in _STATEMENTS for match in pattern.finditer(text)):
        return max(stated)[1]
    alone = offered(
        match
        for match in _ALONE.finditer(text)
        if match[1] not in "Iaeiouy" or _set_off(text, match)
    )
    if not alone:
        return None
    start, first = alone[0]
    # Three letters and more without a statement are reasoning that was cut off, unless the first
    # begins the reply.
    begins = not any(map(str.isalnum, text[:start]))
    return first if begins or len({place for _, place in alone}) < 3 else None


def _plain(reply: str) -> str:
    """Write letters, quotes, markup and white space in one way, and cut off a next question.

    Lines begin with a line break, the first one too, and have no blanks at their ends.
    """
    text = _to_plain("\n" + unicodedata.normalize("NFKC", reply.translate(_SIGNS)))
    return before_next_question(text).rstrip()


def _without_mentions(text: str) -> str:
    """Take out letters that are no answers: refusals, names, rejected ones and lists of all."""
    text = _REFUSAL.sub(_REFUSED, text)
    if _REFUSED in text:
        text = _CUT_OFF.sub("", text)
    text = _NO_ANSWER.sub(",", text)
    characters = list(text)
    run: list[re.Match[str]] = []
    for label in (*_LABEL.finditer(text), None):
        if label and len(run) < len(LETTERS) and label[1] == LETTERS[len(run)]:
            run.append(label)
            continue
        if len(run) > 1:
            for listed in run:
                characters[listed.start(1)] = ","
        run = [label] if label and label[1] == LETTERS[0] else []
    return "".join(characters)


def _is_word(text: str, match: re.Match[str]) -> bool:
    """Whether a letter is the pronoun "I", an article, or a small word of another language."""
    letter, (start, end) = match[1], match.span(1)
    after = text[end : end + 2]
    if letter == "I" and after == "..":
        return True
    if letter.islower() and after[:1] == " " and after[1:].isdigit():
        return True
    # The article has its capital at the beginning of a sentence only.
    if letter == "A" and _WITHIN.search(text[max(start - 3, 0) : start]):
        return False
    return (letter in "AI" or letter.islower()) and bool(_RUNS_ON.match(text, end))


def _set_off(text: str, match: re.Match[str]) -> bool:
    """Whether a letter that may be a word is marked as an answer: "(I)", ": e", "i)"."""
    start, end = match.span(1)
    before, after = text[max(start - 2, 0) : start], text[end : end + 1]
    return after == ")" or (before.rstrip(" ")[-1:] in tuple("\n([:=→|>") and after != ",")

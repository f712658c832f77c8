#!/usr/bin/env python3
"""Makes letters.txt, the corpus of the demonstration, from the plain text of its source (see README.md).

    python3 corpus/make.py SOURCE > corpus/letters.txt

One message a line: a sentence of a letter, UTF-8, 20 to 600 bytes, no line twice, in the order of the book.
"""

import re
import sys

LEAST_BYTES, MOST_BYTES = 20, 600
# Everything from the first to the second is the book; around it stand the digitiser's header and licence.
BOOK_BEGINS, BOOK_ENDS = "LETTERS OF CHARLES DICKENS.", "END OF VOL. I."
# A letter begins with its addressee and lasts until the editors take the word.
LETTER_BEGINS = re.compile(r"\[Sidenote: ")
EDITORS_BEGIN = re.compile(r"NARRATIVE\.|FOOTNOTES?:|NOTE\.--|Book [IVX]+\.|\d{4}[^a-z]*\.?$")
ABBREVIATIONS = frozenset(
    "Mr Mrs Messrs Dr St Esq Rev Hon Capt Col Lieut Sergt Prof Gen No Nos Vol vol chap p pp viz etc cf Sr Jan Feb Aug "
    "Sept Oct Nov Dec M.P R.A P.S N.B i.e e.g a.m p.m P.M A.M".split()
)
SENTENCE_END = re.compile(r"[.!?][\"')]*\s+(?=[\"'(]*[A-Z0-9£])")
# Left out: the few sentences with a stereotype of the time, which no demonstration should deliver.
UNWELCOME = re.compile(r"\b(Jews?|blacks|savages?|cripples?|bastards?)\b")


def letter_paragraphs(book):
    """The paragraphs of the letters as lists of lines: no headings, datelines, closing formulas, verse, play-bills."""
    in_letter = False
    for block in re.split(r"\n\s*\n", book):
        lines = block.strip("\n").split("\n")
        first = lines[0].strip()
        if LETTER_BEGINS.match(first):
            in_letter = True
        elif EDITORS_BEGIN.match(first):
            in_letter = False
        elif in_letter and not any(line.startswith("  ") for line in lines) and not re.match(r"\[\d+\]", first):
            yield lines


def plain(lines):
    """One line of running text: italics, footnote marks and figures of the print taken out."""
    text = " ".join(line.strip() for line in lines)
    text = re.sub(r"\[\d+\]", "", text)
    text = text.replace("_", "").replace("----", "--").replace("--", "\N{EM DASH}")
    return re.sub(r"\s+", " ", text).strip()


def sentences(text):
    begin = 0
    for end in SENTENCE_END.finditer(text):
        last_word = text[begin : end.start()].split(" ")[-1].lstrip("\"'(").split("\N{EM DASH}")[-1]
        stop = text[end.start()] == "."
        if stop and (last_word in ABBREVIATIONS or re.fullmatch(r"([A-Z]\.)*[A-Z]", last_word)) and last_word != "I":
            continue
        yield text[begin : end.end()].strip()
        begin = end.end()
    yield text[begin:].strip()


def size(text):
    return len(text.encode())


def messages(paragraphs):
    """Sentences; one that is too short joins its successor within the paragraph."""
    for lines in paragraphs:
        waiting = ""
        for sentence in sentences(plain(lines)):
            waiting = f"{waiting} {sentence}".strip()
            if size(waiting) >= LEAST_BYTES:
                yield waiting
                waiting = ""


def acceptable(message):
    return (
        size(message) <= MOST_BYTES
        and message[-1] in ".!?\"')"
        and re.match(r"[\"'(]*[A-Z0-9£]", message)
        and re.search("[a-z]", message)
        and message.count('"') % 2 == 0
        and "[" not in message
        and "*" not in message
        and not UNWELCOME.search(message)
    )


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="latin-1", newline=None) as source:
        text = source.read()
    begin, end = text.find(BOOK_BEGINS), text.find(BOOK_ENDS)
    if begin < 0 or end < begin:
        sys.exit(f"{sys.argv[1]}: expected the book between the lines {BOOK_BEGINS!r} and {BOOK_ENDS!r}")
    sys.stdout.reconfigure(encoding="utf-8", newline="\n")
    for message in dict.fromkeys(filter(acceptable, messages(letter_paragraphs(text[begin:end])))):
        print(message)


main()

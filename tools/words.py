"""Find phrases that must not return to the texts of this repository, and suggest replacements.

python tools/words.py            prints file:line, the phrase and the replacement; ``make lint`` runs it
python tools/words.py --count    the number of phrases in each folder
python tools/words.py docs src   only these folders and files

A phrase that is right in its place gets an entry in ``ALLOWED``, with the reason.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "docs", "examples", "paper", "benchmarks", "fuzz", "tools")
PAGES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile")
SUFFIXES = {".py", ".pyi", ".md", ".rst", ".html", ".js", ".css", ""}
GENERATED = ("docs/explorer/solver.js", "tools/words.py")  # a compiled file, and the list itself

PHRASES = {
    # a number has a name
    r"so many": "the name of the number",
    r"so few": "the name of the number",
    r"that many\b(?! \w+s\b)": "this number of ...",
    r"half more\b": "50% more",
    # nouns and prepositions where English uses a verb or another preposition
    r"in units of (?:that|those|its)\b": "relative to, divided by",
    r"of least (?!squares)\w+": "with the smallest ...",
    r"goes? to (?:its|their) tolerance": "is solved to its tolerance",
    r"warns? of\b": "warns about",
    r"bit for bit\b": "bit-identical",
    r", mean over\b": "averaged over",
    r"None is (?:``|up|the|\d)": "None means",
    r"None takes\b": "None means",
    r"[Oo]ne of both\b": "one of the two",
    r"in few words\b": "briefly",
    r"(?:is|are) wanted\b": "required, expected",
    r"what (?:was|were) (?:done|read|found)\b": "name it: the steps, the values, the results",
    # "of" and "none" in the wrong place
    r"(?<=[.!?] )Of (?:an?|the|all|each|every|its|these|those|several|two|[0-9])\b": "subject first",
    r"of which[^.]{1,80} (?:is|are) none\b": "name the noun",
    r"(?:that|which) (?:is|are) none\b": "name the noun",
    r"(?:are|is) none that\b": "name the noun",
    # verbs without a subject
    r"(?:is|are|was|were|be) (?:said|told|spoken of)\b": "who reports it?",
    r"(?:is|are|was|were|be) asked(?: for)?\b": "who requires it?",
    r"looked at\b": "evaluated, considered",
    # programs do not speak, know, want or hang
    r"hang(?:s|ing)? on\b": "depends on",
    r"hung on\b": "depended on",
    r"stand(?:s|ing)? for\b": "represents",
    r"speaks? (?:for|against|of)\b": "supports, opposes",
    r"vouch(?:es)?\b": "supports",
    r"tells? (?:apart|how|what|whether|which|nothing|the|of)\b": "reports, measures, distinguishes",
    r"(?<!be )(?<!are )told apart": "distinguished",
    r"knows? (?:nothing|no|of|about)\b": "ignores, does not use",
    r"(?:it|that|which|fit|model|solver|file|page) wants\b": "needs",
    r"has (?:nothing|little) to say": "is not informative",
    r"say so\b": "report it",
    r"says so\b": "reports it",
    # "one" for the user
    r"one's\b": "your, its",
    r"one (?:can|may|must|could|should|would)\b(?! be)": "you can",
    # the word of the literature
    r"shares? (?:of|that)\b": "fraction of",
    r"(?:judge[sd]?|judging|judgment)\b": "evaluate",
    r"rivals?\b": "baseline",
    r"RIVALS?\b": "BASELINES",
    r"held out\b": "validation rows, or held-out with a hyphen",
    r"foretells?\b": "estimates",
    r"mend(?:s|ed|ing)?\b": "fixed",
    r"dear(?:er|est|ly)?\b": "expensive",
    r"wish(?:es|ed)?\b": "feature request; if you want",
    r"(?:last|ninth) digits?\b": "rounding, a relative change of 1e-9",
    r"(?:leaves?|in) the house": "package",
    r"strengths?\b": "C, regularisation",
    r"hol(?:e|es)\b": "missing value",
    r"a word (?:on|when|where|if)\b": "a message, a warning",
    # idioms that mislead
    r"go(?:es)? on (?:with|where|from|after|to|again|improving|until|without)\b": "resumes, continues",
    r"went on\b": "continued",
    r"where it (?:stood|stopped|ended|was)\b": "resumes",
    r"as (?:they|it) stands?\b": "unchanged, in the original form",
    r"all but an?\b(?! few| handful)": "almost a",
    r"tr(?:y|ies) its luck": "takes a long step",
    r"made for (?:anyone|nobody)": "designed to favour a method",
    r"that nobody planned": "interrupted",
    r"in lockstep\b": "with the same steps",
    r"dealt (?:out )?to\b": "assigned to",
    r"flatter(?:s|ed|ing)?\b": "is too optimistic",
    r"honest(?:y|ly)?\b": "calibrated, accurate",
    r"lead(?:s|ing)? nowhere\b": "is broken",
}
MARKDOWN = {
    r"(?<![\d.,])\d{1,3} \d{3}(?![\d.])": "thousands with a comma: 50,000",
    r"(?<![\w.\]])\.\d{2,}\b": "decimals with a leading zero: 0.44",
    r"\| *(?:bar|goal|asked for) *\|": "a page for users has no column of targets",
    r"(?m)^#+ (?:What|How|Where|Of)\b[^?\n]*$": "a heading is a noun phrase or a question",
}
CODE = re.compile(r"^```.*?^```|`[^`\n]*`", re.M | re.S)  # is not prose
DOCSTRING = re.compile(r"(?:What|How|Where|Of|By|Those|As|Without)\b")

# Exceptions: file or folder, pattern of the line, reason.
ALLOWED = (("CHANGELOG.md", r"`sparseklr\.rivals`", "a former name that users may search for"),)


def files(chosen: list[str]) -> Iterator[Path]:
    """Yield the texts under version control."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", *(chosen or (*FOLDERS, *PAGES))], cwd=ROOT, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        path = ROOT / name
        if path.suffix in SUFFIXES and name not in GENERATED and path.exists():
            yield path


def compiled(phrases: dict[str, str]) -> list[tuple[re.Pattern[str], str]]:
    """Compile patterns in which a blank, except in a lookbehind, also matches line ends and comment marks."""
    found = []
    for phrase, advice in phrases.items():
        behind, rest = re.fullmatch(r"((?:\(\?<[^)]*\))*)(.*)", phrase).groups()  # type: ignore[union-attr]
        pattern = rest.replace(" ", r"[\s#*/]+")
        found.append((re.compile(rf"{behind}\b{pattern}"), advice))
    return found


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line number and first line of docstrings that begin with a word that no title begins with."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        first = (ast.get_docstring(node) or "").partition("\n")[0]
        if DOCSTRING.match(first) and not first.endswith("?"):
            yield node.body[0].lineno, first


def problems(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line number, phrase and advice of each problem in a file."""
    text = path.read_text(encoding="utf-8")
    name = str(path.relative_to(ROOT))
    searches = [(text, pattern, advice) for pattern, advice in compiled(PHRASES)]
    if path.suffix == ".md":
        prose = CODE.sub(lambda block: re.sub(r"\S", " ", block.group()), text)
        searches += [(prose, re.compile(pattern), advice) for pattern, advice in MARKDOWN.items()]
    for searched, pattern, advice in searches:
        for match in pattern.finditer(searched):
            phrase = " ".join(match.group().split())
            line = text[text.rfind("\n", 0, match.start()) + 1 :].partition("\n")[0]
            if not allowed(name, line):
                yield text.count("\n", 0, match.start()) + 1, phrase, advice
    if path.suffix == ".py":
        yield from ((line, first, "a title is a noun phrase") for line, first in docstrings(text))


def allowed(name: str, line: str) -> bool:
    """Return whether the list of exceptions covers this line of this file."""
    return any(name.startswith(place) and re.search(pattern, line) for place, pattern, _ in ALLOWED)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("paths", nargs="*", help="folders and files (default: all texts)")
    parser.add_argument("--count", action="store_true", help="print the number of phrases in each folder")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    for path in files(arguments.paths):
        name = path.relative_to(ROOT)
        for line, phrase, advice in sorted(problems(path)):
            counts["/".join(name.parts[:-1][:3]) or name.name] += 1
            if not arguments.count:
                print(f"{name}:{line}: {phrase!r}; write: {advice}", file=sys.stderr)
    if arguments.count:
        print(*(f"{count:5d}  {folder}" for folder, count in sorted(counts.items())), sep="\n")
    return int(bool(counts))


if __name__ == "__main__":
    sys.exit(main())

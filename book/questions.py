"""The rule for questions: a reader can answer one before anything on the page does.

A question is a block quote, `> **Question.** …`; its answer folds out before the next heading or question,
`<details><summary>Answer</summary> … </details>`. Between the two, what a cell prints or draws is folded, and
nothing that can be seen tells the answer. Whether a text tells it is judged by words: those of the answer's
beginning that the question has not said itself. So the rule sees a slip, and not every one: `A slope.` can be
told in words of which no rule knows.
"""

import ast
import io
import re
import tokenize

from cells import asserts, hides_input, hides_output, is_code, pictures, printed, python

PIECES = re.compile(
    r"(?P<answer><details>\s*<summary>Answer</summary>(?P<words>.*?)</details>)"
    r"|(?P<fold><details>.*?</details>)|(?P<code>^```.*?^```)"
    r"|(?P<heading>^#{1,6} +[^\n]*)|(?P<question>^> \*\*Question\.\*\*[^\n]*(?:\n>[^\n]*)*)",
    re.DOTALL | re.MULTILINE,
)
SHORTEST = 8  # words of an answer
COMMON = {
    *"""
    a about above after again all almost alone also although always am an and another answer answers any
    are as at away be because been before being below between both but by can cannot come comes could
    did do does done down during each either else even ever every few fewer first for found from get
    gets give gives given go goes had has have having he her here him his how however i if in instead
    into is it its itself last least less let like made make makes many may mean means might more most
    much must near nearly neither never next no nor not nothing now of off on once one only or other
    others otherwise our out over own part put quite rather same say says see seem seems set she should
    show shows since so some still such than that the their them then there these they this those though
    through thus to together too two under until up upon us use used very was way we well were what when
    where whether which while who whole whose why will with within without would yes yet you your
    """.split()
}
NUMBER = re.compile(r"\d+(?:\.\d+)?")
TITLES = {"title", "set_title", "suptitle"}
# A title that names what is drawn has no such word, unless it asks (`How often …`, `Where …`).
TELLING = re.compile(
    r"\b(?:is|are|was|were|has|have|had|does|do|did|cannot|needs?|falls?|rises?|grows?|shrinks?|loses?|wins?"
    r"|gains?|stops?|stays?|keeps?|gets?|comes?|goes|begins?|ends?|finds?|learns?|makes?|fails?|helps?|beats?"
    r"|more|most|less|fewer|least|better|best|worse|worst|faster|slower|higher|lower|larger|smaller|longer"
    r"|only|never|always|none|nothing|nobody|not|hardly|nearly|almost|already|enough)\b",
    re.IGNORECASE,
)
ASKS = re.compile(r"(?:how|where|what|which|who|whose|when|why|whether)\b", re.IGNORECASE)


def keeps_its_questions(path, notebook):
    """Between a question and its answer, outputs are folded, and nothing in the open tells the answer."""
    chain, said, asked, between = {}, "", None, []
    for kind, piece in [*pieces(notebook), ("end", "")]:
        if asked and kind in ("heading", "question", "end"):
            yield f"no answer folds out after the question {asked[:50]!r}"
            asked = None
        if kind == "heading":
            level = len(piece) - len(piece.lstrip("#"))
            chain = {n: words for n, words in chain.items() if n < level} | {level: piece.lstrip("# ")}
            said = said if level > 2 else ""
        elif kind == "question":
            quoted = re.sub(r"^> ?", "", piece, flags=re.MULTILINE).split()
            setting, asked = said, " ".join(quoted[1:])
            between = [("heading", words) for level, words in chain.items() if level > 1]
        elif asked and kind == "answer":
            lines = spoiled(asked, between, piece, setting)
            yield from (f"after the question {asked[:50]!r}: {line}" for line in lines)
            asked = None
        elif asked:
            between.append((kind, piece))
        said += f" {piece.source if kind == 'code' else piece}"


def pieces(notebook):
    """The notebook in order: ("code", cell), and the pieces of its prose as (kind, words)."""
    for cell in notebook.cells:
        if is_code(cell):
            yield "code", cell
            continue
        end = 0
        for match in PIECES.finditer(cell.source):
            yield "text", cell.source[end : match.start()]
            kind = match.lastgroup if match.lastgroup != "words" else "answer"
            yield ("text", match[0]) if kind == "code" else (kind, match["words"] or match[0])
            end = match.end()
        yield "text", cell.source[end:]


def spoiled(question, between, answer, setting=""):
    """Complaints about one question.

    between: what stands between it and its answer, as (kind, piece)
    setting: what the section has said before the question; its words are names by now, and tell nothing
    """
    if len(answer.split()) < SHORTEST:
        yield f"the answer {' '.join(answer.split())!r} is shorter than its reason; {SHORTEST} words at least"
    plain, findings = [], []
    for kind, piece in between:
        if kind == "code":
            yield from shown_too_early(piece, question)
            findings += titles(python(piece.source))
            plain += [*lines_in_the_open(piece), *first_lines(piece)]
        elif kind in ("text", "heading"):
            (plain if kind == "text" else findings).extend(sentences(piece))
    told = [line for line in findings if tells(line, question, answer)]
    told += [line for line in plain if tells(line, question, answer, setting)]
    for line in dict.fromkeys(told):
        yield f"the answer is told before it folds out: {' '.join(line.split())[:80]!r}"


def shown_too_early(cell, question):
    """Complaints about one code cell: an output, assertion, number or title with a finding in the open."""
    first = cell.source.split("\n", 1)[0][:40]
    if cell.get("outputs") and not hides_output(cell):
        yield f"the cell that begins {first!r} prints or draws; tag it hide-output"
    if asserts(cell) and not hides_input(cell):
        yield f"the cell that begins {first!r} asserts, which states the answer; tag it hide-input"
    asked = {*NUMBER.findall(question)}
    for line in first_lines(cell):
        new = [number for number in NUMBER.findall(line) if number not in asked]
        if new:
            yield (
                f"a folded output shows its first line in JupyterLab, and {line[:50]!r} has the number "
                f"{new[0]}: print a line of words first"
            )
    for title in titles(python(cell.source)):
        for clause in re.split(r"[:;,]", title):
            telling = TELLING.search(clause)
            if telling and not ASKS.match(clause.strip()):
                yield f"the title {title[:60]!r} states a finding ({telling[0]!r}); name what is drawn"


def titles(tree):
    """The titles that a cell gives its figures, as far as they stand in it."""
    for node in ast.walk(tree):
        given = []
        if isinstance(node, ast.keyword) and node.arg in TITLES:
            given = [node.value]
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", None) in TITLES:
            given = node.args[:1]
        elif isinstance(node, ast.Assign) and any(getattr(t, "id", None) in TITLES for t in node.targets):
            given = [node.value]
        yield from filter(None, map(written, given))


def written(node):
    """The words of a string in code; what an f-string fills in is left out. None if it is no string."""
    if isinstance(node, ast.JoinedStr):
        return " ".join(part.value for part in node.values if isinstance(part, ast.Constant))
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def lines_in_the_open(cell):
    """What a code cell says in words where a reader sees it.

    Of open code, every comment and every string. Of folded code the first line, and of a figure that it draws
    what may be written in it: all strings but those of assertions, prints and docstrings.
    """
    tree = python(cell.source)
    if not hides_input(cell):
        yield from comments(cell.source)
        yield from strings(tree, ())
    else:
        yield cell.source.split("\n", 1)[0]
        if pictures(cell):
            yield from strings(tree, (ast.Assert, ast.Raise, ast.Expr))


def strings(tree, without):
    """The strings of a syntax tree, an f-string whole, but those in nodes of the kinds in `without`."""
    if isinstance(tree, without) and not (isinstance(tree, ast.Expr) and draws(tree.value)):
        return
    if (words := written(tree)) is not None:
        yield words
        return
    for node in ast.iter_child_nodes(tree):
        yield from strings(node, without)


def draws(node):
    """Is this statement a call of anything but print? In a cell that draws, it may write into the figure."""
    return isinstance(node, ast.Call) and getattr(node.func, "id", None) != "print"


def comments(source):
    """The comments of a cell."""
    try:
        return [
            token.string
            for token in tokenize.generate_tokens(io.StringIO(source).readline)
            if token.type == tokenize.COMMENT
        ]
    except (tokenize.TokenError, SyntaxError):
        return []


def first_lines(cell):
    """The first line of each text that a cell shows: JupyterLab shows it of a folded output."""
    texts = [printed(cell)] if cell.get("outputs") else []
    results = [output for output in cell.get("outputs", []) if output.output_type == "execute_result"]
    texts += [output.data.get("text/plain", "") for output in results]
    return [text.strip().split("\n", 1)[0] for text in texts if text.strip()]


def sentences(text):
    """The sentences of a text, without marks of quotes and lists."""
    return [part for part in re.split(r"(?<=[.?!:;])\s+|\n\s*\n|\n[-*|] ", text) if part.strip()]


def tells(line, question, answer, setting=""):
    """Does this line tell the answer? It begins as the answer does, or says what the question did not say."""
    heart, said = beginning(answer), bare(line)
    opening = bare(heart)[:4]
    runs = [said[i : i + len(opening)] for i in range(len(said))]
    if line.rstrip().endswith("?"):
        return False
    if len(opening) >= 2 and any(len(word) > 4 or word not in COMMON for word in opening) and opening in runs:
        return True
    fresh = content(heart) - content(question) - content(setting)
    shared = fresh & content(line)
    return any(re.fullmatch(r"\d+\.\d+|\d{3,}", word) for word in shared) or (
        len(shared) >= 2 and 3 * len(shared) >= len(fresh)
    )


def beginning(answer):
    """The answer's first sentence, or its first sentences until they have eight words."""
    words = ""
    for sentence in sentences(answer):
        words += f" {sentence}"
        if len(words.split()) >= SHORTEST:
            break
    return words


def bare(text):
    """The words and numbers of a text, in small letters, without markup: `**Half**, 1,050` -> half, 1050."""
    text = re.sub(r"(?<=\d),(?=\d{3})", "", re.sub(r"\]\([^)]*\)|\\[a-zA-Z]+", " ", text))
    return re.findall(r"\d+(?:\.\d+)?|[^\W\d_]+", text.lower())


def content(text):
    """The words of a text that carry its meaning, each cut down to its stem; and its numbers."""
    return {stem(word) for word in bare(text) if word not in COMMON and (len(word) > 1 or word.isdigit())}


def stem(word):
    """A word without its usual endings, roughly: learned, learning, learns -> learn."""
    for ending in "ation ings ing edly ness ely ies ied ed ly es er s e".split():
        if word.endswith(ending) and len(word) - len(ending) >= 3:
            word = word.removesuffix(ending)
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word

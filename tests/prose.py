"""Draw sentences at random, to be judged by a reader.

    python -m tests.prose src/certeq/optimize -n 40 --seed 1
    python -m tests.prose README.md docs src

From Python files: docstrings, comments, and texts of errors, warnings and options (each string of five words or more).
From .md and .rst files: prose without directives, tables and code. Each text is a sentence or a line of a comment.
"""

from __future__ import annotations

import argparse
import ast
import io
import random
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

Text = tuple[int, str, str]  # line, kind, text


def sentences(text: str) -> list[str]:
    """Split a paragraph at full stops."""
    return [s for s in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*])", " ".join(text.split())) if len(s.split()) > 1]


def of_markup(text: str, kind: str, first: int = 1) -> Iterator[Text]:
    """Yield the sentences of the paragraphs that are prose."""
    fenced = re.sub(r"(?ms)^(```|~~~).*?^\1[^\n]*$", lambda block: "\n" * block[0].count("\n"), text)
    line = first
    for paragraph in re.split(r"(\n[ \t]*\n)", fenced):
        start = paragraph.lstrip()
        if (
            start
            and not re.match(r"\.\. |>>>|[|+=~^:<#-]{2}|\||#|!\[|:\w+:|\$\$", start)
            and not paragraph.startswith("   ")
        ):
            for sentence in sentences(re.sub(r"\n[-=~^*]{3,}\s*$", "", start)):
                yield line, kind, sentence
        line += paragraph.count("\n")


def of_python(source: str) -> Iterator[Text]:
    """Yield sentences of docstrings, comments, and strings that people read."""
    docstrings = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            docstrings.add(id(node.body[0].value))
            yield from of_markup(ast.get_docstring(node), "docstring", node.body[0].lineno)
        elif isinstance(node, ast.Constant | ast.JoinedStr) and id(node) not in docstrings:
            parts = [node] if isinstance(node, ast.Constant) else node.values
            docstrings.update(id(part) for part in parts)  # parts of an f-string are no texts of their own
            text = "".join(
                part.value if isinstance(part, ast.Constant) else f"{{{ast.unparse(part.value)}}}"
                for part in parts
                if isinstance(getattr(part, "value", None), str | ast.expr)
            )
            if len(re.findall(r"[a-z]{2,}", text)) >= 5 and not re.search(r"\n|[;={}]\s*$|^\W", text):
                yield from ((node.lineno, "message", sentence) for sentence in sentences(text))
    block, first, last = [], 0, -1
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT:
            continue
        text, row = token.string.lstrip("# ").strip(" -"), token.start[0]
        alone = token.line.lstrip().startswith("#")
        if row != last + 1 or not alone:
            yield from ((first, "comment", sentence) for sentence in sentences(" ".join(block)))
            block, first = [], row
        block.append(text)
        last = row if alone else -1
    yield from ((first, "comment", sentence) for sentence in sentences(" ".join(block)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
    parser.add_argument("-n", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    found = []
    for path in args.paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in (".py", ".md", ".rst") and not {"_build", "api", "gallery"} & set(file.parts):
                texts = of_python(file.read_text()) if file.suffix == ".py" else of_markup(file.read_text(), "docs")
                found += [(str(file), *text) for text in texts]
    drawn = random.Random(args.seed).sample(found, min(args.n, len(found)))
    for number, (file, line, kind, text) in enumerate(drawn, 1):
        print(f"{number:3d}. {file}:{line} ({kind})\n     {text}")
    print(f"{len(drawn)} of {len(found)} texts")


if __name__ == "__main__":
    main()

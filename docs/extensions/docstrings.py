"""The docstrings' plain text as markup.

They are written to be read in an editor: formulas stand in indented blocks, |x| is a norm and
a' a transpose. `to_markdown` and `escape_for_autodoc` say the same to MyST and to docutils.
"""

from __future__ import annotations

import inspect
import re
import textwrap

from formulas import REFERENCE

_SPECIAL = re.compile(r"([\\*\[\]<$|])|(?<![A-Za-z0-9])(_)|(_)(?![A-Za-z0-9])")
_NUMPY_SECTION = re.compile(r"^-{3,}$")


def paragraphs(text: str) -> list[str]:
    """Paragraphs and indented blocks of a docstring, in order, blocks with their indentation."""
    parts: list[str] = []
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text)):
        indented = part.startswith(" ")
        if indented and parts and parts[-1].startswith(" "):
            parts[-1] += "\n\n" + part  # a formula with an empty line in it
        else:
            parts.append(part.rstrip())
    return parts


def to_markdown(text: str) -> str:
    """MyST of a docstring's body (no NumPy sections)."""
    out = []
    for part in paragraphs(text):
        if part.startswith(" "):
            out.append(f"```text\n{textwrap.dedent(part)}\n```")
        elif part.startswith(">>>"):
            out.append(f"```pycon\n{part}\n```")
        else:
            out.append(_prose(part))
    return "\n\n".join(out)


def _prose(text: str) -> str:
    """Signs of Markdown escaped outside of code."""
    pieces = re.split(r"(``[^`]+``|`[^`]+`)", text)
    return "".join(
        piece if piece.startswith("`") else _SPECIAL.sub(lambda m: "\\" + m.group(0), piece)
        for piece in pieces
    )


def escape_for_autodoc(app, what, name, obj, options, lines):
    """Before napoleon: escape what docutils would read as markup, and set formulas apart.

    An indented block with formulas in `formulas.REFERENCE` is replaced by them.
    """
    out: list[str] = []
    in_sections = in_doctest = replaced = False
    formulas = iter(REFERENCE.get(name, []))
    for i, line in enumerate(lines):
        indented = line.startswith(" ")
        if line.lstrip().startswith(">>>"):
            in_doctest = True
        elif not line.strip():
            in_doctest = False
        if i + 1 < len(lines) and _NUMPY_SECTION.match(lines[i + 1]):
            in_sections = True
        if replaced and (indented or not line.strip()):
            continue
        if replaced:
            out.append("")
            replaced = False
        starts_block = indented and not in_sections and out and not out[-1].strip()
        if starts_block and not _in_block(out):
            found = next(formulas, None)
            if found is not None:
                for formula in found:
                    out += [".. math::", "", f"   {formula}", ""]
                replaced = True
                continue
            out += ["::", ""]
        formula = indented and not in_sections
        out.append(line if in_doctest or formula else _escaped(line))
    lines[:] = out


def _in_block(out: list[str]) -> bool:
    """Whether the last line with text belongs to an indented block."""
    for line in reversed(out):
        if line.strip():
            return line.startswith(" ")
    return False


def _escaped(line: str) -> str:
    pieces = re.split(r"(``[^`]+``|`[^`]+`)", line)
    return "".join(
        piece if piece.startswith("`") else re.sub(r"([\\*|])|(?<=\w)(_)(?!\w)", r"\\\g<0>", piece)
        for piece in pieces
    )


def setup(app):
    app.connect("autodoc-process-docstring", escape_for_autodoc, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

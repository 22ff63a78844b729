"""Formulas as MathML, made at build time: pages need no script and no network to show them."""

import re

from docutils import nodes
from latex2mathml.converter import convert

#: Browsers know one mathvariant only (MathML Core), and guess spaces from the operator's name.
_MENDED = (
    (r'<mi mathvariant="double-struck">R</mi>', "<mi>ℝ</mi>"),
    (r'<mi mathvariant="script">H</mi>', "<mi>ℋ</mi>"),
    (r"<mi>(&#x02AAF;)</mi>", r"<mo>\1</mo>"),  # a relation, not a name
    (
        r'(<mo stretchy="false">(?:\[|&#x00028;)</mo>)<mo>&#x02212;</mo>',
        r"\1<mo form='prefix'>−</mo>",
    ),
    (r'<mo stretchy="false">&#x0007C;</mo>', '<mo stretchy="false" lspace="0" rspace="0">|</mo>'),
    (r"<mo>&#x0002F;</mo>", '<mo lspace="0" rspace="0">/</mo>'),
    (r"<mi>(log|tr|diag|clip)</mi>", r'<mo lspace="0.17em" rspace="0.17em">\1</mo>'),
    (r'<mo movablelimits="true">(\w+)</mo>', r'<mo lspace="0.17em" rspace="0.17em">\1</mo>'),
)


def _mathml(node, **options):
    text = convert(node.astext(), **options)
    for pattern, replacement in _MENDED:
        text = re.sub(pattern, replacement, text)
    return text


def _take_in_punctuation(app, doctree, page):
    """Keep a comma on the line of the formula before it: browsers break there."""
    for node in list(doctree.findall(nodes.math)):
        following = node.next_node(siblings=True, descend=False)
        if isinstance(following, nodes.Text) and following.astext()[:1] in tuple(".,;:)"):
            node["after"] = following.astext()[0]
            following.parent.replace(following, nodes.Text(following.astext()[1:]))


def _inline(translator, node):
    text = _mathml(node)
    if "after" in node:
        text = f'<span class="unbroken">{text}{node["after"]}</span>'
    translator.body.append(text)
    raise nodes.SkipNode


def _block(translator, node):
    translator.body.append(f'<div class="formula">{_mathml(node, display="block")}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer(
        "mathml", inline_renderers=(_inline, None), block_renderers=(_block, None)
    )
    app.connect("doctree-resolved", _take_in_punctuation)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

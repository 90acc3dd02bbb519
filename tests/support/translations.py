"""The texts of the page's templates that need a translation."""

from __future__ import annotations

from jinja2 import nodes

from memwell.surfaces.web.render import HERE, TEMPLATES


def find_texts() -> set[str]:
    """Return every English text that a template translates."""
    found: set[str] = set()
    for file in sorted((HERE / "templates").glob("*.html")):
        tree = TEMPLATES.parse(file.read_text(encoding="utf-8"))
        for call in tree.find_all(nodes.Call):
            arguments = [one.value for one in call.args if isinstance(one, nodes.Const)]
            if isinstance(call.node, nodes.Name) and call.node.name == "_":
                found.add(arguments[0])
            elif isinstance(call.node, nodes.Getattr) and call.node.attr == "count":
                found |= {*arguments[-2:]}
    return found

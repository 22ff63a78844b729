"""Where generated pages go: docs/generated, which is not committed."""

from __future__ import annotations

from pathlib import Path

GENERATED = Path(__file__).parent.parent / "generated"


def write(name: str, text: str) -> Path:
    """Write a page, unless it is there already: an unchanged page is not built again."""
    path = GENERATED / name
    path.parent.mkdir(parents=True, exist_ok=True)
    text = text.rstrip() + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    return path


def remove_others(folder: str, keep: set[str]) -> None:
    """Pages of algorithms or examples that exist no more."""
    for path in (GENERATED / folder).glob("*"):
        if path.name not in keep:
            path.unlink()

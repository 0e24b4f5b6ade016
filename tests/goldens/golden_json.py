"""JSON with one row a line, so that files stay small and a change shows where it is."""

import json


def rows(items):
    """Writes a list, one item a line."""
    return "[\n" + ",\n".join(json.dumps(item, ensure_ascii=False, separators=(",", ":")) for item in items) + "\n]"


def tables(lists):
    """Writes an object of lists, one item a line."""
    return "{\n" + ",\n".join(f'"{key}": {rows(items)}' for key, items in lists.items()) + "\n}"

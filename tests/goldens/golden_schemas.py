"""The cases of JSON Schema's official test suite, in one file: tests/goldens/json_schema_suite.json.

    python3 golden_schemas.py PATH_OF_A_CLONE

The clone of https://github.com/json-schema-org/JSON-Schema-Test-Suite holds the commit below. Each group
of draft 2020-12 and draft 7 is one line: its file, what it describes, its schema, and the instances that
are valid and invalid under it. Schemas of draft 7 name their draft, as those of draft 2020-12 do
themselves; groups that both drafts have are kept once.
"""

import json
import subprocess
import sys
from pathlib import Path

COMMIT = "44401e0c046704b476ec9d2e2fccdaee618f259d"
DRAFTS = ("draft2020-12", "draft7")
DRAFT_7 = "http://json-schema.org/draft-07/schema#"


def git(clone: str, *arguments: str) -> str:
    return subprocess.run(["git", "-C", clone, *arguments], check=True, capture_output=True, text=True).stdout


def files(clone: str, folder: str) -> list[tuple[str, object]]:
    names = git(clone, "ls-tree", "-r", "--name-only", COMMIT, f"{folder}/").split()
    return [(name, json.loads(git(clone, "show", f"{COMMIT}:{name}"))) for name in names]


def without_draft(schema: object) -> object:
    return {name: value for name, value in schema.items() if name != "$schema"} if isinstance(schema, dict) else schema


def groups(clone: str) -> list[dict]:
    found, known = [], set()
    for draft in DRAFTS:
        for name, read in files(clone, f"tests/{draft}"):
            for group in read:
                schema, tests = group["schema"], group["tests"]
                key = json.dumps([without_draft(schema), tests])
                if key in known:
                    continue
                known.add(key)
                if draft == "draft7" and isinstance(schema, dict):
                    schema = {"$schema": DRAFT_7, **schema}
                found.append(
                    {
                        "file": name.removeprefix("tests/").removesuffix(".json"),
                        "about": group["description"],
                        "schema": schema,
                        "valid": [test["data"] for test in tests if test["valid"]],
                        "invalid": [test["data"] for test in tests if not test["valid"]],
                    }
                )
    return found


def remotes(clone: str) -> dict[str, object]:
    """What the schemas refer to at http://localhost:1234/."""
    found = {}
    for name, schema in files(clone, "remotes"):
        path = name.removeprefix("remotes/")
        if path.startswith(DRAFTS) or not path.startswith(("draft", "v1/")):
            found[f"http://localhost:1234/{path}"] = schema
    return found


def lines(values: list[str]) -> str:
    return "\n" + ",\n".join(values) + "\n"


def compact(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))


def main() -> None:
    clone = sys.argv[1]
    source = f"https://github.com/json-schema-org/JSON-Schema-Test-Suite at {COMMIT}"
    schemas = [f"{compact(name)}:{compact(schema)}" for name, schema in remotes(clone).items()]
    text = (
        f'{{"source":{compact(source)},\n"license":{compact(git(clone, "show", f"{COMMIT}:LICENSE"))},\n'
        f'"remotes":{{{lines(schemas)}}},\n"groups":[{lines([compact(group) for group in groups(clone)])}]}}\n'
    )
    Path(__file__).with_name("json_schema_suite.json").write_text(text)


if __name__ == "__main__":
    main()

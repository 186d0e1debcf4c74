"""Lists the rules of the semantics that no test names: `python tests/rules.py`.

A test names the rules that it holds in its name (`test_r3_12_...`) or in a docstring or comment of its file (`R3.12`;
`R3.1 to R3.4` and `R3.1–R3.4` name all between). `rules.txt` has every rule; those that are left to a later issue are
marked there, and are listed apart.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

HERE = Path(__file__).parent
_NAMED = re.compile(r"R(\d+)\.(\d+)(?:\s*(?:to|–|-)\s*R?(\d+)\.(\d+))?")
_FUNCTION = re.compile(r"test_r(\d)_(\d+)")


def known() -> dict[str, str]:
    """Every rule, with the issue that it is left to, "" for none."""
    rules = {}
    for line in (HERE / "rules.txt").read_text(encoding="utf-8").splitlines():
        rule, _, issue = line.partition(" later ")
        if rule.startswith("R"):
            rules[rule] = issue
    return rules


def named(text: str) -> set[str]:
    """The rules that a text names."""
    found = {f"R{section}.{n}" for section, n in _FUNCTION.findall(text)}
    for section, n, other, last in _NAMED.findall(text):
        end = int(last) if other == section else int(n)
        found.update(f"R{section}.{k}" for k in range(int(n), max(int(n), end) + 1))
    return found


def tested() -> set[str]:
    """The rules that some test names."""
    files = [*HERE.rglob("test_*.py"), *HERE.rglob("*.test.mjs")]
    return {rule for path in files for rule in named(path.read_text(encoding="utf-8"))}


def missing() -> tuple[list[str], list[str]]:
    """Rules that no test names: those that should have one, and those that are left to a later issue."""
    have = tested()
    without = [rule for rule in known() if rule not in have]
    return [r for r in without if not known()[r]], [r for r in without if known()[r]]


def main() -> int:
    owed, left = missing()
    for rule in owed:
        print(f"{rule} has no test")
    for issue in sorted({known()[rule] for rule in left}):
        print(f"left to issue {issue}: {', '.join(rule for rule in left if known()[rule] == issue)}")
    print(f"{len(known()) - len(owed) - len(left)} of {len(known())} rules are named by a test.")
    return 1 if owed else 0


if __name__ == "__main__":
    sys.exit(main())

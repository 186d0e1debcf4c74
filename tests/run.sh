#!/usr/bin/env bash
# Run ALL tests, from anywhere: bash tests/run.sh
#
# Makes .venv in the repository, installs the package with its test extra into it, and, as root on Debian or Ubuntu,
# what else is missing (chromium, nodejs >= 18, postgresql, python3-venv). Not as root it says in one line what to install.
# PYTHON=/path/to/python picks the interpreter (>= 3.11), CHROMIUM=/path/to/browser the browser.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

die() { echo "tests/run.sh: $*" >&2; exit 1; }

# ---- what pip cannot give ---------------------------------------------------------------------------------------------

browser() {
    local name
    for name in ${CHROMIUM:-chromium chromium-browser google-chrome google-chrome-stable}; do
        "$name" --version >/dev/null 2>&1 && return  # run it: on some systems `chromium` is only a hint to install it
    done
    return 1
}
node_18() { node -e 'process.exit(parseInt(process.versions.node) < 18 ? 1 : 0)' >/dev/null 2>&1; }
postgres_server() { compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null; }
venv() { "$PYTHON" -c 'import venv, ensurepip' >/dev/null 2>&1; }
missing() {
    browser || echo chromium
    node_18 || echo nodejs
    postgres_server || echo postgresql  # its programs: the tests start a server of their own
    venv || echo python3-venv
}

PYTHON=${PYTHON:-$(command -v python3 || command -v python)} || die "install Python >= 3.11 first"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || die "$PYTHON is older than Python 3.11: set PYTHON"

lacks=$(missing)
if [ -n "$lacks" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    echo "== installing" $lacks
    apt-get update -qq >/dev/null || die "apt-get update failed"
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $lacks >/dev/null || die "apt-get failed"
    lacks=$(missing)
fi
if [ -n "$lacks" ]; then
    echo "tests/run.sh: please install:" $lacks "(nodejs >= 18; for a browser elsewhere set CHROMIUM to its path)" >&2
    [ "${CI:-}" = true ] && die "with CI=true nothing may be missing"
fi

# ---- the environment --------------------------------------------------------------------------------------------------

py=.venv/bin/python
if ! "$py" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
    "$PYTHON" -m venv --clear .venv || die "could not make .venv"
fi
echo "== installing flownb[test] into .venv"
"$py" -m pip install -qq --disable-pip-version-check -e '.[test]' || die "pip could not install '.[test]'"

# ---- the tests --------------------------------------------------------------------------------------------------------

logs=$(mktemp -d)
trap 'rm -rf "$logs"' EXIT
passed=0 failed=0 parts=""

# part NAME COMMAND... runs one part, shows its output and adds up its closing line (pytest's, or that of node's runner).
part() {
    local name=$1 log="$logs/log" status ok bad
    shift
    printf '\n== %s: %s\n' "$name" "$*"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r ok bad < <("$py" - "$log" <<'COUNT'
import os, re, sys
text = re.sub(r"\x1b\[[0-9;]*m", "", open(sys.argv[1], encoding="utf-8", errors="replace").read())
pytest = re.findall(r"^=* ?(\d+ (?:passed|failed|error|skipped|deselected|xfailed|warning).*) in [\d.]+s", text, re.M)
node = {word: int(n) for word, n in re.findall(r"^(?:#|ℹ) (pass|fail|cancelled|skipped|todo) (\d+)$", text, re.M)}
counts = {word.rstrip("s"): int(n) for n, word in re.findall(r"(\d+) (\w+)", pytest[-1] if pytest else "")}
bad = ["failed", "error", "fail", "cancelled"]
if os.environ.get("CI") == "true":
    bad += ["skipped", "todo"]  # what CI says is green has run
print(counts.get("passed", 0) + node.get("pass", 0), sum({**node, **counts}.get(word, 0) for word in bad))
COUNT
    )
    # A part that ran nothing, or that failed without a failed test (a crash, no tests found), counts as one failure.
    if [ "$bad" = 0 ] && { [ "$status" != 0 ] || [ "$ok" = 0 ]; }; then bad=1; fi
    passed=$((passed + ok)) failed=$((failed + bad))
    parts+=$(printf '\n%-44s %5d passed %5d failed' "$name" "$ok" "$bad")
}

export FLOWNB_USER=  # what is printed of answers and edits must not depend on who runs the tests
part "unit, property and architecture tests" "$py" -m pytest
part "front-end tests" node --test tests/js/*.test.mjs
part "notebooks" "$py" -m pytest --nbval --nbval-current-env --nbval-sanitize-with tests/nbval.cfg notebooks
part "browser tests" "$py" -m pytest -m browser tests/browser

printf '\n== all parts%s\n\n%d passed, %d failed\n' "$parts" "$passed" "$failed"
[ "$failed" = 0 ]

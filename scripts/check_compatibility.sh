#!/usr/bin/env bash
# Test the core with the oldest supported packages, and the package with newer Pythons
# where they and a CPU build of PyTorch for them are installed or can be: `make compat`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: check_compatibility.sh PYTHON}
core="tests/likelihoods tests/inference tests/models tests/acquisition tests/rules"

run_core() { # run_core ENVIRONMENT REQUIREMENTS
  [ -x "$1/bin/python" ] || "$python" -m venv "$1"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -r "$2"
  "$1/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
  # shellcheck disable=SC2086
  "$1/bin/python" -m pytest -q -n 2 -p no:cacheprovider -m "not slow" $core
}

echo "Oldest supported packages:"
run_core build/oldest constraints-oldest.txt

for newer in python3.12 python3.13; do
  if ! $newer -c "" 2>/dev/null; then
    echo "$newer: not installed here, not tested"
  elif python=$newer && $newer -m pip download --quiet --no-deps \
    --dest build/wheels "torch==2.13.0+cpu" 2>/dev/null; then
    echo "$newer:"
    run_core "build/$newer" constraints.txt
  else
    $newer -W error -m compileall -q botorch_binary_context benchmarks
    echo "$newer: no CPU build of PyTorch here, only the syntax was checked"
  fi
done

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

find_python() { # find_python VERSION: on the path, or where pyenv keeps it
  local candidate
  for candidate in "python$1" "$HOME/.pyenv/versions/$1".*/bin/python; do
    if "$candidate" -c "" 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  return 1
}

check_newer() { # check_newer VERSION
  if ! python=$(find_python "$1"); then
    echo "Python $1: not installed here, not tested"
  elif "$python" -m pip download --quiet --no-deps \
    --dest build/wheels "torch==2.13.0+cpu" 2>/dev/null; then
    echo "Python $1:"
    run_core "build/python$1" constraints.txt
  else
    "$python" -W error -m compileall -q botorch_binary_context benchmarks
    echo "Python $1: no CPU build of PyTorch here, only the syntax was checked"
  fi
}

check_newer 3.12
check_newer 3.13
echo "Oldest supported packages:"
run_core build/oldest constraints-oldest.txt

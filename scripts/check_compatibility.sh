#!/usr/bin/env bash
# Test the core with the oldest supported packages, and with Python 3.12 and 3.13 where
# they are installed, and run what the docs show of AEPsych: `make compat`.
#
# PyTorch stays at the version that comes as a CPU build. So of newer Pythons, for which
# there is none here, only the syntax and the start of the program are checked. TORCH=any
# installs the builds of PyPI instead, of 5 GB each while they are tested: the newest for
# newer Pythons, and the oldest supported one. TESTS chooses other tests, such as
# TESTS=tests/models, and PARTS some of the parts: newer, oldest, aepsych.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${1:?usage: check_compatibility.sh PYTHON}
parts=${PARTS:-newer oldest aepsych}
tests=${TESTS:-tests/likelihoods tests/inference tests/models tests/rules}
aepsych=0.8.0
torch=$(sed -n 's/^torch==//p' constraints.txt)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1

make_environment() { # make_environment FOLDER PYTHON
  [ -x "$1/bin/python" ] || "$2" -m venv "$1"
}

run_tests() { # run_tests FOLDER
  "$1/bin/python" - <<'END'
import platform
from importlib.metadata import version

names = ("torch", "botorch", "gpytorch", "linear_operator", "numpy", "scipy")
packages = ", ".join(f"{name} {version(name)}" for name in names)
print(f"Python {platform.python_version()} with {packages}:", flush=True)
END
  # shellcheck disable=SC2086
  PYTHONPATH=. "$1/bin/python" -m pytest -q -n 2 --dist worksteal \
    -p no:cacheprovider -m "not slow" $tests
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

install_any_torch() { # install_any_torch FOLDER VERSION: a build of PyPI, if allowed
  [ "${TORCH:-}" = any ] || return 1
  if [ "$(df -Pk . | awk 'NR == 2 {print $4}')" -lt 15000000 ]; then
    echo "Less than 15 GB are free: too little for torch $2"
    return 1
  fi
  "$1/bin/python" -m pip install --no-cache-dir "torch==$2" ||
    { echo "torch $2 cannot be installed here" && return 1; }
}

install_torch() { # install_torch FOLDER
  "$1/bin/python" -m pip install "torch==$torch+cpu" 2>/dev/null ||
    install_any_torch "$1" "$torch"
}

check_newer() { # check_newer VERSION
  local newer folder=build/python$1
  if ! newer=$(find_python "$1"); then
    echo "Python $1: not installed here, not tested"
    return
  fi
  make_environment "$folder" "$newer"
  if install_torch "$folder"; then
    "$folder/bin/python" -m pip install -c constraints.txt botorch gpytorch \
      linear_operator matplotlib tqdm pytest pytest-xdist hypothesis mpmath scikit-learn
    run_tests "$folder"
    [ "${TORCH:-}" != any ] || rm -rf "$folder"
  else
    "$newer" -W error -m compileall -q botorch_binary_context benchmarks
    "$newer" -W error -m botorch_binary_context.experiment --help >/dev/null
    echo "Python $1: no CPU build of PyTorch, only syntax and --help were checked"
  fi
}

if [[ $parts == *newer* ]]; then
  check_newer 3.12
  check_newer 3.13
fi
if [[ $parts == *oldest* ]]; then
  echo "The oldest supported packages:"
  make_environment build/oldest "$python"
  lowest=$(sed -n 's/.*"torch>=\([0-9.]*\),.*/\1/p' pyproject.toml)
  if install_any_torch build/oldest "$lowest.*"; then
    grep -v "^torch==" constraints-oldest.txt >build/oldest/packages.txt
  else
    cp constraints-oldest.txt build/oldest/packages.txt
  fi
  build/oldest/bin/python -m pip install --no-deps -r build/oldest/packages.txt
  run_tests build/oldest
  [ "${TORCH:-}" != any ] || rm -rf build/oldest
fi
if [[ $parts == *aepsych* ]]; then
  make_environment build/aepsych "$python"
  if build/aepsych/bin/python -m pip install "torch==$torch" "aepsych==$aepsych"; then
    build/aepsych/bin/python -W ignore scripts/run_aepsych_example.py
  else
    echo "AEPsych: it cannot be installed here, its example was not run"
  fi
fi

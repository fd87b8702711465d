# Sourced by the scripts: find a Python that is new enough and prepare .venv.
# SPDX-License-Identifier: Apache-2.0
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prepare() { # base|engine
  local python
  for python in "${PYTHON:-}" python3.13 python3.12 python3.11 python3; do
    if [ -n "$python" ] && command -v "$python" >/dev/null 2>&1 &&
      "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      "$python" scripts/bootstrap.py "$1"
      return
    fi
  done
  echo "vllm-perf needs Python 3.11 or newer on the PATH (or PYTHON=/path/to/python)" >&2
  exit 2
}

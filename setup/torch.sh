#!/usr/bin/env bash
# torch.sh FOLDER: PyTorch, pinned, into a virtual environment that venv.sh has made. Idempotent.
# Builds without CUDA are a tenth as large; PyTorch's own site names the package index that has
# them, which pip asks if PIP_EXTRA_INDEX_URL says so.
source "$(dirname "$0")/common.sh"

venv=$1
constraints=$(dirname "$0")/constraints.txt

if "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    say "PyTorch is there already: $("$venv/bin/python" -c 'import torch; print(torch.__version__)')"
    exit 0
fi
say "installing PyTorch into $venv"
quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --progress-bar off --constraint "$constraints" \
    --editable '.[torch]' ||
    fail "pip could not install PyTorch (is there Internet access?)"

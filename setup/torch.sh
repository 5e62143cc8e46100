#!/usr/bin/env bash
# torch.sh FOLDER: PyTorch, pinned, into a virtual environment that venv.sh has made. Idempotent.
# $TORCH_INDEX names the package index that is asked beside the usual one; the default has builds
# without CUDA, which are a tenth as large. Set it to the empty text for those with CUDA.
source "$(dirname "$0")/common.sh"

venv=$1
index=${TORCH_INDEX-https://download.pytorch.org/whl/cpu}
constraints=$(dirname "$0")/constraints.txt

if "$venv/bin/python" -c 'import torch' 2>/dev/null; then
    say "PyTorch is there already: $("$venv/bin/python" -c 'import torch; print(torch.__version__)')"
    exit 0
fi
say "installing PyTorch into $venv"
quietly "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-input \
    --progress-bar off --constraint "$constraints" ${index:+--extra-index-url "$index"} \
    --editable '.[torch]' ||
    fail "pip could not install PyTorch (is there Internet access?)"

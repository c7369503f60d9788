#!/bin/sh
# Print a Python of at least 3.11 with venv. A name on PATH may be a shim that does not run: ask each.
for name in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14 python; do
    if "$name" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
    then
        echo "$name"
        exit 0
    fi
done
cat >&2 <<'END'
kdsl needs Python 3.11 or newer with its venv module, and found none as $PYTHON, python3, python3.11,
python3.12, python3.13, python3.14 or python.
  Debian, Ubuntu:  apt-get install python3 python3-venv
  elsewhere:       install Python 3.11+, then run  make PYTHON=/path/to/python3 ...
END
exit 1

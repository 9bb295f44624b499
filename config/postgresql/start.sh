#!/bin/sh
# Starts a server of docker-compose.cluster.yml: start.sh OTHER NEW [OPTION...]
#
# OTHER is the other server. Without data, this one begins with a new database (NEW is `new`), or as a copy of the other
# one (`copy`). A former primary that comes back while the other one takes writes must not take writes, too: it becomes a
# copy, and its own data stay beside it until the next time. Everything else goes on as what it was.
set -eu
other=$1 new=$2
shift 2
PATH=$PATH:$(echo /usr/lib/postgresql/*/bin)
export PGCONNECT_TIMEOUT=3

other_takes_writes() {
    is=$(psql -h "$other" -U "$POSTGRES_USER" -d "$POSTGRES_DB" -Atc 'SELECT NOT pg_is_in_recovery()' 2>/dev/null || true)
    [ "$is" = t ]
}

copy() {
    until other_takes_writes; do sleep 1; done
    mkdir -p "$(dirname "$PGDATA")"
    chown postgres "$(dirname "$PGDATA")"
    rm -rf "$PGDATA.new"
    su postgres -c "$(command -v pg_basebackup) -D '$PGDATA.new' -R -X stream --checkpoint=fast \
        -d 'host=$other user=$POSTGRES_USER application_name=standby'"
    # promoted, it waits for no standby until it has one
    sed -i '/^synchronous_standby_names/d' "$PGDATA.new/postgresql.auto.conf"
    rm -rf "$PGDATA.before"
    [ ! -e "$PGDATA" ] || mv "$PGDATA" "$PGDATA.before"
    mv "$PGDATA.new" "$PGDATA"
}

if [ ! -s "$PGDATA/PG_VERSION" ]; then
    [ "$new" = new ] && ! other_takes_writes || copy
elif [ ! -e "$PGDATA/standby.signal" ] && other_takes_writes; then
    echo "$other takes writes now: this server becomes its standby"
    copy
fi
exec docker-entrypoint.sh postgres "$@"

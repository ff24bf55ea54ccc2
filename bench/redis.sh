#!/bin/sh
# The Redis door beside a real redis-server with `appendonly yes, appendfsync always`: the same
# client, the same disk, in turns. Prints requests per second and the ratio of their medians.
#
#   bench/redis.sh [ROUNDS] [REQUESTS]        ASTRA_BIN names another binary
set -eu

rounds=${1:-3}
requests=${2:-400000}
astra=${ASTRA_BIN:-target/release/astra}
folder=$(mktemp -d "${BENCH_DATA:-.}/redis-bench-XXXXXX")
astra_pid= redis_pid=
finish() {
    [ -z "$astra_pid" ] || kill "$astra_pid" 2>/dev/null || true
    [ -z "$redis_pid" ] || kill "$redis_pid" 2>/dev/null || true
    rm -rf "$folder"
}
trap finish EXIT INT TERM

redis_port=${REDIS_PORT:-16399} astra_port=${ASTRA_RESP_PORT:-16398}
redis-server --port "$redis_port" --dir "$folder" --save '' --appendonly yes \
    --appendfsync always --daemonize no >"$folder/redis.log" 2>&1 &
redis_pid=$!
"$astra" dev --data "$folder/data" --workers 0 --http 127.0.0.1:0 \
    --resp "127.0.0.1:$astra_port" >"$folder/astra.log" 2>&1 &
astra_pid=$!
for port in "$redis_port" "$astra_port"; do
    tries=0
    until redis-cli -p "$port" ping >/dev/null 2>&1; do
        tries=$((tries + 1))
        [ "$tries" -lt 100 ] || { cat "$folder"/*.log; exit 1; }
        sleep 0.1
    done
done

measure() { # port, test: requests per second
    redis-benchmark -p "$1" -t "$2" -P 16 -c 50 -n "$requests" --csv 2>/dev/null |
        awk -F'","' 'NR > 1 { gsub(/"/, ""); split($0, cells, ","); print cells[2] }'
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

for test in set get lpush; do
    : >"$folder/redis.$test"
    : >"$folder/astra.$test"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        measure "$redis_port" "$test" >>"$folder/redis.$test"
        measure "$astra_port" "$test" >>"$folder/astra.$test"
        redis-cli -p "$redis_port" del mylist >/dev/null
        redis-cli -p "$astra_port" del mylist >/dev/null
        round=$((round + 1))
    done
    theirs=$(median <"$folder/redis.$test")
    ours=$(median <"$folder/astra.$test")
    echo "$test redis $theirs astra $ours" |
        awk '{ printf "%-6s redis %10.0f/s   astra %10.0f/s   ratio %.2f\n", $1, $3, $5, $5 / $3 }'
done

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

# Each test writes or reads `keys` different keys: a list of ours has at most 10,000 elements, so one
# that all requests push to would only measure the refusal.
keys=${KEYS:-100000}
command_of() { # test: its command, with a random number for each request
    case $1 in
    set) echo 'SET key:__rand_int__ xxx' ;;
    get) echo 'GET key:__rand_int__' ;;
    lpush) echo 'LPUSH list:__rand_int__ xxx' ;;
    hset) echo 'HSET hash:__rand_int__ field xxx' ;;
    esac
}
measure() { # port, test: requests per second
    # shellcheck disable=SC2046 # The words of the command are arguments of their own.
    redis-benchmark -p "$1" -r "$keys" -P 16 -c 50 -n "$requests" --csv $(command_of "$2") 2>/dev/null |
        awk -F'","' 'NR > 1 { gsub(/"/, ""); split($0, cells, ","); print cells[2] }'
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }

for test in set get lpush hset; do
    : >"$folder/redis.$test"
    : >"$folder/astra.$test"
    round=0
    while [ "$round" -lt "$rounds" ]; do
        measure "$redis_port" "$test" >>"$folder/redis.$test"
        measure "$astra_port" "$test" >>"$folder/astra.$test"
        round=$((round + 1))
    done
    theirs=$(median <"$folder/redis.$test")
    ours=$(median <"$folder/astra.$test")
    echo "$test redis $theirs astra $ours" |
        awk '{ printf "%-6s redis %10.0f/s   astra %10.0f/s   ratio %.2f\n", $1, $3, $5, $5 / $3 }'
done

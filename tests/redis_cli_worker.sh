#!/bin/sh
# A worker made of redis-cli and sh: takes jobs, leaves a mark in a folder for each, and says so.
# Usage: redis_cli_worker.sh PORT QUEUE FOLDER      REDISCLI_AUTH holds the key.
port=$1 queue=$2 folder=$3

field() { printf '%s\n' "$job" | sed -n "s/.*\"$1\":\"\([^\"]*\)\".*/\1/p"; }

while [ ! -e "$folder/stop" ]; do
    # The first line is the list's name, the second the job.
    job=$(redis-cli -p "$port" --raw BRPOP "queue:$queue" 1 | tail -n +2)
    [ -n "$job" ] || continue
    name=$(field job_id)
    for needed in $(field needs); do
        [ -e "$folder/$needed" ] || echo "$name began before $needed was done" >>"$folder/faults"
    done
    echo "$name" >>"$folder/log"
    : >"$folder/$name"
    said=$(redis-cli -p "$port" --raw JOB.UPDATE "$name" '{"status":"completed"}')
    [ "$said" = OK ] || echo "$name: $said" >>"$folder/faults"
done

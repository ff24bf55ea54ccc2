-- What a person said last of the workers that have the work of a live run: JSON. `bound` names them
-- by package, `kept_from` those that get nothing more of the run. The row goes when the run ends.
CREATE TABLE run_bindings (
    run_id   INTEGER PRIMARY KEY,
    document TEXT NOT NULL
) STRICT;

INSERT INTO tasks (state, wait_until, attempt, epoch, losses, holder, granted_at, expires_at,
                   attempt_ends_at, wait_for, settled_at, report_key, failure_code,
                   failure_reason, failure_details, result, skipped, artifacts, held_since,
                   id, type, queue, priority, spec_id, concurrency_key, idempotency_key,
                   created_at, run, after_tasks, pin, run_begun, run_granted, run_settled,
                   run_id, run_frame, run_node, run_item, run_level, run_step, run_call)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
        ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, ?31, ?32, ?33, ?34, ?35, ?36, ?37,
        ?38, ?39, ?40)

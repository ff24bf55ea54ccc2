INSERT INTO ended_attempts (task_id, epoch, worker, at, ending, report_key, failure_code,
                            failure_reason, failure_details)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)

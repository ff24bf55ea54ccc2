//! Leases over a restart of the server.

use expect_test::expect;

use crate::story::check;

#[test]
fn a_lease_survives_a_restart_with_one_fresh_ttl() {
    // Renewals are not kept, so the holder gets a whole TTL to come back, and a late one is late.
    check(
        "
          0s  submit a + b + c
          0s  w1 takes 3
         25s  w1 beats
         50s  restart
         79s  w1 completes L1
         79s  w1 beats L2
         81s  w1 completes L3
        100s  w1 completes L2
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      b is QUEUED
            0s      c is QUEUED
            0s      L1 of a to w1 until 30s
            0s      L2 of b to w1 until 30s
            0s      L3 of c to w1 until 30s
            25s     w1: [EXTENDED until 55s, EXTENDED until 55s, EXTENDED until 55s]
            50s     restarted with 3 live tasks
            79s     a is COMPLETED with 1
            79s     w1: L1 COMMITTED; COMPLETED
            79s     w1: L2 EXTENDED until 109s
            80s     L3 of c expired; c is QUEUED (attempts 1, losses 1)
            81s     w1: L3 CANCELLED (expired); QUEUED
            100s    b is COMPLETED with 1
            100s    w1: L2 COMMITTED; COMPLETED
        "#]],
    );
}

#[test]
fn a_restart_revives_no_lease_that_was_told_to_be_over() {
    check(
        "
         0s  submit a
         0s  w1 takes 1
         0s  ticks wait
        30s  w1 beats L1
        30s  restart
        31s  w1 completes L1
        ",
        expect![[r#"
            0s      a is QUEUED
            0s      L1 of a to w1 until 30s
            30s     L1 of a expired; a is QUEUED (attempts 1, losses 1)
            30s     w1: L1 CANCELLED (expired)
            30s     restarted with 1 live tasks
            31s     w1: L1 CANCELLED (expired); QUEUED
        "#]],
    );
}

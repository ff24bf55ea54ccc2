//! Command line.
fn main() {
    let from: u64 = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1);
    let n: u64 = std::env::args().nth(2).and_then(|s| s.parse().ok()).unwrap_or(1);
    let verbose = std::env::args().nth(3).is_some();
    let t = std::thread::Builder::new().name("sim".into()).spawn(move || {
        let mut all = sim::Counters::default();
        for seed in from..from + n {
            let mut c = sim::RunConfig::of(seed, 100);
            c.is_verbose = verbose;
            let r = sim::run(&c);
            all.add(&r.counters);
            if verbose { for l in r.trace.lines() { println!("{l}"); } }
            if let Some(v) = r.violation { println!("seed {seed} tasks {} steps {}: {} {}", r.tasks, r.steps, v.promise, v.story); }
        }
        for (w, c) in all.rows() { println!("{w:40} {c}"); }
    }).unwrap();
    t.join().unwrap();
}

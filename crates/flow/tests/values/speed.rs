use crate::world::World;
use serde_json::json;
#[test]
fn probe() {
    let world = World::new(json!({}));
    for source in [
        format!("[1]{}", "+[1]".repeat(190)),
        format!("[1]{}", "+[1]".repeat(20)),
        "(inputs.list+[1])[0]".into(),
        "(inputs.list+[1])|length".into(),
        "(inputs.list+[1])[1:]".into(),
        "inputs.list[1:][0]".into(),
        "inputs.list[1:][:-1]".into(),
        "inputs.list[1:]|length".into(),
        "inputs.list[1:] == [2,3]".into(),
        "[2,3] == [1,2,3][1:]".into(),
        "[1]+[2] == [1,2]".into(),
        "2 in [1,2][1:]".into(),
        "{'a':1}|items|first|last".to_string(),
    ] {
        let r = std::panic::catch_unwind(|| world.value(&source));
        match r {
            Ok(r) => println!("{source} -> {r:?}"),
            Err(_) => println!("PANIC {source}"),
        }
    }
}

//! The list is complete.
use super::*;

#[test]
fn the_list_has_every_scenario_every_command_every_wire_and_every_target() {
    let text = listed();
    let begins = |words: &str| text.lines().any(|line| line.strip_prefix(words).is_some_and(|rest| rest.starts_with(' ')));
    assert!(scenario::ALL.iter().all(|scenario| begins(scenario.name) && text.contains(scenario.about)), "{text}");
    assert!(
        ["all", "apps", "compare", "cycles", "handover", "pack"].iter().all(|name| begins(name))
            && !begins("role")
            && !begins("list"),
        "{text}"
    );
    for target in Target::value_variants() {
        assert!(text.contains(&target.name()), "{} in {text}", target.name());
    }
    assert_eq!(text.lines().filter(|line| line.starts_with("--wire")).count(), WireKind::value_variants().len());
}

//! Every scenario is measured, and the whole ends in time.
use super::*;

/// Returns true when a part calls the scenario.
fn is_of(part: &Part, scenario: &Scenario) -> bool {
    part.words.iter().take(scenario.name.split(' ').count()).map(String::as_str).eq(scenario.name.split(' '))
}

#[test]
fn every_scenario_is_measured() {
    for form in [Form::SHORT, Form::QUICK] {
        let parts = all(form);
        for scenario in scenario::ALL {
            assert!(parts.iter().any(|part| is_of(part, scenario)), "{}", scenario.name);
        }
        assert!(["apps", "cycles"].iter().all(|name| parts.iter().any(|part| part.words[0] == *name)));
    }
}

#[test]
fn the_short_form_ends_within_half_an_hour_and_the_quick_one_within_five_minutes() {
    let whole = |form| all(form).iter().map(|part| part.expected).sum::<Duration>();
    assert!(whole(Form::SHORT) < Duration::from_secs(30 * 60), "{:?}", whole(Form::SHORT));
    assert!(whole(Form::QUICK) < Duration::from_secs(5 * 60), "{:?}", whole(Form::QUICK));
}

#[test]
fn what_a_part_is_called_with_is_understood() {
    for part in all(Form::SHORT) {
        let Some(scenario) = scenario::ALL.iter().find(|scenario| is_of(&part, scenario)) else { continue };
        let words: Vec<&str> = part.words[scenario.name.split(' ').count()..].iter().map(String::as_str).collect();
        assert!(Options::parse(&words).targets().is_ok(), "{words:?}");
    }
}

#[test]
fn the_rest_takes_as_much_longer_as_what_is_done() {
    let parts = [made(&["a"], 10.0), made(&["b"], 20.0)];
    assert_eq!(remaining(&[], &parts, Duration::ZERO), Duration::from_secs(30));
    assert_eq!(remaining(&parts[..1], &parts[1..], Duration::from_secs(15)), Duration::from_secs(30));
}

#[test]
fn some_can_be_picked_by_name() {
    let picked = |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        only(all(Form::QUICK), &names).map(|parts| parts.into_iter().map(|part| part.words[0].clone()).collect::<Vec<_>>())
    };
    assert_eq!(picked(&["accept", "latency"]), Ok(vec!["latency".into(), "accept".into()]));
    assert_eq!(picked(&[]).map(|all| all.len()), Ok(all(Form::QUICK).len()));
    assert!(picked(&["latency", "nonsense"]).is_err_and(|text| text.contains("nonsense")));
}

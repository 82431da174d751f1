use std::collections::BTreeSet;

use super::*;

#[test]
fn every_figure_has_a_paper_a_name_of_its_own_and_numbers_with_a_place() {
    let papers = Papers::load();
    let names: BTreeSet<&str> = papers.figures.iter().map(|figure| figure.id.as_str()).collect();
    assert_eq!(names.len(), papers.figures.len(), "two figures have the same id");
    assert_eq!(papers.headlines.len(), 5, "the first screen has five figures");
    for headline in &papers.headlines {
        assert!(names.contains(headline.figure.as_str()), "{} is no figure", headline.figure);
    }
    for figure in &papers.figures {
        assert!(!papers.of(figure).title.is_empty());
        assert!(figure.id.chars().all(|letter| letter.is_ascii_lowercase() || letter == '-'), "{} is no file name", figure.id);
        for number in &figure.numbers {
            assert!(!number.section.is_empty() && !number.value.is_empty(), "{}: {} is from nowhere", figure.id, number.what);
        }
    }
}

"""Passages of real layouts against the quotes that a person marked."""

from bench.accuracy.marked_quotes.check import check_file, read_marks, summarise


def test_quotes_are_cut_as_a_person_cut_them() -> None:
    marks = read_marks()
    names = dict.fromkeys(mark.file for mark in marks)
    assert len(marks) >= 200
    assert len(names) == 10
    checked = [
        one
        for name in names
        for one in check_file(name, [mark for mark in marks if mark.file == name])
    ]
    wrong = [(one.mark.quote, one.found) for one in checked if not one.is_cut_well]
    result = summarise(checked)
    assert result["cut_well"] >= 0.98, wrong
    assert result["boxes"] >= 0.98

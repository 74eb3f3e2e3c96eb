"""Long lines of generated C: what they become, and what is left alone."""

from __future__ import annotations

from edgetune.package.ctext import in_columns


def test_a_call_is_broken_at_its_commas() -> None:
    assert in_columns("    run(first, second);", 20) == "    run(first,\n        second);"


def test_a_comment_is_wrapped_below_its_text() -> None:
    text = " * Use:   make one, then run it\n/* A long sentence of words. */\n/* A long sentence that\n * goes on */"
    wrapped = (
        " * Use:   make one,\n *        then run\n *        it\n/* A long sentence\n * of words. */\n"
        "/* A long sentence\n * that\n * goes on */"
    )
    assert in_columns(text, 20) == wrapped


def test_lines_of_the_preprocessor_and_strings_are_left_whole() -> None:
    text = '#define SIZE 16 /* a long comment */\n    return "a string, with a comma";\n'
    assert in_columns(text, 20) == text

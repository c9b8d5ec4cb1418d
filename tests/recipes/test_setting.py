"""What a study asks for is spelled once: a new setting is a row of `StudySettings`, and the place that uses it."""


def test_a_new_setting_is_two_places(product):
    """A copy of the product with an imaginary setting, which file, wire, store, API, pages and commands all know."""
    product.put(
        "settings.py",
        '\n    patience: int = setting(0, (int,), counted(0, 9), "days that somebody waits",\n'
        '        section="imaginary", sentence="somebody waits {value} days")\n',
        before="\n    def _check_settings(",
    )
    product.put("bounds/paper.py", "\n\ndef twice_the_patience(problem):\n    return 2 * problem.patience\n")
    assert len(product.touched) == 2
    product.run("tests.recipes.setting", str(product.folder))

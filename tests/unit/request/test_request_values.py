"""Readers of single variables: what they take, what they refuse, and that nothing else comes out."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from treeline.request import Outcome, RequestError, understand
from treeline.request.problems import FaultError
from treeline.request.public import ALLOWED, PUBLIC
from treeline.request.values import axis, backend, switches, whole

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.text(alphabet="0123456789,[] -+._\txe")
    | st.sampled_from(
        ["both", "on", "OFF", "none", "~", "null", "grid", "points", "auto", "field", "./x.yml"]
    )
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=6,
)


def attempt(variables: dict[str, object]) -> Outcome | RequestError:
    try:
        return understand(variables)
    except RequestError as error:
        return error


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (8, (8,)),
        ("8", (8,)),
        (" 8 ", (8,)),
        ("8,16", (8, 16)),
        ("8, 16 ", (8, 16)),
        ("[8, 16]", (8, 16)),
        ([8, "16"], (8, 16)),
        ((16, 8), (16, 8)),
        ("16,8,16", (16, 8)),
        ("008", (8,)),
        ("1000000", (1_000_000,)),
    ],
)
def test_an_axis_of_numbers(value, expected):
    assert axis(value, whole) == expected


@pytest.mark.parametrize(
    ("value", "wrong"),
    [
        ("abc", "'abc' is not a whole number >= 1"),
        (0, "0 is not a whole number >= 1"),
        ("-1", "'-1' is not a whole number >= 1"),
        (-1, "-1 is not a whole number >= 1"),
        (1.5, "1.5 is not a whole number >= 1"),
        ("1.5", "'1.5' is not a whole number >= 1"),
        ("", "'' is empty"),
        ("   ", "'   ' is empty"),
        ([], "[] is an empty list"),
        ("[]", "'[]' is empty"),
        ("8,,16", "'8,,16' has an empty entry"),
        ("8,", "'8,' has an empty entry"),
        ([8, "x"], "'x' in [8, 'x'] is not a whole number >= 1"),
        ("8,x", "'x' in '8,x' is not a whole number >= 1"),
        (True, "true is not a whole number >= 1"),
        ([[8]], "[8] in [[8]] is not a whole number >= 1"),
        ({"a": 1}, "{'a': 1} is not a whole number >= 1"),
        ("1000001", "'1000001' is larger than 1000000"),
        (10**9, "1000000000 is larger than 1000000"),
        pytest.param(10**5000, "a number of thousands of digits is larger than 1000000", id="huge"),
        ("\u0661\u0666", "is not a whole number >= 1"),  # Arabic-Indic digits, which int() would take
        ("\uff18", "is not a whole number >= 1"),
        ("1_0", "'1_0' is not a whole number >= 1"),
        ("+8", "'+8' is not a whole number >= 1"),
        ("0x10", "'0x10' is not a whole number >= 1"),
        (list(range(1, 2000)), "has 1999 entries; at most 1000 are taken"),
    ],
)
def test_what_is_no_axis_of_numbers(value, wrong):
    with pytest.raises(FaultError) as caught:
        axis(value, whole)
    assert wrong in f"{caught.value.shown} {caught.value.wrong}"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("on", (True,)),
        ("Off", (False,)),
        (True, (True,)),
        ("false", (False,)),
        ("yes", (True,)),
        ("both", (True, False)),
        ("off,on", (False, True)),
        ([True, "no"], (True, False)),
        (["both", "on"], (True, False)),
    ],
)
def test_graphs(value, expected):
    assert switches(value) == expected


@pytest.mark.parametrize("value", ["maybe", "", 1, 0, "1", None, {}, ["on", "maybe"], 1.0])
def test_what_graphs_does_not_take(value):
    with pytest.raises(FaultError):
        switches(value)


@pytest.mark.parametrize("value", ["", "a b", "x;rm", "../x", "-x", "é", 3, "x" * 65, "triton\nx"])
def test_what_is_no_name_of_a_backend(value):
    with pytest.raises(FaultError):
        backend(value)


@given(st.sampled_from(PUBLIC), ANYTHING)
@example("budget", "8,,16")
@example("points", "\x00")
@example("points", "~nobody-of-this-name/x.csv")
@example("points", "a" * 5000)
@example("engine_dialect", "\x00/x")
@example("engine_dialect", "~nobody-of-this-name/x.yml")
@example("engine_dialect", "/")
@example("budget", [10**5000])
def test_any_value_is_read_or_its_problem_names_the_variable(name, value):
    outcome = attempt({"budget": 8, name: value})
    if isinstance(outcome, Outcome):
        assert outcome.plan.items
    else:
        named = {problem.variable for problem in outcome.problems}
        assert name in named or named <= {"plan", "points"}, outcome


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(PUBLIC, ANYTHING)))
def test_any_set_of_values_is_read_or_refused(variables):
    outcome = attempt(variables)
    if isinstance(outcome, Outcome):
        assert outcome.plan.items
        assert outcome.to_dict()["variables"] == {k: v for k, v in variables.items() if v is not None}
    else:
        assert outcome.problems
        assert all(problem.text in str(outcome) for problem in outcome.problems[:25])


def test_every_public_variable_says_what_it_allows():
    assert all(ALLOWED[name] for name in PUBLIC)

"""Random files as people and clients write them: a settings.json and a config.toml in many styles."""

from __future__ import annotations

import json
import string
import tomllib

from hypothesis import strategies as st

from elometer.profiles.edit.document import BOM

TEXT = st.text(st.characters(codec="utf-8"), max_size=10)
_SCALAR = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT
_TREE = st.recursive(
    _SCALAR, lambda t: st.lists(t, max_size=3) | st.dictionaries(TEXT, t, max_size=3), max_leaves=8
)
OWNED = ("ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY", "ANTHROPIC_MODEL")
_ENV = st.dictionaries(
    st.sampled_from((*OWNED, "FOO", "BAR", "ä")), TEXT | st.none() | st.integers(), max_size=6
)


@st.composite
def settings_files(draw: st.DrawFn) -> bytes:
    """A settings.json in some style: spaces, line ends, mark, order, with or without env."""
    tree = draw(st.dictionaries(TEXT.filter(lambda k: k != "env"), _TREE, max_size=4))
    items = list(tree.items())
    if draw(st.booleans()):
        items.insert(draw(st.integers(0, len(items))), ("env", draw(_ENV)))
    indent = draw(st.sampled_from([None, 0, 1, 2, 4, "\t"]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,", " : "), (",", ": ")]))
    text = json.dumps(dict(items), indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))
    text = draw(st.sampled_from(["", "\n", " ", "\t\n"])) + text + draw(st.sampled_from(["", "\n", "\n\n "]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    try:
        data = text.encode()
    except UnicodeEncodeError:
        data = json.dumps(dict(items)).encode()
    return (BOM if draw(st.booleans()) else b"") + data


_BARE = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=6)
_COMMENT = st.sampled_from(["", "# c", "  # [x] = \"'", "#é"])
PLAIN = st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8)


def _basic(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_TOML_SCALAR = st.one_of(
    st.integers(-(2**40), 2**40).map(str),
    st.booleans().map(lambda b: str(b).lower()),
    st.sampled_from(
        ["1979-05-27 07:32:00", "1979-05-27", "07:32:00", "3.5", "nan", "-inf", "0x1F", "'''a\n# [b]\n'''"]
    ),
    st.sampled_from(['"""\n[not.a.table]\nmodel = "x"\n"""', "'C:\\W'", '"a \\" # b"', '"""a "" b"""""']),
    PLAIN.map(_basic),
)
_TOML_VALUE = st.recursive(
    _TOML_SCALAR,
    lambda v: (
        st.lists(v, max_size=3).map(lambda xs: "[" + ", ".join(xs) + "]")
        | st.lists(v, max_size=3).map(
            lambda xs: "[\n  # ] inside\n" + "".join(f"  {x}, # c\n" for x in xs) + "]"
        )
        | st.dictionaries(_BARE, st.sampled_from(["1", '"}"', "[1, 2]"]), max_size=2).map(
            lambda d: "{ " + ", ".join(f"{k} = {v}" for k, v in d.items()) + " }"
        )
    ),
    max_leaves=4,
)


@st.composite
def config_files(draw: st.DrawFn) -> bytes:
    """A config.toml: root keys, tables, arrays of tables, provider tables, comments, line ends, mark."""
    lines: list[str] = []

    def pairs(names: list[str]) -> None:
        for name in names:
            gap = draw(st.sampled_from(["", " ", "  "]))
            # A client reads these two as strings only, on one line.
            value = PLAIN.map(_basic) if "model" in name else _TOML_VALUE
            lines.append(f"{name}{gap}={gap}{draw(value)} {draw(_COMMENT)}".rstrip())
            if draw(st.integers(0, 3)) == 0:
                lines.append(draw(_COMMENT))

    root = draw(
        st.lists(_BARE.filter(lambda n: not n.startswith("model") and n != "t"), max_size=3, unique=True)
    )
    for name in ("model", '"model"'):
        if draw(st.booleans()) and not any("model" in other for other in root):
            root.insert(draw(st.integers(0, len(root))), name)
    if draw(st.booleans()):
        root.append("model_provider")
    pairs(root)
    for number in range(draw(st.integers(0, 3))):
        kind = draw(
            st.sampled_from(["[t{n}]", "[t{n}.x]", '[ t{n} . "é.y" ]', "[[t{n}]]", "[model_providers.p{n}]"])
        )
        lines += [draw(_COMMENT), kind.format(n=number) + " " + draw(_COMMENT)]
        pairs(draw(st.lists(_BARE, max_size=3, unique=True)))
    if draw(st.booleans()):
        lines += ["", "[model_providers.ours]  # kept", 'base_url = "https://old"  # the url', "extra = 1"]
    text = "\n".join(lines) + draw(st.sampled_from(["", "\n", "\n\n"]))
    if draw(st.booleans()):
        text = text.replace("\n", "\r\n")
    return (BOM if draw(st.booleans()) else b"") + text.encode()


def valid_toml(data: bytes) -> bool:
    try:
        tomllib.loads(data.decode("utf-8-sig"))
        return True
    except tomllib.TOMLDecodeError:
        return False

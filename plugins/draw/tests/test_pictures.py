"""What can be read: no text is small, cut or under another; every fill is told; the same copy gives the same text."""

import re
import sys
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest
import tilecopy as tc
from tilecopy_draw import draw
from tilecopy_draw.svg import text_width
from tilecopy_test_helpers.mentions import mentions
from tilecopy_test_helpers.picture_cases import CASES, gmem_smem, memory, swizzled

PATTERN = "url(#absent)"


@pytest.fixture(scope="module")
def pictures():
    made = {}

    def picture(name):
        if name not in made:
            make, kind = CASES[name]
            made[name] = draw(make(), kind)
        return made[name]

    return picture


def texts(root):
    found = []
    for each in root.iter("{http://www.w3.org/2000/svg}text"):
        size, bold = float(each.get("font-size")), each.get("font-weight") == "bold"
        width = text_width(each.text or "", size, bold=bold)
        x, y = float(each.get("x")), float(each.get("y"))
        left = {"start": x, "middle": x - width / 2, "end": x - width}[each.get("text-anchor", "start")]
        found.append((each.text, size, (left, y - 0.76 * size, left + width, y + 0.2 * size), each.get("text-anchor")))
    return found


def boxes(root):
    found = []
    for each in root.iter("{http://www.w3.org/2000/svg}rect"):
        if each.get("x") is not None:
            x, y, width, height = (float(each.get(name)) for name in ("x", "y", "width", "height"))
            found.append(((x, y, x + width, y + height), each.get("fill")))
    return found


@pytest.mark.parametrize("name", CASES)
def test_every_text_can_be_read(name, pictures):
    root = ET.fromstring(pictures(name).svg)
    width, height = float(root.get("width")), float(root.get("height"))
    assert width == 960 and height < 1600
    found, there = texts(root), boxes(root)
    for text, size, (x0, y0, x1, y1), anchor in found:
        assert size >= 10, text
        assert x0 >= 0 and y0 >= 0 and x1 <= width and y1 <= height, text
        if anchor == "middle":  # a label of a box: of those around its middle the smallest
            middle = (x0 + x1) / 2, (y0 + y1) / 2
            around = [b for b, _ in there if b[0] <= middle[0] <= b[2] and b[1] <= middle[1] <= b[3]]
            box = min(around, key=lambda b: (b[2] - b[0]) * (b[3] - b[1]))
            assert box[0] - 0.3 <= x0 and x1 <= box[2] + 0.3 and box[1] - 1 <= y0 and y1 <= box[3] + 1, text
    for (one, _, a, _), (other, _, b, _) in combinations(found, 2):
        apart = a[2] <= b[0] + 0.3 or b[2] <= a[0] + 0.3 or a[3] <= b[1] + 0.3 or b[3] <= a[1] + 0.3
        assert apart, (one, other)


@pytest.mark.parametrize("name", CASES)
def test_every_fill_is_in_the_legend(name, pictures):
    root = ET.fromstring(pictures(name).svg)
    found = boxes(root)
    legend = {fill for (x0, y0, x1, y1), fill in found if (round(x1 - x0, 2), round(y1 - y0, 2)) == (24, 13)}
    assert {fill for _, fill in found} <= legend | {"none"}
    assert {"#ffffff", "#f0d890", "#8fc3e3", "#a98ba6", PATTERN, "none"} >= legend
    outlines = {each.get("stroke") for each in root.iter("{http://www.w3.org/2000/svg}rect")}
    assert outlines <= {None, "none", "#1a1a1a", "#a63603"}


@pytest.mark.parametrize("name", ["gmem_smem", "zoom", "banks", "fragment", "tma"])
def test_the_same_gives_the_same(name, pictures):
    make, kind = CASES[name]
    again = draw(make(), kind)
    assert again.svg == pictures(name).svg and again.data == pictures(name).data
    assert again._repr_svg_() is again.svg and again.kind in repr(again)


def test_a_wider_page_holds_more():
    narrow, wide = draw(gmem_smem(), width=960), draw(gmem_smem(), width=1400)
    assert 'width="1400"' in wide.svg and wide.svg != narrow.svg
    narrow = draw(gmem_smem(), width=640)  # the sides one below the other
    tops = [
        y0
        for text, _, (_, y0, _, _), _ in texts(ET.fromstring(narrow.svg))
        if text in ("Source: global A, by coordinate", "Destination: shared tile, by byte address")
    ]
    assert len(tops) == 2 and tops[1] - tops[0] > 200


def test_names_are_escaped():
    from tilecopy_draw.svg import Figure, Grid, Panel, Rectangle

    panel = Panel("<x>", Grid.empty([""], [""], "&"), [Rectangle((0, 0, 1, 1), "<&>", 0, '"</title>')])
    root = ET.fromstring(Figure("<b> & 'c'", "a > b", [[panel]]).svg(600))
    assert {text for text, *_ in texts(root)} == {"<b> & 'c'", "a > b", "<x>", "&", "<&>"}


def test_files(tmp_path):
    picture = draw(swizzled("128B", "float16", 8, 64))
    assert picture.save(tmp_path / "a.svg").read_text() == picture.svg
    assert picture.save(str(tmp_path / "a.PNG")).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    page = picture.save(tmp_path / "a.html").read_text()
    assert page.startswith("<!doctype html>") and picture.svg in page and "<title>Which bank" in page
    with pytest.raises(tc.RequestError, match=mentions("svg", "html", "a.gif")):
        picture.save(tmp_path / "a.gif")
    with pytest.raises(tc.RequestError, match="none"):
        picture.save(tmp_path / "none" / "a.svg")
    for path in (3, "", None):
        with pytest.raises(tc.RequestError, match=mentions("Picture.save")):
            picture.save(path)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a.PNG", "a.html", "a.svg"]


def test_png_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    with pytest.raises(tc.PluginError, match=mentions("png")):
        draw(memory("shared", (8, 8), "float32", "tile")).save(tmp_path / "a.png")
    assert not list(tmp_path.iterdir())


def test_addresses_instructions_and_elements_are_told_on_request():
    tips = re.findall(r"<title>(thread 8:.*?)</title>", draw(gmem_smem()).svg)
    assert tips[0] == "thread 8: ld.global.v4.b32 (PTX line 50), element (1, 0), bytes 128 to 143 of A"
    assert any("st.shared.v4.b32" in tip and "bytes 144 to 159 of tile" in tip for tip in tips)

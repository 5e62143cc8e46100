"""The report of a run: checked input, what the page says, and that it stands alone."""

import copy
import re
from html.parser import HTMLParser

import matplotlib.image
import pytest

from mininet_topos import plots
from mininet_topos.json_node import ReportError
from mininet_topos.report import render, write_report
from mininet_topos.run_record import parse_run

MODEL = "0123456789abcdef" * 4
ROUNDS = 4


def make_mode(round_s: float, server_bytes: int) -> dict:
    """Describe a mode of four rounds on a server and two workers."""
    return {
        "model_sha256": MODEL,
        "round_s_median": round_s,
        "round_s": [round_s, round_s * 1.1, round_s * 0.9, round_s],
        "phases_s": {
            "compute": [0.001] * ROUNDS,
            "push": [0.7 * round_s] * ROUNDS,
            "commit": [0.1 * round_s] * ROUNDS,
            "update": [0.1 * round_s] * ROUNDS,
        },
        "bytes": {
            "server": {"to_switch": server_bytes, "from_switch": 2 * server_bytes},
            "worker1": {"to_switch": 4000, "from_switch": 3000},
            "worker2": {"to_switch": 4400, "from_switch": 3000},
        },
        "packets": {"server": {"to_switch": 40, "from_switch": 80}},
        "quality": {
            "round": [0, 2, 4],
            "elapsed_s": [0, 2 * round_s, 4 * round_s],
            "metrics": {"rmse": [1.06, 0.98, 0.95]},
        },
        "counters": {"aggregated": 1234, "duplicate": 0, "no_job": 7},
        "retransmissions": 3,
        "packets_per_push": {"mean": 98.25, "ratio": 1.013},
        "timeline": {"at_s": [0.1, 0.2, 1.9, 2.0, 2.1], "committed": [1, 2, 2, 3, 4]},
        "faults": [
            {
                "action": "kill",
                "target": "switch",
                "round": 2,
                "phase": "drain",
                "at_s": 0.25,
                "ended_s": 1.25,
                "recovery_s": 1.65,
            },
            {
                "action": "cut",
                "target": "worker1",
                "round": 3,
                "phase": None,
                "at_s": 2.05,
                "ended_s": None,
                "recovery_s": None,
            },
        ],
        "audit": {"conserved": True, "pushed_sha256": MODEL},
    }


def make_run() -> dict:
    """Describe a complete run in three modes."""
    return {
        "schema": 1,
        "libra_version": "0.1.0",
        "started": "2025-01-02T03:04:05Z",
        "target": "soft",
        "dataset": "movielens",
        "model": "fm",
        "optimizer": "adagrad",
        "workers": 2,
        "rounds": ROUNDS,
        "batch": 256,
        "seed": 1,
        "lanes": 32,
        "rows": 512,
        "hot_keys": 12000,
        "num_keys": 87634,
        "fraction_bits": 30,
        "link_mbps": 50.0,
        "hot_coverage": 0.8125,
        "speedup": 1.5,
        "bound": 2.0,
        "versions": {"python": "3.11.7", "numpy": "2.4.6"},
        "update_shares": [{"rank": 1, "share": 0.01}, {"rank": 1000, "share": 0.6}],
        "modes": {
            "server-only": make_mode(0.09, 60_000),
            "libra": make_mode(0.06, 20_000),
            "fallback": make_mode(0.1, 64_000),
        },
    }


class PageReader(HTMLParser):
    """Collects the text, the tags and their attributes, and checks that tags are closed."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self, page: str):
        super().__init__()
        self.text: list[str] = []
        self.tags: list[tuple[str, dict]] = []
        self.open_tags: list[str] = []
        self.feed(page)
        self.close()
        assert self.open_tags == []

    def handle_starttag(self, tag, attrs):
        """Note the tag."""
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open_tags.append(tag)

    def handle_endtag(self, tag):
        """Match the tag with the one opened last."""
        assert self.open_tags.pop() == tag

    def handle_data(self, data):
        """Keep the text outside of style sheets."""
        if self.open_tags[-1:] != ["style"] and data.strip():
            self.text.append(" ".join(data.split()))


def read(run: dict, tmp_path) -> PageReader:
    """Write the report of `run` and read it back."""
    path = write_report(run, tmp_path / "out")
    assert path == tmp_path / "out" / "report.html"
    return PageReader(path.read_text(encoding="utf-8"))


def page_of(run: dict) -> PageReader:
    """Read the page for `run`, without its plots, which take most of the time."""
    return PageReader(render(parse_run(run), []))


def cells_of(page: PageReader, label: str) -> list[str]:
    """Return the three cells that follow a row's label."""
    at = page.text.index(label)
    return page.text[at + 1 : at + 4]


def test_the_headline_says_what_was_found():
    """Speed-up with its bound, equal models, coverage, and bytes on the server's link."""
    text = "\n".join(page_of(make_run()).text)
    assert "1.50×\nMedian round of Libra against server-only." in text
    assert "allow 2.00× at most; this is 75 % of it" in text
    assert "Identical\nLibra, Server only, Fall-back: the trained models are equal" in text
    assert (
        "81.2 %\nof the pushed gradients were of hot keys: 12,000 keys, 13.7 % of 87,634." in text
    )
    assert "−66.7 %" in text
    assert "15 kB against 45 kB server-only" in text


def test_faults_and_the_audit_have_cards():
    """The longest recovery, what never recovered, and whether anything was lost."""
    run = make_run()
    text = "\n".join(page_of(run).text)
    assert "Longest recovery\n1.65 s\n6 faults were injected. 3 were not over when" in text
    assert "did not happen" not in text
    assert "Audit\nConserved\nEvery pushed gradient was applied once" in text
    run["modes"]["libra"]["audit"]["conserved"] = False
    assert "Not conserved" in page_of(run).text
    missed = {"action": "kill", "target": "switch", "round": 3, "phase": None}
    run["modes"]["libra"]["faults_missed"] = [missed]
    assert "Faults that did not happen\n1\nThe training ended" in "\n".join(page_of(run).text)
    for mode in run["modes"].values():
        del mode["audit"], mode["faults"]
    without = page_of(run).text
    assert "Longest recovery" not in without
    assert "Audit" not in without


def test_different_models_are_called_a_fault():
    """One flipped bit in one mode is impossible to overlook."""
    run = make_run()
    run["modes"]["fallback"]["model_sha256"] = "f" + MODEL[1:]
    page = page_of(run)
    text = "\n".join(page.text)
    assert "Different\n2 different models from 3 modes." in text
    assert "Identical" not in text
    assert ("li", {"class": "bad"}) in page.tags


def test_a_slower_libra_is_said_so():
    """No figure is dressed up."""
    run = make_run() | {"speedup": 0.8}
    assert "Libra was slower here" in "\n".join(page_of(run).text)


def test_the_table_has_a_column_per_mode_in_the_usual_order():
    """Libra first, and each figure under its mode."""
    page = page_of(make_run())
    head = page.text.index("Modes side by side")
    assert page.text[head + 1 : head + 4] == ["Libra", "Server only", "Fall-back"]
    assert cells_of(page, "median round") == ["60 ms", "90 ms", "100 ms"]
    assert cells_of(page, "95th percentile") == ["66 ms", "99 ms", "110 ms"]
    assert cells_of(page, "examples per second") == ["8.53 k", "5.69 k", "5.12 k"]
    assert cells_of(page, "test RMSE, last") == ["0.9500"] * 3
    assert cells_of(page, "push") == ["42 ms", "63 ms", "70 ms"]
    assert cells_of(page, "to the switch") == ["5 kB", "15 kB", "16 kB"]
    assert cells_of(page, "packets per push") == ["98.2"] * 3
    assert cells_of(page, "aggregated") == ["1,234"] * 3
    assert cells_of(page, "no job") == ["7"] * 3


def test_the_best_is_bold_only_where_one_is_better():
    """Lower times and bytes, higher rates; equal figures stay plain."""
    page = render(parse_run(make_run()), [])
    best = re.findall(r'<td class="best">([^<]*)</td>', page)
    assert best == ["60 ms", "66 ms", "8.53 k", "42 ms", "6 ms", "6 ms", "5 kB", "10 kB"]


def test_the_page_needs_nothing_but_itself(tmp_path):
    """Images are embedded; there is no script, link or other resource."""
    page = read(make_run(), tmp_path)
    images = [attributes["src"] for tag, attributes in page.tags if tag == "img"]
    assert len(images) == 7
    assert all(source.startswith("data:image/png;base64,iVBOR") for source in images)
    assert not {"script", "link", "iframe", "a"} & {tag for tag, _ in page.tags}
    html = (tmp_path / "out" / "report.html").read_text(encoding="utf-8")
    assert "http" not in html.replace("http-equiv", "")
    assert "url(" not in html


def test_plots_are_images_with_something_on_them(tmp_path):
    """Each PNG has the common width, and more than one colour."""
    write_report(make_run(), tmp_path)
    names = {"quality", "round_time", "bytes", "faults", "packets", "counters", "update_shares"}
    assert {path.stem for path in tmp_path.glob("*.png")} == names
    for path in tmp_path.glob("*.png"):
        pixels = matplotlib.image.imread(path)
        assert pixels.shape[1] == 1440
        assert pixels[..., :3].std() > 0.02


def test_text_from_the_record_is_escaped(tmp_path):
    """Names that look like markup, templates or formulas appear as they are."""
    run = make_run()
    hostile = "<script>alert(1)</script>"
    run |= {"dataset": hostile, "target": "$title ${x} $", "versions": {"<b>": "&amp;"}}
    mode = run["modes"].pop("fallback")
    mode["counters"] = {hostile: 3, "$\\frac{1}$": 1}
    mode["phases_s"] = {hostile: [0.1]}
    mode["bytes"] = {hostile: {"to_switch": 1, "from_switch": 2}}
    mode["quality"]["metrics"] = {"$a_{": [1, 2, 3]}
    run["modes"]["<i>$x^"] = mode
    page = read(run, tmp_path)
    assert not {"script", "b>", "i"} & {tag for tag, _ in page.tags}
    text = "\n".join(page.text)
    assert f"Libra: fm on {hostile}, 2 workers" in text
    assert "target $title ${x} $" in text
    assert "<i>$x^" in page.text


DRAWN = {
    "hot_coverage",
    "hot_keys",
    "update_shares",
    "bytes",
    "counters",
    "faults",
    "packets",
    "phases_s",
    "quality",
    "round_s_median",
    "timeline",
}
REQUIRED = {"schema", "dataset", "model", "workers", "rounds", "modes"}


def test_a_scale_may_be_negative():
    """Gradients above 2^24 need fewer than no fraction bits."""
    assert parse_run(make_run() | {"fraction_bits": -10}).setup.fraction_bits == -10


@pytest.mark.parametrize("field", sorted(make_run().keys() - REQUIRED))
def test_any_optional_field_may_be_absent(field, tmp_path):
    """Absent and null are the same, and the report is still made."""
    run = make_run()
    run[field] = None
    without = {name: value for name, value in run.items() if name != field}
    assert parse_run(run) == parse_run(without)
    if field in DRAWN:
        read(without, tmp_path)
    else:
        page_of(without)


@pytest.mark.parametrize("field", sorted(make_mode(1, 1).keys() - {"model_sha256", "round_s"}))
def test_any_optional_field_of_a_mode_may_be_absent(field, tmp_path):
    """One mode may lack what the others have."""
    run = make_run()
    del run["modes"]["libra"][field]
    page = read(run, tmp_path) if field in DRAWN else page_of(run)
    if field == "retransmissions":
        assert cells_of(page, "retransmissions") == ["–", "3", "3"]
    if field == "round_s_median":
        assert cells_of(page, "median round")[0] == "60 ms"


def test_the_least_record_makes_a_report(tmp_path):
    """One mode with its hash and its rounds is enough."""
    run = {name: value for name, value in make_run().items() if name in REQUIRED}
    run["modes"] = {"libra": {"model_sha256": MODEL, "round_s": [0.5]}}
    page = read(run, tmp_path)
    assert "Only Libra ran: nothing to compare." in page.text
    assert [path.name for path in (tmp_path / "out").glob("*.png")] == ["round_time.png"]


def change(run: dict, path: str, value: object) -> dict:
    """Return `run` with the value at a dotted path replaced."""
    run = copy.deepcopy(run)
    *parents, last = path.split("/")
    node = run
    for parent in parents:
        node = node[int(parent)] if isinstance(node, list) else node[parent]
    node[int(last) if isinstance(node, list) else last] = value
    return run


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("schema", 2, "run.schema is 2; this version reads schema 1"),
        ("schema", None, "run.schema is missing"),
        ("dataset", 7, "run.dataset is 7; need a text"),
        ("workers", 0, "run.workers is 0; need an integer of at least 1"),
        ("workers", True, "run.workers is True; need an integer"),
        ("rounds", 2.5, "run.rounds is 2.5; need an integer"),
        ("hot_coverage", 1.2, "run.hot_coverage is 1.2; need a finite number from 0 to 1"),
        ("speedup", float("nan"), "run.speedup is nan; need a finite number from 0"),
        ("bound", "high", "run.bound is 'high'; need a finite number"),
        ("update_shares", {}, r"run.update_shares is \{\}; need a list"),
        ("update_shares/1/rank", 0, r"run.update_shares\[1\].rank is 0"),
        ("versions", ["x"], "run.versions is .*; need an object"),
        ("modes", {}, "run.modes is empty"),
        ("modes", [], r"run.modes is \[\]; need an object"),
        ("modes/libra", 3, "run.modes.libra is 3; need an object"),
        ("modes/a\nb", {}, "need field names"),
        ("modes/libra/model_sha256", "abc", "model_sha256 is 'abc'; need a SHA-256"),
        ("modes/libra/model_sha256", MODEL.upper(), "lower-case"),
        ("modes/libra/round_s", [], "round_s is \\[\\]; need the seconds of each round"),
        ("modes/libra/round_s/2", -0.1, r"run.modes.libra.round_s\[2\] is -0.1"),
        ("modes/libra/round_s", "0.1", "round_s is '0.1'; need a list"),
        ("modes/libra/phases_s/push", 3, "phases_s.push is 3; need a list"),
        ("modes/libra/bytes/server", {"to_switch": 1}, "server.from_switch is missing"),
        ("modes/libra/bytes/server/to_switch", -1, "to_switch is -1; need an integer"),
        ("modes/libra/quality/round", [0, 2], r"quality has 2 rounds, 3 times .* lengths \[3\]"),
        ("modes/libra/counters/duplicate", 1.5, "counters.duplicate is 1.5"),
        ("modes/libra/packets_per_push", {"mean": 1.0}, "packets_per_push.ratio is missing"),
        ("modes/libra/faults/0/at_s", -1, r"faults\[0\].at_s is -1; need a finite number"),
        ("modes/libra/faults/1/action", None, r"faults\[1\].action is missing"),
        ("modes/libra/timeline/at_s", [0.1], "timeline has 1 times and 5 numbers of rounds"),
        ("modes/libra/audit/conserved", 1, "conserved is 1; need true or false"),
        ("dataset", ["x" * 500], r"run.dataset is \['x{50,60}…; need a text"),
    ],
)
def test_a_malformed_record_names_the_field_and_writes_nothing(path, value, message, tmp_path):
    """The error has the path, what was found, and what is needed."""
    out = tmp_path / "out"
    with pytest.raises(ReportError, match=message):
        write_report(change(make_run(), path, value), out)
    assert not out.exists()


def test_a_directory_that_cannot_be_written_is_reported(tmp_path):
    """A file where the directory should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match=r"cannot write the report to .*file"):
        write_report(make_run(), tmp_path / "file")


def test_links_are_drawn_per_round_and_many_workers_as_their_mean():
    """Totals are divided by rounds; beyond the limit workers share one bar."""
    run = make_run()
    mode = parse_run(run).modes["libra"]
    assert plots._per_round(mode.traffic_bytes, mode)["worker2"] == (1100.0, 750.0)
    crowd = {
        f"worker{i}": {"to_switch": 400 * i, "from_switch": 40}
        for i in range(1, plots.MAX_LINKS + 2)
    }
    links = plots._per_round({"server": {"to_switch": 4, "from_switch": 8}, **crowd}, mode)
    assert links == {
        "server": (1.0, 2.0),
        f"mean of {len(crowd)} workers": (100 * (len(crowd) + 1) / 2, 10.0),
    }


def test_curves_hold_the_recorded_values():
    """The quality plot shows every evaluation of every mode, against rounds and time."""
    figure = plots._quality(parse_run(make_run()))
    by_round, by_time = figure.axes
    curves = {line.get_label(): line for line in by_round.lines}
    assert set(curves) == {"Libra", "Server only", "Fall-back"}
    assert list(curves["Libra"].get_xdata()) == [0, 2, 4]
    assert list(curves["Libra"].get_ydata()) == [1.06, 0.98, 0.95]
    times = {line.get_label(): list(line.get_xdata()) for line in by_time.lines}
    assert times["Server only"] == [0, 0.18, 0.36]


def test_a_prediction_stands_beside_the_measurement():
    """From links and work; not without rates, nor without a barrier, nor with PyTorch."""
    page = page_of(make_run())
    predicted = cells_of(page, "… predicted from links and work")
    assert len(cells_of(page, "… if nobody waited for processors")) == 3
    assert len(cells_of(page, "from commit to commit, median")) == len(predicted) == 3
    assert all(cell.endswith((" s", " ms", " µs")) for cell in predicted)
    for change in ({"link_mbps": None}, {"consistency": "async"}, {"framework": "torch"}):
        assert "predicted from links" not in page_of({**make_run(), **change}).text

"""What p4c's Tofino back end says a compiled program takes of the chip.

`manifest.json` of the output folder names the reports of each pipe: resources (memories, ALUs and
instructions by stage), phv (header vector) and power (an estimate for each thread).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from host_stack.errors import BadInput
from host_stack.jsonfile import read_json_object

MAX_CONTAINER_BITS = 32


@dataclass(frozen=True)
class ChipUse:
    """What a program takes of a pipe.

    Attributes:
        stages_ingress, stages_egress: stages up to the last one that has an action of that thread.
        stateful_alus: over all stages.
        sram_blocks, tcam_blocks: memories with something in them.
        phv_bits: bits of the header vector that hold something, those apart that no action reaches
            (tagalong containers, which Tofino 1 has).
        power_ingress_w, power_egress_w: of the stages at worst, in watts, as the back end estimates
            it; to a tenth.
    """

    stages_ingress: int
    stages_egress: int
    stateful_alus: int
    sram_blocks: int
    tcam_blocks: int
    phv_bits: int
    power_ingress_w: float
    power_egress_w: float


def read_chip_use(folder: Path) -> ChipUse:
    """Read the reports of an output folder with one pipe; `BadInput` says what is wrong with it."""
    manifest = read_json_object(folder / "manifest.json", "manifest of the Tofino back end")
    try:
        (program,) = manifest["programs"]
        (pipe,) = program["pipes"]
        files = pipe["files"]
        reports = [(each["type"], each["path"]) for each in files["resources"]]
        reports += [(each["log_type"], each["path"]) for each in files["logs"]]
        resources = _report(folder, reports, "resources")["resources"]
        mau = resources["mau"]
        stages, available = mau["mau_stages"], _whole(mau["nStages"])
        containers = _report(folder, reports, "phv")["containers"]
        power = _report(folder, reports, "power")["total_power"]
        use = ChipUse(
            stages_ingress=_last_stage(stages, "ingress"),
            stages_egress=_last_stage(stages, "egress"),
            stateful_alus=sum(len(stage["meter_alus"]["meters"]) for stage in stages),
            sram_blocks=sum(len(stage["rams"]["srams"]) for stage in stages),
            tcam_blocks=sum(len(stage["tcams"]["tcams"]) for stage in stages),
            phv_bits=sum(_bits(each) for each in containers),
            power_ingress_w=_power(power, "ingress"),
            power_egress_w=_power(power, "egress"),
        )
        blind = [each["gress"] for each in resources["parser"]["parsers"] if not _selects(each)]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"the reports in {folder} are not as expected: {error!r}") from error
    if (stages_used := max(use.stages_ingress, use.stages_egress)) > available:
        raise BadInput(f"the program takes {stages_used} stages, and the chip has {available}")
    if blind:
        raise BadInput(
            f"the compiled parser of the {blind[0]} looks at no packet: this p4c drops what a "
            "parser selects by; take one with pull request 5753 (docs/deploy-tofino.md, section 2)"
        )
    return use


def _report(folder: Path, reports: list[tuple[str, str]], kind: str) -> dict[str, Any]:
    paths = [Path(path) for name, path in reports if name == kind and path.endswith(".json")]
    if len(paths) != 1 or paths[0].is_absolute() or ".." in paths[0].parts:
        raise ValueError(f"one {kind} report inside of the folder is needed, not {paths!r:.80}")
    return read_json_object(folder / paths[0], f"{kind} report of the Tofino back end")


def _selects(parser: dict[str, Any]) -> bool:
    """Whether a state of the parser compares something, as both parsers of the program do."""
    return any(state["matchesOn"] for state in parser["states"])


def _last_stage(stages: list[Any], gress: str) -> int:
    having = [
        _whole(stage["stage_number"])
        for stage in stages
        for instruction in stage["vliw"]["instructions"]
        if any(usage["gress"] == gress for usage in instruction["color_usages"])
    ]
    return max(having, default=-1) + 1


def _bits(container: dict[str, Any]) -> int:
    """Bits of a container that some field holds at some time."""
    if container["container_type"] == "tagalong":
        return 0
    used = 0
    for each in container["slices"]:
        low, high = (_whole(each["slice_info"][end]) for end in ("lsb", "msb"))
        if not low <= high < MAX_CONTAINER_BITS:
            raise ValueError(f"bits {low} to {high} of a container")
        used |= (1 << high + 1) - (1 << low)
    return used.bit_count()


def _power(estimates: list[Any], gress: str) -> float:
    """Watts of a thread."""
    (watts,) = (each["power"] for each in estimates if each["gress"] == gress)
    if type(watts) not in (int, float) or not 0 <= watts < math.inf:
        raise ValueError(f"{watts!r:.80} is no power in watts")
    return round(float(watts), 1)


def _whole(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r:.80} is no number")
    return value

# SPDX-License-Identifier: Apache-2.0
"""GPU telemetry over a window: what is sampled, what spoils a measurement, what is only noted."""

import json
import threading
from dataclasses import replace

from vllm_perf.engine.fake_nvml import FakeNvml, fake_gpu
from vllm_perf.engine.gpu import GpuSet
from vllm_perf.engine.nvml import GpuProcess, GpuReading
from vllm_perf.engine.telemetry import Telemetry
from vllm_perf.engine.telemetry_summary import GpuWindow, Spread, TelemetrySummary, clocks_differ
from vllm_perf.engine.throttle import decode

CARD = fake_gpu(0)
HEALTHY = GpuReading(
    sm_mhz=1980,
    memory_mhz=3201,
    power_w=400.0,
    temperature_c=60,
    memory_used_mib=70_000,
    utilization_percent=99,
    throttle_bits=0,
)


def watched(*readings: GpuReading, processes: tuple[GpuProcess, ...] = (), own: int = 1) -> TelemetrySummary:
    """Return the summary of one look for each of two readings: one on entering, one on leaving."""
    nvml = FakeNvml(cards=(CARD,), readings=readings, on_gpu={CARD.uuid: processes})
    with Telemetry(GpuSet(gpus=(CARD,), nvml=nvml), lambda: {own}, interval_s=3600) as telemetry:
        pass
    return telemetry.summary()


def test_reasons_are_decoded_to_words() -> None:
    assert decode(0x4 | 0x40) == ("software power cap", "hardware thermal slowdown")
    assert decode(0) == ()
    assert decode(0x1000) == ("unknown reason 0x1000",)


def test_a_healthy_window_has_no_problem_and_the_right_spread() -> None:
    summary = watched(HEALTHY, replace(HEALTHY, sm_mhz=1900, power_w=500.0))
    (gpu,) = summary.gpus
    assert (gpu.samples, summary.problems(), summary.notes()) == (2, [], [])
    assert gpu.sm_mhz == Spread(low=1900, median=1940, high=1980)
    assert gpu.power_w == Spread(low=400, median=450, high=500)


def test_each_spoiling_reason_is_a_problem_with_its_count() -> None:
    words = {
        0x8: "hardware",
        0x20: "software thermal",
        0x40: "hardware thermal",
        0x80: "hardware power brake",
    }
    for bit, word in words.items():
        (problem,) = watched(HEALTHY, replace(HEALTHY, throttle_bits=bit, temperature_c=88)).problems()
        assert problem.startswith(f"GPU 0 throttled: {word}")
        assert problem.endswith("in 1 of 2 samples, up to 88 °C")


def test_idle_and_application_clocks_are_no_problem() -> None:
    assert watched(replace(HEALTHY, throttle_bits=0x1 | 0x2)).problems() == []


def test_the_power_cap_is_noted_with_its_clock_however_far_that_falls() -> None:
    summary = watched(HEALTHY, replace(HEALTHY, throttle_bits=0x4, sm_mhz=1500))
    assert summary.problems() == []
    assert summary.notes() == ["GPU 0: at its power cap in 1 of 2 samples, median SM clock there 1500 MHz"]


def test_a_foreign_process_is_a_problem_and_our_own_is_not() -> None:
    ours = GpuProcess(pid=1, name="VLLM::EngineCore", memory_mib=70_000)
    theirs = GpuProcess(pid=4711, name="python", memory_mib=20_312)
    assert watched(HEALTHY, processes=(ours,)).problems() == []
    assert watched(HEALTHY, processes=(ours, theirs)).problems() == [
        "GPU 0 shared with pid 4711 (python, 20312 MiB)"
    ]


def test_a_small_desktop_and_the_mps_server_are_no_problem() -> None:
    desktop = GpuProcess(pid=5, name="Xorg", memory_mib=4, kind="graphics")
    server = GpuProcess(pid=6, name="nvidia-cuda-mps-server", memory_mib=28)
    summary = watched(HEALTHY, processes=(desktop, server))
    assert (summary.problems(), len(summary.notes())) == ([], 1)
    assert watched(HEALTHY, processes=(replace(desktop, memory_mib=4_000),)).problems() != []


def test_pids_of_another_namespace_are_noted_and_not_called_foreign() -> None:
    hidden = GpuProcess(pid=900, name="not visible from here", memory_mib=70_000, visible=False)
    summary = watched(HEALTHY, processes=(hidden,))
    assert summary.problems() == []
    assert "GPU 0: NVML's pids are not this container's, so sharing cannot be ruled out" in summary.notes()


def test_a_hidden_process_beside_our_own_listed_one_is_foreign() -> None:
    ours = GpuProcess(pid=1, name="VLLM::EngineCore", memory_mib=70_000)
    hidden = GpuProcess(pid=900, name="not visible from here", memory_mib=5_000, visible=False)
    (problem,) = watched(HEALTHY, processes=(ours, hidden)).problems()
    assert "pid 900" in problem


def test_without_nvml_nothing_is_a_problem_and_the_reason_is_noted() -> None:
    with Telemetry(GpuSet(reason="no NVML: driver not loaded")) as telemetry:
        pass
    summary = telemetry.summary()
    assert summary.problems() == []
    assert summary.notes() == ["GPU telemetry not taken: no NVML: driver not loaded"]


def test_what_the_card_does_not_tell_stays_absent() -> None:
    (gpu,) = watched(GpuReading()).gpus
    assert (gpu.sm_mhz, gpu.power_w, gpu.memory_used_mib) == (None, None, None)
    assert gpu.notes() == ["GPU 0: the driver does not say whether the card throttled"]


def test_the_summary_can_be_cut_to_the_measured_window() -> None:
    nvml = FakeNvml(cards=(CARD,), readings=(replace(HEALTHY, throttle_bits=0x8), HEALTHY))
    with Telemetry(GpuSet(gpus=(CARD,), nvml=nvml), interval_s=3600) as telemetry:
        pass
    whole = telemetry.summary()
    late = telemetry.summary(start_ns=whole.end_ns - 1, end_ns=whole.end_ns + 1)
    assert len(whole.problems()) == 1
    assert late.problems() == ["GPU 0: no sample in the window"]


def test_the_thread_samples_while_the_block_runs() -> None:
    enough = threading.Event()

    class Counting(FakeNvml):
        def read(self, gpu: object) -> GpuReading:
            self.looks += 1
            if self.looks == 5:
                enough.set()
            return HEALTHY

    nvml = Counting(cards=(CARD,))
    with Telemetry(GpuSet(gpus=(CARD,), nvml=nvml), interval_s=0.001) as telemetry:
        assert enough.wait(10)
    assert telemetry.summary().gpus[0].samples >= 6


def test_our_own_processes_are_looked_up_once_and_not_at_every_sample() -> None:
    asked: list[int] = []
    listed: list[int] = []
    enough = threading.Event()

    class Counting(FakeNvml):
        def processes(self, gpu: object) -> tuple[GpuProcess, ...]:
            listed.append(1)
            if len(listed) == 3:
                enough.set()
            return (GpuProcess(pid=1, name="VLLM::EngineCore", memory_mib=70_000),)

    def own() -> set[int]:
        asked.append(1)
        return {1}

    gpus = GpuSet(gpus=(CARD,), nvml=Counting(cards=(CARD,), readings=(HEALTHY,)))
    with Telemetry(gpus, own, interval_s=0.001) as telemetry:
        assert enough.wait(10)
    assert (telemetry.summary().problems(), len(asked)) == ([], 1)


def test_a_driver_that_dies_while_watched_is_a_problem_and_no_crash() -> None:
    class Dying(FakeNvml):
        def read(self, gpu: object) -> GpuReading:
            raise OSError("GPU is lost")

    with Telemetry(GpuSet(gpus=(CARD,), nvml=Dying(cards=(CARD,))), interval_s=3600) as telemetry:
        pass
    assert telemetry.summary().problems()[0] == "GPU telemetry stopped: OSError: GPU is lost"


def test_the_summary_is_plain_json_with_its_verdict_in_it() -> None:
    theirs = GpuProcess(pid=4711, name="python", memory_mib=20_312)
    data = json.loads(json.dumps(watched(HEALTHY, processes=(theirs,)).to_json()))
    assert data["problems"] == ["GPU 0 shared with pid 4711 (python, 20312 MiB)"]
    assert data["gpus"][0]["others"][0]["pid"] == 4711


def window(mhz: float) -> TelemetrySummary:
    clock = Spread(low=mhz, median=mhz, high=mhz)
    gpu = GpuWindow(index=0, uuid=CARD.uuid, name="Test GPU", samples=9, sm_mhz=clock)
    return TelemetrySummary(start_ns=0, end_ns=1, gpus=(gpu,))


def test_two_sides_at_different_clocks_are_told_apart() -> None:
    assert clocks_differ(window(1980), window(1960)) == []
    (said,) = clocks_differ(window(2000), window(1800))
    assert "2000 MHz for base, 1800 MHz for head (-10.0%" in said

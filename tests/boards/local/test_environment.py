from __future__ import annotations

from pathlib import Path

from edgetune.boards.environment import read_environment, throttled


def test_a_board_that_tells_everything(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_cur_freq": "1500000\n",
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_min_freq": "600000\n",
        "sys/devices/system/cpu/cpu3/cpufreq/scaling_max_freq": "1800000\n",
        "sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n",
        "sys/devices/system/cpu/cpu3/thermal_throttle/core_throttle_count": "7\n",
        "sys/class/thermal/thermal_zone0/temp": "48312\n",
        "sys/class/hwmon/hwmon1/temp1_input": "51000\n",
        "proc/loadavg": "0.52 0.58 0.59 1/389 12345\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_environment(3, tmp_path) == {
        "governor": "performance",
        "clock_khz": 1_500_000,
        "clock_min_khz": 600_000,
        "clock_max_khz": 1_800_000,
        "throttle_flags": 0x50005,
        "throttle_count": 7,
        "temperature_c": 51.0,
        "load_1min": 0.52,
    }


def test_a_silent_board_tells_nothing(tmp_path: Path) -> None:
    assert read_environment(0, tmp_path) == {}


def test_the_clock_of_a_machine_without_cpufreq(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor\t: 0\ncpu MHz\t: 2500.0\n\nprocessor\t: 1\ncpu MHz\t: 2400.5\n")
    assert read_environment(1, tmp_path) == {"clock_khz": 2_400_500}


def test_nonsense_is_not_told(tmp_path: Path) -> None:
    large = "9" * 400 + "\n"
    files = {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance " * 40,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": large,
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_min_freq": "-" + large,
        "sys/devices/platform/soc/soc:firmware/get_throttled": large,
        "sys/class/thermal/thermal_zone0/temp": large,
        "proc/cpuinfo": "processor : 0\ncpu MHz : 1e999\n",
        "proc/loadavg": "nan 0.58\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert read_environment(0, tmp_path) == {}
    (tmp_path / "proc/loadavg").write_text("inf 0.58\n")
    (tmp_path / "proc/cpuinfo").write_text("processor : 0\ncpu MHz : nan\n")
    (tmp_path / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor").write_text("a\x1b[2J")
    assert read_environment(0, tmp_path) == {}


def test_throttling_is_seen_only_where_told() -> None:
    assert throttled({"throttle_count": 1}, {"throttle_count": 2})
    assert not throttled({"throttle_count": 2}, {"throttle_count": 2})
    assert not throttled({}, {"throttle_count": 2})
    assert not throttled({"throttle_flags": 0x50000}, {"throttle_flags": 0x50000})
    assert throttled({"throttle_flags": 0x50000}, {"throttle_flags": 0x50004})
    assert throttled({"throttle_flags": 0}, {"throttle_flags": 0x40000})


def test_this_machine_can_be_read() -> None:
    assert "load_1min" in read_environment(0)

"""What is measured on a GPU, at toy size on the processor: every line works, and no test looks at a time."""

import json
import time

import pytest
import torch

from bench import gpu
from bench.training import operations

CPU = torch.device("cpu")


def measured(file, part, *more):
    assert gpu.main([part, "--tiny", "--device", "cpu", "--to", str(file), *more]) == 0
    return json.loads(file.read_text(encoding="utf-8"))


def test_large_and_step_measure_everything_and_share_a_log(tmp_path):
    file, size = tmp_path / "made" / "gpu.json", gpu.TINY
    log = measured(file, "large")["large"]
    assert "failed" not in json.dumps(log) and "left out" not in json.dumps(log) and log["ended"]
    variants = ["all positions in the loss", "attention by cuDNN", "dropout 0.1"]
    wanted = [f"{name}, {n} tokens" for n in size.tokens for name in ("adamw", "muon")]
    for name in wanted + variants:
        found = log[name]
        (ms,), n = found["ms an update"], int(name.split()[1]) if name in wanted else size.usual
        assert found["tokens a second"] == pytest.approx(1000 * n / ms, rel=0.02)
        counted = operations([(size.width, size.width)] * (n // size.width), size.vocab, **size.model)
        share = found["TFLOP a second, counted"] / found["TFLOP a second, 6 N tokens"]
        n_parameters = log["model"]["parameters"]
        assert share == pytest.approx(counted / (6 * n_parameters * n), rel=0.2)
    assert log["profile"]["operations"] and log["waits"]["an update"] == {}
    log = measured(file, "step")
    assert {"large", "step"} == log.keys() and "failed" not in json.dumps(log["step"])
    rows = [row for name, row in log["step"].items() if "width" in name]
    assert len(rows) == 2 * 3 + 3 + 1  # two precisions; one thread, two threads
    assert all(row["Transformer"] > 0 and row["recurrent"] > 0 for row in rows)


def test_what_is_measured_again_replaces_its_part_alone(tmp_path):
    file = tmp_path / "gpu.json"
    file.write_text(json.dumps({"large": {"old": 1}, "step": {"old": 1}}))
    log = gpu.Log(file, "step", 60, CPU)
    log.add("new", 2)
    there = json.loads(file.read_text(encoding="utf-8"))
    assert there["large"] == {"old": 1} and there["step"]["new"] == 2 and "old" not in there["step"]


def test_what_fails_or_takes_too_long_leaves_its_traceback_and_the_rest_goes_on(tmp_path):
    log = gpu.Log(tmp_path / "gpu.json", "step", 60, CPU)
    assert log.measure("broken", lambda: 1 / 0) is None
    assert "ZeroDivisionError" in log.found["broken"]["failed"]
    assert log.measure("whole", lambda x: x + 1, 2) == 3
    log.limit = 0
    assert log.measure("late", lambda: 3) is None and "left out" in log.found["late"]
    with pytest.raises(TimeoutError), gpu.at_most(0.05):
        time.sleep(5)


def test_the_first_round_warms_up_and_the_last_one_is_watched():
    seen = []

    class During:
        def __enter__(self):
            seen.append("open")

        def __exit__(self, *error):
            seen.append("closed")

    watch = gpu.Stopwatch(CPU, 2, During())
    for _ in range(3):
        watch.next()
        seen.append("round")
    with pytest.raises(gpu.Enough):
        watch.next()
    assert seen == ["round", "round", "open", "round", "closed"] and len(watch.seconds) == 2


def test_full_batches_have_no_padding():
    batches = gpu.full(3, 5, 61, 2)
    plan = batches.epoch(0)
    assert [len(indices) for indices in plan] == [3, 3]
    batch = batches.batch(plan[0])
    assert batch.source.shape == batch.target_in.shape == (3, 5) and batch.n_tokens == 15
    assert batch.source_mask.all() and batch.target_mask.all()


@pytest.mark.parametrize("width", [128, 256])
def test_both_networks_have_about_as_many_parameters(width):
    size = gpu.Sizes()
    theirs, mine = (gpu.n_parameters(make(size, width)) for make in (gpu.recurrent, gpu.transformer))
    assert theirs == pytest.approx(mine, rel=0.05)


def test_the_large_model_has_200_million_parameters():
    size = gpu.Sizes()
    with torch.device("meta"):
        n = gpu.n_parameters(gpu.tie(gpu.make_model(size.vocab, size.vocab, **size.model)))
    assert 190e6 < n < 220e6


def test_kinds_of_kernels():
    names = {
        "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_bias_TNT": "products",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n": "products",
        "fmha_cutlassF_bf16_aligned_64x64_rf_sm80": "attention",
        "void cunn_SoftMaxForward<8, float, float, float>": "softmax",
        "void at::native::multi_tensor_apply_kernel<FusedAdam>": "optimizer",
        "void at::native::vectorized_layer_norm_kernel<BFloat16>": "norm",
        "Memcpy HtoD (Pinned -> Device)": "copies",
        "void at::native::vectorized_elementwise_kernel<4>": "elementwise",
        "triton_": "other",
    }
    assert {name: gpu.group(name) for name in names} == names


def test_a_device_that_is_not_there_is_one_sentence(capsys, tmp_path):
    assert gpu.main(["step", "--device", "cuda:77", "--to", str(tmp_path / "gpu.json")]) == 1
    assert "no device cuda:77" in capsys.readouterr().err and not (tmp_path / "gpu.json").exists()

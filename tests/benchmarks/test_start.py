"""The benchmark of what is not training runs whole at a tiny size, and counts every stage once."""

from benchmarks import start


def test_every_stage_is_counted_without_those_inside_it(benchmark):
    printed, found = benchmark(start, "--sentences 60 --words 50")
    assert {*start.STAGES.values()} - {"checkpoints"} <= set(found)
    times = {stage: each[2] for stage, each in found.items()}
    assert times["loading"] == times["page"] == times["figures"] == times["writing the best model"] == 1
    assert times["updates"] == 2  # a fifth of 60 sentences, 8 to a batch
    assert min(each[0] for each in found.values()) > 0
    assert f"| updates | {found['updates'][0]:.2f} |" in printed

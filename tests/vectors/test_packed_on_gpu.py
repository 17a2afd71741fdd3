"""Packed attention on a GPU against padded attention there and against float32 on the CPU."""

import pytest
import torch

from isogloss.stack import load
from isogloss.text.corpora import Corpus
from isogloss.vectors import vectors
from isogloss.vectors.extract import _on_the_host, stream
from tiny_models import ENCODERS, TEXT

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("family", ENCODERS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_on_a_gpu_stays_close_to_the_cpu(tiny, family, dtype):
    corpus = Corpus("en", TEXT * 20)
    reference = vectors(load(tiny(family), device="cpu"), corpus)
    stack = load(tiny(family), device=torch.device("cuda"), dtype=dtype)
    assert stack.packs == stack.family.packs
    found = vectors(stack, corpus)
    scale = reference.abs().mean(dim=(1, 2), keepdim=True)
    assert ((found - reference).abs() / scale).mean() < (0.03 if dtype == torch.bfloat16 else 0.005)


@pytest.mark.parametrize("family", [family for family in ENCODERS if family != "mpnet"])
def test_float32_on_a_gpu_is_padded_and_exact(tiny, family):
    corpus = Corpus("en", TEXT)
    stack = load(tiny(family), device=torch.device("cuda"), dtype=torch.float32)
    assert not stack.packs
    torch.testing.assert_close(
        vectors(stack, corpus), vectors(load(tiny(family), device="cpu"), corpus), atol=1e-3, rtol=0
    )


@pytest.mark.parametrize("unit", ["sentence", "word"])
def test_chunks_copied_from_a_gpu_are_the_chunks_computed_there(tiny, unit):
    words = " ".join(TEXT).split()
    corpus = Corpus("en", [f"{one} {other} {one}" for one in words for other in words] * 3)
    stack = load(tiny("bert"), device=torch.device("cuda"), dtype=torch.bfloat16)
    expected = [chunk.values[unit].cpu() for chunk in stream(stack, corpus, units=(unit,))]
    assert len(expected) > 2
    torch.testing.assert_close(vectors(stack, corpus, unit=unit), torch.cat(expected, dim=1), rtol=0, atol=1e-2)


@pytest.mark.parametrize("count", [None, 400])
def test_a_chunk_is_copied_when_it_is_computed_and_not_before(count):
    def chunks():
        for number in range(4):
            values = torch.zeros(3, 100, 64, device="cuda")
            torch.cuda._sleep(50_000_000)  # tens of milliseconds in which the GPU has not added yet
            values += number + 1
            yield values
            del values  # its memory may be used again when it has been copied

    expected = torch.arange(1.0, 5.0).repeat_interleave(100)[None, :, None].expand(3, 400, 64)
    assert torch.equal(_on_the_host(chunks(), count), expected)

"""A folder that sentence-transformers loads with its own modules alone, and that gives isogloss' vectors.

    Transformer    the model, cut at the layer; of a pre-norm model the state that a spare block above the cut reads
    WordWeights    0 for special tokens, 1 for all others: the mean is of content tokens (none where the first is taken)
    Pooling        mean, or the first token
    Dense          an affine map; Normalize a division by length: a mapping, centring

Nothing of the package is needed to write it. The names of its modules are those that folders on the hub have.
"""

import json
from pathlib import Path
from typing import Any

from safetensors.torch import save_file

from isogloss.integrations.encoder import Affine, Encoder, matrices, write_model
from isogloss.text.batches import marks
from isogloss.text.corpora import Corpus


def write_sentence_transformer(folder: Path, encoder: Encoder) -> None:
    """Write the folder; sentence-transformers 5.4 or later loads it."""
    stack, spare = encoder.stack, encoder.stack.family.norm is not None
    write_model(folder, stack, encoder.layer, spare=spare)
    # Run without padding, sentences would have no attention mask, which WordWeights reads.
    settings: dict[str, Any] = {"unpad_inputs": False}
    if spare:
        output = {"method": "forward", "method_output_name": ["hidden_states", encoder.layer]}
        settings |= {"modality_config": {"text": output}, "module_output_name": "token_embeddings"}
    if "pooler" in stack.model._modules:
        settings["model_args"] = {"add_pooling_layer": False}
    _write(folder / "sentence_bert_config.json", settings)
    _write(folder / "config_sentence_transformers.json", {"similarity_fn_name": "cosine"})
    kinds = ["Transformer"]
    for kind, config, step in _modules(encoder):
        module_folder = folder / f"{len(kinds)}_{kind}"
        module_folder.mkdir()
        # Indented, the vocabulary would take a line for every word.
        _write(module_folder / "config.json", config, indent=None if kind == "WordWeights" else 2)
        if step is not None:
            weight, bias = matrices(step)
            save_file({"linear.weight": weight, "linear.bias": bias}, module_folder / "model.safetensors")
        kinds.append(kind)
    modules = [
        {"idx": number, "name": str(number), "path": f"{number}_{kind}" if number else "", "type": _type(kind)}
        for number, kind in enumerate(kinds)
    ]
    _write(folder / "modules.json", modules)


def encode_with_sentence_transformers(folder: Path, corpus: Corpus) -> Any:
    """What the folder gives through the package, (sentences, width)."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(folder), device="cpu")
    return model.encode(list(corpus.sentences), convert_to_tensor=True, show_progress_bar=False)


def _modules(encoder: Encoder) -> list[tuple[str, dict[str, Any], Affine | None]]:
    """What follows the model: the kind of each module, its configuration, and the matrices it holds."""
    width = encoder.stack.width
    modules: list[tuple[str, dict[str, Any], Affine | None]] = []
    if encoder.pooling == "mean":
        # Named by their numbers: sentence-transformers would take a word for its lower-case twin.
        vocabulary = [str(number) for number in range(encoder.stack.model.get_input_embeddings().num_embeddings)]
        silent = {str(number): 0.0 for number in marks(encoder.stack.tokenizer)}
        modules.append(("WordWeights", {"vocab": vocabulary, "word_weights": silent, "unknown_word_weight": 1.0}, None))
    mean = encoder.pooling == "mean"
    pooling = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    modules.append(("Pooling", {"word_embedding_dimension": width, **pooling}, None))
    for step in encoder.steps:
        if isinstance(step, Affine):
            outputs = len(step.bias)
            inputs = outputs if step.weight is None else step.weight.shape[1]
            sizes = {"in_features": inputs, "out_features": outputs, "bias": True}
            modules.append(("Dense", {**sizes, "activation_function": "torch.nn.modules.linear.Identity"}, step))
        else:
            modules.append(("Normalize", {}, None))
    return modules


def _type(kind: str) -> str:
    return f"sentence_transformers.models.{kind}"


def _write(path: Path, content: Any, *, indent: int | None = 2) -> None:
    path.write_text(json.dumps(content, indent=indent) + "\n", encoding="utf-8")

"""Load a Stack by name: an embedded model, a folder, a GGUF file or a hub id. No pickles, no code from the hub.

`load_tokenizer` loads a tokenizer without weights, `load_language_model` a model with its language modelling head.
"""

import copy
import hashlib
import io
import json
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import replace
from difflib import get_close_matches
from importlib.resources import files
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any, cast

import torch
from psutil import virtual_memory
from safetensors import SafetensorError, safe_open
from torch import Tensor
from torch.nn.functional import cross_entropy

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.stack.edit import merged
from isogloss.stack.families import FAMILIES, TESTED, Family, Kind, discover, without_cache
from isogloss.stack.packing import swapped
from isogloss.stack.stack import Stack, device_of, hash_weights, measuring, weight_of, whole_stack
from isogloss.text.batches import Batch, marks

STEP_FILE = "step.json"  # beside the weights of a model that was saved during training: its origin
PROBED = [7, 5]  # lengths of the two sentences on which a model is checked
WINDOW = 3  # attention window during the check, so that windows are checked as well
SENTENCE = "The cat sat on the mat, and the dog lay beside it in front of the fire."
GAIN = 0.2  # nats per token by which a first token must lower the loss of this sentence to count as trained
# Packages that some models need: the name under which each is imported, and the extra that installs it.
OPTIONAL = {
    "sentencepiece": ("sentencepiece", "tokenizers"),
    "protobuf": ("google.protobuf", "tokenizers"),
    "tiktoken": ("tiktoken", "tokenizers"),
    "gguf": ("gguf", "gguf"),
}
SPLIT = "split"  # the device of a model whose blocks are spread over all GPUs, memory and disk
QUANTISED = {"int8": torch.float16, "int4": torch.bfloat16}  # the computing precision of bitsandbytes
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load(
    name: str | Path = "mini",
    revision: str | None = None,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device = "auto",
) -> Stack:
    """Load a model as a Stack, in evaluation mode.

    name: an embedded model (`mini`), a folder in `from_pretrained` format, a GGUF file, whose weights are dequantised
    to the computing precision (`isogloss[gguf]`), or a hub id. A model that does not fit into memory raises an error
    before it is loaded. dtype: computing precision; by default float32 on a CPU, whatever the file contains, and
    bfloat16 on a GPU. `int8` and `int4` quantise the weights and compute in half precision (bitsandbytes). device:
    auto, cpu, cuda or mps; `split` spreads the blocks over all GPUs, then memory, then disk.
    """
    return _load(name, revision, dtype, device)


def wrap(model: Any, tokenizer: Any, *, name: str | None = None) -> Stack:
    """Create a Stack from a model in memory: any text model of `transformers`, with or without a head.

    The stack shares the model's weights, so it reflects later training. The parts of the model are located in it, and
    the result is compared with its own hidden states; of an encoder-decoder, the encoder is used.

    Args:
        model: the model.
        tokenizer: the tokenizer with which it was trained.
        name: its name in tables; by default the name it was loaded by, or else its class.

    >>> wrap(AutoModel.from_pretrained(folder), AutoTokenizer.from_pretrained(folder))  # doctest: +SKIP
    Stack('folder', cuts 0 to 12, 384 wide, torch.float32, cpu)
    """
    config = model.config
    name = name or config.name_or_path or type(model).__name__
    half: Kind | None = "encoder-decoder" if config.is_encoder_decoder else None
    base = model.base_model if half is None else model.get_encoder()
    # The model itself if it has a language modelling head.
    with_head = None if half or model is base or model.get_output_embeddings() is None else model
    family = FAMILIES.get(config.model_type)
    if family is not None and family.kind == "encoder" and getattr(config, "is_decoder", False):
        family = None  # a decoder that uses an encoder's classes
    if family is not None and family is TESTED.get(config.model_type) and family.kind == "encoder":
        return replace(whole_stack(base, family, tokenizer, name), language_model=with_head)
    modules = (getattr(base, "config", config).get_text_config(), *base.modules())
    windows = [(each, "sliding_window", WINDOW) for each in modules if getattr(each, "sliding_window", None)]
    try:
        with measuring(base), swapped(windows):
            stack = _checked(base, family, half, tokenizer=tokenizer, name=name)
    except Exception as error:  # a forward pass may raise any class
        reason = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}".splitlines()[0]
        raise InputError(
            f"{name} cannot be read as a stack of layers: {reason}; if you know where its blocks are, say so with "
            f'isogloss.stack.FAMILIES["{config.model_type}"] = Family(blocks="...", ...)'
        ) from error
    return _with_first_token(replace(stack, language_model=with_head), model)


def _checked(model: Any, family: Family | None, kind: Kind | None, *, tokenizer: Any, name: str) -> Stack:
    """Create the stack of a base model and check its cuts against the model's hidden states on two made-up sentences.

    family: the registered one, None to discover it; kind: that of a discovered one, if known. Packed sentences and
    slices are checked as well; if their states differ, the family is marked as not packing, or as not sliceable.
    """
    room = len(model.get_input_embeddings().weight)
    ids = torch.linspace(room // 4, room // 2, sum(PROBED), device=device_of(model)).long()
    batch = Batch(ids, torch.tensor(PROBED, device=ids.device), *(torch.zeros_like(ids),) * 4)
    sentences = [sentence[None] for sentence in torch.split(ids, PROBED)]
    if family is None:
        family = discover(model, sentences[0])
        family = family if kind is None else replace(family, kind=kind)
    passes = [model(input_ids=each, output_hidden_states=True, **without_cache(model)) for each in sentences]
    states = [torch.cat(each, dim=1)[0] for each in zip(*(alone.hidden_states for alone in passes), strict=True)]
    last, depth = torch.cat([alone[0] for alone in passes], dim=1)[0], len(states) - 1

    def close(x: Tensor, y: Tensor) -> bool:
        """Whether the tokens of each sentence agree, except for one, which rounding may send to another expert."""
        errors = (x.float() - y.float()).norm(dim=-1) / y.float().norm(dim=-1).clamp_min(1e-9)
        limit = torch.finfo(y.dtype).eps ** 0.5
        return all(bool(each.topk(2)[0][1] <= limit) for each in torch.split(errors, PROBED))

    def reads(family: Family) -> bool:
        stack = replace(whole_stack(model, family, tokenizer, name), pack=family.packs)
        cuts = stack.read(batch) | stack.read(batch, [depth // 2])  # a low cut alone runs fewer blocks
        top = stack.head_input(cuts[depth])
        return all(close(cuts[cut], states[cut]) for cut in range(depth)) and close(top, last)

    def slices(family: Family) -> bool:
        stack = whole_stack(model, family, tokenizer, name)
        tops = (stack[cut:].read(batch, [depth], hidden=states[cut])[depth] for cut in (0, 1, depth // 2))
        return all(close(stack.head_input(top), last) for top in tops)

    def holds(claim: Callable[[Family], bool], family: Family) -> bool:
        try:
            return claim(family)
        except Exception:  # a forward pass may raise anything on unexpected arguments
            return False

    require(reads(replace(family, packs=False)), "its blocks do not give, in a batch, the hidden states of each text")
    packing = (family, replace(family, first_position="padding")) if family.packs else ()
    family = next((each for each in packing if holds(reads, each)), replace(family, packs=False))
    cuts = family.kind != "encoder-decoder" and family.cuts and holds(slices, family)
    return whole_stack(model, replace(family, cuts=cuts), tokenizer, name)


def _with_first_token(stack: Stack, model: Any) -> Stack:
    """Make the tokenizer of a decoder that was trained with a first token (BOS) put it before every text.

    Most tokenizers do. If one does not, the loss of a sentence decides, after each special token that could begin a
    text. Names alone do not tell: BLOOM has a BOS and was trained without, that of GPT-2 also ends texts, and SmolLM2
    names another one than it was trained with. The stack then gets a modified copy of the tokenizer and a note. Without
    a head there is no loss: BOS is believed if tokenizer and configuration agree and it does not end texts.
    """
    tokenizer, config = stack.tokenizer, stack.model.config.get_text_config()
    if stack.family.kind != "decoder" or tokenizer is None:
        return stack
    ids = tokenizer(SENTENCE)["input_ids"][: stack.max_length - 1]
    told, known = config.bos_token_id, min(len(tokenizer), len(stack.model.get_input_embeddings().weight))
    bos, ending, *others = (
        getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "cls", "sep", "unk")
    )
    named = dict.fromkeys((told, bos, ending, *others))
    first = [number for number in named if isinstance(number, int) and 0 <= number < known]
    if len(ids) < 2 or not first or ids[0] in marks(tokenizer):
        return stack
    weight = _output_weight(model, stack.model)
    if weight is None:
        if bos is None or bos == ending or bos != told:
            unsure = "its tokenizer adds no first token, and whether it was trained with one cannot be told"
            return replace(stack, notes=(*stack.notes, f"{stack.name}: {unsure} without its language modelling head"))
        number, evidence = bos, "which the configuration names"
    else:
        without, *losses = _losses(stack, weight, [ids, *([number, *ids] for number in first)], scored=len(ids) - 1)
        least, number = min(zip(losses, first, strict=True))
        if not without - least >= GAIN:  # nor if a loss is no number
            return stack
        evidence = f"with which the loss of a sentence is {least:.1f} nats a token, and {without:.1f} without"
    mark = tokenizer.convert_ids_to_tokens(number)
    missing = f"{stack.name}: its tokenizer does not add the first token {mark}, {evidence}"
    slow = f"{missing}; this slow tokenizer cannot be told to: save it as a fast one, or with the token"
    require(tokenizer.is_fast, slow)
    note = f"{missing}; it was put before every text"
    return replace(stack, tokenizer=_prepending(tokenizer, mark), notes=(*stack.notes, note))


def _losses(stack: Stack, weight: Tensor, sentences: Sequence[Sequence[int]], *, scored: int) -> list[float]:
    """Nats per token of the last `scored` tokens of each sentence, given as ids; weight: that of the output layer."""
    tokens = torch.tensor([number for sentence in sentences for number in sentence], device=stack.device)
    lengths = list(map(len, sentences))
    batch = Batch(tokens, torch.tensor(lengths, device=stack.device), *(torch.zeros_like(tokens),) * 4)
    config = stack.model.config.get_text_config()
    scale = getattr(config, "logit_scale", None) or 1 / (getattr(config, "logits_scaling", None) or 1)
    weight = scale * weight.to(stack.device, stack.dtype)
    with measuring(stack.model):
        top = stack.head_input(stack.read(batch, [stack.last])[stack.last])  # (tokens, width)
        return [
            float(cross_entropy((states[-scored - 1 : -1] @ weight.T).float(), ids[-scored:]))
            for states, ids in zip(torch.split(top, lengths), torch.split(tokens, lengths), strict=True)
        ]


def _output_weight(model: Any, base: Any) -> Tensor | None:
    """The weight of a decoder's output layer: of its head, tied to its embeddings, or in its files; None if unknown."""
    from transformers import AutoModelForCausalLM

    head = model.get_output_embeddings()
    if head is not None or base.config.get_text_config().tie_word_embeddings:
        return weight_of(head or base.get_input_embeddings(), "weight")
    try:
        with torch.device("meta"):
            whole = AutoModelForCausalLM.from_config(model.config)
    except ValueError:  # transformers has no such model with a head
        return None
    output, shape = whole.get_output_embeddings(), list(base.get_input_embeddings().weight.shape)
    name = next((f"{path}.weight" for path, module in whole.named_modules() if module is output), "")
    source, commit = model.config.name_or_path, getattr(model.config, "_commit_hash", None)
    for path in _weight_files(source, commit) if source and name else ():
        with suppress(SafetensorError), safe_open(path, framework="pt") as file:
            if name in file.keys() and _shape(file, name) == shape:  # noqa: SIM118, a file is not iterable
                return cast(Tensor, file.get_tensor(name))
    return None


def _prepending(tokenizer: Any, mark: str) -> Any:
    """A copy of a fast tokenizer that puts a token before every text, as its BOS."""
    from tokenizers.processors import Sequence, TemplateProcessing

    tokenizer = copy.deepcopy(tokenizer)
    tokenizer.bos_token = mark
    backend, known = tokenizer.backend_tokenizer, [(mark, tokenizer.bos_token_id)]
    template = TemplateProcessing(single=f"{mark} $A", pair=f"{mark} $A {mark} $B", special_tokens=known)
    own = backend.post_processor
    backend.post_processor = template if own is None else Sequence([own, template])
    return tokenizer


def load_language_model(
    name: str | Path = "mini",
    revision: str | None = None,
    *,
    dtype: str | torch.dtype | None = None,
    device: str | torch.device = "auto",
) -> Stack:
    """Load a model with its language modelling head: as `load`, with the whole model in `language_model`.

    The head is the masked-LM head of families that have one, otherwise that of a decoder. A model without a trained
    head raises an error, because a randomly initialised head would predict nothing, and so does one whose head cannot
    be run on selected tokens.
    """
    from isogloss.stack.head import head_of

    stack = _load(name, revision, dtype, device, head=True)
    unmasked = f"the tokenizer of {name} has no mask token, which masked-language modelling needs"
    require(stack.causal or stack.tokenizer.mask_token_id is not None, unmasked)
    head_of(stack)
    return stack


def _load(
    name: str | Path,
    revision: str | None,
    dtype: str | torch.dtype | None,
    device: str | torch.device,
    *,
    head: bool = False,
) -> Stack:
    """Load the stack of a model on the given device in the given precision."""
    hardware, placement = choose_device("auto" if device == SPLIT else device), dict[str, Any]()
    if device == SPLIT:
        folder = tempfile.TemporaryDirectory(prefix="isogloss-")  # for weights that are stored in another format
        placement = {"device_map": "auto", "offload_folder": folder.name}
    if dtype in QUANTISED:
        missing = f"--dtype {dtype} needs the package bitsandbytes, which is not here: pip install bitsandbytes"
        require(find_spec("bitsandbytes") is not None, missing)
        from transformers import BitsAndBytesConfig

        kind, dtype = f"load_in_{str(dtype)[3:]}bit", QUANTISED[str(dtype)]
        quantised = BitsAndBytesConfig(**{kind: True}, bnb_4bit_compute_dtype=dtype)
        placement = {"device_map": {"": hardware}, **placement, "quantization_config": quantised}
    model, tokenizer = _read(name, revision, choose_dtype(dtype, hardware), hardware, head=head, **placement)
    if device == SPLIT:
        weakref.finalize(model, folder.cleanup)
    return wrap((model if placement else model.to(hardware)).eval(), tokenizer, name=str(name))


def load_tokenizer(name: str | Path = "mini", revision: str | None = None) -> Any:
    """Load a tokenizer without weights: of an embedded model, a folder or a hub id, a `tokenizer.json` or GGUF file."""
    from transformers import AutoTokenizer, PreTrainedTokenizerFast

    path = Path(str(files("isogloss") / "models" / str(name))) if "/" not in str(name) else Path(name)
    path = path if path.is_dir() else Path(name)
    with quietly():
        try:
            if path.is_file() and path.suffix == ".gguf":
                _name_missing_package(name, "gguf")
                _count_gguf(path)  # raises if it is cut off
                options = {"gguf_file": path.name, "trust_remote_code": False}
                tokenizer = AutoTokenizer.from_pretrained(str(path.parent), **options)
            elif path.is_file():
                tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(path))
            else:
                source = str(path) if path.is_dir() else locate(name)
                tokenizer = AutoTokenizer.from_pretrained(source, revision=revision, trust_remote_code=False)
        except InputError:
            raise
        except Exception as error:  # transformers and tokenizers raise any class on a damaged file
            if any(path.glob("*.model")):  # transformers mentions sentencepiece even for an empty folder
                _name_missing_package(name, str(error))
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise InputError(f"{name} cannot be loaded as a tokenizer: {reason}") from error
    _refuse_empty(tokenizer, name)
    return tokenizer


def save_language_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Write a model with its head and its tokenizer in the format of `from_pretrained` and `load_language_model`.

    Adapters are merged into the weights.
    """
    with quietly():
        merged(model).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def fingerprint(stack: Stack) -> str:
    """A hash of a stack's language model: of the stack (`Stack.fingerprint`) and of every weight of its head."""
    digest, model = hashlib.sha256(stack.fingerprint.encode()), stack.language_model
    hash_weights(digest, model, but=f"{model.base_model_prefix}.")
    return digest.hexdigest()


def _read(
    name: str | Path, revision: str | None, dtype: torch.dtype, hardware: torch.device, *, head: bool, **placement: Any
) -> tuple[Any, Any]:
    """Read a model and its tokenizer; missing weights raise an error instead of being initialised at random.

    head: whether to load the language modelling head. placement: arguments of `from_pretrained` for split or quantised
    weights.
    """
    from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoTokenizer
    from transformers.models.auto.modeling_auto import MODEL_FOR_MASKED_LM_MAPPING_NAMES

    source = locate(name)
    progress(f"loading {name}", 0, 1)
    packed_file = Path(source) if source.endswith(".gguf") else None
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": False}
    if packed_file is not None:
        source, options["gguf_file"] = str(packed_file.parent), packed_file.name
    unpacking = nullcontext() if packed_file is None else redirect_stderr(io.StringIO())  # it has a bar of its own
    with quietly(), unpacking:
        try:
            numbers = 0 if packed_file is None else _count_gguf(packed_file)
            config = AutoConfig.from_pretrained(source, **options)
            both = f"{name} is an encoder-decoder, whose encoder predicts no words; give a decoder or a masked LM"
            require(not head or not config.is_encoder_decoder, both)
            numbers = numbers or _count_weights(source, revision, config)
            if "offload_folder" not in placement or packed_file is not None:  # GGUF files are dequantised in memory
                four_bits = getattr(placement.get("quantization_config"), "load_in_4bit", None)
                place = torch.device("cpu") if "offload_folder" in placement else hardware
                _check_memory(name, numbers, dtype, four_bits, place)
            stored = {"use_safetensors": True} if packed_file is None else {}  # never pickles
            masked = config.model_type in MODEL_FOR_MASKED_LM_MAPPING_NAMES and not getattr(config, "is_decoder", False)
            kind = AutoModel if not head else AutoModelForMaskedLM if masked else AutoModelForCausalLM
            model, information = kind.from_pretrained(
                source, config=config, dtype=dtype, output_loading_info=True, **stored, **options, **placement
            )
            tokenizer = AutoTokenizer.from_pretrained(source, **options)
            if packed_file is not None and not placement:  # dequantised, it is a plain model, which can be saved
                del model.hf_quantizer, model.config.quantization_config
        except InputError:
            raise
        except SafetensorError as error:
            raise InputError(f"{source} is damaged or cut off ({error}); copy it again") from error
        except Exception as error:  # transformers and tokenizers raise any class on a damaged folder
            _name_missing_package(name, str(error))
            reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            if Path(source).is_dir():
                raise InputError(f"{name} cannot be loaded as a model: {reason}") from error
            raise InputError(
                f"{name} is neither an embedded model, nor a folder, nor a model that could be fetched from the hub "
                f"(without a network, or with HF_HUB_OFFLINE, there is none): {reason}"
            ) from error
    # Missing buffers and untrained tables (sinusoidal positions) are computed.
    half = model.get_encoder() if config.is_encoder_decoder else model
    read = {id(weight) for weight in half.parameters()}
    weights = {key for key, weight in model.named_parameters(remove_duplicate=False) if id(weight) in read}
    missing = [key for key in information["missing_keys"] if key in weights and "pooler" not in key]
    if missing:
        with torch.device("meta"):  # a loaded model does not record which weights are trained
            trained = {key for key, weight in type(model)(config).named_parameters() if weight.requires_grad}
        missing = [key for key in missing if key in trained]
    if missing:
        encoder = model.base_model_prefix
        if hasattr(model, encoder) and not any(key.startswith(f"{encoder}.") for key in missing):
            raise InputError(
                f"{name} has no head that predicts {'masked ' if masked else ''}words; it would be random numbers, so "
                f"the model is not loaded: give one that was saved with its head ({kind.__name__})"
            )
        raise InputError(
            f"{name}: the weights of {len(missing)} tensors are missing, {sorted(missing)[0]} among them; "
            "they would be random numbers, so the model is not loaded"
        )
    _refuse_empty(tokenizer, name)
    known = len(model.get_input_embeddings().weight)
    foreign = f"the tokenizer of {name} has {tokenizer.vocab_size:,} pieces, and the model knows {known:,}"
    together = "they do not belong together; use the tokenizer that the model was trained with"
    require(tokenizer.vocab_size <= known, f"{foreign}: {together}")
    progress(f"loading {name}", 1, 1)
    return model, tokenizer


def _name_missing_package(name: str | Path, reason: str) -> None:
    """Raise with the package and how to install it, if a model could not be read for lack of an optional package."""
    for package, (module, extra) in OPTIONAL.items():
        if package in reason.lower() and find_spec(module) is None:
            raise InputError(f"{name} needs the package {package}, which is not here: pip install 'isogloss[{extra}]'")


def _refuse_empty(tokenizer: Any, name: str | Path) -> None:
    """Raise for the empty tokenizer that transformers creates if tokenizer files are missing."""
    if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):
        raise InputError(f"{name} has no tokenizer; save the one it was trained with into its folder (tokenizer.json)")


def choose_device(device: str | torch.device) -> torch.device:
    """Resolve the device: `auto` takes a GPU if there is one."""
    if isinstance(device, torch.device):
        return device
    usable = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if device == "auto":
        device = next(kind for kind in usable if usable[kind])
    kind, colon, number = device.partition(":")
    if kind not in usable or (colon and kind != "cuda"):
        only = ", as split is for commands that only read a model" if device == SPLIT else ""
        raise InputError(f"--device {device!r} is not known{only}; choose auto, cpu, cuda or mps")
    if not usable[kind]:
        maker = {"cuda": "NVIDIA", "mps": "Apple"}[kind]
        raise InputError(f"--device {kind} was asked for, but this machine has no usable {maker} GPU; use --device cpu")
    if colon and not (number.isdigit() and int(number) < torch.cuda.device_count()):
        raise InputError(f"--device {device} is not there; this machine has {torch.cuda.device_count()} NVIDIA GPUs")
    return torch.device(device)


def choose_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """Resolve the precision: by default float32, and bfloat16 on a GPU."""
    if isinstance(dtype, torch.dtype):
        return dtype
    if dtype in (None, "auto"):
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    require(dtype in DTYPES, f"--dtype {dtype!r} is not known; choose {', '.join([*DTYPES, *QUANTISED])}")
    return DTYPES[dtype]


def locate(name: str | Path) -> str:
    """The folder of an embedded or local model, or the name itself if it can only be a hub id."""
    embedded = Path(str(files("isogloss") / "models" / str(name)))
    if "/" not in str(name) and (embedded / "config.json").is_file():
        return str(embedded)
    folder = Path(name)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            inside = [file for depth in ("*", "*/*", "*/*/*") for file in sorted(folder.glob(f"{depth}/config.json"))]
            sides = [file.parent.relative_to(folder).as_posix() for file in inside]
            if len(sides) == 1 and (folder / "run.json").is_file():
                return locate(folder / sides[0])
            if len(sides) == 1:
                raise InputError(f"{folder} is no model, but {folder / sides[0]} is one: give that")
            if sides:
                few = ", ".join(sides[:3]) + (f" and {len(sides) - 3} more" if len(sides) > 3 else "")
                raise InputError(f"{folder} is no model, but the folders {few} in it are: name one of these")
            raise InputError(f"{folder} is no model: it has no config.json")
        if not any(folder.glob("*.safetensors")):
            raise InputError(f"{folder} has no weights in safetensors format (pickled weights are not read)")
        for path in sorted(folder.glob("*.safetensors")):
            # transformers would report that such a file does not exist.
            require(os.access(path, os.R_OK), f"{path} cannot be read: permission denied")
        return str(folder)
    if folder.suffix == ".gguf" and folder.is_file():
        return str(folder)
    require(not folder.exists(), f"{folder} is a file; a model is a folder with config.json, weights and tokenizer")
    models = Path(str(files("isogloss") / "models"))
    near = "".join(get_close_matches(str(name), [path.name for path in models.iterdir()], n=1))
    require(not near, f"there is no model {name}; did you mean {near}?")
    among_runs = folder.parent != Path() and any(folder.parent.glob("*/run.json"))
    if among_runs or str(name).startswith((".", "/", "~")) or str(name).count("/") > 1:
        raise InputError(f"there is no folder {name}")
    return str(name)


def _weight_files(source: str, revision: str | None) -> list[Path]:
    """The safetensors files of a folder, or of a hub id as far as they were fetched."""
    if Path(source).is_dir():
        return sorted(Path(source).glob("*.safetensors"))
    index = _cached(source, "model.safetensors.index.json", revision, fetch=False)
    names = (
        ["model.safetensors"] if index is None else sorted(set(json.loads(index.read_text())["weight_map"].values()))
    )
    return [path for name in names if (path := _cached(source, name, revision, fetch=False)) is not None]


def _cached(source: str, name: str, revision: str | None, *, fetch: bool) -> Path | None:
    """A file of a folder or a hub id, None if it has none; fetch: whether to ask the hub for it."""
    from transformers.utils import cached_file

    optional = {"_raise_exceptions_for_missing_entries": False, "_raise_exceptions_for_connection_errors": False}
    path = cached_file(source, name, revision=revision, local_files_only=not fetch, **optional)
    return None if path is None else Path(path)


def _count_weights(source: str, revision: str | None, config: Any) -> int:
    """The number of parameters in a folder or of a hub id.

    A model of one file is fetched for that; one of several files tells its size in its index. Raises if an index names
    anything but safetensors files beside it, or if there are more layers than weights: transformers would read any file
    the index names, even pickles, and build all layers before it looks for weights.
    """
    index = _cached(source, "model.safetensors.index.json", revision, fetch=True)
    stated = 0
    if index is not None:
        facts = json.loads(index.read_text(encoding="utf-8"))
        named = set(facts["weight_map"].values())
        wrong = [name for name in named if Path(name).name != name or not name.endswith(".safetensors")]
        require(not wrong, f"{index} names {wrong[:1]}; only safetensors files beside it are read")
        size = (getattr(config, "dtype", None) or torch.float32).itemsize
        stated = int(facts.get("metadata", {}).get("total_size", 0)) // size
    elif not Path(source).is_dir():
        _cached(source, "model.safetensors", revision, fetch=True)
    tensors, numbers = 0, 0
    for path in _weight_files(source, revision):
        try:
            with safe_open(path, framework="pt") as file:
                names = file.keys()
                tensors, numbers = tensors + len(names), numbers + sum(prod(_shape(file, name)) for name in names)
        except SafetensorError as error:
            raise InputError(f"{path} is damaged or cut off ({error}); copy it again") from error
    layers, told = getattr(config.get_text_config(), "num_hidden_layers", 0), Path(source) / "config.json"
    whole = Path(source).is_dir()
    few = f"{told} tells of {layers:,} layers, and there are {tensors:,} weights"
    require(not whole or not tensors or layers <= tensors, few)
    return numbers if whole else max(numbers, stated)


def _shape(file: Any, name: str) -> list[int]:
    return file.get_slice(name).get_shape()


def _count_gguf(path: Path) -> int:
    """The number of parameters in a GGUF file; raises if the file is truncated."""
    from gguf import GGUFReader

    try:
        return sum(int(tensor.n_elements) for tensor in GGUFReader(path).tensors)
    except Exception as error:  # the reader raises any class on a damaged file
        raise InputError(f"{path} is damaged or cut off, or no GGUF file ({error}); copy it again") from error


def _check_memory(
    name: str | Path, numbers: int, dtype: torch.dtype, four_bits: bool | None, device: torch.device
) -> None:
    """Raise if a model with `numbers` parameters does not fit into memory, or on its GPU, before any of it is read.

    four_bits: whether weights are quantised to 4 bits, otherwise to 8; None for no quantisation.
    """
    size = dtype.itemsize if four_bits is None else 0.5 if four_bits else 1.0  # bytes of a weight
    kind = str(dtype).removeprefix("torch.") if four_bits is None else "int4" if four_bits else "int8"
    needed, free = numbers * size, {"memory": virtual_memory().available}
    if device.type == "cuda":
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)  # torch's, to be used again
        free["GPU memory"] = torch.cuda.mem_get_info(device)[0] + kept
    place = min(free, key=free.__getitem__)
    smaller = "--dtype bfloat16 takes half of that" if size > 2 else "--device split reads it from disk"
    taken = f"{needed / 1e9:,.1f} GB in {kind}"
    room = f"{free[place] / 1e9:,.1f} GB of {place} are free"
    require(needed <= free[place], f"{name} has {numbers:,} weights, which take {taken}, and {room}; {smaller}")


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress progress bars and warnings of transformers while loading; `load` does its own checks."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()

"""A transformer as a stack of layers that can be read, cut and re-joined at any of them.

Cut 0 is the embedding output, cut k the output of block k; a slice keeps these numbers. Tensors between blocks are
flat, (tokens, width), with the sentences concatenated as in a `Batch`: padding exists only inside a forward pass.

A slice runs the model's own forward pass with some of its modules replaced, so that masks, rotary positions and
relative biases remain the model's own. A cut is read by a hook on the block, before any final norm: the top cut of a
pre-norm model is its last block's raw output, unlike `hidden_states[-1]`. A `Chain` runs slices, and maps between their
spaces, one after the other as one stack.
"""

import copy
import hashlib
import json
import operator
import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from types import MethodType
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isogloss.errors import InputError, require
from isogloss.progress import progress
from isogloss.stack.families import TESTED, Family, without_cache
from isogloss.stack.packing import packed, packing_pays
from isogloss.text.batches import Batch

Reduce = Callable[[int, Tensor], Any]
Part = Literal["states", "attention"]
HASHED = 2**22  # numbers of a weight that are hashed in one piece
HASHED_TOGETHER = 32  # pieces at a time


@dataclass(eq=False, repr=False)
class Stack:
    """Embeddings followed by blocks, or a slice of them.

    `first` and `last` are its first and last cut; the input is text if `embeds`, otherwise hidden states. `pack`:
    whether to run sentences packed; None for only if that is known to be fast. `normed`: whether the top cut is read
    after the model's final norm, if it has one, as heads and `hidden_states[-1]` do. `notes`: sentences for the reader
    of its numbers. `language_model`: the model with its language modelling head, if it was loaded with one.

    Derived: `width` of the hidden states; `cuts`, those that can be read; `blocks` of this slice, in order.
    """

    model: Any
    family: Family
    tokenizer: Any
    name: str
    first: int
    last: int
    embeds: bool = True
    pack: bool | None = None
    normed: bool = False
    notes: tuple[str, ...] = ()
    language_model: Any = None
    width: int = field(init=False)
    cuts: range = field(init=False)
    blocks: list[nn.Module] = field(init=False)

    def __post_init__(self) -> None:
        config, family = self.model.config, self.family
        self.width, self.cuts = int(config.get_text_config().hidden_size), range(self.first, self.last + 1)
        self.blocks = list(self.model.get_submodule(family.blocks))[self.first : self.last]

    def __repr__(self) -> str:
        """One line, without the modules of the model."""
        return f"Stack({self.name!r}, cuts {self.first} to {self.last}, {self.width} wide, {self.dtype}, {self.device})"

    @property
    def device(self) -> torch.device:
        """The device of the inputs and of the hidden states returned."""
        return device_of(self.model)

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the weights."""
        return next(self.model.parameters()).dtype

    @property
    def causal(self) -> bool:
        """Whether a token attends only to earlier ones, as in decoders."""
        return self.family.kind == "decoder"

    @property
    def packs(self) -> bool:
        """Whether sentences run packed, without padding: as set by `pack` or if faster, where the family allows it."""
        return self.family.packs and (packing_pays(self.device, self.dtype) if self.pack is None else self.pack)

    @property
    def tables(self) -> bool:
        """Whether texts may share a row (`read_table`): only in tested families whose attention takes a boolean mask.

        A model with eager attention, which would add such a mask to its scores, needs a row for each text.
        """
        config = self.model.config
        sound = self.family in TESTED.values() and getattr(config, "_attn_implementation", None) == "sdpa"
        return self.family.packs and sound

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a sentence, including special tokens."""
        positions = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        reserved = first_position(self.model, self.family)
        limits = [self.tokenizer.model_max_length, None if positions is None else positions - reserved]
        return min((int(limit) for limit in limits if limit is not None and limit < 1_000_000), default=512)

    @property
    def fingerprint(self) -> str:
        """A hash of the configuration, the tokenizer and the current weights, so that training changes it.

        The pooler is left out: no cut reads it, and a masked LM is saved without it, so that it is reinitialised.
        """
        digest = hashlib.sha256(self.model.config.to_json_string().encode())
        digest.update(str(self.max_length).encode())
        hash_tokenizer(digest, self.tokenizer)
        hash_weights(digest, self.model, but="pooler.")
        digest.update(f"{self.first}:{self.last}".encode())
        return digest.hexdigest()

    def __getitem__(self, cut: slice) -> "Stack":
        """The slice from one cut to another: `stack[:8]` maps text to cut 8, `stack[8:]` maps cut 8 to the top.

        Indices are cuts of the whole model, also in a slice of a slice.
        """
        if not isinstance(cut, slice) or cut.step is not None:
            raise TypeError("a stack is cut with a plain slice, as in stack[:8]")
        self._refuse_cutting()
        first = self.first if cut.start is None else cut.start
        last = self.last if cut.stop is None else cut.stop
        if not self.first <= first <= last <= self.last:
            raise InputError(f"{self.name} has cuts {self.first} to {self.last}; {first}:{last} is not among them")
        return replace(self, first=first, last=last, embeds=self.embeds and first == self.first)

    def read(
        self,
        batch: Batch,
        layers: Sequence[int] | None = None,
        *,
        reduce: Reduce = lambda cut, states: states,
        hidden: Tensor | None = None,
        part: Part = "states",
    ) -> dict[int, Any]:
        """Run a batch and reduce each requested cut as soon as it is computed, so that none need be kept in memory.

        reduce(cut, states): states (tokens, width), including special tokens; by default the result is the hidden
        states of each cut. `hidden` (tokens, width) replaces the text as the input at `first`; only the lengths of the
        batch are used then. part: "attention" reads, instead of the output of block k, what its attention adds to its
        input.
        """
        known = self.cuts_of(part)
        wanted = set(known if layers is None else layers)
        if not wanted <= set(known):
            missing = f"{sorted(wanted - set(known))}" + ("" if part == "states" else ", where attention could be read")
            raise InputError(f"{self.name} has cuts {known.start} to {self.last}, not {missing}")
        if hidden is None and not self.embeds:
            raise InputError(f"this slice of {self.name} begins at cut {self.first}: it takes hidden states, not text")
        if hidden is not None:
            self._refuse_cutting()
        if hidden is not None and self.first == self.last:
            return {cut: reduce(cut, hidden) for cut in wanted}
        last = max(wanted, default=self.first)
        lower = self if last == self.last or self.family.entry else replace(self, last=last)
        return lower._run(batch, wanted, reduce, hidden, part)

    def _refuse_cutting(self) -> None:
        """Raise for a model whose upper blocks cannot be run from hidden states."""
        half = self.family.kind == "encoder-decoder"
        require(not half, f"{self.name} is an encoder-decoder: its cuts can be read, but it cannot be sliced")
        pieces = "its embeddings are not one module, or its blocks differ"
        require(self.family.cuts, f"{self.name} can be read, but not sliced: {pieces}")

    def cuts_of(self, part: Part) -> range:
        """The cuts at which a part can be read: attention exists inside blocks only, so not at the first cut."""
        if part == "states":
            return self.cuts
        if self.family.attention is None:
            raise InputError(f"{self.name} is a {self.family.kind}: of its blocks only the states are read")
        return self.cuts[1:]

    def read_table(self, table: Mapping[str, Tensor], hidden: Tensor | None = None) -> Tensor:
        """The states of the last cut, (rows * length, width), of texts laid out one or several to a row.

        table: ids, and what `table_arguments` takes, (rows, length) each. hidden (rows, length, width) replaces the ids
        as input at `first`. There is no device synchronisation, and shapes depend on shapes alone.
        """
        given = table_arguments(self.model, self.family, table)
        if hidden is None:
            states: Tensor = self._in_mode(self._body)(input_ids=table["ids"], **given)[0]
        elif self.first == self.last:
            states = hidden
        else:
            given.pop("token_type_ids", None)  # an input of the embeddings, which are skipped
            states = self._in_mode(self._body_from_hidden)(inputs_embeds=hidden, **given)[0]
        return states.flatten(0, 1)

    def head_input(self, top: Tensor) -> Tensor:
        """The input of a head: the top cut, after the final norm if the model has one."""
        if self.family.norm is None:
            return top
        normed: Tensor = self.model.get_submodule(self.family.norm)(top)
        return normed.to(top.device)  # the norm of a split model may be on another GPU

    @property
    def _run_blocks(self) -> list[nn.Module]:
        """The blocks of this slice; if it has none, the next block for families that may need one to run."""
        if self.blocks or self.family.head:  # the trainable families run their embeddings alone
            return self.blocks
        return list(self.model.get_submodule(self.family.blocks))[self.first : self.first + 1]

    @cached_property
    def _body(self) -> nn.Module:
        """The model with only this slice's modules; weights are shared, not copied."""
        body = graft(self.model, self.family.blocks, nn.ModuleList(self._run_blocks))
        if self.family.norm is not None:
            body = graft(body, self.family.norm, nn.Identity())
        if "pooler" in body._modules:
            body._modules["pooler"] = None
        return body

    @cached_property
    def _body_from_hidden(self) -> nn.Module:
        """The same with the embeddings skipped."""
        body = graft(self._body, self.family.embeddings[0], _Given())
        for path in self.family.embeddings[1:]:
            if path in body._modules:
                body = graft(body, path, nn.Identity())
        return body

    def _in_mode(self, body: nn.Module) -> nn.Module:
        """Set a body to the model's training mode of the moment: its modules around the swapped ones are copies."""
        swapped = self.family.blocks, self.family.norm or "", self.family.embeddings[0]
        for around in {"", *(path[: dot.start()] for path in swapped for dot in re.finditer(r"\.", path))}:
            copied, mode = body.get_submodule(around), self.model.get_submodule(around).training
            if copied.training != mode:
                copied.training = mode
        return body

    def _run(self, batch: Batch, wanted: set[int], reduce: Reduce, hidden: Tensor | None, part: Part) -> dict[int, Any]:
        results: dict[int, Any] = {}
        pack = self.packs
        lengths = batch.lengths
        longest = int(lengths.max())
        mask: Tensor | None = None
        if not pack and int(lengths.min()) != longest:
            mask = torch.arange(longest, device=lengths.device)[None, :] < lengths[:, None]  # (sentences, longest)

        def spread(flat: Tensor) -> Tensor:
            """(tokens, ...) -> (1, tokens, ...) packed, (sentences, longest, ...) padded."""
            if pack:
                return flat.unsqueeze(0)
            if mask is None:
                return flat.reshape(len(lengths), longest, *flat.shape[1:])
            padded = flat.new_zeros((len(lengths), longest, *flat.shape[1:]))
            padded[mask] = flat
            return padded

        top = len(self.model.get_submodule(self.family.blocks)) if self.normed else -1

        def keep(cut: int, states: Tensor) -> None:
            states = (self.head_input(states) if cut == top else states).to(lengths.device)  # blocks may be elsewhere
            if pack:
                results[cut] = reduce(cut, states[0])
            else:
                results[cut] = reduce(cut, states.flatten(0, 1) if mask is None else states[mask])
            if not self.blocks:
                raise _Reached

        inputs: dict[str, Any] = {"attention_mask": None if mask is None else mask.long()}
        if hidden is None:
            body, inputs["input_ids"] = self._in_mode(self._body), spread(batch.ids)
        else:
            body, inputs["inputs_embeds"] = self._in_mode(self._body_from_hidden), spread(hidden)
        if pack:
            inputs |= packed_inputs(self.model, self.family, lengths)
        if hidden is None and batch.types is not None and tells_types(self.model, self.family):
            inputs["token_type_ids"] = spread(batch.types)  # instead of the zeros of packed inputs
        if self.causal:
            inputs |= without_cache(self.model)
        attention = self.family.attention if part == "attention" else None
        entry = None if self.family.entry is None else self.model.get_submodule(self.family.entry)
        hooks = reading(self._run_blocks, wanted, first=self.first, keep=keep, attention=attention, entry=entry)
        with packed(body) if pack else nullcontext(), hooks, suppress(_Reached):
            out = body(**inputs)
            if self.first == self.last and self.first in wanted:  # a model that has no block at all
                keep(self.first, out[0])
        return results


class Chain:
    """Slices joined with maps between them, which run as one stack: `chain(dutch[:4], rotation, english[4:])`.

    The first part takes text, each other part the output of the one before it (its embeddings are skipped); a map is
    any function (tokens, width) -> (tokens, width). Cuts are numbered from 0 throughout; at a map, the cut is its
    output, which is the input of the next block.

    steps: slices and maps in order; parts: the slices. tokenizer: that of the first part. max_length: maximum tokens of
    a sentence. model: all modules together, for switching modes. packs: whether every part runs packed.
    """

    def __init__(self, *steps: Stack | Callable[[Tensor], Tensor]) -> None:
        if not steps or not isinstance(steps[0], Stack) or not steps[0].embeds:
            raise InputError("a chain begins with a slice that takes text, as in chain(a[:4], rotation, b[4:])")
        self.steps, self.parts = steps, [step for step in steps if isinstance(step, Stack)]
        widths = {part.width for part in self.parts}
        if len(widths) > 1:
            raise InputError(f"the parts of a chain must be equally wide, not {' and '.join(map(str, sorted(widths)))}")
        self.tokenizer, self.width, self.device = steps[0].tokenizer, steps[0].width, steps[0].device
        self.name = " + ".join(f"{part.name}[{part.first}:{part.last}]" for part in self.parts)
        self.cuts = range(sum(len(part.blocks) for part in self.parts) + 1)
        self.max_length = min(part.max_length for part in self.parts)
        self.packs = all(part.packs for part in self.parts)
        self.notes = tuple(note for part in self.parts for note in part.notes)
        modules = [step.model if isinstance(step, Stack) else step for step in steps]
        self.model = nn.ModuleList(module for module in modules if isinstance(module, nn.Module))

    @property
    def fingerprint(self) -> str:
        """A hash of the parts and of the maps that are modules; of a map that is a plain function, only of its name."""
        digest = hashlib.sha256("".join(part.fingerprint for part in self.parts).encode())
        for apply in (step for step in self.steps if not isinstance(step, Stack)):
            digest.update(getattr(apply, "__qualname__", type(apply).__qualname__).encode())
            if isinstance(apply, nn.Module):
                hash_weights(digest, apply)
        return digest.hexdigest()

    def cuts_of(self, part: Part) -> range:
        """The cuts at which a part can be read; the only part of a chain is the states."""
        require(part == "states", "of a chain only the states are read; read the attention of its parts one by one")
        return self.cuts

    def read(
        self, batch: Batch, layers: Sequence[int] | None = None, *, reduce: Reduce = lambda cut, states: states
    ) -> dict[int, Any]:
        """Run a batch and reduce each requested cut as soon as it is computed; see `Stack.read`."""
        wanted = set(self.cuts if layers is None else layers)
        if not wanted <= set(self.cuts):
            raise InputError(f"{self.name} has cuts 0 to {self.cuts[-1]}, not {sorted(wanted - set(self.cuts))}")

        def keep(inside: Mapping[int, int], cut: int, states: Tensor) -> Any:
            return reduce(inside[cut], states) if cut in inside else states

        results: dict[int, Any] = {}
        hidden: Any = None
        end = 0  # the cut of the chain after the steps so far
        for step in self.steps:
            if not isinstance(step, Stack):
                hidden = step(hidden)
                continue
            if end in wanted and hidden is not None:
                results[end] = reduce(end, hidden)
            begin = step.first if hidden is None else step.first + 1
            inside = {
                cut: cut - step.first + end for cut in range(begin, step.last) if cut - step.first + end in wanted
            }
            states = step.read(batch, [*inside, step.last], reduce=partial(keep, inside), hidden=hidden)
            hidden = states.pop(step.last)
            results |= {inside[cut]: reduced for cut, reduced in states.items()}
            end += step.last - step.first
        if end in wanted:
            results[end] = reduce(end, hidden)
        return results


chain = Chain


@contextmanager
def reading(
    blocks: Sequence[nn.Module],
    wanted: set[int],
    *,
    first: int,
    keep: Callable[[int, Tensor], None],
    attention: str | None = None,
    entry: nn.Module | None = None,
) -> Iterator[None]:
    """Hook the blocks, so that a forward pass inside the block calls `keep` with every wanted cut once computed.

    first: the cut below the first block. entry: the module whose input is that cut, by default the first block.
    attention: path within a block of a module whose output is read instead of the block's; the first cut, below all
    blocks, cannot be wanted then.
    """
    handles = []

    def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        keep(first, args[0] if args else kwargs["hidden_states"])

    def after(cut: int, _: nn.Module, __: Any, output: Any) -> None:
        keep(cut, output[0] if isinstance(output, tuple) else output)

    try:
        if blocks and first in wanted:
            handles.append((entry or blocks[0]).register_forward_pre_hook(before, with_kwargs=True))
        for cut, block in enumerate(blocks, first + 1):
            if cut in wanted:
                inner = block if attention is None else block.get_submodule(attention)
                handles.append(inner.register_forward_hook(partial(after, cut)))
        yield
    finally:
        for handle in handles:
            handle.remove()


def whole_stack(model: Any, family: Family, tokenizer: Any, name: str | Path) -> Stack:
    """Create the stack of a whole model."""
    return Stack(
        model, family, tokenizer=tokenizer, name=str(name), first=0, last=len(model.get_submodule(family.blocks))
    )


def layer_list(text: str | Sequence[int] | None, stack: Stack | Chain) -> tuple[int, ...] | None:
    """Parse cuts such as `0,4,8-12` into sorted numbers, each checked against the stack."""
    if text is None:
        return None
    cuts: set[int] = set()
    for part in text.split(",") if isinstance(text, str) else map(str, text):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d*)\s*)?", part)
        if match is None:
            raise InputError(f"--layers takes numbers as in 0,4,8-12, not {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        require(last >= first, f"--layers {part} runs backwards; write {last}-{first}")
        wrong = first if first not in stack.cuts else last
        require(wrong in stack.cuts, f"{stack.name} has layers 0 to {stack.cuts[-1]}; --layers asks for {wrong}")
        cuts.update(range(first, last + 1))
    return tuple(sorted(cuts))


def device_of(model: nn.Module) -> torch.device:
    """The device on which a model computes, and to which weights offloaded by accelerate are moved in turn."""
    name, weight = next(model.named_parameters())
    return torch.device(_offloading(model, name).execution_device) if weight.is_meta else weight.device


def weight_of(model: nn.Module, name: str) -> Tensor:
    """A weight of a model by its name; one offloaded to memory or disk is read from there."""
    weight: Tensor = operator.attrgetter(name)(model)
    return _offloading(model, name).weights_map[name.rpartition(".")[2]] if weight.is_meta else weight


def _offloading(model: nn.Module, name: str) -> Any:
    """The hook that accelerate has added to the module of a weight."""
    return model.get_submodule(name.rpartition(".")[0])._hf_hook


def measuring_device(device: torch.device) -> torch.device:
    """The device for comparing vectors of a model on `device`: a CUDA GPU, or the CPU, which has double precision."""
    return device if device.type == "cuda" else torch.device("cpu")


def first_position(model: Any, family: Family) -> int:
    """The position of a text's first token: after the padding index in the families that reserve it, else 0."""
    after_padding = family.first_position == "padding"
    return int(model.get_submodule(family.embeddings[0]).padding_idx) + 1 if after_padding else 0


def tells_types(model: Any, family: Family) -> bool:
    """Whether the embeddings distinguish the second sentence of a pair from the first."""
    return family.token_types and getattr(model.config, "type_vocab_size", 1) > 1


def packed_inputs(model: Any, family: Family, lengths: Tensor) -> dict[str, Any]:
    """The arguments that tell a base model where packed sentences begin: lengths (sentences,)."""
    borders = torch.nn.functional.pad(torch.cumsum(lengths, 0), (1, 0))  # (sentences + 1,)
    begun = torch.repeat_interleave(borders[:-1], lengths)  # (tokens,)
    positions = torch.arange(len(begun), device=lengths.device) - begun + first_position(model, family)
    types = {"token_type_ids": torch.zeros_like(positions)[None]} if family.token_types else {}
    return {"position_ids": positions[None], "cu_seq_lens_q": borders, "max_length_q": int(lengths.max())} | types


def table_arguments(model: Any, family: Family | None, table: Mapping[str, Tensor]) -> dict[str, Any]:
    """The arguments of a base model for rows of texts, in which no text attends to another.

    family: None for a model without a row in the table of families, which takes one text a row.

    table: (rows, length) each. With several texts a row: texts, the index of each token's text, and positions. With one
    text a row: attention, 1 for text and 0 for padding, and positions if they are not 0, 1, 2, ... For pairs: types,
    which mark the second side. None of these is needed if every row is one text without padding.
    """
    given: dict[str, Any] = {"attention_mask": table.get("attention")}
    if family is None:
        return given | without_cache(model)
    if family.kind == "decoder":
        given["use_cache"] = False
    if "texts" in table:
        texts = table["texts"]
        mask = (texts[:, :, None] == texts[:, None, :])[:, None]  # (rows, 1, length, length)
        mask = mask.tril() if family.kind == "decoder" else mask
        given["attention_mask"] = whole = _added(mask, model)
        if window := getattr(model.config, "sliding_window", None):  # for layers with local attention
            places = torch.arange(texts.shape[1], device=texts.device)  # a text is contiguous
            near = (places[:, None] - places).abs() <= window
            given["attention_mask"] = {"full_attention": whole, "sliding_attention": _added(mask & near, model)}
    if "positions" in table:
        given["position_ids"] = table["positions"] + first_position(model, family)
    if "types" in table and tells_types(model, family):
        given["token_type_ids"] = table["types"]
    return given


def _added(mask: Tensor, model: Any) -> Tensor:
    """What attention adds to scores for a mask, in its own precision; torch would convert the mask in every layer."""
    kind = mask.device.type
    half = torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else model.dtype
    return torch.zeros_like(mask, dtype=half).masked_fill(~mask, -torch.inf)


@contextmanager
def measuring(model: nn.Module) -> Iterator[None]:
    """Evaluation mode and no gradients inside the block; afterwards, every module's mode is restored."""
    modes = {module: module.training for module in model.modules()}
    try:
        if any(modes.values()):  # setting an attribute of a module is slow, and seldom necessary
            model.eval()
        with torch.inference_mode():
            yield
    finally:
        for module, mode in modes.items():
            if module.training != mode:
                module.training = mode


def graft(module: nn.Module, path: str, new: nn.Module) -> nn.Module:
    """A copy of a module with the submodule at `path` replaced and everything else shared."""
    head, _, rest = path.partition(".")
    twin: Any = copy.copy(module)
    twin._modules = dict(module._modules)
    if hasattr(module, "_hf_hook"):  # of accelerate, which would call the original's forward
        twin._old_forward = MethodType(twin._old_forward.__func__, twin)
        twin.forward = partial(twin.forward.func, twin)
    inner = module._modules[head]
    assert inner is not None
    twin._modules[head] = graft(inner, rest, new) if rest else new
    return twin


def hash_tokenizer(digest: Any, tokenizer: Any) -> None:
    """Update a hash with the definition of a tokenizer; of a slow one, with its vocabulary."""
    if tokenizer.is_fast:
        known = json.loads(tokenizer.backend_tokenizer.to_str())
        known |= {"truncation": None, "padding": None}  # options of the last call, not part of the tokenizer
    else:
        known = tokenizer.get_vocab()
    digest.update(json.dumps(known, sort_keys=True).encode())


def hash_weights(digest: Any, model: nn.Module, *, but: str = "") -> None:
    """Update a hash with every weight of a model, sorted by name, except those whose name begins with `but`.

    Weights are hashed in pieces, side by side: hashlib lets other threads run meanwhile. A weight is read, or made
    contiguous, as a whole, and the next one only when few of its pieces are left.
    """
    weights = [entry for entry in sorted(model.state_dict().items()) if not but or not entry[0].startswith(but)]
    pieces: deque[tuple[str, Future[bytes]]] = deque()
    with ThreadPoolExecutor() as pool:

        def finish(most: int) -> None:
            while len(pieces) > most:
                name, piece = pieces.popleft()
                digest.update(name.encode() + piece.result())

        for number, (name, weight) in enumerate(weights, 1):
            values = (weight_of(model, name) if weight.is_meta else weight).detach().reshape(-1)
            for part in values.split(HASHED):
                pieces.append((name, pool.submit(_digest, part)))
                finish(HASHED_TOGETHER)
            progress("hashing the weights", number, len(weights))
        finish(0)


def _digest(values: Tensor) -> bytes:
    """The hash of the bytes of values (n,)."""
    return hashlib.sha256(values.cpu().view(torch.uint8).numpy().data).digest()


class _Reached(Exception):
    """Stops a forward pass once the last requested cut has been read."""


class _Given(nn.Module):
    """Replaces the embeddings and returns the given states."""

    def forward(self, *args: Any, inputs_embeds: Tensor | None = None, **_: Any) -> Tensor:
        """Return `inputs_embeds`, a keyword or the second positional argument."""
        given = args[1] if inputs_embeds is None else inputs_embeds
        assert isinstance(given, Tensor)
        return given

"""`OCELoss`, a criterion that weighs the bad samples more, and `MemoryOCELoss`, a remedy for small batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from certeq._checks import check_count
from certeq.torch._checks import Dim, as_weights, check_utility, check_values, check_weights, normalize_dim
from certeq.torch._functional import oce, pool_losses, threshold
from certeq.torch._ranks import check_process_group
from certeq.torch._tensor import TORCH, is_traced
from certeq.utilities import Risk, Utility

Base = Callable[..., Tensor]


class OCELoss(nn.Module):
    r"""Optimized certainty equivalent of per-sample losses, :math:`\min_t\, t + \sum_i w_i u(x_i - t)`.

    Without ``base`` it takes losses; with ``base`` it takes ``(input, target)``, or whatever else the base takes, as
    any criterion does, so that PyTorch, Lightning and skorch use it unchanged. A thin shell over `certeq.torch.oce`.

    Parameters
    ----------
    utility : Risk
        Risk measure, for instance ``CVaR(0.05)``. Parameters of it that are ``nn.Parameter`` are registered here
        and learned with the rest; what is registered counts, whoever has put it there (``load_state_dict``,
        ``torch.func.functional_call``, a parametrization). May be set to another one later.
    base : callable, optional
        A loss that does not reduce, ``base(input, target)`` with one loss per sample, for instance
        ``nn.CrossEntropyLoss(reduction="none")``. Bases of three arguments, such as ``nn.TripletMarginLoss`` and
        ``nn.GaussianNLLLoss``, are called with all that the criterion is called with.
    dim : int or tuple of int, optional
        Where the samples run; None takes all entries together.
    allow_inf, validate : bool
        As in `certeq.torch.oce`.
    process_group : ProcessGroup or "world", optional
        The ranks whose losses make one batch. ``"world"`` is looked up when the loss is called, so that it may be
        written before the group exists, as in a LightningModule; ``torch.distributed.group.WORLD`` is None until then.

    See Also
    --------
    MemoryOCELoss
        OCE with a threshold from recent batches, for small batches.
    oce
        OCE of a tensor of losses, with gradients.

    Notes
    -----
    **Shapes.** The input has any shape :math:`(*)`, or that which ``base`` takes; the output is a scalar, or
    :math:`(*)` without ``dim``.

    A mini-batch sees less of the tail than the whole data: see `MemoryOCELoss` for the size of that bias and a remedy.

    **Targets that are ignored, and class weights.** With ``utility=Mean()`` the value is what ``reduction="mean"`` of
    the base gives, and every other utility sees the same samples. For ``nn.CrossEntropyLoss`` and ``nn.NLLLoss`` with
    classes as targets that means: a target equal to ``ignore_index`` (-100 unless set) is no sample, and the ``weight``
    of a class is the weight of its samples, not a factor of their losses; label smoothing is included. A base of your
    own that has an ``ignore_index`` is read the same way where its losses have the shape of the targets. Everywhere
    else (targets that are probabilities; ``weight`` and ``pos_weight`` of ``nn.BCEWithLogitsLoss``, of
    ``nn.MultiMarginLoss``) PyTorch's mean does not divide by the weights, and they remain factors of the losses. What
    a function hides (``lambda output, y: cross_entropy(output, y, reduction="none")``) cannot be seen: pass the module,
    or ``functools.partial(cross_entropy, reduction="none")``, or a mask as ``weight``.

    **On several ranks** pass ``process_group="world"`` and use the loss with DistributedDataParallel or Lightning's
    ``ddp`` as on one: after their averaging, gradients are those of one process on the concatenated batch, whatever
    the sizes of the shards. The value is the OCE of that batch, on every rank. See `certeq.torch.oce`, and
    ``torchrun --nproc-per-node 2 examples/torchrun_oce.py``.

    **Accumulating gradients** over parts of a batch: OCEs of the parts do not add up to that of the batch. Two passes
    are exact; the first, without gradients, finds the tilt of the whole batch (of all ranks), the second uses it as
    fixed weights. The network must give the same losses in both (mind dropout)::

        with torch.no_grad():
            found = [criterion.samples(net(x), y) for x, y in parts]
        # Without weights the losses alone; on one process without process_group.
        losses, weights = (torch.cat(of_parts) for of_parts in zip(*found))
        q = tilt(losses, utility, weight=weights, process_group="world")
        shares = q.split([len(part) for part, _ in found])
        for i, ((x, y), q_part) in enumerate(zip(parts, shares)):
            with net.no_sync() if i + 1 < len(parts) else nullcontext():
                (world_size * (q_part * criterion.losses(net(x), y)).sum()).backward()
        optimizer.step()

    Not for a ``base`` that reduces: one that returns a single number is refused, and one that reduces over the batch
    alone (a mean over samples for each output) would hand over outputs as if they were samples, which nothing here can
    see. Not with more entries than samples either, unless every entry counts as one: a base that returns (N, k) losses
    is to be summed over its own dimensions first.

    References
    ----------
    Levy, Carmon, Duchi and Sidford (2020), Large-scale methods for distributionally robust optimization,
    arXiv:2010.05893.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import OCELoss
    >>> criterion = OCELoss(ce.CVaR(0.5), base=torch.nn.MSELoss(reduction="none"))
    >>> criterion(torch.tensor([0.0, 1.0, 2.0, 3.0]), torch.zeros(4))
    tensor(6.5000)
    """

    _utility: Risk
    _learned: dict[str, Any]  # its parameters by the names they are registered under

    def __init__(
        self,
        utility: Risk,
        base: Base | None = None,
        *,
        dim: Dim = None,
        allow_inf: bool = False,
        validate: bool = True,
        process_group: Any = None,
    ) -> None:
        super().__init__()
        check_base(base)
        check_process_group(process_group)
        self.utility = utility
        self.base = base
        self.dim = dim
        self.allow_inf = allow_inf
        self.validate = validate
        self.process_group = process_group

    @property
    def utility(self) -> Risk:
        """What risk means; its learned parameters are those registered here, whoever has put them there."""
        if not self._learned:
            return self._utility
        present = {name: getattr(self, name) for name in self._learned}
        if all(present[name] is item for name, item in self._learned.items()):
            return self._utility
        # load_state_dict(assign=True), functional_call, parametrizations and some conversions replace them.
        others = {id(item): present[name] for name, item in self._learned.items()}
        found = self._utility._with_parameters(lambda item: others.get(id(item), item))
        if all(isinstance(item, nn.Parameter) for item in present.values()):  # here to stay
            self._utility, self._learned = found, present
        return found

    @utility.setter
    def utility(self, utility: Risk) -> None:
        check_utility(utility)
        params = {f"utility_{name}": item for name, item in utility.get_params().items()}
        learned = {name: item for name, item in params.items() if isinstance(item, nn.Parameter)}
        if not any(item.is_meta for item in learned.values()):  # which have no values yet
            _search_now(utility)
        for name in self.__dict__.get("_learned", ()):
            delattr(self, name)
        for name, item in learned.items():
            self.register_parameter(name, item)
        self._utility, self._learned = utility, learned

    def forward(self, input: Any, target: Any = None, *more: Any, weight: Tensor | None = None) -> Tensor:
        """OCE of ``input``, or of ``base(input, target, ...)``.

        Parameters
        ----------
        input : Tensor
            Losses, or what ``base`` takes as its first argument.
        target : Tensor, optional
            Second argument of ``base``; None without a base.
        *more : Tensor
            Further arguments of ``base``.
        weight : Tensor, optional
            Weights or a mask of the samples, as of `certeq.torch.oce`.

        Returns
        -------
        Tensor
            OCE of the samples.
        """
        losses, own = self._samples(self.process_group is None, input, target, *more)
        if own is not None:
            weight = self._times(own, weight, losses)
        return self._reduce(losses, weight)

    def losses(self, input: Any, target: Any = None, *more: Any) -> Tensor:
        """The per-sample losses that `forward` reduces, without the class weights of the base.

        Parameters
        ----------
        input : Tensor
            Losses, or what ``base`` takes as its first argument.
        target : Tensor, optional
            Second argument of ``base``; None without a base.
        *more : Tensor
            Further arguments of ``base``.

        Returns
        -------
        Tensor
            One loss per sample.
        """
        return self.samples(input, target, *more)[0]

    def samples(self, input: Any, target: Any = None, *more: Any) -> tuple[Tensor, Tensor | None]:
        """The per-sample losses that `forward` reduces, and their weights, or None where the base has none.

        Parameters
        ----------
        input : Tensor
            Losses, or what ``base`` takes as its first argument.
        target : Tensor, optional
            Second argument of ``base``; None without a base.
        *more : Tensor
            Further arguments of ``base``.

        Returns
        -------
        losses : Tensor
            One loss per sample.
        weights : Tensor or None
            Their weights, as class weights and ignored targets of the base give them.
        """
        return self._samples(False, input, target, *more)

    def _samples(self, briefly: bool, input: Any, target: Any, *more: Any) -> tuple[Tensor, Tensor | None]:
        """Losses and weights; where ``briefly``, None for a mask that masks nothing."""
        base = self.base  # a module finds its modules slowly
        if base is None:
            if target is not None:
                raise TypeError("OCELoss was given a target but has no base; pass base=, a loss with reduction='none'.")
            return input, None
        if target is None:
            raise TypeError(f"OCELoss with base={_name(base)} needs a target: call it as criterion(input, target).")
        found = base(input, target, *more)
        if isinstance(found, Tensor) and found.ndim == 0:
            raise ValueError(
                f"base must return one loss per sample; {_name(base)} returned a single number. It already "
                "reduces: construct it with reduction='none'."
            )
        options = _options_of(base)
        return (found, None) if options is None else _as_samples(found, target, options, briefly)

    def _times(self, own: Tensor, weight: Tensor | None, losses: Tensor) -> Tensor:
        """The weights of the base times those of the caller."""
        if weight is None:
            return own
        try:
            return own * as_weights(weight, losses, normalize_dim(self.dim, losses.ndim))
        except (TypeError, ValueError, IndexError):
            return weight  # for the reduction to refuse, which tells the other ranks of it

    def _reduce(self, losses: Tensor, weight: Tensor | None) -> Tensor:
        return oce(
            losses,
            self.utility,
            weight=weight,
            dim=self.dim,
            allow_inf=self.allow_inf,
            validate=self.validate,
            process_group=self.process_group,
        )

    def extra_repr(self) -> str:
        """The utility, and what differs from the defaults.

        Returns
        -------
        str
            What ``print`` shows between the brackets.
        """
        ranks = "" if self.process_group is None else f", process_group={self.process_group!r}"
        return f"{self.utility!r}" + ("" if self.dim is None else f", dim={self.dim}") + ranks


class MemoryOCELoss(OCELoss):
    r"""OCE of a batch, with the threshold t solved on the batch and the losses of recent batches together.

    OCE of m samples is too low on average, by :math:`\mathrm{Var}(u')/(2 m E[u''])` for a smooth utility and
    :math:`(1-\alpha)/(2 m f(t^*))` for CVaR, because t is fitted to the very samples it is judged by. The gradient
    has the same fault, and no averaging over batches mends it. Here t comes from ``memory`` samples and the loss is
    :math:`t + \frac1m \sum_i u(x_i - t)`, whose bias is of the other sign and of order 1/memory.

    What is saved in bias is paid for in variance. Standard normal losses, a memory of 1024: bias of the value; bias and
    standard deviation of the derivative with respect to the scale of the losses, of OCELoss and of this loss; share of
    batches without gradient (10,000 to 20,000 batches).

    ===========  =====  ====================  =======================  ================
    utility      batch  OCELoss               MemoryOCELoss            without gradient
    ===========  =====  ====================  =======================  ================
    CVaR(0.05)   4      -1.05, -51 %, 0.70    -0.02, -4 %, 4.46        82 %
    CVaR(0.05)   16     -0.29, -14 %, 0.55    0.00, +0.6 %, 2.29       44 %
    CVaR(0.05)   64     -0.07, -3.4 %, 0.30   0.00, -0.4 %, 1.10       3 %
    Entropic(1)  16     -0.05, -13 %, 0.44    0.00, -0.2 %, 0.88       0 %
    Entropic(1)  64     -0.01, -3.6 %, 0.26   0.00, +0.1 %, 0.43       0 %
    ===========  =====  ====================  =======================  ================

    Parameters
    ----------
    utility : Utility
        Risk measure.
    base : callable, optional
        A loss that does not reduce, called as ``base(input, target)``.
    memory : int
        How many past losses to keep. Losses fall during training, and a memory of stale, larger ones puts t too
        high: some ten to fifty batches are enough.
    allow_inf, validate : bool
        As in `certeq.torch.oce`. Of a batch with a loss that is not finite nothing is stored.
    process_group : ProcessGroup or "world", optional
        As in `OCELoss`: batch and memory are those of all ranks, and the memory is the same on each.

    See Also
    --------
    OCELoss
        OCE as a criterion for training.
    GrowingBatchSampler
        Batches of growing size for a DataLoader.

    Notes
    -----
    In training mode each call stores its (detached) losses; in evaluation mode nothing is stored or used and the
    plain OCE of the batch is returned. The weights of a batch no longer sum to 1: for CVaR a batch without a loss
    beyond t has gradient 0, and one with many has a large one. The memory is a buffer and goes into ``state_dict``.
    Weights, class weights and ignored targets are those of `OCELoss`; the memory keeps the weights with the losses, so
    they should be of one scale from batch to batch.

    **Shapes.** The input has any shape :math:`(*)`, or that which ``base`` takes, and all entries are samples; the
    output is a scalar.

    Not for batches of thousands, whose bias is small anyway, nor while losses fall fast: stale ones put t too high. Not
    for batches with less than one sample in the tail (CVaR(0.05) of fewer than 20): their steps are so noisy that they
    diverge at rates at which those of `OCELoss` do not. Not for a network trained at a constant rate, to which the
    noise does more harm than the bias. Larger batches are the better remedy wherever they can be had.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import MemoryOCELoss
    >>> criterion = MemoryOCELoss(ce.CVaR(0.5), memory=4)
    >>> criterion(torch.tensor([1.0, 2.0]))
    tensor(2.)
    >>> criterion(torch.tensor([3.0, 4.0]))  # t = 2 from all four: 2 + mean((1, 2))/0.5
    tensor(5.)
    """

    bank: Tensor
    bank_weight: Tensor
    filled: Tensor
    place: Tensor

    def __init__(
        self,
        utility: Utility,
        base: Base | None = None,
        *,
        memory: int = 1024,
        allow_inf: bool = False,
        validate: bool = True,
        process_group: Any = None,
    ) -> None:
        if isinstance(utility, Risk) and not isinstance(utility, Utility):
            raise TypeError(
                f"utility must be a Utility: the memory gives a threshold, and {utility!r} has other inner variables "
                "as well. Use OCELoss, with a larger batch."
            )
        super().__init__(utility, base, allow_inf=allow_inf, validate=validate, process_group=process_group)
        self.memory = check_count("memory", memory)
        self.register_buffer("bank", torch.zeros(memory))
        self.register_buffer("bank_weight", torch.ones(memory))
        self.register_buffer("filled", torch.zeros((), dtype=torch.int64))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    def forward(self, input: Any, target: Any = None, *more: Any, weight: Tensor | None = None) -> Tensor:
        """The loss of a batch; stores it in training mode.

        Parameters
        ----------
        input : Tensor
            Losses, or what ``base`` takes as its first argument.
        target : Tensor, optional
            Second argument of ``base``; None without a base.
        *more : Tensor
            Further arguments of ``base``.
        weight : Tensor, optional
            Weights or a mask of the samples, as of `certeq.torch.oce`.

        Returns
        -------
        Tensor
            The loss, a scalar.
        """
        losses, own = self.samples(input, target, *more)
        weight = weight if own is None else self._times(own, weight, losses)
        if not self.training:
            return self._reduce(losses, weight)
        losses, weight = pool_losses(losses, self.utility, weight, self.allow_inf, self.validate, self.process_group)
        if self.validate:
            if weight is not None:
                check_weights(weight, tuple(range(losses.ndim)))
            check_values(losses, self.allow_inf, weight)
        x = losses.reshape(-1)
        x = x if x.dtype in (torch.float32, torch.float64) else x.float()
        w = torch.ones_like(x) if weight is None else weight.detach().reshape(-1).to(x.dtype)
        if weight is not None:
            x, w = x[w > 0], w[w > 0]  # a loss without weight is no sample, and is not stored
        if not bool((torch.isfinite(x) & torch.isfinite(w)).all()):  # a GradScaler skips the step
            return oce(x, self.utility, weight=w, allow_inf=True, validate=False).to(losses.dtype)
        if int(self.filled) == 0:  # all that there is to say of the very first batch
            self._store(x, w)
            return oce(x, self.utility, weight=w, validate=self.validate).to(losses.dtype)
        past = self.bank[: int(self.filled)].to(x, copy=True)  # storing the batch overwrites the oldest of them
        past_weight = self.bank_weight[: int(self.filled)].to(x, copy=True)
        self._store(x, w)
        known, known_weight = torch.cat([x.detach(), past]), torch.cat([w, past_weight])
        t = threshold(known, self.utility, weight=known_weight, validate=self.validate).detach()
        utility = self.utility
        assert isinstance(utility, Utility)
        over: Tensor = utility._value(x - t, TORCH)
        return (t + (over.mean() if weight is None else (w * over).sum() / w.sum())).to(losses.dtype)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        saved = state_dict.get(f"{prefix}bank")
        if isinstance(saved, Tensor):
            if saved.dtype == torch.float64:
                # Or the digits that `_store` keeps would be lost here.
                self.bank, self.bank_weight = self.bank.double(), self.bank_weight.double()
            state_dict.setdefault(f"{prefix}bank_weight", torch.ones_like(saved))  # of a build that had no weights
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forget(self) -> None:
        """Empty the memory, for instance when the learning rate or the data change."""
        self.filled.zero_()
        self.place.zero_()

    @torch.no_grad()
    def _store(self, losses: Tensor, weight: Tensor) -> None:
        if losses.dtype == torch.float64 and self.bank.dtype != torch.float64:
            # At an offset of 1e9 a float32 has no digits left for the losses.
            self.bank, self.bank_weight = self.bank.double(), self.bank_weight.double()
        new = losses.detach()[-self.memory :].to(self.bank)
        indices = (torch.arange(new.numel(), device=new.device) + self.place) % self.memory
        self.bank[indices], self.bank_weight[indices] = new, weight[-self.memory :].to(self.bank)
        self.place.copy_((self.place + new.numel()) % self.memory)
        self.filled.copy_((self.filled + new.numel()).clamp(max=self.memory))

    def extra_repr(self) -> str:
        """The utility and the memory.

        Returns
        -------
        str
            What ``print`` shows between the brackets.
        """
        return f"{self.utility!r}, memory={self.memory}"


def _search_now(utility: Risk) -> None:
    """A sum whose slopes never reach 1 says so here, and compiled code finds known what takes a search."""
    if not isinstance(utility, Utility):
        return
    utility.anchor, utility.kinks  # noqa: B018
    inner = getattr(utility, "utility", None)
    if isinstance(inner, Utility):
        _search_now(inner)


class _Options(NamedTuple):
    """What a base says about its targets."""

    ignore_index: int
    class_weight: Tensor | None = None
    label_smoothing: float = 0.0


def _options_of(base: object) -> _Options | None:
    """Of PyTorch's losses over classes, as modules or as partial functions; else at most an ``ignore_index``."""
    if isinstance(base, (nn.CrossEntropyLoss, nn.NLLLoss)):
        # The buffer by its dictionary: a module finds its buffers slowly.
        return _Options(base.ignore_index, base._buffers["weight"], getattr(base, "label_smoothing", 0.0))
    if isinstance(base, partial) and base.func in (functional.cross_entropy, functional.nll_loss):
        given = base.keywords
        return _Options(given.get("ignore_index", -100), given.get("weight"), given.get("label_smoothing", 0.0))
    # Not by getattr, which takes a module longer to deny than the rest of this function takes.
    ignore_index = getattr(base, "__dict__", {}).get("ignore_index", getattr(type(base), "ignore_index", None))
    return _Options(ignore_index) if isinstance(ignore_index, int) else None


def _as_samples(losses: Tensor, target: Any, options: _Options, briefly: bool) -> tuple[Tensor, Tensor | None]:
    """Losses and weights whose weighted mean is what PyTorch's ``reduction="mean"`` gives.

    That is the sum of the losses, which are multiplied by the class weights, over the sum of the class weights of those
    targets that are not ignored. Probabilities as targets are never ignored, and their mean is the plain one.
    """
    ignore_index, class_weight, _ = options
    if not isinstance(target, Tensor) or target.is_floating_point():
        return losses, None
    if briefly and class_weight is None and _are_all_classes(target, ignore_index):
        return losses, None
    if not isinstance(losses, Tensor) or target.shape != losses.shape:
        return losses, None
    target = target.long()  # bytes would be compared modulo 256
    counts = target != ignore_index
    if class_weight is None:
        return losses, counts
    weight = class_weight.take(torch.where(counts, target, 0)) * counts
    # Without weight a loss is 0 already, and stays so divided by the least number.
    return losses / weight.clamp_min(torch.finfo(weight.dtype).tiny).to(losses.dtype), weight


def _are_all_classes(target: Tensor, ignore_index: int) -> bool:
    """Whether a glance tells that no target is ignored, as in a step without padding."""
    if ignore_index >= 0 or not target.is_cpu or is_traced():
        return False
    known = target.numpy()
    # In the midst of a step argmin takes a fraction of what NumPy's reductions take.
    return known.size > 0 and bool(known.item(known.argmin()) >= 0)


def check_base(base: object) -> None:
    """A loss that does not reduce, as far as can be seen before it is called."""
    if base is None:
        return
    if isinstance(base, type):
        raise TypeError(
            f"base must be an instance; found the class {base.__name__}: write {base.__name__}(reduction='none')."
        )
    if not callable(base):
        raise TypeError(f"base must be a loss that is called as base(input, target); found {base!r}.")
    reduction = base.keywords.get("reduction") if isinstance(base, partial) else getattr(base, "reduction", None)
    if isinstance(reduction, str) and reduction != "none":
        raise ValueError(
            f"base must return one loss per sample; {_name(base)} has reduction={reduction!r}. Construct it with "
            "reduction='none'."
        )
    _, class_weight, label_smoothing = _options_of(base) or (0, None, 0.0)
    if label_smoothing > 0.0 and class_weight is not None and not class_weight.is_meta:
        without = (class_weight == 0).nonzero()
        if len(without):
            raise ValueError(
                f"base has label_smoothing and a class weight of 0, at index {int(without[0])}: samples of that class "
                "would have the loss of the smoothed labels and no weight, which no weighted risk can count. Leave out "
                "the smoothing, or give the class a small weight."
            )


def _name(base: object) -> str:
    if isinstance(base, partial):
        base = base.func
    return getattr(base, "__name__", None) or type(base).__name__

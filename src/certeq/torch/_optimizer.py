"""OCE-SG, the paper's Algorithm 2, as a torch optimizer, and batches that grow as its bias bound wants them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sized
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.utils.data import Sampler

from certeq._checks import check_count, check_number

Schedule = Callable[[int], float]

SCHEDULES: dict[str, Schedule] = {
    "constant": lambda k: 1.0,
    "1/sqrt(k)": lambda k: 1.0 / math.sqrt(k),
    "1/k": lambda k: 1.0 / k,
}
FUNCTION = "function"  # stands in a state for what is not saved


class OCESG(Optimizer):
    r"""Projected stochastic gradient: :math:`\theta_k = \Pi(\theta_{k-1} - a_k Q(\theta_{k-1}))`.

    Q is the gradient of the OCE of a batch (the tilt-weighted mean of gradients, which ``backward`` of `OCELoss`
    leaves in ``grad``), :math:`a_k` the step and :math:`\Pi` the projection on the feasible set. The bias of Q falls
    like 1/m, so the batch should grow: `GrowingBatchSampler` gives m_k = k.

    Parameters
    ----------
    params : iterable
        Parameters or groups of them.
    lr : float
        The factor c of the step.
    schedule : {"constant", "1/sqrt(k)", "1/k"} or callable
        What c is multiplied by at step k = 1, 2, ...: c with c = 1/L for a smooth objective; c/sqrt(k) for a convex
        one without smoothness (CVaR) or a non-convex one; c/k for a strongly convex one, with c > 1/(2 mu).
    project : callable or object with ``project``, optional
        The nearest point of the feasible set, applied to each parameter after its step, for instance
        ``certeq.Simplex()``.
    average : bool
        Keep the mean of the iterates :math:`\theta_0, \dots, \theta_{n-1}`, weighted by their steps, for which the
        bounds of convex problems hold; `averages` returns it.

    See Also
    --------
    GrowingBatchSampler
        Batches of growing size for a DataLoader.
    OCELoss
        OCE as a criterion for training.
    certeq.minimize
        Minimize the OCE of losses over a feasible set.

    Notes
    -----
    ``state_dict`` holds numbers, tensors and names alone, so that ``torch.load`` reads it with ``weights_only=True``.
    Functions are not saved: the feasible set, and a schedule that is no name, are those of the optimizer that loads
    the state, which must have them if the one that was saved had.

    Not where Adam would do: this is the algorithm with guarantees, not the one that trains networks fastest.

    Examples
    --------
    >>> import torch, certeq as ce
    >>> from certeq.torch import OCESG, oce
    >>> theta = torch.tensor([1.0], requires_grad=True)
    >>> optimizer = OCESG(
    ...     [theta], lr=1.0, schedule="1/k", project=lambda p: p.clamp(min=0.5)
    ... )
    >>> oce(theta * torch.tensor([1.0, 2.0]), ce.CVaR(0.5)).backward()
    >>> _ = optimizer.step()
    >>> theta
    tensor([0.5000], requires_grad=True)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        schedule: str | Schedule = "1/sqrt(k)",
        project: Any = None,
        average: bool = False,
    ) -> None:
        lr = check_number("lr", lr, above=0.0)
        super().__init__(params, {"lr": lr, "schedule": schedule, "project": project, "average": average, "k": 0})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Check a group's schedule and projection, then add it.

        Parameters
        ----------
        param_group : dict
            Parameters as ``params`` and options of their own, as in PyTorch.
        """
        schedule = param_group.get("schedule", self.defaults["schedule"])
        if not callable(schedule) and schedule not in SCHEDULES:
            names = ", ".join(f'"{name}"' for name in SCHEDULES)
            raise ValueError(f"schedule must be one of {names} or a function of the step k; found {schedule!r}.")
        project = param_group.get("project", self.defaults["project"])
        if project is not None and not callable(project) and not callable(getattr(project, "project", None)):
            raise TypeError(f"project must be a function of a tensor or have a method project; found {project!r}.")
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:  # type: ignore[override]
        """One step of every group; its number k counts from 1.

        Parameters
        ----------
        closure : callable, optional
            Computes the loss and its gradients again, and returns the loss.

        Returns
        -------
        Tensor or None
            What the closure returned.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            group["k"] += 1
            schedule, project = group["schedule"], group["project"]
            size = group["lr"] * (schedule if callable(schedule) else SCHEDULES[schedule])(group["k"])
            onto = getattr(project, "project", project)
            for p in group["params"]:
                if p.grad is None:
                    continue
                if group["average"]:
                    self._remember(p, size)
                p.add_(p.grad, alpha=-size)
                if onto is not None:
                    p.copy_(onto(p.detach()))
        return loss

    def state_dict(self) -> dict[str, Any]:
        """Numbers, tensors and names; of a schedule or projection that is a function, that there is one.

        Returns
        -------
        dict
            The state, as PyTorch saves it.
        """
        state = super().state_dict()
        state["param_groups"] = [group | _names_of(group) for group in state["param_groups"]]
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state; functions are this optimizer's own.

        Parameters
        ----------
        state_dict : dict
            What `state_dict` returned.
        """
        own, every = [dict(group) for group in self.param_groups], state_dict["param_groups"]
        for group, saved in zip(own, every, strict=True) if len(own) == len(every) else ():  # else refused below
            for name in ("schedule", "project"):
                if _names_of(saved)[name] == FUNCTION and _names_of(group)[name] != FUNCTION:
                    raise ValueError(
                        f"the state was saved with a {name} that is a function, which a state cannot hold; construct "
                        f"OCESG with {name}= before loading it."
                    )
        super().load_state_dict(state_dict)
        for group, before in zip(self.param_groups, own, strict=True):
            group["project"] = before["project"]
            if group["schedule"] == FUNCTION:
                group["schedule"] = before["schedule"]

    def averages(self) -> list[Tensor]:
        """The step-weighted mean of the iterates before each step, one tensor per parameter.

        Returns
        -------
        list of Tensor
            Copies; a parameter itself where no mean has been kept.
        """
        every = [p for group in self.param_groups for p in group["params"]]
        return [self.state[p]["mean"].clone() if "mean" in self.state[p] else p.detach().clone() for p in every]

    def _remember(self, p: Tensor, size: float) -> None:
        state = self.state[p]
        if "mean" not in state:
            state["mean"], state["total"] = torch.zeros_like(p), 0.0
        state["total"] += size
        state["mean"].lerp_(p, size / state["total"])


def _names_of(group: dict[str, Any]) -> dict[str, Any]:
    """The schedule and the projection of a group, functions by the word for them."""
    schedule, project = group["schedule"], group["project"]
    return {
        "schedule": schedule if isinstance(schedule, str) else FUNCTION,
        "project": None if project is None else FUNCTION,
    }


class GrowingBatchSampler(Sampler[list[int]]):
    r"""Batches of size :math:`m_k` drawn with replacement, for ``DataLoader(batch_sampler=...)``.

    Parameters
    ----------
    data : Sized
        The data set, of which only the length is used.
    steps : int
        How many batches.
    size : callable, optional
        Batch size at step k = 1, 2, ...; ``k`` itself by default, as in the paper. ``lambda k: max(k, 64)`` skips the
        first batches, which are risk neutral: the OCE of one sample is that sample.
    largest : int, optional
        A cap on the batch size; the length of the data by default, where a larger batch would only repeat samples.
    generator : torch.Generator, optional
        Source of randomness; the same seed gives the same batches.

    See Also
    --------
    OCESG
        Projected stochastic gradient as a PyTorch optimizer.
    MemoryOCELoss
        OCE with a threshold from recent batches, for small batches.

    Notes
    -----
    Not for training by epochs: it draws with replacement, and no sample is sure to be seen. Not for long runs on large
    data either, where a constant batch with `MemoryOCELoss` costs less.

    Examples
    --------
    >>> from certeq.torch import GrowingBatchSampler
    >>> [len(batch) for batch in GrowingBatchSampler(range(4), steps=6)]
    [1, 2, 3, 4, 4, 4]
    """

    def __init__(
        self,
        data: Sized,
        steps: int,
        size: Callable[[int], int] | None = None,
        largest: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        if len(data) == 0:
            raise ValueError("data is empty: no batch can be drawn from it.")
        self.data = data
        self.steps = check_count("steps", steps)
        self.size = size
        self.largest = None if largest is None else check_count("largest", largest)
        self.generator = generator

    def batch_size(self, k: int) -> int:
        """Size m_k of the k-th batch.

        Parameters
        ----------
        k : int
            Number of the step, from 1.

        Returns
        -------
        int
            Number of samples.
        """
        wanted = k if self.size is None else int(self.size(k))
        if wanted < 1:
            raise ValueError(f"size must give at least 1 sample; it gave {wanted} at step {k}.")
        return min(wanted, len(self.data) if self.largest is None else self.largest)

    def __iter__(self) -> Iterator[list[int]]:
        for k in range(1, self.steps + 1):
            yield torch.randint(len(self.data), (self.batch_size(k),), generator=self.generator).tolist()

    def __len__(self) -> int:
        return self.steps

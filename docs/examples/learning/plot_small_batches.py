"""
Bias of CVaR losses in small batches
====================================

The CVaR of a batch of 8 looks at its single worst loss, and the worst of eight is rarely as bad as the worst 5 % of
all. So the loss that a training loop sees is too low, its gradient is biased the same way, and no amount of training
averages that away: the model converges to the wrong point. ``MemoryOCELoss`` finds the threshold t in what it has seen
of late instead of in one batch, and converges to the right one.
"""

# %%
# How large is the bias? Standard normal losses, where the true CVaR of the worst 5 % is 2.063.
import matplotlib.pyplot as plt
import numpy as np
import torch
from scipy import optimize, stats

import certeq as ce
from certeq.torch import OCESG, MemoryOCELoss, OCELoss

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

risk = ce.CVaR(0.05)
quantile = stats.norm.isf(0.05)
truth = stats.norm.pdf(quantile) / 0.05
generator = torch.Generator().manual_seed(0)
sizes = np.array([8, 16, 32, 64, 128, 256, 512])
plain = [ce.oce(torch.randn(3000, m, generator=generator).numpy(), risk, axis=1).mean() - truth for m in sizes]
theory = -0.95 / (2.0 * sizes * stats.norm.pdf(quantile))

# %%
# With a memory, t is the threshold of the batch and 1016 losses before it together. Here thousands of such batches at
# once, a row each; one call of ``MemoryOCELoss`` confirms that this is what it computes.


def with_memory(rows, m, memory=1016):
    """Return the value of each row's last m losses at the threshold of them all."""
    t = ce.threshold(rows[:, : m + memory], risk, axis=1)
    return t + risk.value(rows[:, -m:] - t[:, None]).mean(axis=1)


rows = torch.randn(2000, 1024, generator=generator, dtype=torch.float64).numpy()
criterion = MemoryOCELoss(risk, memory=1016)
criterion(torch.as_tensor(rows[0, :1016]))
assert np.isclose(criterion(torch.as_tensor(rows[0, 1016:])).item(), with_memory(rows[:1], 8)[0], rtol=1e-5)
remembered = [with_memory(rows, m).mean() - truth for m in sizes]
print("bias of a plain batch of 8:", round(float(plain[0]), 3), "of", round(float(truth), 3))

# %%
# What does it do to a decision? Two bets: one pays 0.9 on average with deviation 1, the other 0 with deviation 0.5.
# The loss of a mix theta is normal, so the best theta is known, and so is the one that batches of 8 lead to: to them
# the tail is 1.42 deviations from the mean (the expected maximum of eight), not 2.06.


def best_mix(deviations):
    """Minimize mean + deviations * standard deviation over the mix."""
    objective = lambda theta: -0.9 * theta + deviations * np.hypot(theta, 0.5 * (1.0 - theta))
    return optimize.minimize_scalar(objective, bounds=(0.0, 1.0), method="bounded").x


right_mix, wrong_mix = best_mix(truth), best_mix(truth + plain[0])


def train(criterion, steps=700, batch=8):
    """Train the mix on batches and return its course."""
    generator = torch.Generator().manual_seed(1)
    theta = torch.tensor([0.5], requires_grad=True)
    optimizer = OCESG([theta], lr=0.05, schedule="1/sqrt(k)", project=lambda p: p.clamp(0.0, 1.0), average=True)
    course = []
    for _ in range(steps):
        draws = torch.randn(batch, 2, generator=generator)
        losses = -(theta * (0.9 + draws[:, 0]) + (1.0 - theta) * 0.5 * draws[:, 1])
        optimizer.zero_grad()
        criterion(losses).backward()
        optimizer.step()
        course.append(optimizer.averages()[0].item())
    return np.array(course)


courses = {"OCELoss": train(OCELoss(risk)), "MemoryOCELoss": train(MemoryOCELoss(risk, memory=400))}

# %%
# Left, the bias shrinks like 1/m for the plain loss (dots: the first-order formula) and is gone with a memory. Right,
# the same 700 batches of 8, with two criteria.
figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.4), layout="constrained")
left.axhline(0.0, color="black", lw=1)
left.plot(sizes, theory, ":", color=GREY, lw=2, label="−(1−α) / (2 m f(t*))")
left.plot(sizes, plain, "o-", color=ORANGE, lw=2, label="OCELoss")
left.plot(sizes, remembered, "o-", color=BLUE, lw=2, label="MemoryOCELoss, t from 1024 losses")
left.set(xscale="log", xticks=sizes, xticklabels=sizes, xlabel="batch size", ylabel="bias of CVaR 5 % (truth 2.06)")
left.minorticks_off()
left.set_title("The loss a batch reports is too low", loc="left")
left.legend(frameon=False, loc="lower right")

steps = np.arange(1, 701)
right.axhline(right_mix, color="black", lw=1, ls="--")
right.axhline(wrong_mix, color=GREY, lw=1, ls="--")
for (name, course), color in zip(courses.items(), (ORANGE, BLUE), strict=True):
    right.plot(steps, course, color=color, lw=2.5, label=name)
right.text(700, right_mix + 0.004, "the best mix", ha="right", va="bottom", fontsize=9)
right.text(700, wrong_mix - 0.004, "the best mix for batches of 8", ha="right", va="top", fontsize=9, color="#566270")
right.legend(frameon=False, loc="upper right")
right.set(xlim=(0, 700), ylim=(0.3, 0.56), xlabel="step", ylabel="share of the risky bet (running mean)")
right.set_title("... and training follows it", loc="left")
plt.show()

# %%
# The memory has a price: the weights of a batch no longer sum to 1, so its gradient is noisier (for CVaR it is 0 in
# batches without a large loss), and a memory that reaches too far back remembers the losses of a worse model.
print({name: round(float(course[-1]), 3) for name, course in courses.items()}, "best:", round(float(right_mix), 3))
assert abs(courses["MemoryOCELoss"][-1] - right_mix) < 0.03
assert courses["OCELoss"][-1] - right_mix > 0.05

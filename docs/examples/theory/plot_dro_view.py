r"""
Entropic risk as distributionally robust optimization
=====================================================

Suppose the samples are not quite right: tomorrow's distribution q may differ from theirs, p, and the further it is
away, the less you believe in it. Then the worst you should reckon with is

.. math:: \max_q\; E_q[X] - \frac{1}{\beta} \mathrm{KL}(q \,\|\, p)

and that *is* the entropic risk of X. The maximizer is the tilt. Other utilities charge other divergences: CVaR nothing
up to a density of 1/alpha and infinity beyond, mean-variance the chi-squared one.
"""

# %%
# Losses, and a set of rival distributions on the same 200 samples: reweightings in all sorts of directions and
# strengths. Each is a point, its distance from the data and its mean loss.
import matplotlib.pyplot as plt
import numpy as np

import certeq as ce

plt.rcParams.update({"axes.spines.top": False, "axes.spines.right": False, "figure.dpi": 110})
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#8a94a0"

rng = np.random.default_rng(2)
losses = np.sort(rng.gamma(2.0, 1.0, size=200) - 2.0)
n = len(losses)


def divergence(q):
    """Kullback and Leibler's, from the uniform distribution to q."""
    return np.sum(np.where(q > 0, q * np.log(np.maximum(n * q, 1e-300)), 0.0), axis=-1)


directions = 0.9 * rng.normal(size=(3000, n)) + np.outer(rng.uniform(-1.0, 1.0, size=3000), losses - losses.mean())
rivals = np.exp(rng.uniform(0.0, 1.2, size=(3000, 1)) * directions)
rivals /= rivals.sum(axis=1, keepdims=True)

# %%
# Nature's best replies are the tilts, one for each beta: no distribution so near has a larger mean. At one beta, the
# line of slope 1/beta through the tilt touches that frontier, and cuts the axis at the entropic risk.
betas = np.geomspace(0.01, 6.0, 120)
tilts = np.array([ce.tilt(losses, ce.Entropic(beta)) for beta in betas])
beta = 0.4
u = ce.Entropic(beta)
q, risk = ce.tilt(losses, u), ce.oce(losses, u)

# %%
# The duality, in numbers: the tilt attains the risk, and no rival exceeds it.
price = np.mean(u.conjugate(n * q))
assert np.isclose(price, divergence(q) / beta)
assert np.isclose(q @ losses - price, risk, rtol=1e-12)
assert np.all(rivals @ losses - divergence(rivals) / beta < risk)

figure, (left, right) = plt.subplots(1, 2, figsize=(10.5, 4.6), width_ratios=(1.25, 1), layout="constrained")
left.plot(divergence(rivals), rivals @ losses, ".", color=GREY, ms=3, alpha=0.5, label="rival distributions")
left.plot(divergence(tilts), tilts @ losses, color=BLUE, lw=2.5, label="tilts, from small β to large")
away = np.array([0.0, 1.1])
left.plot(away, risk + away / beta, color=ORANGE, lw=1.5, ls="--")
left.plot(divergence(q), q @ losses, "o", color=ORANGE, ms=9, zorder=5)
left.annotate(
    f"the tilt at β = {beta}",
    (divergence(q), q @ losses),
    (divergence(q) + 0.1, q @ losses - 1.0),
    color=ORANGE,
    bbox={"color": "white", "pad": 2},
    arrowprops={"arrowstyle": "-", "color": ORANGE},
)
left.plot(0.0, risk, "D", color=ORANGE, ms=8, clip_on=False, zorder=5)
left.text(0.02, risk + 0.85, f"entropic\nrisk {risk:.2f}", color=ORANGE, va="center", fontweight="bold")
left.plot(0.0, losses.mean(), "o", color="black", ms=7, clip_on=False, zorder=5)
left.text(0.03, losses.mean() - 0.28, "the data", ha="left")
left.text(0.85, risk + 0.85 / beta + 0.1, "slope 1/β", color=ORANGE, ha="right")
left.set(xlim=(0.0, 1.1), ylim=(-1.4, 3.4), xlabel="divergence KL(q | p)", ylabel="mean loss under q")
left.set_title("The risk is where the tangent cuts the axis", loc="left")
left.legend(frameon=False, loc="upper left")

bins = np.arange(-2.0, 5.01, 0.5)
right.hist(losses, bins=bins, color=GREY, alpha=0.45, label="p, the data", weights=np.full(n, 1.0 / n))
right.hist(losses, bins=bins, weights=q, histtype="step", color=ORANGE, lw=2.5, label="q, the worst case")
for weights, color in ((np.full(n, 1.0 / n), "#566270"), (q, ORANGE)):
    right.plot(weights @ losses, -0.006, "^", color=color, ms=9, clip_on=False)
right.set(xlabel="loss (triangles: the means)", ylabel="probability")
right.set_title("What the worst case looks like", loc="left")
right.legend(frameon=False)
plt.show()

# %%
# Read from right to left it is the recipe of distributionally robust optimization: *the worst mean over all
# distributions within a divergence of rho* is the height of the blue curve at rho, so an entropic risk with the beta
# that belongs there has the same worst case and the same gradient, and at the optimum the same model. (The two values
# differ by rho/beta.)
rho = divergence(q)
within = rivals[divergence(rivals) <= rho] @ losses
print(f"worst mean within KL {rho:.3f}: {q @ losses:.3f}; the worst of {len(within)} rivals there: {within.max():.3f}")
assert within.max() < q @ losses

"""The paper's words for each claim, with the line of its source; what a claim of a table rests on is the row itself."""

from __future__ import annotations

from typing import TypedDict


class Quoted(TypedDict):
    """The fields of a claim that say where it stands."""

    line: int
    quote: str


QUOTES: dict[str, tuple[int, str]] = {
    "uncertainty": (534, "our approach significantly outperforms both the benchmarks"),
    "heart": (502, "the OCE models achieve higher accuracy, F1, and AUROC than the rest on UCI-HD dataset"),
    "breast-cancer": (
        502,
        "the OCE models achieve the lowest ECE, and show comparable performance on the remaining metrics",
    ),
    "outperform": (505, "we observe that the OCE-optimal portfolios outperform the benchmarks"),
    "comparable": (1244, "are either comparable to the benchmarks or outperform the benchmarks"),
    "falling": (1244, "The CVaR indeed outperforms when the stock market returns fall"),
    "rising": (
        1244,
        "when the stock market returns are rising, then the OCE risks: entropic, mean-variance, monotone "
        "mean-variance, smooth-cvar, and quartic risks produce higher returns, with better Sharpe and Sortino ratios",
    ),
    "cvar metric": (1244, "indeed optimizes the CVaR criterion, and validates the convergence guarantees"),
    "value": (1311, "not only converges in value to the solver variant"),
    "composition": (1311, "but also in the portfolio composition"),
    "evidence": (1311, "This provides empirical evidence of the convergence guarantees established in the paper"),
    "identical": (513, "identical score on the CVaR metric, but marginally better scores on all other metrics"),
    "variants": (1311, "outperform the standard CVaR on some important metrics"),
    "estimation": (1439, "The figure shows that our proposed estimator converges rapidly"),
    "optimization": (1460, "we observe that the iterates indeed converge to the optima"),
    "strongly convex": (438, "where $c>\\frac{1}{\\mu}$"),
    "convex": (443, "with $\\alpha_k = \\frac{1}{K\\sqrt{k}},m_k=k"),
    "non-convex": (448, "with $\\alpha_k = \\frac{1}{L\\sqrt{k}},m_k=k"),
}
# The words that a row begins with, by the name it has here.
ROWS: dict[str, str] = {
    "hrp": "Benchmark - HRP", "equal": "Benchmark - Equal Weights", "sharpe": "Benchmark - Sharpe",
    "solver": "Benchmark - CVaR", "entropic": "Entropic Risk", "cvar": "CVaR Risk", "leaky": "Leaky CVaR Risk",
    "smooth": "Smooth CVaR Risk", "mv": "MV Risk", "mmv": "Mono-MV Risk", "quartic": "Quartic Risk",
    "Entropic": "NN (OCE) Entropic", "CVaR": "NN (OCE) CVaR", "L-CVaR": "NN (OCE) LCVaR", "S-CVaR": "NN (OCE) SCVaR",
    "MMV": "NN (OCE) Monotone MV", "Quartic": "NN (OCE) Quartic", "NN BCE": "NN BCE Loss",
    "Logistic regression": "Logistic Regression", "SVC": "SVC (Baseline)", "Random forest": "Random Forest",
    "Deep ensembles": "Deep Ensembles", "MVE": "MVE", "MVE with OCE": "MVE with OCE",
}  # fmt: skip
# The line of each table's rows, in the order of the paper.
TABLES: dict[str, dict[str, int]] = {
    "uncertainty": {"Deep ensembles": 543, "MVE": 544, "MVE with OCE": 545},
    "breast-cancer": {
        "Entropic": 1265, "CVaR": 1266, "L-CVaR": 1267, "S-CVaR": 1268, "MMV": 1269, "Quartic": 1270, "NN BCE": 1272,
        "Logistic regression": 1273, "SVC": 1274, "Random forest": 1275,
    },
    "heart": {
        "Entropic": 1290, "CVaR": 1291, "L-CVaR": 1292, "S-CVaR": 1293, "MMV": 1294, "Quartic": 1295, "NN BCE": 1297,
        "Logistic regression": 1298, "SVC": 1299, "Random forest": 1300,
    },
    "sp500": {
        "hrp": 1170, "equal": 1171, "sharpe": 1172, "entropic": 1174, "cvar": 1175, "leaky": 1176, "smooth": 1177,
        "mv": 1178, "mmv": 1179, "quartic": 1180,
    },
    "ftse100": {
        "hrp": 1200, "equal": 1201, "sharpe": 1202, "entropic": 1204, "cvar": 1205, "leaky": 1206, "smooth": 1207,
        "mv": 1208, "mmv": 1209, "quartic": 1210,
    },
    "nasdaq": {
        "hrp": 1229, "equal": 1230, "sharpe": 1231, "entropic": 1233, "cvar": 1234, "leaky": 1235, "smooth": 1236,
        "mv": 1237, "mmv": 1238, "quartic": 1239,
    },
    "solver, sp500": {"solver": 1329, "cvar": 1330, "leaky": 1331, "smooth": 1332},
    "solver, ftse100": {"solver": 1349, "cvar": 1350, "leaky": 1351, "smooth": 1352},
    "solver, nasdaq": {"solver": 1366, "cvar": 1367, "leaky": 1368, "smooth": 1369},
}  # fmt: skip


# Of each erratum; formulas as the source has them.
ERRATA: dict[str, tuple[int, str]] = {
    "smooth-cvar": (225, r"u(x) = \alpha \ln\left(1+e^{\frac{x}{\alpha}}\right)"),
    "assumption-one": (230, "such that the range of $u'$ contains $1$ in its interior"),
    "mean-variance": (259, "is a convex risk measure"),
    "quartic": (213, "satisfies several useful properties"),
    "leaky-cvar": (222, "is a variant of CVaR that is sensitive to tail losses"),
    "units": (222, "sensitive to tail losses"),
    "shortfall-risk": (237, r"\{ \inf_{ t \in \Rel} \left| \Exp\left[l(X-t)\right] \leq \lambda \right.\}"),
    "derivative-signs": (255, r"G_X^{'}(t_X^{\mathrm{u}})\leq 0 < G_X^{'}(t_X^{\mathrm{l}})"),
    "threshold-is-a-minimizer": (255, r"is a root of $G'_X(\cdot)$ as well as a minimizer of $G_X(\cdot)$"),
    "subadditivity": (108, "and subadditivity (diversification cannot increase risk)"),
    "wasserstein": (608, r"\le \mathcal{W}_2(\mu_X,\mu_Y)\sqrt{\sigma_1^2+1}"),
    "lipschitz": (293, r"\frac{108 K^2T^2}{\sqrt{m}}"),
    "non-lipschitz": (305, r"\frac{108(\sigma_1^2+1)T^2}{\sqrt{m}}"),
    "bisection-sign": (722, r"u'(-Z_i - t) - 1"),
    "bisection-bracket": (723, r"\leIf{$\hat{g}(0)>0$}{$low, high \leftarrow -1, 0 $}{$low, high \leftarrow 0, 1$}"),
    "bisection-stop": (727, r"\left|\hat{g}(\hat{t}_m)\right|> \epsilon"),
    "bisection-value": (746, r"\sum_{j=1}^m u'\left(\mathrm{z}_j - \hat{t}_m(\mathbf{z}) \right)"),
    "gradient-theorem": (368, "the utility function $u$ is twice differentiable"),
    "domination": (368, "is continuously differentiable a.s."),
    "smoothness": (389, r"Then $\ocet(\cdot)$ is $L$-smooth"),
    "strong-convexity-of-mean-variance": (394, r"Then $\ocet(\cdot)$ is $\mu$-strongly convex"),
    "gradient-error": (422, r"\frac{2(M\sigma_1^2+T^2)}{m}"),
    "second-gradient-lemma": (907, r"\Exp\left[\max_j \norm{\nabla F(\theta,\mathrm{Z}_j)}_2^4\right]\Exp"),
    "portfolio-remark": (456, "does not satisfy"),
    "listing": (925, r"using \cref{eq:oce-m-definition}"),
    "strongly-convex": (1023, r"\frac{\norm{z_0}_2^2}{(n+1)^{2\mu c}}"),
    "convex": (443, r"\overline{\theta}_n=\frac{1}{n}\sum_{k=1}^n \theta_k"),
    "logarithms": (1144, "are unavoidable"),
    "fixed-batch": (454, "a fixed batch size of $m_k=m$ leads to convergence rates of"),
    "non-convex": (1141, r"\leq \frac{K_4}{\sqrt{n}}"),
    "gradient-at-the-optimum": (456, "Thus, the bounds in"),
    "cvar-validates": (1311, "This provides empirical evidence of the convergence guarantees established in the paper"),
    "uncertainty": (384, "is satisfied with a bounded input space"),
    "small-batches": (438, "m_k=k"),
    "data-sets": (1152, "from 2000-01-04 to 2026-05-26"),
    "portfolio-tables": (1244, "validates the convergence guarantees of the OCE-SG algorithm"),
}


def quoted(key: str) -> Quoted:
    """The line and the words of a claim of the text."""
    line, quote = QUOTES[key]
    return {"line": line, "quote": quote}


def row_of(table: str, row: str) -> Quoted:
    """The line of a row of a table, and the words that it begins with."""
    return {"line": TABLES[table][row], "quote": ROWS[row]}

"""Changes that people thought of, or that once went unnoticed: each must be noticed now."""

from tools.mutating import Mutant

DEFAULT = ("tests/engines/test_default_parts.py", "tests/learners/test_online_kernel.py")
CERTIFICATE = ("tests/learners/test_certificate.py",)
COMBINATION = ("tests/engines/test_combination.py",)
QUARTILES = ("tests/streams/test_stream_preparing.py",)
BOUNDS = ("tests/regret/test_regret_bounds.py",)
NEWTON = ("tests/engines/test_newton.py", "tests/learners/test_kons.py")
EXPANSION = ("tests/learners/test_expansion.py",)

#: (file, before, after, tests, what it does)
_LIST = [
    # -- went unnoticed once ----------------------------------------------------------------------
    ("parts/losses.py", "return 0.0 if a >= 1.0 else -y\n", "return 0.0 if a >= 1.0 else y\n",
     EXPANSION, "the hinge's slope has the other sign"),
    ("parts/distances.py", "_CANCELLED = 1e-3", "_CANCELLED = 0.0",
     ("tests/parts/test_kernels.py",), "no guard against cancelled distances"),
    ("engines/default/mixing.py", "((C[e, o] - y[o]) / half) ** 2 / count",
     "(C[e, o] - y[o]) ** 2 / count", DEFAULT, "losses not divided by half the range"),
    ("engines/default/mixing.py", "A[s, e, f] += z[e] * z[f] / count",
     "A[s, e, f] += z[e] * z[f]", DEFAULT, "stacks not divided by the number of outputs"),
    ("engines/default/mixing.py", "b[s, e] += z[e] * r / count", "b[s, e] += z[e] * r",
     DEFAULT, "stacks' sums not divided by the number of outputs"),
    ("engines/default/mixing.py", "= y[o] - row.candidates[0, o]", "= y[o] - row.final[o]",
     DEFAULT, "the final prediction's errors for those of the average"),
    ("engines/default/mixing.py", "z[len(C) :] = row.echo[o] / half", "z[len(C) :] = row.echo[o]",
     DEFAULT, "errors not divided by half the range"),
    ("engines/default/learner.py", "self.experts.mixture.losses[:] = 0.0", "pass",
     DEFAULT, "losses of rows learned again are kept"),
    ("engines/default/roster.py", "leader.factor / 2.0", "leader.factor / 1e9",
     DEFAULT, "no narrower setting"),
    ("engines/default/discounted.py", "return self.leverage(Phi * self._root_next())",
     "return self.leverage(Phi)", DEFAULT, "the variance without the next row's weight"),
    ("engines/default/intervals.py", "rate = max(RATE, 1.0 / np.sqrt(state.counter[0]))",
     "rate = RATE", DEFAULT, "a constant rate of the intervals"),
    ("engines/default/temperature.py", "H[1, 1] += P[k] * v * v", "pass",
     DEFAULT, "the slopes' curvature without this row"),
    ("engines/default/temperature.py", "H[i, j] *= keep", "pass",
     DEFAULT, "the slopes' curvature never forgets"),
    ("engines/newton/recurrence.py", "running[2] += slope * slope * q / (1.0 + c * q)",
     "running[2] += slope * slope * q", CERTIFICATE, "a certificate without 1/(1 + c q)"),
    ("engines/newton/bank.py", "0.5 * gradient_terms, exact", "1.0 * gradient_terms, exact",
     CERTIFICATE, "a doubled bound of the online Newton step"),
    ("engines/newton/certificate.py", "scale * scale * float(log_determinant)",
     "2.0 * scale * scale * float(log_determinant)", CERTIFICATE, "a doubled bound of AWV"),
    ("parts/quantiles.py", "NORMAL = 0.7413011092528009", "NORMAL = 0.75",
     QUARTILES, "another constant of the robust scaler"),
    ("parts/quantiles.py", "values[j, :half] = values[j, ::2].copy()",
     "values[j, :half] = values[j, half:].copy()", QUARTILES, "thinning keeps the later half"),
    ("parts/quantiles.py", "size, stride = size // 2, 2 * stride",
     "size, stride = size // 2, stride", QUARTILES, "thinning without a longer stride"),
    # -- others -----------------------------------------------------------------------------------
    ("engines/default/mixing.py", "(1.0 - rate) * weight + rate / n", "weight",
     DEFAULT, "no fixed share"),
    ("engines/default/combination.py", "loss if largest < first[o] else 0.0", "0.0",
     COMBINATION, "early rows left out of the bound"),
    ("engines/default/combination.py", "bound += 0.5 * (gone +", "bound += 1.0 * (gone +",
     COMBINATION, "a doubled log det in the bound against combinations"),
    ("engines/default/combination.py", "max(log_determinant(A) - log_determinant(left), 0.0)",
     "0.0", COMBINATION, "the log det of dropped experts left out of the bound"),
    ("engines/default/combination.py", "(share * beyond[o] / unit) ** 2 / count", "0.0",
     COMBINATION, "targets beyond the range left out of the bound"),
    ("engines/default/combination.py", "largest, share = np.sqrt(2.0) * worst[o], first[o] / half",
     "largest, share = np.sqrt(2.0) * worst[o], 1.0", COMBINATION, "units that forget the range"),
    ("engines/default/discounted.py", "Y * roots, (1.0 - kept) * self.alpha", "Y * roots, 0.0",
     ("tests/engines/test_split.py",), "the forgotten regulariser is not put back (split passes)"),
    ("engines/default/spread.py", "JUMP = 1.5", "JUMP = 1e9", DEFAULT, "the level never jumps"),
    ("engines/newton/recurrence.py", "p = min(max(f, -running[0]), running[0])", "p = f",
     NEWTON, "no clipping"),
    ("engines/newton/recurrence.py", "kappa[t] = c / (1.0 + c * q)", "kappa[t] = c",
     NEWTON, "rows eliminated with the wrong weight"),
    ("engines/newton/learner.py", "- self.size * np.log(self.alpha)", "- 0.0",
     CERTIFICATE, "log det A in the place of log det A/alpha"),
    ("regret/bounds/awv.py", "+ largest_label**2 * log_determinant",
     "+ 2.0 * largest_label**2 * log_determinant", BOUNDS, "a doubled bound of Kernel-AWV"),
    ("regret/bounds/awv.py", "* (gap + alpha) * n * gap", "* (gap + alpha) * gap",
     BOUNDS, "the projection's cost without n"),
    ("regret/bounds/kons.py", "return 0.5 * (alpha * norm2", "return 1.0 * (alpha * norm2",
     BOUNDS, "KONS, Prop. 1, doubled"),
    ("regret/bounds/kons.py", "effective_dimension * log_factor(x) / eta",
     "2.0 * effective_dimension * log_factor(x) / eta", BOUNDS, "KONS, Thm 1, doubled"),
    ("engines/expansion/forgetron.py", "_SHARE = 15.0 / 32.0", "_SHARE = 16.0 / 32.0",
     EXPANSION, "the Forgetron spends more"),
    ("engines/expansion/merging.py", "2.0 * light * heavy * exp_scalar(-distance)",
     "light * heavy * exp_scalar(-distance)", EXPANSION, "merging weighs pairs wrongly"),
    ("parts/losses.py", "else -2.0 * y * (1.0 - a)", "else -y * (1.0 - a)",
     ("tests/parts/test_losses.py",), "half the slope of the squared hinge"),
    ("parts/randomness.py", "KEY = 7067", "KEY = 7068",
     ("tests/parts/test_embeddings.py", "tests/parts/test_dictionaries.py"), "other streams"),
    ("parts/threads.py", "self._changed = _limit(self._shared, self.wanted)",
     "self._changed = ()", ("tests/parts/test_threads.py",), "BLAS is not limited"),
]  # fmt: skip

NAMED = [Mutant(file, *change, tests, name) for file, *change, tests, name in _LIST]

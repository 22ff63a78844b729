r"""The updates of the algorithms as formulas: for each indented block of a module's docstring, in
order, its lines in LaTeX. None leaves a block as it stands, where it is words."""

FORMULAS: dict[str, list[list[str] | None]] = {
    "aioli": [
        [
            r"v = A^{-1} b, \qquad \text{predict the root } f \text{ of } \; f + (\varphi_t'"
            r" A^{-1} \varphi_t) \tanh(f/2) = \varphi_t' v",
            r"A \leftarrow A + c \, \varphi_t \varphi_t', \quad c = \frac{s(f) \, s(-f)}{1 + BR},"
            r" \qquad b \leftarrow b + c f \varphi_t - g_t",
        ]
    ],
    "dual_sgd": [
        [
            r"s = \frac{1}{\alpha (t-1)} \Big( \sum_i r_i k(x_i, x_t) + m' \varphi(x_t) \Big)"
            r" \quad (0 \text{ at } t = 1), \qquad r_t = -\ell'(s, y_t)",
            r"\text{more than } B \text{ terms: the } k \text{ with the least } |r_i|"
            r" \text{, oldest first, move:} \quad m \leftarrow m + r_i \varphi(x_i)",
        ]
    ],
    "dual_svrg": [
        [
            r"s = \langle w, x_t \rangle, \qquad v_i = \frac{\ell'(y_i \langle u, x_i \rangle)"
            r" \, y_i}{|\text{memory}|} \quad \text{for the last } m \text{ points}",
            r"v_t \leftarrow v_t + \big( \ell'(y_t s) - \ell'(y_t \langle u, x_t \rangle) \big)"
            r" y_t",
            r"w \leftarrow \frac{1}{1 + \eta \alpha} \Big( w - \eta \sum_i v_i \, \varphi(x_i)"
            r" \Big), \qquad \text{every } n \text{ rows: } u \leftarrow \bar w, \; w \leftarrow u",
        ]
    ],
    "fogd": [
        [
            r"z(x) = \frac{1}{\sqrt L} \left[ \cos(x'W), \sin(x'W) \right], \qquad f = w'z,"
            r" \qquad w \leftarrow w - \eta \, \ell'(f, y) \, z"
        ]
    ],
    "kernel_awv": [
        [
            r"c = (K_t + \alpha I)^{-1} (y_1, \ldots, y_{t-1}, 0)', \qquad \hat y_t = k_t' c"
            r" \qquad \text{(anticipate)}",
            r"c = (K_{t-1} + \alpha I)^{-1} y_{<t}, \qquad \hat y_t = k_t' c"
            r" \qquad \text{(ridge)}",
        ]
    ],
    "kernel_ogd": [
        [r"f \leftarrow (1 - \eta \alpha) f - \eta \, \ell'(f(x), y) \, k(x, \cdot)"],
    ],
    "kernel_pa": [
        [
            r"f \leftarrow \mathrm{argmin}_g \; \tfrac12 \|g - f\|^2 + C \xi, \quad"
            r" \ell(g(x), y) \le \xi, \; \xi \ge 0 \qquad \text{(PA-I)}",
            r"f \leftarrow \mathrm{argmin}_g \; \tfrac12 \|g - f\|^2 + C \xi^2, \quad"
            r" \ell(g(x), y) \le \xi \qquad \text{(PA-II)}",
        ],
        [
            r"\tau = \min \left( C, \frac{\ell}{k(x, x)} \right) \; \text{(PA-I)}, \qquad"
            r" \tau = \frac{\ell}{k(x, x) + 1/(2C)} \; \text{(PA-II)}"
        ],
    ],
    "kons": [
        [
            r"u = w - A^{-1} g, \qquad w = u + s A^{-1} \varphi_t \text{ with } |f(x_t)| \le"
            r" \text{clip}, \qquad \hat y_t = f(x_t), \qquad A \leftarrow A + \eta_t g_t g_t'"
        ]
    ],
    "krls": [
        [
            r"a = K^{-1} k(x), \qquad \delta = k(x, x) - k(x)' a, \qquad \delta > \nu:"
            r" \; x \text{ enters}",
            r"\hat y = k(x)' w, \qquad w = \mathrm{argmin}_w \; \| A K w - y \|^2",
        ]
    ],
    "nogd": [
        [
            r"f \leftarrow f - \eta \, \ell'(f(x), y) \, k(x, \cdot) \qquad \text{until } |S| ="
            r" \text{budget}",
            r"K = V D V', \qquad z(x) = D^{-1/2} V' k_S(x), \qquad w = D^{1/2} V' a",
            r"f = w'z, \qquad w \leftarrow w - \eta \, \ell'(f, y) \, z \qquad"
            r" \text{from then on}",
        ]
    ],
    "perceptron": [[r"f \leftarrow f + y \, k(x, \cdot) \quad \text{where } y f(x) \le 0"]],
    "pkawv": [
        [
            r"A \leftarrow A + \varphi_t \varphi_t', \qquad \hat y_t = \varphi_t' A^{-1} b,"
            r" \qquad b \leftarrow b + y_t \varphi_t"
        ]
    ],
    "pros_n_kons": [
        [
            r"\varphi_t = E \, k_J(x_t), \quad E'E = K_{JJ}^{+}, \qquad v = w - A^{-1} g, \qquad"
            r" w = v \text{ moved until } |\varphi_t' w| \le \text{clip}",
            r"\hat y_t = \varphi_t' w, \qquad A \leftarrow A + \eta_t g_t g_t'",
        ]
    ],
    "sketched_kons": [
        [
            r"A \leftarrow A + z_t \eta_t g_t g_t', \qquad z_t = \mathbf 1 \{ u_t <"
            r" \max(\min(\beta \tau_t, 1), \text{floor}) \}"
        ]
    ],
}

#: The same for the reference, by the full name of a module, class or function.
REFERENCE: dict[str, list[list[str] | None]] = {
    "pronk.data.drifting": [
        [
            r"y_t = \sqrt{\tfrac{2}{\text{waves}}} \sum_k a_k \cos(w_k' x_t + b_k + r_k s)"
            r" + \text{noise} \cdot \mathrm{normal}",
            r"x_t = 0.7 \, \mathrm{uniform} + 0.3 \, (\cos, \sin, \ldots)(2 \pi s)"
            r" \; \in [-1, 1]",
        ]
    ],
    "pronk.KORS": [
        [
            r"\rho = k(x, x) - |w|^2, \qquad \tau = \frac{(1 + \varepsilon) \rho}{\rho + \gamma}",
            r"p = \min(\beta \tau, 1), \qquad \text{accepted when } u < p",
        ]
    ],
    "pronk.regret.hindsight": [
        [
            r"\sum_t \ell(f(x_t), y_t) + \alpha |f|^2"
            r" \qquad \text{(no mean over the rows, no factor } \tfrac12 \text{)}"
        ]
    ],
    "pronk.regret.measured": [
        [r"R_t(f) = \sum_{s \le t} \ell(\hat y_s, y_s) - \ell(f(x_s), y_s)"],
        [
            r"\sup_f \; \big[ R_t(f) - \alpha |f|^2 \big] ="
            r" \sum_{s \le t} (y_s - \hat y_s)^2 - \alpha U_s^2"
        ],
    ],
    "pronk.regret.kernel_awv_penalised_regret": [
        [
            r"\sum_t \frac{y_t^2 q_t}{1 + q_t} - \sum_t \hat y_t^2 q_t,"
            r" \qquad \hat y_t = \frac{f_t}{1 + q_t}"
        ]
    ],
    "pronk.regret.log_determinant_bound": [
        [
            r"\log \det(I + K/\alpha) \le"
            r" \log \left( e + \frac{e \, n \kappa^2}{\alpha} \right) d_{\mathrm{eff}}(\alpha)"
        ]
    ],
    "pronk.regret.kernel_awv_bound": [
        [
            r"R(f) \le \alpha |f|^2 + B^2 \log \det(I + K/\alpha)"
            r" \qquad \text{for every } f"
        ]
    ],
    "pronk.regret.pkawv_bound": [
        [
            r"R(f) \le \alpha |f|^2 + B^2 \log \det(I + K/\alpha)"
            r" + B^2 (\mu + \alpha) \frac{n \mu}{\alpha^2}"
        ]
    ],
    "pronk.regret.pkawv_taylor_bound": [
        [
            r"R(f) \le \alpha |f|^2 + \tfrac32 B^2 \log \det(I + K/\alpha)"
            r" \qquad \text{for a degree of at least taylor\_degree}"
        ]
    ],
    "pronk.regret.pkawv_kors_bound": [
        [
            r"R(f) \le \alpha |f|^2 + B^2 d_{\mathrm{eff}}(\alpha)"
            r" \log \left( e + \frac{e \, n \kappa^2}{\alpha} \right)"
            r" + 2 B^2 (\text{size} + 1) \frac{n \mu}{\alpha},"
            r" \qquad \mu = \text{gap} \le \alpha"
        ]
    ],
    "pronk.regret.discounted_awv_bound": [
        [
            r"R(u) \le \alpha |u_n|^2 + (1 - g) \alpha \sum_{t<n} |u_t|^2 + g V"
            r" + \sum_t c_t y_t^2",
            r"\sum_t c_t y_t^2 \le \frac{B^2}{2 - 1/g} \, r \left("
            r" \log \left( 1 + \frac{N k}{\alpha r} \right) + n \log \frac1g \right)",
        ],
        [
            r"V = \sum_{t<n} F_t(u_{t+1}) - F_t(u_t), \qquad"
            r" F_t(u) = \sum_{s \le t} g^{t-s} (y_s - u(x_s))^2"
        ],
    ],
    "pronk.regret.discounted_variation": [
        [
            r"\sum_{t<n} F_t(u_{t+1}) - F_t(u_t), \qquad"
            r" F_t(u) = \sum_{s \le t} \text{discount}^{t-s} (y_s - u' \varphi_s)^2"
        ]
    ],
    "pronk.regret.taylor_degree": [
        [
            r"M = \left\lceil \max \left( \frac{8 R^2}{\sigma^2}, \;"
            r" 2 \log \frac{n}{\min(\alpha, 1)} \right) \right\rceil"
        ]
    ],
    "pronk.regret.kors_size_bound": [
        [
            r"J \le \frac{1 + \varepsilon}{1 - \varepsilon} \, 3 \beta \,"
            r" d_{\mathrm{eff}}(\gamma) \log \frac{2n}{\delta}"
        ]
    ],
    "pronk.regret.newton_bound": [[r"2 R(f) \le \alpha |f|^2 + R_G + R_D"]],
    "pronk.regret.kons_step_bound": [
        [
            r"R(f) \le \alpha |f|^2 + \frac{d_{\mathrm{onl}}(\alpha)}{\min_t \eta_t}"
            r" + 4 C^2 L^2 \sum_t \max(\eta_t - \sigma, 0)"
        ]
    ],
    "pronk.regret.kons_bound": [
        [
            r"R(f) \le \alpha |f|^2 + \frac{2}{\eta} \, d \log \frac{2 \eta L^2 n}{\alpha},"
            r" \qquad d = d_{\mathrm{eff}} \left( \frac{\alpha}{\eta L^2} \right)"
        ]
    ],
    "pronk.regret.kons_convex_bound": [
        [
            r"R(f) \le \alpha |f|^2 + 4 L C \sqrt n \, d \log \frac{2 L^2 n}{\alpha},"
            r" \qquad d = d_{\mathrm{eff}} \left( \frac{\alpha}{L^2} \right)"
        ]
    ],
    "pronk.regret.sketched_kons_bound": [
        [
            r"R(f) \le \alpha |f|^2 + \frac{2 d \log(2 \eta L^2 n / \alpha)}"
            r"{\eta (1 - \varepsilon) p}",
            r"p = \max(\text{floor}, \min(\beta \tau_{\min}, 1)), \qquad"
            r" d = d_{\mathrm{eff}} \left( \frac{\alpha}{\eta L^2} \right)",
        ]
    ],
    "pronk.regret.pros_n_kons_bound": [
        [
            r"R(f) \le J \left( \alpha |f|^2 + \frac{4}{\sigma} \, d"
            r" \log \frac{2 \sigma L^2 n}{\alpha} \right) + \frac{L^2}{\alpha}"
            r" \left( \frac{n \gamma \varepsilon}{4 (1 - \varepsilon)} + J \right)"
            r" + 2 J L C + L C \, \text{rows\_before}"
        ]
    ],
    "pronk.regret.pros_n_kons_squared_bound": [
        [
            r"R(f) \le \sum_j \left[ \frac{4}{\sigma} \, d_j"
            r" \log \frac{2 \sigma L^2 \, \mathrm{tr}(K_j)}{\alpha} + \varepsilon' L_j \right]"
            r" + J \left( L C + \frac{L^2}{\alpha} + \alpha |f|^2 \right)"
            r" + L C \, \text{rows\_before}",
            r"\varepsilon' = \frac{\alpha}{\alpha - \gamma \varepsilon / (1 - \varepsilon)} - 1",
        ]
    ],
    "pronk.regret.nons_ald_bound": [
        [
            r"R(f) \le \frac{\alpha}{2} |f|^2 + \frac{J}{2 \eta}"
            r" \log \left( 1 + \frac{\eta L^2 n}{\alpha J} \right) + L n |f| \sqrt \nu,"
            r" \qquad L = 2 (C + B)"
        ]
    ],
    "pronk.regret.aioli_bound": [
        [
            r"R(f) \le \alpha |f|^2 + (1 + BR) \log \det \left( I +"
            r" \frac{K}{8 \alpha (1 + BR)} \right), \qquad BR = \text{radius}"
        ]
    ],
    "pronk.regret.pa_mistake_bound": [
        [r"M \le \max(R^2, 1/C) \left( |f|^2 + 2 C \sum_t \ell_t(f) \right)"]
    ],
    "pronk.regret.pa_squared_loss_bound": [
        [
            r"\sum_t \ell_t^2 \le \left( R^2 + \frac{1}{2C} \right)"
            r" \left( |f|^2 + 2 C \sum_t \ell_t(f)^2 \right)"
        ]
    ],
}

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

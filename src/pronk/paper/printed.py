"""The figures that the papers print, as published: (value, deviation, points held, seconds).

Losses are mean squared losses; errors and mistake rates are in percent. None is not printed.
"""

from __future__ import annotations

Printed = tuple[float | None, ...]

#: Calandriello, Lazaric, Valko 2017 (PROS-N-KONS), Table 1.
PROS_N_KONS_1: dict[str, dict[str, Printed]] = {
    "parkinson": {
        "FOGD": (0.04909, 0.00020, 30, None),
        "NOGD": (0.04896, 0.00068, 30, None),
        "PROS-N-KONS": (0.05798, 0.00136, 18, 5.16),
        "CON-KONS": (0.05696, 0.00129, 18, 5.21),
        "B-KONS": (0.05795, 0.00172, 18, 5.35),
        "BATCH": (0.04535, 0.00002, None, None),
    },
    "cpusmall": {
        "FOGD": (0.02577, 0.00050, 30, None),
        "NOGD": (0.02559, 0.00024, 30, None),
        "PROS-N-KONS": (0.02494, 0.00141, 20, 7.28),
        "CON-KONS": (0.02269, 0.00164, 20, 7.40),
        "B-KONS": (0.02496, 0.00177, 20, 7.37),
        "BATCH": (0.01090, 0.00082, None, None),
    },
    "cadata": {
        "FOGD": (0.04097, 0.00015, 30, None),
        "NOGD": (0.03983, 0.00018, 30, None),
        "PROS-N-KONS": (0.03095, 0.00110, 20, 18.59),
        "CON-KONS": (0.02850, 0.00174, 19, 18.45),
        "B-KONS": (0.03095, 0.00118, 19, 18.65),
        "BATCH": (0.02202, 0.00002, None, None),
    },
    "casp": {
        "FOGD": (0.08021, 0.00031, 30, None),
        "NOGD": (0.07844, 0.00008, 30, None),
        "PROS-N-KONS": (0.06773, 0.00105, 21, 40.73),
        "CON-KONS": (0.06832, 0.00315, 20, 40.91),
        "B-KONS": (0.06775, 0.00067, 21, 41.13),
        "BATCH": (0.06100, 0.00003, None, None),
    },
}

#: The same paper, Table 2, by alpha = gamma.
PROS_N_KONS_2: dict[str, dict[float, dict[str, Printed]]] = {
    "ijcnn1": {
        1.0: {
            "PROS-N-KONS": (9.70, 0.01, 100, 211.91),
            "CON-KONS": (9.64, 0.01, 101, 215.71),
            "B-KONS": (9.70, 0.01, 98, 206.53),
            "BATCH": (8.33, 0.03, None, None),
        },
        0.01: {
            "PROS-N-KONS": (10.73, 0.12, 436, 1003.82),
            "CON-KONS": (6.23, 0.18, 432, 987.33),
            "B-KONS": (4.85, 0.08, 100, 147.22),
            "BATCH": (5.61, 0.01, None, None),
        },
        0.0: {
            "FOGD": (9.06, 0.05, 400, None),
            "NOGD": (9.55, 0.01, 100, None),
            "Dual-SGD": (8.35, 0.20, 100, None),
        },
    },
    "cod-rna": {
        1.0: {
            "PROS-N-KONS": (13.95, 1.19, 38, 270.81),
            "CON-KONS": (18.99, 9.47, 38, 271.85),
            "B-KONS": (13.99, 1.16, 38, 274.94),
            "BATCH": (3.781, 0.01, None, None),
        },
        0.01: {
            "PROS-N-KONS": (4.91, 0.04, 111, 459.28),
            "CON-KONS": (5.81, 1.96, 111, 458.90),
            "B-KONS": (4.57, 0.05, 100, 333.57),
            "BATCH": (3.61, 0.01, None, None),
        },
        0.0: {
            "FOGD": (10.30, 0.10, 400, None),
            "NOGD": (13.80, 2.10, 100, None),
            "Dual-SGD": (4.83, 0.21, 100, None),
        },
    },
}

#: Le, Nguyen, Phung 2022 (DualSVRG), Table 2, online mistake rates and seconds.
DUALSVRG_2: dict[str, dict[str, Printed]] = {
    "w8a": {
        "Perceptron": (3.51, 0.03, None, 691),
        "OGD": (2.54, 0.03, None, 1290),
        "RBP": (4.02, 0.07, None, 545),
        "Forgetron": (3.96, 0.10, None, 558),
        "Projectron": (4.76, 1.13, None, 572),
        "Projectron++": (3.08, 0.63, None, 1322),
        "BOGD": (3.16, 0.08, None, 589),
        "FOGD": (3.52, 0.05, None, 26),
        "NOGD": (2.55, 0.05, None, 585),
        "DualSGD": (2.99, 0.01, None, 32),
        "DualSVRG-H-B": (2.99, 0.00, None, 93),
        "DualSVRG-H-C": (2.50, 0.01, None, 82),
        "DualSVRG-H-AM": (2.43, 0.02, None, 69),
        "DualSVRG-L-B": (2.99, 0.00, None, 97),
        "DualSVRG-L-C": (2.99, 0.00, None, 77),
        "DualSVRG-L-AM": (2.99, 0.00, None, 60),
    },
    "cod-rna": {
        "Perceptron": (9.79, 0.04, None, 1394),
        "OGD": (7.81, 0.03, None, 2804),
        "RBP": (26.02, 0.39, None, 86),
        "Forgetron": (28.56, 2.22, None, 103),
        "Projectron": (11.16, 3.61, None, 97),
        "Projectron++": (17.97, 15.60, None, 1780),
        "BOGD": (38.13, 0.11, None, 105),
        "FOGD": (7.15, 0.03, None, 53),
        "NOGD": (7.83, 0.06, None, 105),
        "DualSGD": (4.92, 0.25, None, 98),
        "DualSVRG-H-B": (7.72, 0.14, None, 274),
        "DualSVRG-H-C": (4.95, 0.01, None, 248),
        "DualSVRG-H-AM": (7.64, 0.09, None, 225),
        "DualSVRG-L-B": (5.02, 0.18, None, 251),
        "DualSVRG-L-C": (5.06, 0.13, None, 229),
        "DualSVRG-L-AM": (5.01, 0.18, None, 253),
    },
    "covtype": {
        "FOGD": (40.45, 0.05, None, 223),
        "NOGD": (34.72, 0.07, None, 838),
        "DualSGD": (49.64, 0.50, None, 222),
        "DualSVRG-H-B": (23.08, 0.35, None, 966),
        "DualSVRG-H-C": (22.94, 0.31, None, 654),
        "DualSVRG-H-AM": (22.92, 0.39, None, 751),
        "DualSVRG-L-B": (24.67, 0.01, None, 820),
        "DualSVRG-L-C": (24.72, 0.20, None, 666),
        "DualSVRG-L-AM": (24.73, 0.20, None, 654),
    },
    "airlines": {
        "FOGD": (20.98, 0.01, None, 1271),
        "NOGD": (25.56, 0.01, None, 3554),
        "DualSGD": (19.28, 0.00, None, 1113),
        "DualSVRG-H-B": (19.00, 0.09, None, 6102),
        "DualSVRG-H-C": (18.96, 0.01, None, 4631),
        "DualSVRG-H-AM": (18.91, 0.01, None, 4333),
        "DualSVRG-L-B": (18.60, 0.08, None, 6336),
        "DualSVRG-L-C": (18.65, 0.02, None, 4605),
        "DualSVRG-L-AM": (18.58, 0.03, None, 4465),
    },
}

#: The same paper, Table 1, test errors and seconds of training.
DUALSVRG_1: dict[str, dict[str, Printed]] = {
    "w8a": {
        "LIBSVM": (0.94, None, None, 51),
        "LLSVM": (1.36, None, None, 92),
        "BSGD-M": (1.83, 0.07, None, 265),
        "BSGD-R": (2.90, 0.04, None, 253),
        "FOGD": (2.08, 0.38, None, 32),
        "NOGD": (1.94, 0.18, None, 375),
        "DualSGD": (3.44, 0.17, None, 34),
        "DualSVRG-H-B": (1.36, 0.13, None, 150),
        "DualSVRG-H-C": (1.35, 0.09, None, 127),
        "DualSVRG-H-AM": (1.29, 0.01, None, 109),
        "DualSVRG-L-B": (2.24, 1.66, None, 158),
        "DualSVRG-L-C": (2.27, 1.75, None, 127),
        "DualSVRG-L-AM": (1.71, 0.47, None, 112),
    },
    "cod-rna": {
        "LIBSVM": (3.61, None, None, 115),
        "LLSVM": (5.84, None, None, 20),
        "BSGD-M": (4.33, 0.21, None, 91),
        "BSGD-R": (33.17, 0.11, None, 19),
        "FOGD": (7.35, 4.20, None, 8),
        "NOGD": (8.17, 3.35, None, 10),
        "DualSGD": (29.15, 0.02, None, 19),
        "DualSVRG-H-B": (6.30, 1.17, None, 87),
        "DualSVRG-H-C": (6.61, 0.85, None, 83),
        "DualSVRG-H-AM": (5.98, 1.53, None, 74),
        "DualSVRG-L-B": (6.20, 0.79, None, 86),
        "DualSVRG-L-C": (7.13, 0.91, None, 79),
        "DualSVRG-L-AM": (5.77, 0.27, None, 104),
    },
    "covtype": {
        "BSGD-M": (27.74, 0.16, None, 2413),
        "BSGD-R": (38.91, 1.69, None, 419),
        "FOGD": (40.66, 5.85, None, 70),
        "NOGD": (31.80, 2.96, None, 679),
        "DualSGD": (30.54, 0.54, None, 375),
        "DualSVRG-H-B": (26.73, 1.55, None, 2144),
        "DualSVRG-H-C": (26.50, 1.61, None, 1724),
        "DualSVRG-H-AM": (26.15, 0.44, None, 1737),
        "DualSVRG-L-B": (27.61, 0.64, None, 2127),
        "DualSVRG-L-C": (26.14, 1.31, None, 1788),
        "DualSVRG-L-AM": (26.59, 1.64, None, 1855),
    },
    "airlines": {
        "BSGD-R": (19.73, 0.06, None, 4741),
        "FOGD": (19.63, 0.21, None, 1086),
        "NOGD": (25.17, 0.20, None, 3112),
        "DualSGD": (23.13, 0.00, None, 1696),
        "DualSVRG-H-B": (19.28, 0.05, None, 3583),
        "DualSVRG-H-C": (19.25, 0.02, None, 4019),
        "DualSVRG-H-AM": (19.28, 0.04, None, 4517),
        "DualSVRG-L-B": (19.28, 0.06, None, 3447),
        "DualSVRG-L-C": (19.26, 0.04, None, 3594),
        "DualSVRG-L-AM": (19.28, 0.07, None, 4447),
    },
}

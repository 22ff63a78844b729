"""Growing factors, jitter, and storage."""

import numpy as np
import pytest

from pronk.core.linalg import (
    GrowingCholesky,
    GrowingRows,
    Workspace,
    add_products,
    cholesky,
    recombined,
    solve_lower,
    solve_one,
    solve_rows,
)


def positive_definite(n, seed=0):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(n, n))
    return root @ root.T + n * np.eye(n)


@pytest.mark.parametrize("pieces", [[1] * 30, [300], [100, 57, 1, 142]])
def test_a_factor_grown_in_pieces_is_the_factor_of_the_whole(pieces):
    n = sum(pieces)
    M = positive_definite(n)
    grown = GrowingCholesky()
    for m in pieces:
        i = grown.size
        solved = grown.solve(M[:i, i : i + m])
        grown.append(solved, M[i : i + m, i : i + m])
    L = np.linalg.cholesky(M)
    B = np.random.default_rng(1).normal(size=(n, 4))
    np.testing.assert_allclose(grown.used, L, rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(grown.solve(B), np.linalg.solve(L, B), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(
        grown.solve(B[:, 0]), np.linalg.solve(L, B[:, 0]), rtol=1e-10, atol=1e-12
    )
    np.testing.assert_allclose(
        grown.solve_transposed(B), np.linalg.solve(L.T, B), rtol=1e-10, atol=1e-12
    )
    rows = np.ascontiguousarray(B.T)
    np.testing.assert_allclose(
        grown.solve_rows(rows), np.linalg.solve(L, B).T, rtol=1e-10, atol=1e-12
    )
    assert grown.log_determinant() == pytest.approx(np.linalg.slogdet(M)[1])
    again = GrowingCholesky()
    again.restore(grown.to_state())
    assert np.array_equal(again.solve(B), grown.solve(B))


def test_the_floor_keeps_a_singular_matrix_factorable():
    """K of rank one plus 1e-18 I: every later pivot is rounding, and becomes the floor."""
    K = np.ones((6, 6))
    grown = GrowingCholesky(floor=1e-18)
    for m in (1, 3, 2):
        i = grown.size
        solved = grown.solve(K[:i, i : i + m])
        grown.append(solved, K[i : i + m, i : i + m] + 1e-18 * np.eye(m))
    pivots = np.diag(grown.used)
    assert np.isfinite(pivots).all()
    assert (pivots[1:] ** 2 >= 1e-18 * (1 - 1e-12)).all()


def test_only_the_stated_triangle_is_read_and_jitter_is_reported():
    M = np.asfortranarray(positive_definite(5))
    spoiled = M.copy(order="F")
    spoiled[np.triu_indices(5, 1)] = np.nan
    np.testing.assert_allclose(cholesky(spoiled), np.linalg.cholesky(M), rtol=1e-12, atol=0)
    singular = np.asfortranarray(np.ones((4, 4)) - 1e-17 * np.eye(4))
    with pytest.warns(RuntimeWarning, match="not positive definite"):
        L = cholesky(singular, "test matrix")
    np.testing.assert_allclose(L @ L.T, singular, rtol=0, atol=1e-12)
    with pytest.raises(FloatingPointError, match="not finite"):
        cholesky(np.asfortranarray(np.full((2, 2), np.nan)))


def test_row_solves_and_products_work_in_place():
    M = np.asfortranarray(positive_definite(6))
    L = cholesky(M)
    rows = np.random.default_rng(3).normal(size=(9, 6))
    expected = np.linalg.solve(L, rows.T).T
    total = np.tril(M + rows.T @ rows)
    np.testing.assert_allclose(np.tril(add_products(M, rows)), total, rtol=1e-12, atol=0)
    held = rows.copy()
    np.testing.assert_allclose(solve_rows(L, held), expected, rtol=1e-12, atol=0)
    np.testing.assert_allclose(held, expected, rtol=1e-12, atol=0)
    np.testing.assert_allclose(
        solve_lower(L, rows.T, transposed=True), np.linalg.solve(L.T, rows.T), rtol=1e-12, atol=0
    )


def test_growing_rows_and_workspace():
    rows = GrowingRows(2)
    values = np.arange(200.0).reshape(100, 2)
    for i in range(0, 100, 7):
        rows.append(values[i : i + 7])
    assert np.array_equal(rows.values, values)
    rows.widen(3)
    assert np.array_equal(rows.values[:, 2], np.zeros(100))
    memory = Workspace()
    first = memory.allocate("a", 4, 5)
    assert first.shape == (4, 5) and np.shares_memory(first, memory.allocate("a", 2, 3))
    assert not np.shares_memory(first, memory.allocate("b", 4, 5))


@pytest.mark.parametrize("n", [1, 7, 32, 50, 101])
def test_rows_one_by_one(n):
    rng = np.random.default_rng(n)
    A = rng.normal(size=(n, 2 * n))
    L = np.linalg.cholesky(A @ A.T / n + np.eye(n))
    rows = rng.normal(size=(9, n))
    expected = np.linalg.solve(L, rows.T).T
    room = np.zeros((n + 3, n + 3))
    room[:n, :n] = L
    for row, solved in zip(rows, expected, strict=True):
        z = row.copy()
        solve_one(room, z)
        np.testing.assert_allclose(z, solved, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("n", [1, 7, 60])
def test_a_factor_from_a_file_is_compared_with_its_matrix(n):
    A = np.random.default_rng(n).normal(size=(n, n + 3))
    K = A @ A.T
    grown = GrowingCholesky()
    grown.append(np.empty((0, n)), K + 0.5 * np.eye(n))
    asked = []

    def rows(places, matrix=K):
        asked.append(places)
        return matrix[places].copy()

    grown.require_of(rows, 0.5)
    assert asked[0][0] == 0 and asked[0][-1] == n - 1  # the first and the last are looked at
    for row in (0, n - 1):
        other = K.copy()
        other[row, row] *= 1.01
        with pytest.raises(ValueError, match="factor is not that of the points"):
            grown.require_of(lambda places, other=other: other[places].copy(), 0.5)
    with pytest.raises(ValueError, match="factor is not that of the points"):
        grown.require_of(rows, 0.6)


def test_a_retry_reads_the_same_triangle():
    """The upper one of a C-ordered matrix that is not definite in rounding, else the lower one."""
    v = np.array([1.0, 2.0, 3.0])
    A = np.outer(v, v)
    for order, other in (("C", np.tril_indices(3, -1)), ("F", np.triu_indices(3, 1))):
        spoiled = np.array(A, order=order)
        spoiled[other] = 1e6
        with pytest.warns(RuntimeWarning, match="positive definite"):
            L = cholesky(spoiled)
        np.testing.assert_allclose(L @ L.T, A, rtol=0, atol=1e-9)


def test_outputs_are_mapped_one_to_one():
    values = np.arange(12.0).reshape(4, 3)
    M = np.array([[0.0, -1.0, 0.0, 1.0], [2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    np.testing.assert_array_equal(recombined(values, M), values @ M)
    np.testing.assert_array_equal(recombined(values, M, absolute=True), values @ np.abs(M))
    np.testing.assert_array_equal(recombined(values.T, M, axis=-2), M.T @ values.T)
    with pytest.raises(ValueError, match="one old one"):
        recombined(values, np.ones((3, 1)))

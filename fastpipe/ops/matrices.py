"""The coefficients of warps, which map the result's pixels to the image's. Compiled by TorchScript with the operations.

Derived from torchvision (BSD-3-Clause, see NOTICE).
"""

import math

import torch

from fastpipe.tensor_kernels.torchscript import FloatList, is_scripting


def perspective_coeffs(startpoints: list[list[int]], endpoints: list[list[int]]) -> list[float]:
    """The coefficients ``(a, b, c, d, e, f, g, h)`` of the perspective that moves four points to four others.

    A pixel ``(x, y)`` of the result comes from ``((ax + by + c) / (gx + hy + 1), (dx + ey + f) / (gx + hy + 1))``.

    Args:
        startpoints: ``[x, y]`` of the image's top left, top right, bottom right and bottom left corner.
        endpoints: ``[x, y]`` of these corners in the result.

    Raises:
        ValueError: there aren't four points each.
    """
    if len(startpoints) != 4 or len(endpoints) != 4:
        raise ValueError(
            f"Please provide exactly four corners, got {len(startpoints)} startpoints and {len(endpoints)} endpoints."
        )
    rows: list[list[int]] = []
    for p1, p2 in zip(endpoints, startpoints):  # noqa: B905 - TorchScript's zip has no strict
        rows.append([p1[0], p1[1], 1, 0, 0, 0, -p2[0] * p1[0], -p2[0] * p1[1]])
        rows.append([0, 0, 0, p1[0], p1[1], 1, -p2[1] * p1[0], -p2[1] * p1[1]])
    if is_scripting():
        a_matrix = torch.tensor(rows, dtype=torch.float64)
    else:
        a_matrix = _in_float64(rows)
    b_matrix = torch.tensor(startpoints, dtype=torch.float64).view(8)
    # Solved in float64, then rounded as torchvision does, so that every backend gets the same numbers.
    solution = torch.linalg.lstsq(a_matrix, b_matrix, driver="gels").solution.to(torch.float32)
    output: list[float] = solution.tolist()
    return output


def _in_float64(rows: list[list[int]]) -> torch.Tensor:
    """The rows in float64; rows with non-integer numbers are converted to float32 first, as in torchvision."""
    if all(type(number) is int for row in rows for number in row):
        return torch.tensor(rows, dtype=torch.float64)
    return torch.stack([torch.tensor(row).to(torch.float64) for row in rows])


def inverse_affine_matrix(
    center: FloatList, angle: float, translate: FloatList, scale: float, shear: FloatList, inverted: bool = True
) -> list[float]:
    """The first two rows of the inverse matrix of `affine`: it maps the result's pixels to the image's, as in Pillow.

    ``M = T C R S Shy Shx C^-1`` with the translations ``T`` (by ``translate``) and ``C`` (by ``center``), the rotation
    ``R``, the scale ``S`` and the shears ``Shx = [1, -tan(x); 0, 1]``, ``Shy = [1, 0; -tan(y), 1]``. Returns
    ``M^-1``, or ``M`` itself unless ``inverted``.

    Args:
        center: ``[x, y]``, in pixels.
        angle: degrees, clockwise.
        translate: ``[x, y]``, in pixels.
        scale: a factor.
        shear: ``[x, y]``, in degrees.
    """
    rot = math.radians(angle)
    sx = math.radians(shear[0])
    sy = math.radians(shear[1])
    cx, cy = center
    tx, ty = translate

    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)

    if inverted:
        # The determinants of a rotation and of a shear are 1, so the inverse needs no division by them.
        matrix = [d, -b, 0.0, -c, a, 0.0]
        matrix = [x / scale for x in matrix]
        matrix[2] += matrix[0] * (-cx - tx) + matrix[1] * (-cy - ty)
        matrix[5] += matrix[3] * (-cx - tx) + matrix[4] * (-cy - ty)
        matrix[2] += cx
        matrix[5] += cy
    else:
        matrix = [a, b, 0.0, c, d, 0.0]
        matrix = [x * scale for x in matrix]
        matrix[2] += matrix[0] * (-cx) + matrix[1] * (-cy)
        matrix[5] += matrix[3] * (-cx) + matrix[4] * (-cy)
        matrix[2] += cx + tx
        matrix[5] += cy + ty
    return matrix


def inverse_affine_matrix_of_v2(
    center: FloatList, angle: float, translate: FloatList, scale: float, shear: FloatList, inverted: bool = True
) -> list[float]:
    """`inverse_affine_matrix` as torchvision's v2 computes it, with other last bits; the same arguments."""
    rot = math.radians(angle)
    sx = math.radians(shear[0])
    sy = math.radians(shear[1])
    cx, cy = center
    shifted_x, shifted_y = cx + translate[0], cy + translate[1]

    a = math.cos(rot - sy) / math.cos(sy)
    b = -(a * math.tan(sx) + math.sin(rot))
    c = math.sin(rot - sy) / math.cos(sy)
    d = math.cos(rot) - c * math.tan(sx)

    if inverted:
        matrix = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
        matrix[2] += cx - matrix[0] * shifted_x - matrix[1] * shifted_y
        matrix[5] += cy - matrix[3] * shifted_x - matrix[4] * shifted_y
    else:
        matrix = [a * scale, b * scale, 0.0, c * scale, d * scale, 0.0]
        matrix[2] += shifted_x - matrix[0] * cx - matrix[1] * cy
        matrix[5] += shifted_y - matrix[3] * cx - matrix[4] * cy
    return matrix

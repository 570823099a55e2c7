"""Are two pictures the same to the eye? Strict nbval does not look at them."""

import base64
import io

import numpy as np
from PIL import Image

# The mean difference that is let through, of 255. A curve drawn a thousandth of a pixel higher stays far
# below; one other digit in a title is above.
TOLERANCE = 0.02


def pixels(png):
    """The picture in a stored output, as numbers: height × width × red, green, blue."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image.convert("RGB"), dtype=np.int16)


def difference(png, other):
    """The mean difference of two stored pictures' pixels, from 0 to 255; infinite if their sizes differ."""
    a, b = pixels(png), pixels(other)
    return float(np.abs(a - b).mean()) if a.shape == b.shape else float("inf")

"""Are two pictures the same to the eye or, where they hang on a training, alike? nbval does not look."""

import base64
import io

import numpy as np
from outline import differs
from PIL import Image

# The mean difference that is let through, of 255. A curve drawn a thousandth of a pixel higher stays far
# below; one other digit in a title is above.
TOLERANCE = 0.02

# The same for the patches of a picture that hangs on a training, whose outline is compared as well. Chosen
# between what was measured: alike figures of the tests differ by less than 1, another background or colour
# scale by far more.
ROUGH_TOLERANCE = 4
PATCHES = 24, 16  # columns, rows


def pixels(png):
    """The picture in a stored output, as numbers: height × width × red, green, blue."""
    with Image.open(io.BytesIO(base64.b64decode(png))) as image:
        return np.asarray(image.convert("RGB"), dtype=np.int16)


def difference(png, other):
    """The mean difference of two stored pictures' pixels, from 0 to 255; infinite if their sizes differ."""
    a, b = pixels(png), pixels(other)
    return float(np.abs(a - b).mean()) if a.shape == b.shape else float("inf")


def rough_difference(png, other):
    """The mean difference of two pictures' patches, from 0 to 255; their sizes may differ a little."""
    a, b = (Image.fromarray(pixels(image).astype("uint8")) for image in (png, other))
    if max(abs(one - two) / two for one, two in zip(a.size, b.size, strict=True)) > 0.05:
        return float("inf")
    a, b = (np.asarray(image.resize(PATCHES, Image.Resampling.BOX), dtype=float) for image in (a, b))
    return float(np.abs(a - b).mean())


def complaint(old, new, roughly=False):
    """What is different between two outputs' pictures, in words; None where they are the same.

    roughly: the pictures hang on a training, and are the same if they are alike and have the same outline
    """
    if "image/png" not in old.get("data", {}):
        return None
    a, b = old.data["image/png"], new.data["image/png"]
    far = difference(a, b)
    if far > TOLERANCE and roughly:
        far = rough_difference(a, b)
        words = differs(old.metadata.get("outline"), new.metadata.get("outline"))
        return words or (
            f"the stored picture is not like the new one, by {far:.3f}" if far > ROUGH_TOLERANCE else None
        )
    return (
        f"the stored picture differs from the new one by {far:.3f} of 255 a pixel, on average"
        if far > TOLERANCE
        else None
    )

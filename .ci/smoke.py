"""What has to work where nothing but the package and NumPy is installed: run it from anywhere."""

import os
import subprocess
import sys
import tempfile

import numpy as np

import xpapply

loaded = {name.partition(".")[0] for name in sys.modules}
assert not loaded & {"torch", "cupy", "scipy", "dask", "xarray", "llvmlite", "click"}, loaded

os.chdir(tempfile.mkdtemp())
rng = np.random.default_rng(0)
cube = rng.normal(size=(50, 60, 16)).astype(np.float32)
weights = [rng.normal(size=s).astype(np.float32) for s in ((8, 16), (2, 8))]
net = xpapply.MLP(weights)
found = xpapply.apply_along_axis(net, -1, cube)
wanted = np.maximum(cube @ weights[0].T, 0) @ weights[1].T
np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-4)


def contrast(v):
    """A function that decides by its data."""
    return v.max() - v.min() if v[0] > 0 else v.mean()


for axis in (0, 1, 2):
    ours = xpapply.apply_along_axis(contrast, axis, cube)
    np.testing.assert_array_equal(ours, np.apply_along_axis(contrast, axis, cube))
np.testing.assert_allclose(
    xpapply.special.logsumexp(cube, axis=-1), np.log(np.exp(cube).sum(-1)), rtol=1e-5
)
out = np.lib.format.open_memmap("out.npy", "w+", np.float32, (50, 60, 2))
xpapply.apply_along_axis(net, -1, cube, out=out)
np.testing.assert_array_equal(out, found)
xpapply.compile(net, (16,), "float32").save("net.xpapply")
loaded_again = xpapply.load_model("net.xpapply")
np.testing.assert_allclose(xpapply.apply_along_axis(loaded_again, -1, cube), found, rtol=1e-4)
with xpapply.patch():
    np.testing.assert_array_equal(np.apply_along_axis(np.ptp, 1, cube), np.ptp(cube, axis=1))
said = subprocess.run([sys.executable, "-m", "xpapply"], capture_output=True, text=True, check=True)
assert xpapply.__version__ in said.stdout
print(f"xpapply {xpapply.__version__} works with NumPy {np.__version__}, Python {sys.version}")

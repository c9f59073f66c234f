import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))

from cluster_fixtures import *  # noqa: E402,F401,F403

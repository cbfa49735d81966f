# SPDX-License-Identifier: Apache-2.0
"""How the notebooks draw: pictures for the width of a page, with the finding as title and a text for who cannot see."""

import matplotlib.pyplot as plt
from IPython.display import display

# Colours that colour-blind people can tell apart (Okabe and Ito 2008).
BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#777777"

plt.rcParams.update({"font.size": 9, "axes.titlesize": 10, "axes.titlelocation": "left", "axes.spines.top": False,
                     "axes.spines.right": False, "figure.dpi": 110})


def page(rows=1, columns=1, height=3.6, **options):
    """A figure as wide as a page, and its axes."""
    return plt.subplots(rows, columns, figsize=(9, height), layout="constrained", **options)


def show(figure, description):
    """Draws the figure here, with `description` as alternative text."""
    display(figure, metadata={"image/png": {"alt": description}})
    plt.close(figure)

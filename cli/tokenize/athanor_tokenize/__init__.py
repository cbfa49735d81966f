# SPDX-License-Identifier: Apache-2.0
"""Text and conversations become packed training tokens, and images labelled pixels. Read first: program.py, which
calls the other modules."""

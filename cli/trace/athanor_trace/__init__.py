# SPDX-License-Identifier: Apache-2.0
"""Units of Hugging Face language models as graphs that athanor runs."""

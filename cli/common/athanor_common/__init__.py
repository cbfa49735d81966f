# SPDX-License-Identifier: Apache-2.0
"""What the programs in Python share: errors, exit codes and progress, as those in C++ have them."""

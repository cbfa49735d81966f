# SPDX-License-Identifier: Apache-2.0
"""The programs of athanor, as the wheel athanor-sim installs them. The wheel athanor adds those that need LibTorch."""

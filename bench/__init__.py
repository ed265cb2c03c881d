"""Measures what XWAY gains: between two real guests, beside what Linux and Xen offer without it."""

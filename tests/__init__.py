"""Tests of XWAY."""

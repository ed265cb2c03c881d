"""The rig: a real Xen with guests, or one plain VM, on any machine."""

"""The one error the rig shows to a person as a line of text, without a traceback."""


class RigError(Exception):
    """Something the rig cannot do; the text names what is wrong."""


class EmulatorFault(RigError):
    """The emulator, not what runs in it, has failed."""


class NotHere(RigError):
    """This machine cannot run such a rig, whatever the tree does."""

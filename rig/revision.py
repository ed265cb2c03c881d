"""Modules and the command of a commit, out of the history, to run them in the place of this tree's."""

from rig import build, compiler
from rig.debian import Debian
from rig.errors import RigError
from rig.guest import Guest
from rig.host import run
from rig.image import DEBUG
from rig.paths import BUILD, TREE, making
from rig.progress import Step


def name(commit: str) -> str:
    """Return the whole name of a commit."""
    try:
        return run(["git", "-C", TREE, "rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}"]).strip()
    except RigError:
        raise RigError(f"{commit} is no commit of this tree (git fetch --unshallow?)") from None


def products(commit: str, debian: Debian, kernel: str) -> build.Products:
    """Build the modules and the command `xway` of a commit for a kernel of `debian`, by its name there.

    Raises RigError if there is no such commit, or if it does not build.
    """
    if kernel == DEBUG:
        raise RigError("the modules of a commit are built for Debian's kernels only")
    whole, release = name(commit), build.kernel_release(debian, kernel)
    (BUILD / "revision").mkdir(parents=True, exist_ok=True)
    folder = BUILD / "revision" / f"{release}-{whole[:12]}"
    with making(folder) as work:
        if work:
            with Step(f"building {whole[:7]} for {release}"):
                archive = 'git -C "$1" archive "$2" kernel include tools | tar x -C "$3"'
                run(["sh", "-ec", archive, "sh", TREE, whole, work])
                run([*build.make(debian, kernel, work), "-s", f"M={work / 'kernel'}", "modules"])
                tools = ["make", "-s", "-C", work / "tools", *compiler.variables(debian, "tools")]
                run([*tools, f"OUT={work / 'out'}", work / "out/xway"])
    modules = sorted((folder / "kernel").rglob("*.ko"))
    return build.Products(release, modules, {"xway": folder / "out/xway"})


def put(guest: Guest, made: build.Products, folder: str) -> None:
    """Put what sockets need of the products into a folder of a guest, for use()."""
    guest.run(["mkdir", "-p", folder])
    # Versions before have one module. The core is loaded before its user.
    modules = [path for name in ("xway_core", "xway") for path in made.modules if path.stem == name]
    for path in (*modules, made.programs["xway"]):
        guest.put(path, f"{folder}/{path.name}", mode=0o755)
    guest.write(f"{folder}/order", "".join(f"{path.name}\n" for path in modules))


def use(guest: Guest, folder: str) -> None:
    """Have a guest run the modules and the command in `folder`, in the place of those that it runs.

    Connections that are open go on by TCP. What the modules need besides each other is loaded already.
    """
    guest.run(
        "set -e; xway off --wait 20; rmmod xway\n"
        "! grep -q '^xway_core ' /proc/modules || rmmod xway_core\n"
        f"cp {folder}/xway /usr/local/bin/xway\n"
        f"while read -r module; do insmod {folder}/$module; done <{folder}/order",
        timeout=120,
    )

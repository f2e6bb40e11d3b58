"""Measure the structure of the product's code: sizes, small files, import depth, docstrings.

    python -m bench.structure --out FOLDER
    python -m bench.structure --before FOLDER --out FOLDER    # an earlier checkout beside it
    python -m bench.structure --list    # functions at borders without a contract

The *product* is what the wheel holds. *Import depth* is the longest chain of module-level imports,
counted in modules. *Small* modules have fewer than 40 lines; package files (`__init__.py`) are not
counted. *Contract docstrings* are counted over the functions at package borders that take or return
tensors, bytes, paths or times: public functions, and public methods of public classes, that another
package imports. A docstring is a contract if it names arguments, results, errors, shapes or units.
"""

import argparse
import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from statistics import median

from training.record import commit, write

PRODUCT = ("app", "cli", "common", "engine", "ingest", "precompute", "reader", "storage", "workers")
CALLERS = ("bench", "training")
SMALL_LINES = 40
MEASURED_TYPES = re.compile(r"\b(?:Tensor|bytes|bytearray|memoryview|Path|datetime|timedelta)\b")
MEASURED_NAMES = re.compile(r"(?:_s|_ms|_bytes)$")
SECTIONS = re.compile(r"\b(?:Args|Returns|Raises|Attributes|Yields|Fills|Source):")
SHAPES_AND_UNITS = re.compile(
    r"\(\w*(?:, ?\w[\w +*/]*)*,?\)|\b(?:seconds|milliseconds|bytes|tokens|nats)\b"
)
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class Structure:
    """What was counted.

    Attributes:
        files, lines: of the product's Python code, per package.
        small_modules: modules of fewer than 40 lines, per package.
        num_small_modules: of all packages.
        import_depth: modules on the longest chain of module-level imports.
        longest_chain: that chain.
        function_lines: median and ninetieth percentile of the lines of a function.
        file_lines: median, ninetieth percentile and maximum of the lines of a file.
        border_functions: functions at package borders that take or return measured values.
        border_contracts: those of them whose docstring is a contract.
        contract_share: their share.
    """

    files: dict[str, int]
    lines: dict[str, int]
    small_modules: dict[str, int]
    num_small_modules: int
    import_depth: int
    longest_chain: tuple[str, ...]
    function_lines: tuple[float, int]
    file_lines: tuple[float, int, int]
    border_functions: int
    border_contracts: int
    contract_share: float


@dataclass(frozen=True)
class Module:
    """A parsed file."""

    name: str
    is_package: bool
    num_lines: int
    tree: ast.Module

    @property
    def package(self) -> str:
        """The top-level package."""
        return self.name.partition(".")[0]


def read_modules(root: Path, packages: tuple[str, ...]) -> dict[str, Module]:
    """Parse all Python files of some packages below a folder, by dotted name."""
    modules = {}
    for package in packages:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            is_package = parts[-1] == "__init__"
            name = ".".join(parts[:-1] if is_package else parts)
            text = path.read_text(encoding="utf-8")
            modules[name] = Module(name, is_package, text.count("\n"), ast.parse(text))
    return modules


def measure(root: Path) -> Structure:
    """Count everything in the checkout at `root`."""
    product = read_modules(root, PRODUCT)
    chain = longest_chain(product)
    functions = [node for module in product.values() for node in _functions(module.tree)]
    spans = sorted((node.end_lineno or 0) - node.lineno + 1 for node in functions)
    sizes = sorted(module.num_lines for module in product.values() if not module.is_package)
    border = list(border_functions(product | read_modules(root, CALLERS)))
    contracts = sum(is_contract(node) for _, node in border)
    return Structure(
        files=_per_package(product, lambda _: True),
        lines={
            package: sum(m.num_lines for m in product.values() if m.package == package)
            for package in PRODUCT
        },
        small_modules=_per_package(product, _is_small),
        num_small_modules=sum(map(_is_small, product.values())),
        import_depth=len(chain),
        longest_chain=chain,
        function_lines=(median(spans), spans[int(0.9 * len(spans))]),
        file_lines=(median(sizes), sizes[int(0.9 * len(sizes))], sizes[-1]),
        border_functions=len(border),
        border_contracts=contracts,
        contract_share=round(contracts / len(border), 4) if border else 1.0,
    )


def longest_chain(modules: dict[str, Module]) -> tuple[str, ...]:
    """The longest chain of module-level imports, from the importer down."""
    imports = {name: sorted(_imported(module, modules)) for name, module in modules.items()}

    @cache
    def chain(name: str) -> tuple[str, ...]:
        below = (chain(other) for other in imports[name])
        return (name, *max(below, key=len, default=()))

    return max((chain(name) for name in sorted(modules)), key=len, default=())


def border_functions(modules: dict[str, Module]) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Functions and methods of the product that other packages import, with measured values."""
    wanted: set[tuple[str, str]] = set()
    for module in modules.values():
        for node in ast.walk(module.tree):
            if not isinstance(node, ast.ImportFrom) or not node.module:
                continue
            if node.module.partition(".")[0] != module.package:
                wanted |= {(node.module, alias.name) for alias in node.names}
    for name, symbol in sorted(wanted):
        if name not in modules or modules[name].package not in PRODUCT:
            continue
        for node in modules[name].tree.body:
            if isinstance(node, DEFINITIONS) and node.name == symbol and _is_measured(node):
                yield f"{name}.{symbol}", node  # type: ignore[misc]
            if isinstance(node, ast.ClassDef) and node.name == symbol:
                for method in node.body:
                    if not isinstance(method, DEFINITIONS) or method.name.startswith("_"):
                        continue
                    if _is_measured(method):
                        yield f"{name}.{symbol}.{method.name}", method  # type: ignore[misc]


def is_contract(node: ast.AST) -> bool:
    """Whether a function's docstring names arguments, results, errors, shapes or units."""
    text = ast.get_docstring(node) or ""  # type: ignore[arg-type]
    return bool(SECTIONS.search(text) or SHAPES_AND_UNITS.search(text))


def _is_measured(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether it takes or returns tensors, bytes, paths or times."""
    arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
    annotations = [argument.annotation for argument in arguments] + [node.returns]
    texts = (ast.unparse(annotation) for annotation in annotations if annotation is not None)
    names = (argument.arg for argument in arguments)
    return any(map(MEASURED_TYPES.search, texts)) or any(map(MEASURED_NAMES.search, names))


def _imported(module: Module, modules: dict[str, Module]) -> set[str]:
    """Modules that a module imports when it is imported, but not for type checking alone."""
    found: set[str] = set()
    for node in _module_level(module.tree.body):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            submodules = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= submodules & modules.keys() or {node.module}
    return (found & modules.keys()) - {module.name}


def _module_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        yield node
        if isinstance(node, ast.Try | ast.If | ast.With):
            yield from _module_level(node.body)


def _is_small(module: Module) -> bool:
    return not module.is_package and module.num_lines < SMALL_LINES


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, DEFINITIONS))


def _per_package(modules: dict[str, Module], counts: Callable[[Module], bool]) -> dict[str, int]:
    return {
        package: sum(m.package == package and counts(m) for m in modules.values())
        for package in PRODUCT
    }


def main() -> None:
    """Print the figures, and write them if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1])
    parser.add_argument("--before", type=Path, help="an earlier checkout, to be counted too")
    parser.add_argument("--out", type=Path, help="folder of the result")
    parser.add_argument("--list", action="store_true", help="name what has no contract docstring")
    options = parser.parse_args()
    found = measure(options.root)
    if options.list:
        modules = read_modules(options.root, PRODUCT + CALLERS)
        for name, node in border_functions(modules):
            if not is_contract(node):
                print(name)
    result = {"benchmark": "structure", "commit": commit(), **asdict(found)}
    if options.before is not None:
        result["before"] = asdict(measure(options.before))
    print(json.dumps(result, indent=1))
    if options.out is not None:
        write("structure", result, options.out)


if __name__ == "__main__":
    main()

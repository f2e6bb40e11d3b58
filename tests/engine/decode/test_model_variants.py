"""Linear layers through `products` give what they gave, together or alone."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from common.errors import UnsupportedModel
from engine.decode.model_variants import (
    SharedTritonLinear,
    TritonLinear,
    compile_layers,
    with_few_layers,
    with_triton_linears,
)
from engine.kernels.decode.matvec import MAX_ROWS
from engine.model.attention import forward, register
from engine.model.reorder_heads import _FullAttention
from tests.engine.naive import normal
from tests.models import FAMILIES, random_model

ONE = torch.tensor([7])


class Launches(TorchDispatchMode):
    """Counts the parts of products, one operation after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[int] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func is torch.ops.lectern.products.default:
            self.parts.append(len(args[1]))
        return func(*args, **(kwargs or {}))


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Our attention is what transformers finds, before and after."""
    register()
    yield
    register()


def logits(model: nn.Module, ids: Tensor) -> Tensor:
    return forward(model, ids, 0, _FullAttention(), keep=len(ids))


@pytest.mark.parametrize("family", ["llama", "qwen2", "phi3"])  # biases; layers joined already
@pytest.mark.parametrize("count", [1, MAX_ROWS])
def test_a_model_answers_alike(family: str, count: int) -> None:
    model = random_model(FAMILIES[family])
    model.set_attn_implementation("lectern")
    ids = torch.arange(1, count + 1)
    with Launches() as launches:
        found = logits(with_triton_linears(model), ids)
    assert_close(found, logits(model, ids), rtol=1e-5, atol=1e-5)
    layers = model.config.num_hidden_layers
    each = [1, 1, 1, 1] if family == "phi3" else [3, 1, 2, 1]
    assert launches.parts == each * layers + [1]


def test_the_model_is_left_alone_and_its_weights_are_shared() -> None:
    model = random_model(FAMILIES["llama"])
    before = [type(module) for module in model.modules()]
    twin = with_triton_linears(model)
    assert [type(module) for module in model.modules()] == before
    assert [id(p) for p in twin.parameters()] == [id(p) for p in model.parameters()]
    assert twin.state_dict().keys() == model.state_dict().keys()


def test_many_rows_are_the_librarys() -> None:
    model = random_model(FAMILIES["llama"])
    model.set_attn_implementation("lectern")
    ids = torch.arange(1, MAX_ROWS + 2)
    found = logits(with_triton_linears(model), ids)
    assert_close(found, logits(model, ids), rtol=0.0, atol=0.0)


def test_compiled_layers_take_the_same_products() -> None:
    model = random_model(FAMILIES["llama"])
    model.set_attn_implementation("lectern")
    twin = compile_layers(with_triton_linears(model), 2, backend="eager")
    with Launches() as launches:
        found = [logits(twin, ONE) for _ in range(2)]
    assert launches.parts == [3, 1, 2, 1, 3, 1, 2, 1, 1] * 2
    assert_close(found, [logits(model, ONE)] * 2, rtol=1e-5, atol=1e-5)


def test_a_layer_that_is_handed_another_input_multiplies_alone() -> None:
    members = nn.Linear(8, 5), nn.Linear(8, 3), nn.Linear(8, 3)
    first, second, third = SharedTritonLinear.among(members)
    x, other = normal(1, 8), normal(1, 8, seed=1)
    assert_close(first(x), members[0](x))
    assert_close(second(other), members[1](other))
    assert_close(third(x), members[2](x))
    assert first.outputs.latest is None
    assert_close(second(x), members[1](x))


# Some builds of torch use a deprecated decorator of their own when they compile for the first time.
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
def test_layers_that_are_alike_are_compiled_once() -> None:
    model = random_model(FAMILIES["llama"])
    model.set_attn_implementation("lectern")
    torch.compiler.reset()
    graphs = []

    def backend(graph: torch.fx.GraphModule, _: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    twin = compile_layers(with_triton_linears(model), 2, backend=backend)  # type: ignore[arg-type]
    assert_close(logits(twin, ONE), logits(model, ONE), rtol=1e-5, atol=1e-5)
    assert len(graphs) == 6  # angles, four of one layer that both take, and the last norm
    for num_tokens in range(2, 2 * MAX_ROWS + 1):  # one code for all numbers of rows
        logits(twin, torch.arange(num_tokens))
    assert len(graphs) <= 12


def test_a_variant_of_few_layers_takes_these_alone_and_leaves_the_model_as_it_is() -> None:
    model = random_model(FAMILIES["llama"])
    model.set_attn_implementation("lectern")
    before = logits(model, ONE)
    first, second = model.model.layers
    few = with_few_layers(model, 2, [1])
    assert list(few.model.layers) == [second]
    assert not torch.equal(logits(few, ONE), before)
    assert_close(logits(with_few_layers(model, 2, [0, 1]), ONE), before)
    assert list(model.model.layers) == [first, second]
    assert_close(logits(model, ONE), before)
    with pytest.raises(UnsupportedModel):
        with_few_layers(model, 3, [0])


class Doubled(nn.Linear):
    """A linear layer that computes something else."""

    def forward(self, x: Tensor) -> Tensor:
        """Twice the product."""
        return 2 * super().forward(x)


def test_layers_of_another_kind_stay() -> None:
    model = nn.ModuleDict({"q_proj": nn.Linear(4, 4), "k_proj": Doubled(4, 4),
                           "v_proj": nn.Linear(4, 4)})  # fmt: skip
    found = with_triton_linears(model)
    assert [type(found[name]) for name in model] == [TritonLinear, Doubled, TritonLinear]  # type: ignore[index]

import pytest

from rankd.core.errors import Refused
from rankd.core.model.device import DeviceState, ListedDevice
from rankd.services.agent.given_device import DeviceSpec, GivenDevices, parse_spec, read_file, vendor_of


def test_made_up_devices_have_ids_of_their_node_and_groups_of_four():
    found = GivenDevices([parse_spec("gpu:a100:5"), DeviceSpec("v100", 1)]).of("n1")
    assert [(one.id, one.model, one.index, one.group) for one in found] == [
        ("n1-gpu-0", "a100", 0, 0),
        ("n1-gpu-1", "a100", 1, 0),
        ("n1-gpu-2", "a100", 2, 0),
        ("n1-gpu-3", "a100", 3, 0),
        ("n1-gpu-4", "a100", 4, 1),
        ("n1-gpu-5", "v100", 5, 1),
    ]
    assert GivenDevices().of("n1") == []


@pytest.mark.parametrize(
    "text",
    ["gpu:4", "gpu:a100", "gpu:a100:x", "cpu:a:1", "gpu:a:0", "gpu:a:257", "", "gpu:a:" + "9" * 5_000],
)
def test_another_text_is_refused(text):
    with pytest.raises(ValueError, match=r"write gpu:MODEL:NUMBER|1 to 256"):
        parse_spec(text)


def test_capitals_are_refused_with_what_to_write():
    with pytest.raises(ValueError, match=r"'gpu:A100:4': .* lower case; write gpu:a100:4"):
        parse_spec("gpu:A100:4")
    with pytest.raises(Refused, match=r"write a100$"):
        GivenDevices([DeviceSpec("A100", 1)]).of("n1")


def test_a_node_has_a_bounded_number_of_devices():
    with pytest.raises(Refused) as refusal:
        GivenDevices([DeviceSpec("a100", 200), DeviceSpec("v100", 200)]).of("n1")
    assert refusal.value.code == "too_many"


FILE = """
[[device]]
model = "a100"
id = "GPU-5d0c"
index = 0
group = 1
memory = "80Gi"
path = "/dev/nvidia0"

[[device]]
model = "mi300x"
id = "GPU-77aa"
index = 0
state = "failed"
path = ["/dev/kfd", "/dev/dri/renderD128"]
"""


def test_a_file_gives_every_field(tmp_path):
    path = tmp_path / "devices.toml"
    path.write_text(FILE)
    one, other = read_file(path)
    assert one.registered() == ListedDevice(
        model="a100", id="GPU-5d0c", index=0, group=1, memory=80 * 2**30, path=("/dev/nvidia0",)
    )
    assert (vendor_of(one.path), one.path) == ("nvidia", ("/dev/nvidia0",))
    assert (vendor_of(other.path), other.state) == ("amd", DeviceState.FAILED)
    assert [one.index for one in GivenDevices([DeviceSpec("h100", 1)], [one, other]).of("n1")] == [0, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "[[device]]\nmodel = 'a100'\n",
        "[[device]]\nmodel = 'a100'\nid = 'x'\nindex = 0\ncolour = 'red'\n",
        "[[device]]\nmodel = 'a100'\nid = 'x'\nindex = 0\n[[device]]\nmodel = 'a100'\nid = 'x'\nindex = 1\n",
        "[[gpu]]\nmodel = 'a100'\n",
        "device = 4\n",
        "[[device]\n",
        "[[device]]\nmodel = 'a100'\nid = 'x'\nindex = 0\nmemory = 'much'\n",
    ],
)
def test_a_file_with_anything_else_is_refused(tmp_path, text):
    path = tmp_path / "devices.toml"
    path.write_text(text)
    with pytest.raises(Refused) as refusal:
        read_file(path)
    assert refusal.value.code == "bad_devices"


def test_a_missing_file_is_refused(tmp_path):
    with pytest.raises(Refused, match="No such file"):
        read_file(tmp_path / "none.toml")


def test_a_file_that_is_nested_too_deeply_is_refused(tmp_path):
    file = tmp_path / "devices.toml"
    file.write_text("[[device]]\nmodel = " + "[" * 5_000)
    with pytest.raises(Refused, match="nested too deeply"):
        read_file(file)


def test_an_index_that_is_there_twice_is_refused_with_its_line(tmp_path):
    path = tmp_path / "devices.toml"
    text = '[[device]]\nmodel = "a100"\nid = "{}"\nindex = 0\n{}'
    path.write_text(text.format("g0", "") + "\n" + text.format("g1", ""))
    with pytest.raises(Refused, match=r"devices.toml:6: device 'g1' has the index 0, as 'g0' has; give each its own"):
        read_file(path)
    shared = 'path = "/dev/nvidia0"\n'
    path.write_text(text.format("g0", shared) + "\n" + text.format("g1", shared))
    assert len(read_file(path)) == 2, "parts of one card"

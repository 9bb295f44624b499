from rankd.core.model.device import AssignedDevice
from rankd.core.model.device_environment import device_variables

TWO = [AssignedDevice("GPU-5d0c", "a100", 1), AssignedDevice("GPU-77aa", "a100", 3)]


def test_a_job_without_gpus_gets_empty_variables():
    assert device_variables([], {}) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "",
        "ROCR_VISIBLE_DEVICES": "",
        "RANKD_GPUS": "",
        "RANKD_GPU_IDS": "",
    }


def test_nvidia_devices_are_shown_by_their_ids():
    found = device_variables(TWO, {"GPU-5d0c": "nvidia", "GPU-77aa": "nvidia"})
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == "GPU-5d0c,GPU-77aa"
    assert found["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    assert (found["RANKD_GPUS"], found["RANKD_GPU_IDS"]) == ("1,3", "GPU-5d0c,GPU-77aa")
    assert found["ROCR_VISIBLE_DEVICES"] == ""


def test_confined_nvidia_devices_are_shown_by_the_numbers_that_the_library_gives_them():
    found = device_variables(TWO, {"GPU-5d0c": "nvidia", "GPU-77aa": "nvidia"}, confines=True)
    assert found["CUDA_VISIBLE_DEVICES"] == found["NVIDIA_VISIBLE_DEVICES"] == "0,1"
    assert (found["RANKD_GPUS"], found["RANKD_GPU_IDS"]) == ("1,3", "GPU-5d0c,GPU-77aa")


def test_amd_devices_hide_those_of_nvidia():
    found = device_variables(TWO, {"GPU-5d0c": "amd", "GPU-77aa": "amd"})
    assert (found["ROCR_VISIBLE_DEVICES"], found["CUDA_VISIBLE_DEVICES"]) == ("GPU-5d0c,GPU-77aa", "")


def test_made_up_devices_are_shown_by_their_indices():
    found = device_variables(TWO, {})
    assert (found["CUDA_VISIBLE_DEVICES"], found["NVIDIA_VISIBLE_DEVICES"]) == ("1,3", "1,3")

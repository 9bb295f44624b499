"""Entries of slurm.conf and of scontrol: continuations, records, included files."""

from rankd.core.slurm.config_line import config_lines, fields_of
from rankd.core.slurm.reading import Reading


def read(text):
    reading = Reading("slurm.conf")
    return [(line.number, line.key, line.value) for line in config_lines(text, reading)], reading.remarks


def test_a_backslash_continues_an_entry_with_or_without_blanks():
    text = "PartitionName=a Nodes=n1 \\\nAllowGroups=staff \\\n  MaxTime=60\nClusterName=x\n"
    assert read(text)[0] == [
        (1, "PartitionName", "PartitionName=a Nodes=n1 AllowGroups=staff MaxTime=60"),
        (4, "ClusterName", "x"),
    ]


def test_an_indented_record_is_an_entry_of_its_own():
    assert [number for number, _, _ in read("  PartitionName=a\n  PartitionName=b\n")[0]] == [1, 2]


def test_included_files_and_unreadable_lines_are_named():
    found, remarks = read("Include  /etc/slurm/nodes.conf\nhello\n\n# hello\nConfiguration data as of 2026\n")
    assert found == []
    assert [(remark.line, remark.message.partition(":")[0]) for remark in remarks] == [
        (1, "Include /etc/slurm/nodes.conf"),
        (2, "'hello' is not a setting of the form Key=value; it is left out"),
    ]


def test_a_list_that_scontrol_numbers_is_one_setting_each():
    assert read("SlurmctldHost[0] = a\nSlurmctldHost[1] = b\n")[0] == [
        (1, "SlurmctldHost", "a"),
        (2, "SlurmctldHost", "b"),
    ]


def test_fields_have_their_values_without_quotes():
    assert fields_of('DownNodes=n1 State=DOWN Reason="broken fan"')["reason"] == "broken fan"

"""What sbatch's options mean here."""

import pytest

from rankd.core.slurm.sbatch_option import OPTIONS, translate


@pytest.mark.parametrize(
    ("line", "ours"),
    [
        ("-p gpu -q high", "--queue=gpu --qos=high"),
        ("-J x -A a -N 2-4 -n 8 -c 2", "--job-name=x --account=a --nodes=2-4 --ntasks=8 --cpus-per-task=2"),
        ("--ntasks-per-node=4 --mem-per-cpu=2G --gres=gpu:2", "--ntasks-per-node=4 --mem-per-cpu=2G --gres=gpu:2"),
        ("-t 1-0 -b now+1hour -d afterok:7", "--time=86400s --begin=now+1hour --dependency=afterok:7"),
        ("--out=%x-%N.log --no-requeue -H --nice", "--output=%x-%n.log --no-requeue --hold --urgency=15"),
        ("-C a&b --exclusive -D /w --workdir /v", "--constraint=a,b --exclusive --chdir=/w --chdir=/v"),
        (
            "--mail-type=BEGIN,TIME_LIMIT --mail-user=alice,b@x.org",
            "--notify=start,timeout --notify-if-allowed --notify-to=mailto:alice,mailto:b@x.org --notify-if-allowed",
        ),
        ("-a 1-9%2 --mem 16GB -t UNLIMITED --open-mode=truncate", "--array=1-9%2 --mem=16GB"),
    ],
)
def test_what_has_an_equivalent_becomes_it(line, ours):
    assert translate(line.split()) == (ours.split(), [], [])


@pytest.mark.parametrize(
    "line", ["--mail-type=STAGE_OUT", "--cpu-bind=cores", "-Q", "--time-min=5", "--mem=0", "--mem=0G"]
)
def test_what_is_harmless_has_no_effect_and_is_told(line):
    words, [remark], refused = translate([line])
    assert (words, refused) == ([], [])
    assert "has no effect here" in remark


@pytest.mark.parametrize(
    ("line", "option"),
    [("-F nodes.txt", "nodefile"), ("--signal=B:USR1@60", "signal"), ("--reservation=r", "reservation"),
     ("-L matlab:1", "licenses"), ("--exclusive=user", "exclusive"), ("--open-mode=append", "open-mode"),
     ("-G a100:b:2", "gpus"), ("-G ²", "gpus"), ("--wrap=true", "wrap"), ("-t soon", "time"),
     ("--mail-type=SOON", "mail-type")],
)  # fmt: skip
def test_what_has_no_equivalent_is_refused_by_its_name_and_the_rest_stays(line, option):
    words, _, [refused] = translate(["-J", "x", *line.split()])
    assert (words, refused.option) == (["--job-name=x"], option)
    assert refused.why


def test_a_line_that_sbatch_could_not_read_is_refused():
    with pytest.raises(ValueError, match=r"no option --tiem; did you mean --time\?"):
        translate(["--tiem=5"])


def test_no_letter_has_two_meanings():
    letters = [option.spelling.letter for option in OPTIONS.values() if option.spelling.letter]
    assert len(letters) == len(set(letters))
    assert len(OPTIONS) > 100

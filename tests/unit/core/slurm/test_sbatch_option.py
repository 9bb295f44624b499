"""What sbatch's options mean here."""

import pytest

from rankd.core.slurm.sbatch_option import OPTIONS, advice, translate


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
        ("-a 1-9%2 --mem 16GB", "--array=1-9%2 --mem=16GB"),
        ("--open-mode=truncate --open-mode=a", "--open-mode=truncate --open-mode=append"),
    ],
)
def test_what_has_an_equivalent_becomes_it(line, ours):
    assert translate(line.split()) == (ours.split(), [], [])


@pytest.mark.parametrize(
    "line",
    [
        "--mail-type=STAGE_OUT",
        "--cpu-bind=cores",
        "-Q",
        "--time-min=5",
        "--mem=0",
        "--mem=0G",
        "-t0",
        "--time=UNLIMITED",
    ],
)
def test_what_is_harmless_has_no_effect_and_is_told(line):
    words, [remark], refused = translate([line])
    assert (words, refused) == ([], [])
    assert "has no effect here" in remark


@pytest.mark.parametrize(
    ("line", "option"),
    [("-F nodes.txt", "nodefile"), ("--signal=B:USR1@60", "signal"), ("--reservation=r", "reservation"),
     ("-L matlab:1", "licenses"), ("--exclusive=user", "exclusive"), ("--open-mode=anew", "open-mode"),
     ("-G a100:b:2", "gpus"), ("-G ²", "gpus"), ("--wrap=true", "wrap"), ("-t soon", "time"),
     ("--mail-type=SOON", "mail-type"), ("--x11", "x11"), ("--x11=first", "x11")],
)  # fmt: skip
def test_what_has_no_equivalent_is_refused_by_its_name_and_the_rest_stays(line, option):
    words, _, [refused] = translate(["-J", "x", *line.split()])
    assert (words, refused.option) == (["--job-name=x"], option)
    assert refused.why


def test_an_option_that_sbatch_does_not_have_is_refused_with_the_nearest():
    words, _, [refused] = translate(["--tiem=5", "-J", "x"])
    assert words == ["--job-name=x"]
    assert refused == ("", "sbatch has no option --tiem; did you mean --time?")


def test_a_word_that_is_no_option_refuses_the_line():
    with pytest.raises(ValueError, match="is not an option"):
        translate(["job.sh"])


def test_a_remark_says_that_an_option_has_no_effect_only_if_it_has_none():
    _, [remark], _ = translate(["--mail-type=END,STAGE_OUT"])
    assert remark == "--mail-type: rankd sends no notifications of STAGE_OUT"


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("--mail-user=a", "sbatch's --mail-user is --notify-to mailto:ADDRESS"),
        ("-m", "sbatch's --distribution has no effect in rankd; leave it out"),
        ("--no-kill", "sbatch's --no-kill has no effect in rankd; leave it out"),
        ("--signal=USR1", "rankd has nothing like sbatch's --signal: rankd sends no signal before the time limit"),
        ("-M", "rankd has nothing like sbatch's --clusters: "),
    ],
)
def test_an_option_on_the_command_line_gets_its_equivalent(word, said):
    assert advice(word).startswith(said)


def test_what_sbatch_does_not_have_gets_no_advice():
    assert advice("--nonsense") is None
    assert advice("-%") is None


def test_no_letter_has_two_meanings():
    letters = [option.spelling.letter for option in OPTIONS.values() if option.spelling.letter]
    assert len(letters) == len(set(letters))
    assert len(OPTIONS) > 100

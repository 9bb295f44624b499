"""Keys: derived ones are always the same, new ones never, and signatures are those that nats-server checks."""

import base64

import nkeys
import pytest

from rankd.identity.key import KeyKind, answer, derive, key_of_seed, new_key


@pytest.mark.parametrize(("kind", "letter"), [(KeyKind.OPERATOR, "O"), (KeyKind.ACCOUNT, "A"), (KeyKind.USER, "U")])
def test_the_first_letter_says_what_a_key_is_for(kind, letter):
    assert new_key(kind).public[0] == letter
    assert new_key(kind).seed[:2] == f"S{letter}"


def test_a_derived_key_depends_on_secret_kind_and_name_and_on_nothing_else():
    one = derive(b"1" * 32, KeyKind.ACCOUNT, "user alice")
    assert one.seed == derive(b"1" * 32, KeyKind.ACCOUNT, "user alice").seed
    others = [
        derive(b"2" * 32, KeyKind.ACCOUNT, "user alice"),
        derive(b"1" * 32, KeyKind.ACCOUNT, "user bob"),
        derive(b"1" * 32, KeyKind.ACCOUNT, "node alice"),
        derive(b"1" * 32, KeyKind.USER, "user alice"),
    ]
    assert len({one.seed, *(other.seed for other in others)}) == 5


def test_new_keys_differ():
    assert len({new_key(KeyKind.USER).seed for _ in range(100)}) == 100


def test_the_answer_to_a_challenge_is_checked_by_nkeys_own_code():
    key = new_key(KeyKind.USER)
    signature = base64.b64decode(answer(key.seed, "a nonce"))
    assert nkeys.from_seed(bytearray(key.seed.encode())).verify(b"a nonce", signature)
    with pytest.raises(nkeys.ErrInvalidSignature):
        nkeys.from_seed(bytearray(key.seed.encode())).verify(b"another", signature)


@pytest.mark.parametrize("seed", ["", "SU", "SUAB", "x" * 58, "é" * 58, derive(b"1" * 32, KeyKind.USER, "x").public])
def test_what_is_not_a_seed_is_refused(seed):
    with pytest.raises(ValueError, match="not the seed"):
        key_of_seed(seed)


def test_a_key_is_not_shown():
    key = new_key(KeyKind.USER)
    assert key.seed not in repr(key)
    assert key.public in repr(key)

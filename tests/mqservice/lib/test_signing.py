"""MACs over what the service hands out."""

from __future__ import annotations

from mqservice.lib.signing import MAC_BYTES, Signer

SECRET = "a secret of at least 32 characters"


def test_own_mac_is_valid() -> None:
    signer = Signer(SECRET, "receipt")
    tag = signer.mac(b"payload")
    assert len(tag) == MAC_BYTES
    assert signer.is_valid(b"payload", tag)


def test_changed_payload_or_tag_is_not_valid() -> None:
    signer = Signer(SECRET, "receipt")
    tag = signer.mac(b"payload")
    assert not signer.is_valid(b"payloae", tag)
    assert not signer.is_valid(b"payload", bytes([tag[0] ^ 1]) + tag[1:])
    assert not signer.is_valid(b"payload", b"")


def test_mac_of_another_purpose_or_secret_is_not_valid() -> None:
    tag = Signer(SECRET, "receipt").mac(b"payload")
    assert not Signer(SECRET, "cursor").is_valid(b"payload", tag)
    assert not Signer(SECRET + "!", "receipt").is_valid(b"payload", tag)


def test_former_secret_is_accepted_but_not_used() -> None:
    former, signer = (
        Signer("old " + SECRET, "receipt"),
        Signer(SECRET, "receipt", ["old " + SECRET]),
    )
    assert signer.is_valid(b"payload", former.mac(b"payload"))
    assert signer.mac(b"payload") != former.mac(b"payload")

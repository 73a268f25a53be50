"""Any client that holds the bundle of today, or of one overlap ago, accepts the certificate served today."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from muster.controller.runtime.authority import Lifetimes, Material, from_data, renew, to_data

NAMES = ("gang-admission-webhooks.muster-system.svc", "gang-admission-webhooks.muster-system")
START = datetime(2026, 1, 1, tzinfo=UTC)
LIFETIMES = Lifetimes()


def grown(material: Material, *, days: float, names: tuple[str, ...] = NAMES) -> Material:
    return renew(material, names=names, now=START + timedelta(days=days), lifetimes=LIFETIMES)


def accepts(bundle: bytes, material: Material, *, days: float) -> bool:
    assert material.serving is not None
    store = Store(x509.load_pem_x509_certificates(bundle))
    verifier = (
        PolicyBuilder()
        .store(store)
        .time(START + timedelta(days=days))
        .build_server_verifier(x509.DNSName(NAMES[0]))
    )
    try:
        verifier.verify(material.serving.certificate, [])
    except VerificationError:
        return False
    return True


def test_for_three_years_every_bundle_of_the_last_day_accepts_what_is_served() -> None:
    material = grown(Material(), days=0)
    bundles = [(0.0, material.bundle)]
    for hour in range(0, 3 * 365 * 24, 12):
        day = hour / 24
        material = grown(material, days=day)
        bundles.append((day, material.bundle))
        recent = {bundle for published, bundle in bundles[-4:] if day - published <= 1}
        assert all(accepts(bundle, material, days=day) for bundle in recent), day
        assert len(material.authorities) <= 2
        assert material.serving is not None
        assert material.serving.expires - (START + timedelta(days=day)) > timedelta(days=25)


def test_nothing_changes_while_nothing_is_due() -> None:
    material = grown(Material(), days=0)
    assert grown(material, days=30) is material


def test_other_names_get_another_certificate_from_the_same_authority() -> None:
    material = grown(Material(), days=0)
    renamed = grown(material, days=1, names=("else.svc",))
    assert renamed.serving is not material.serving
    assert renamed.authorities == material.authorities


def test_a_new_authority_signs_nothing_before_clients_have_heard_of_it() -> None:
    material = grown(Material(), days=0)
    rotated = grown(material, days=245, names=(*NAMES, "else.svc"))
    assert len(rotated.authorities) == 2
    assert accepts(material.bundle, rotated, days=245)
    later = grown(rotated, days=247)
    signed_by_new = grown(later, days=247, names=NAMES)
    assert not accepts(material.bundle, signed_by_new, days=247)
    assert accepts(rotated.bundle, signed_by_new, days=247)


def test_a_certificate_of_an_authority_that_is_not_published_is_replaced() -> None:
    stranger = grown(Material(), days=0)
    material = grown(Material(), days=0)
    mixed = grown(Material(material.authorities, stranger.serving), days=1)
    assert accepts(material.bundle, mixed, days=1)


def test_a_clock_that_was_ahead_costs_one_more_authority_and_no_more() -> None:
    """A node that started before it had asked for the time."""
    ahead = grown(Material(), days=30)
    material = mended = grown(ahead, days=0)
    assert accepts(mended.bundle, mended, days=0)
    for hour in range(24 * 40):
        material = from_data(to_data(grown(material, days=hour / 24)))
    assert len(material.authorities) == len(mended.authorities) == 2
    assert accepts(material.bundle, material, days=40)


def test_the_secret_holds_everything() -> None:
    material = grown(grown(Material(), days=0), days=250)
    assert len(material.authorities) == 2
    again = from_data(to_data(material))
    assert again.bundle == material.bundle
    assert again.serving is not None
    assert material.serving is not None
    assert again.serving.certificate_pem == material.serving.certificate_pem
    assert renew(again, names=NAMES, now=START + timedelta(days=250), lifetimes=LIFETIMES) is again


@pytest.mark.parametrize("entry", ["ca.crt", "ca.key", "tls.crt", "tls.key"])
def test_a_damaged_secret_is_an_error_that_can_be_caught(entry: str) -> None:
    data = to_data(grown(Material(), days=0))
    data[entry] = to_data(grown(Material(), days=0))[entry] if entry.endswith("key") else b"garbage"
    with pytest.raises(ValueError):
        from_data(data)


def test_an_empty_secret_is_empty_material() -> None:
    assert from_data({}) == Material()

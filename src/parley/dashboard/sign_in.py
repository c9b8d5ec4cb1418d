"""Signing in without a token, and re-authentication before signing: an interface for edges."""

from abc import ABC, abstractmethod

from starlette.responses import Response

from parley.coordinator.http.context import Service
from parley.dashboard.session import Page


class SignIn(Service, ABC):
    """Interface of a sign-in provider, which an edge implements as a service.

    Before people sign a study, they must prove their identity again. Holders of a token enter it again; people who
    signed in through the provider do so there once more. Meanwhile the text to be signed is stored in their browser,
    protected against changes.
    """

    host: str  # the provider's host, by which pages name it
    path: str  # the page that starts a sign-in; its parameter `next` is the address on this site to go to afterwards

    @abstractmethod
    async def knows(self, kid: str) -> bool:
        """Whether this person signed in through the provider, and so can do it again; False for holders of a token."""

    @abstractmethod
    async def prove(self, shown: Page, words: str, back: str) -> Response:
        """Send the browser to the provider to sign in again, and then back to the page `back` of this site.

        `words` is the text to be signed. The browser stores it, bound to this person, session and study. Raises a
        `Refusal` if the text cannot be stored.
        """

    @abstractmethod
    async def words(self, shown: Page) -> str:
        """Return the stored text, unchanged; raises a `Refusal` if it belongs to another person, session or study."""

    @abstractmethod
    async def confirm(self, shown: Page) -> None:
        """Raise a `Refusal` unless the same person has signed in at the provider since `prove`."""

    @abstractmethod
    def forget(self, shown: Page, response: Response) -> None:
        """Remove the stored text from the browser."""


def provider_of(shown: Page) -> SignIn | None:
    """The sign-in provider of this coordinator; None if it has none."""
    return next((one for one in shown.context.services if isinstance(one, SignIn)), None)

"""Signing in without a token, and re-authentication before signing: an interface for edges."""

from abc import ABC, abstractmethod

from starlette.responses import Response

from parley.coordinator.http.context import Service
from parley.dashboard.session import Page


class SignIn(Service, ABC):
    """A sign-in provider as an edge's service: a second way in, and re-authentication for those who came that way.

    Who signs a study must prove their identity first: by entering the token again, or here. The words to be signed
    wait in the browser meanwhile, protected against changes.
    """

    host: str  # the provider's name for people
    path: str  # the page that starts a sign-in; it takes `next`, an address on this site

    @abstractmethod
    async def knows(self, kid: str) -> bool:
        """Whether the provider named this person, so that it can name them again; False for holders of a token."""

    @abstractmethod
    async def prove(self, shown: Page, words: str, back: str) -> Response:
        """Send the browser to the provider; it comes back to the page `back` of this site.

        The words are bound to this person, session and study. A `Refusal` says why they cannot wait.
        """

    @abstractmethod
    async def words(self, shown: Page) -> str:
        """The words that waited, unchanged; refused unless they belong to this person, session and study."""

    @abstractmethod
    async def confirm(self, shown: Page) -> None:
        """Raise unless the provider named the same person again since `prove`."""

    @abstractmethod
    def forget(self, shown: Page, response: Response) -> None:
        """Remove what waited in the browser."""


def provider_of(shown: Page) -> SignIn | None:
    """The sign-in provider of this coordinator, if it has one."""
    return next((one for one in shown.context.services if isinstance(one, SignIn)), None)

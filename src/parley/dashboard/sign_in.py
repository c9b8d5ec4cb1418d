"""Signing in without a token, and proving again who one is before signing: what an edge may bring to the pages."""

from abc import ABC, abstractmethod

from starlette.responses import Response

from parley.coordinator.http.context import Service
from parley.dashboard.session import Page


class SignIn(Service, ABC):
    """A sign-in provider as the service of an edge: a second way in, and the second factor of who came in by it.

    Who signs a study proves first who it is: by a token that is typed again, or here. The words that are to be signed
    wait with the browser meanwhile, where nobody can change them.
    """

    host: str  # the provider, as people know it
    path: str  # the page that begins to sign in; it takes `next`, an address on this site

    @abstractmethod
    async def knows(self, kid: str) -> bool:
        """Whether the provider named this person, so that it can name them again; False for who holds a token."""

    @abstractmethod
    async def prove(self, shown: Page, words: str, back: str) -> Response:
        """Lead the browser to the provider; it comes back to the page `back` of this site.

        The words are bound to this person, session and study. A `Refusal` says why they cannot wait.
        """

    @abstractmethod
    async def words(self, shown: Page) -> str:
        """The words that waited, as they were; refused if they are not this person's, session's and study's."""

    @abstractmethod
    async def confirm(self, shown: Page) -> None:
        """Refuse unless the provider named the same person anew since `prove`."""

    @abstractmethod
    def forget(self, shown: Page, response: Response) -> None:
        """Remove from the browser whatever waited there."""


def provider_of(shown: Page) -> SignIn | None:
    """The sign-in provider of this coordinator, if it has one."""
    return next((one for one in shown.context.services if isinstance(one, SignIn)), None)
